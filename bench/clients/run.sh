#!/usr/bin/env bash
# The longer matrix of other people's clients.
#   MILLRACE=BINARY run.sh [matrix run options]            against a broker of its own on localhost:9092; writes docs/clients.md
#   BROKER=NAME ADDR=HOST:PORT OUT=FILE run.sh [options]   against a running broker, only writes FILE (results/NAME.json)
# results/apache-kafka.json holds the column of Apache Kafka 4.4. What needs an API that the broker does not advertise is
# not run; WITH=sasl,acls adds what ApiVersions does not tell.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ -n "${OWN_NETWORK:-}" ] || "$here/setup/setup.sh" || echo "some clients cannot be set up; their tests are reported as not run"
: "${ADDR:-${MILLRACE:?names the broker binary}}"
cd "$here"
taken() { (exec 3<>/dev/tcp/127.0.0.1/"$1") 2>/dev/null; }
if [ -z "${ADDR:-}" ] && taken 9092; then
  # kafka-go's tests know no other port, and a network namespace has it free. The second address is for resolvers that
  # look up IPv4 addresses only where there is one beyond loopback.
  if [ -z "${OWN_NETWORK:-}" ] && unshare -n ip link set lo up 2>/dev/null; then
    echo "port 9092 is taken: running in a network namespace of its own"
    OWN_NETWORK=1 exec unshare -n bash -c 'ip link set lo up && ip addr add 192.0.2.1/32 dev lo && exec "$0" "$@"' "$here/run.sh" "$@"
  fi
  echo "run.sh: port 9092 is taken, and kafka-go's tests know no other" >&2
  exit 1
fi
bin=$(mktemp -d)
pid=
cleanup() {
  if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; fi
  rm -rf "$bin"
}
trap cleanup EXIT
go build -o "$bin/matrix" ./matrix
if [ -n "${ADDR:-}" ]; then
  "$bin/matrix" run -broker "${BROKER:-broker}" -addr "$ADDR" -with "${WITH:-}" -out "${OUT:-results/${BROKER:-broker}.json}" "$@"
  exit
fi

# serve PARTITIONS [KEY=VALUE] runs a fresh broker with so many partitions in a topic that is made by asking for it.
serve() {
  # What begins with MILLRACE_ is a setting to the broker, and an option of this run to us.
  # shellcheck disable=SC2046
  env $(compgen -e MILLRACE_ | sed 's/^/-u /') "$MILLRACE" serve --data-dir "$bin/data-$1" --listen 127.0.0.1:9092 --advertise localhost:9092 --node-id 1 \
    --set num.partitions="$1" ${2:+--set "$2"} --set millrace.admin.listen=127.0.0.1:0 >>"$bin/broker.log" 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    kill -0 "$pid" 2>/dev/null || break
    if taken 9092; then return; fi
    sleep 0.1
  done
  cat "$bin/broker.log" >&2
  exit 1
}
stop() { kill "$pid"; wait "$pid" || echo "the broker ended with status $? after SIGTERM"; pid=; }

# kafka-go's tests count on one partition, librdkafka's on four and on members that join together being of one generation.
serve 1 group.initial.rebalance.delay.ms=0
"$bin/matrix" run -broker millrace -addr localhost:9092 -with "${WITH:-}" -suites kafka-go,scripts -out "$bin/one.json" "$@"
stop
serve 4
"$bin/matrix" run -broker millrace -addr localhost:9092 -with "${WITH:-}" -suites kgo,librdkafka,idempotent,consumer -out "$bin/four.json" "$@"
stop
if [ $# -eq 0 ]; then # a part of the tests does not make the table
  "$bin/matrix" join "$bin/four.json" "$bin/one.json" >results/millrace.json
  rc=0
  "$bin/matrix" table results/millrace.json results/apache-kafka.json >"$bin/clients.md" || rc=$?
  cp "$bin/clients.md" "$root/docs/clients.md"
  exit $rc # 1 when a test fails without a reason
fi
