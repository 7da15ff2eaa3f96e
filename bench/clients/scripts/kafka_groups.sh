# Apache Kafka's ConsumerGroupCommand and GroupsCommand, on groups of both protocols.
addr=$1
command -v java >/dev/null || { echo "not run: no java"; exit 0; }
[ -n "$(ls "${KAFKA_CLASSPATH%/\*}" 2>/dev/null)" ] || { echo "not run: setup.sh java did not bring the jars"; exit 0; }
status=0
tmp=$(mktemp -d)
member=
trap '[ -n "$member" ] && kill -9 "$member" 2>/dev/null; rm -rf "$tmp"' EXIT
tool() { timeout 90 java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$KAFKA_CLASSPATH" "org.apache.kafka.tools.$@" 2>"$tmp/stderr"; }
groups() { tool consumer.group.ConsumerGroupCommand --bootstrap-server "$addr" "$@"; }
has() {
  if printf %s "$2" | grep -q -E -- "$3"; then echo "ok $1"; return; fi
  echo "FAIL $1: got '$(printf %s "$2" | head -c 500 | tr '\n' '~')', want '$3' $(grep -v -i slf4j "$tmp/stderr" | head -c 300 | tr '\n' '~')"
  status=1
}

for protocol in classic consumer; do
  topic="script-groups-$$-$RANDOM$RANDOM" group="group-$$-$RANDOM"
  tool TopicCommand --bootstrap-server "$addr" --create --topic "$topic" --partitions 2 --replication-factor 1 >/dev/null
  seq 100 | tool ConsoleProducer --bootstrap-server "$addr" --topic "$topic" >/dev/null
  java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$KAFKA_CLASSPATH" org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$addr" --topic "$topic" \
    --group "$group" --from-beginning --command-property group.protocol=$protocol --command-property auto.commit.interval.ms=100 >"$tmp/read" 2>/dev/null &
  member=$!
  for _ in $(seq 30); do out=$(groups --describe --group "$group"); lags=$(printf %s "$out" | awk -v g="$group" '$1 == g {n += $4; lag += $6} END {print n "/" lag}'); [ "$lags" = 100/0 ] && break; done
  has "$protocol describe" "$out" "$group +$topic +[01] +[0-9]+ +[0-9]+ +0 +[^ ]+ +/127.0.0.1"
  has "$protocol offsets" "$lags" "^100/0$"
  has "$protocol members" "$(groups --describe --group "$group" --members --verbose)" "$group .*/127.0.0.1 .* 2 .*$topic"
  has "$protocol state" "$(groups --describe --group "$group" --state)" "$group .* Stable +1"
  has "$protocol list" "$(groups --list --state --type)" "$group +$protocol +Stable|$group +${protocol^} +Stable"
  has "$protocol list of a type" "$(groups --list --type $protocol)" "$group"
  has "$protocol GroupsCommand" "$(tool GroupsCommand --bootstrap-server "$addr" --list)" "$group +${protocol^} +consumer"
  has "$protocol reset with members" "$(groups --reset-offsets --group "$group" --topic "$topic" --to-earliest --execute 2>&1)" "inactive|not empty|Stable"
  has "$protocol delete with members" "$(groups --delete --group "$group" 2>&1)" "not empty|GroupNotEmpty"
  has "$protocol delete offsets of a topic that is read" "$(groups --delete-offsets --group "$group" --topic "$topic" 2>&1)" "subscribed|Group.*is actively"
  kill "$member"; wait "$member" 2>/dev/null; member=
  has "$protocol read" "$(sort -n "$tmp/read" | uniq | wc -l)" "^100$"
  for _ in $(seq 20); do out=$(groups --describe --group "$group" --state); printf %s "$out" | grep -q Empty && break; done
  has "$protocol empty" "$out" "Empty"
  has "$protocol dry run" "$(groups --reset-offsets --group "$group" --topic "$topic" --shift-by -3 --dry-run)" "$group +$topic +[01] +[0-9]+"
  has "$protocol reset" "$(groups --reset-offsets --group "$group" --topic "$topic" --to-earliest --execute)" "$group +$topic +0 +0"
  has "$protocol after it" "$(groups --describe --group "$group" | awk -v g="$group" '$1 == g {n += $4; lag += $6} END {print n "/" lag}')" "^0/100$"
  has "$protocol by date" "$(groups --reset-offsets --group "$group" --all-topics --to-datetime 2000-01-01T00:00:00.000 --execute)" "$group +$topic +1 +0"
  has "$protocol delete offsets" "$(groups --delete-offsets --group "$group" --topic "$topic:0")" "$topic +0 +Successful"
  has "$protocol delete" "$(groups --delete --group "$group")" "successful"
  has "$protocol gone" "$(groups --describe --group "$group" 2>&1)" "does not exist|not found"
  has "$protocol config" "$(tool ConfigCommand --bootstrap-server "$addr" --alter --entity-type groups --entity-name "$group" --add-config consumer.session.timeout.ms=50000 &&
    tool ConfigCommand --bootstrap-server "$addr" --describe --entity-type groups --entity-name "$group")" "consumer.session.timeout.ms=50000"
done
exit $status
