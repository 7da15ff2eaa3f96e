#!/usr/bin/env bash
# The longer matrix of other people's clients.
#   MILLRACE=BINARY run.sh [matrix run options]            against a broker of its own on localhost:9092; writes docs/clients.md
#   BROKER=NAME ADDR=HOST:PORT run.sh [options]            against a running broker; only writes results/NAME.json
# results/apache-kafka.json holds the column of Apache Kafka 4.4. WITH=groups,transactions runs what needs these too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
"$here/setup/setup.sh" || echo "some clients cannot be set up; their tests are reported as not run"
cd "$here"
bin=$(mktemp -d)
pid=
cleanup() {
  if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; fi
  rm -rf "$bin"
}
trap cleanup EXIT
go build -o "$bin/matrix" ./matrix
if [ -n "${ADDR:-}" ]; then
  "$bin/matrix" run -broker "${BROKER:-broker}" -addr "$ADDR" -with "${WITH:-}" -out "results/${BROKER:-broker}.json" "$@"
  exit
fi
: "${MILLRACE:?names the broker binary}"

# serve PARTITIONS runs a fresh broker with so many partitions in a topic that is made by asking for it.
serve() {
  env -u MILLRACE_CLIENTS_CACHE "$MILLRACE" serve --data-dir "$bin/data-$1" --listen 127.0.0.1:9092 --advertise localhost:9092 --node-id 1 \
    --set num.partitions="$1" --set millrace.admin.listen=127.0.0.1:9645 >>"$bin/broker.log" 2>&1 &
  pid=$!
  for _ in $(seq 200); do
    if (exec 3<>/dev/tcp/127.0.0.1/9092) 2>/dev/null; then return; fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  cat "$bin/broker.log" >&2
  exit 1
}
stop() { kill "$pid"; wait "$pid" || echo "the broker ended with status $? after SIGTERM"; pid=; }

# kafka-go's tests count on one partition, librdkafka's on four.
serve 1
"$bin/matrix" run -broker millrace -addr localhost:9092 -with "${WITH:-}" -suites kafka-go,scripts -out "$bin/one.json" "$@"
stop
serve 4
"$bin/matrix" run -broker millrace -addr localhost:9092 -with "${WITH:-}" -suites kgo,librdkafka,idempotent -out "$bin/four.json" "$@"
stop
if [ $# -eq 0 ]; then # a part of the tests does not make the table
  "$bin/matrix" join "$bin/four.json" "$bin/one.json" >results/millrace.json
  "$bin/matrix" table results/millrace.json results/apache-kafka.json >"$root/docs/clients.md"
fi
