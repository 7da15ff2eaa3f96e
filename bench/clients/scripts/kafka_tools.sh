# Apache Kafka's own command-line tools, without groups.
addr=$1
command -v java >/dev/null || { echo "not run: no java"; exit 0; }
[ -n "$(ls "${KAFKA_CLASSPATH%/\*}" 2>/dev/null)" ] || { echo "not run: setup.sh java did not bring the jars"; exit 0; }
status=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
topic="script-tools-$$-$RANDOM$RANDOM"
tool() { timeout 90 java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$KAFKA_CLASSPATH" "org.apache.kafka.tools.$@" 2>"$tmp/stderr"; }
say() { if [ "$2" = "$3" ]; then echo "ok $1"; else echo "FAIL $1: got '$(printf %s "$2" | head -c 300 | tr '\n' '~')', want '$(printf %s "$3" | head -c 300 | tr '\n' '~')' $(grep -v -i slf4j "$tmp/stderr" | head -c 300 | tr '\n' '~')"; status=1; fi; }
has() { if printf %s "$2" | grep -q -- "$3"; then echo "ok $1"; else say "$1" "$2" "... $3 ..."; fi; }

has "create" "$(tool TopicCommand --bootstrap-server "$addr" --create --topic "$topic" --partitions 2 --replication-factor 1 --config retention.ms=86400000)" "Created topic $topic"
has "describe" "$(tool TopicCommand --bootstrap-server "$addr" --describe --topic "$topic")" "PartitionCount: 2.*ReplicationFactor: 1.*retention.ms=86400000"
has "list" "$(tool TopicCommand --bootstrap-server "$addr" --list)" "$topic"
has "alter" "$(tool TopicCommand --bootstrap-server "$addr" --alter --topic "$topic" --partitions 3 && tool TopicCommand --bootstrap-server "$addr" --describe --topic "$topic")" "PartitionCount: 3"
has "config" "$(tool ConfigCommand --bootstrap-server "$addr" --alter --entity-type topics --entity-name "$topic" --add-config retention.ms=7200000)" "Completed updating config"
has "config describe" "$(tool ConfigCommand --bootstrap-server "$addr" --describe --entity-type topics --entity-name "$topic")" "retention.ms=7200000"
seq 1000 | sed 's/.*/h:&\tk&\tv&/' | tool ConsoleProducer --bootstrap-server "$addr" --topic "$topic" --compression-codec zstd --reader-property parse.key=true --reader-property parse.headers=true >/dev/null
has "offsets" "$(tool GetOffsetShell --bootstrap-server "$addr" --topic "$topic" | awk -F: '{n += $3} END {print n}')" "^1000$"
got=$(for p in 0 1 2; do
  n=$(tool GetOffsetShell --bootstrap-server "$addr" --topic "$topic" --partitions "$p" | awk -F: '{print $3}')
  [ "$n" -gt 0 ] && tool consumer.ConsoleConsumer --bootstrap-server "$addr" --topic "$topic" --partition "$p" --offset earliest --max-messages "$n" --timeout-ms 30000 --formatter-property print.key=true --formatter-property print.headers=true
done | sort)
say "console" "$got" "$(seq 1000 | sed 's/.*/h:&\tk&\tv&/' | sort)"
printf '{"partitions":[{"topic":"%s","partition":0,"offset":1}],"version":1}' "$topic" >"$tmp/delete.json"
has "delete records" "$(tool DeleteRecordsCommand --bootstrap-server "$addr" --offset-json-file "$tmp/delete.json")" "partition: $topic-0.*low_watermark: 1"
say "first offset after it" "$(tool GetOffsetShell --bootstrap-server "$addr" --topic-partitions "$topic:0" --time earliest)" "$topic:0:1"
has "offset by time" "$(tool GetOffsetShell --bootstrap-server "$addr" --topic-partitions "$topic:0" --time 1000)" "^$topic:0:1$"
node=$(tool BrokerApiVersionsCommand --bootstrap-server "$addr" | grep -o 'id: [0-9]*' | head -n 1 | cut -d' ' -f2)
has "broker configs" "$(tool ConfigCommand --bootstrap-server "$addr" --describe --entity-type brokers --entity-name "$node" --all)" "num.partitions="
has "performance" "$(tool ProducerPerformance --topic "$topic" --num-records 20000 --record-size 100 --throughput -1 --command-property bootstrap.servers="$addr")" "20000 records sent"
has "log dirs" "$(tool LogDirsCommand --bootstrap-server "$addr" --describe --topic-list "$topic")" "\"partition\":\"$topic-0\""
dir=$(tool LogDirsCommand --bootstrap-server "$addr" --describe --topic-list "$topic" | grep -o '"logDir":"[^"]*"' | head -n 1 | cut -d'"' -f4)
printf '{"version":1,"partitions":[{"topic":"%s","partition":0,"replicas":[%s],"log_dirs":["%s"]}]}' "$topic" "$node" "$dir" >"$tmp/reassign.json"
reassign() { tool reassign.ReassignPartitionsCommand --bootstrap-server "$addr" "$@"; }
has "reassign" "$(reassign --execute --reassignment-json-file "$tmp/reassign.json")" "Successfully started"
has "reassignment is done" "$(reassign --verify --reassignment-json-file "$tmp/reassign.json")" "Reassignment of partition $topic-0 is completed"
has "reassignments" "$(reassign --list)" "No partition reassignments found"
has "api versions" "$(tool BrokerApiVersionsCommand --bootstrap-server "$addr")" "Produce(0): 0 to 13"
tool TopicCommand --bootstrap-server "$addr" --delete --topic "$topic" >/dev/null
for _ in 1 2 3 4 5; do left=$(tool TopicCommand --bootstrap-server "$addr" --list | grep -c "^$topic\$"); [ "$left" = 0 ] && break; done
say "delete" "$left" "0"
exit $status
