#!/usr/bin/env bash
# Builds what the client runs need, once, outside the repository.
#   setup.sh PART...    parts: python node java librdkafka gotests kcat (all without an argument), and
#                       rdkafka_performance, which the benchmarks' cross-check uses
# Everything lands under $MILLRACE_CLIENTS_CACHE (~/.cache/millrace-clients); a finished part carries a
# stamp of its pinned versions, so a second run returns at once. What comes from a registry is asked for twice before it
# counts as not to be had. A part that is missing prints "missing PART: why" and does not fail the others; the exit status
# is 3 when any part is missing.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${MILLRACE_CLIENTS_CACHE:-$HOME/.cache/millrace-clients}
mkdir -p "$cache"
status=0

missing() { # missing PART WHY [LOG]
  echo "missing $1: $2${3:+, see $3: $(grep -v '^ *$' "$3" | tail -n 3 | tr '\n' ' ' | cut -c1-400)}"
  return 3
}
twice() { "$@" || { echo "$1 fails, asking once more"; sleep 3; "$@"; }; }
have() { command -v "$1" >/dev/null 2>&1; }
# Two runs at once (make test beside make test-clients) must not build into one directory.
locked() { local part=$1; shift; ( flock 9; "$@" ) 9>"$cache/.lock-$part"; }
stamp() { cat "$@" | sha256sum | cut -c1-16; }
done_() { [ "$(cat "$cache/$1.stamp" 2>/dev/null)" = "$2" ]; }

python_works() { "$cache/venv/bin/python" -c 'import aiokafka, confluent_kafka, kafka' 2>/dev/null; }
python_() {
  have python3 || { missing python "no python3"; return 3; }
  local want; want=$(stamp "$here/requirements.txt")
  done_ python "$want" && python_works && return # an upgraded python3 leaves a venv that does not work
  rm -rf "$cache/venv" "$cache/python.stamp"
  python3 -m venv "$cache/venv" >"$cache/python.log" 2>&1 || { missing python "python3 -m venv fails" "$cache/python.log"; return 3; }
  twice "$cache/venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt" >>"$cache/python.log" 2>&1 ||
    { missing python "pip install fails" "$cache/python.log"; return 3; }
  python_works || { missing python "the installed clients cannot be imported"; return 3; }
  echo "$want" >"$cache/python.stamp"
}

node_() {
  have npm && have node || { missing node "no node or npm"; return 3; }
  local want; want=$(stamp "$here/package.json" "$here/package-lock.json")
  done_ node "$want" && return
  rm -rf "$cache/node" "$cache/node.stamp"; mkdir -p "$cache/node"
  cp "$here/package.json" "$here/package-lock.json" "$cache/node/"
  (cd "$cache/node" && twice npm ci --no-audit --no-fund --loglevel=error) >"$cache/node.log" 2>&1 ||
    { missing node "npm ci fails" "$cache/node.log"; return 3; }
  echo "$want" >"$cache/node.stamp"
}

java_() {
  have java && have javac || { missing java "no java or javac"; return 3; }
  have mvn || { missing java "no mvn to fetch the jars"; return 3; }
  local want; want=$(stamp "$here/pom.xml" "$here"/../java/*.java)
  done_ java "$want" && return
  rm -rf "$cache/java" "$cache/java.stamp"; mkdir -p "$cache/java/lib" "$cache/java/classes"
  twice mvn -B -q -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$cache/java/lib" >"$cache/java.log" 2>&1 ||
    { missing java "mvn fails" "$cache/java.log"; return 3; }
  javac -cp "$cache/java/lib/*" -d "$cache/java/classes" "$here"/../java/*.java >>"$cache/java.log" 2>&1 ||
    { missing java "javac fails (it wants 17 or newer)" "$cache/java.log"; return 3; }
  echo "$want" >"$cache/java.stamp"
}

librdkafka_() {
  have npm && have make && have gcc && have g++ || { missing librdkafka "needs npm, make, gcc and g++"; return 3; }
  local version=1.10.1
  done_ librdkafka "$version" && return
  rm -rf "$cache/librdkafka" "$cache/package"
  (cd "$cache" && twice npm pack --silent "@confluentinc/kafka-javascript@$version" && tar xzf confluentinc-kafka-javascript-*.tgz package/deps/librdkafka &&
    mv package/deps/librdkafka librdkafka && rm -rf package confluentinc-kafka-javascript-*.tgz && cd librdkafka &&
    chmod +x configure && ./configure && make -j2 libs && make -C tests -j2 build) >"$cache/librdkafka.log" 2>&1 ||
    { missing librdkafka "build fails" "$cache/librdkafka.log"; return 3; }
  echo "$version" >"$cache/librdkafka.stamp"
}

# librdkafka's own load client is an example, which the npm package leaves out and the Rust crate with its source does not.
performance_() {
  have cargo && have make && have gcc && have g++ || { missing rdkafka_performance "needs cargo, make, gcc and g++"; return 3; }
  local version=4.10.0+2.12.1
  done_ rdkafka_performance "$version" && return
  local work; work=$(mktemp -d)
  mkdir "$work/src" && : >"$work/src/lib.rs"
  printf '[package]\nname = "bring"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nrdkafka-sys = "=%s"\n' "$version" >"$work/Cargo.toml"
  rm -rf "$cache/rdkafka_performance"; mkdir -p "$cache/rdkafka_performance"
  (cd "$work" && twice cargo vendor --quiet >/dev/null && cd vendor/rdkafka-sys/librdkafka && chmod +x configure lds-gen.py && ./configure --disable-ssl --disable-sasl --disable-zstd --disable-curl &&
    make -j2 -C src && make -C examples rdkafka_performance && cp examples/rdkafka_performance "$cache/rdkafka_performance/") >"$cache/rdkafka_performance.log" 2>&1 ||
    { rm -rf "$work"; missing rdkafka_performance "build fails" "$cache/rdkafka_performance.log"; return 3; }
  rm -rf "$work"
  echo "$version" >"$cache/rdkafka_performance.stamp"
}

gotests_() {
  have go || { missing gotests "no go"; return 3; }
  local want; want=$(stamp "$here/../go.mod" "$here/../go.sum")
  done_ gotests "$want" && return
  mkdir -p "$cache/gotests"
  (cd "$here/.." && go test -c -o "$cache/gotests/kgo.test" github.com/twmb/franz-go/pkg/kgo &&
    go test -c -o "$cache/gotests/kafkago.test" github.com/segmentio/kafka-go) >"$cache/gotests.log" 2>&1 ||
    { missing gotests "go test -c fails" "$cache/gotests.log"; return 3; }
  echo "$want" >"$cache/gotests.stamp"
}

kcat_() {
  have kcat && return
  have apt-get && [ "$(id -u)" = 0 ] || { missing kcat "no kcat (apt-get install kcat)"; return 3; }
  (apt-get update -qq; DEBIAN_FRONTEND=noninteractive twice apt-get install -y -qq kcat) >"$cache/kcat.log" 2>&1 || missing kcat "apt-get install fails" "$cache/kcat.log"
}

[ $# -gt 0 ] || set -- python node java librdkafka gotests kcat
for part in "$@"; do
  case $part in
  rdkafka_performance) locked rdkafka_performance performance_; rc=$?; [ $rc -eq 0 ] || status=3 ;;
  python | node | java | librdkafka | gotests | kcat) locked "$part" "${part}_" ; rc=$?; [ $rc -eq 0 ] || status=3 ;;
  *) echo "setup.sh: no part $part" >&2; exit 2 ;;
  esac
done
exit $status
