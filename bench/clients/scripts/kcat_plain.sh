# kcat 1.7.1 (librdkafka 2.0.2, an old feature negotiation): each codec, -L, -Q, -o s@TS, keys, headers, nulls.
addr=$1
command -v kcat >/dev/null || { echo "not run: no kcat"; exit 0; }
status=0
say() { if [ "$2" = "$3" ]; then echo "ok $1"; else echo "FAIL $1: got '$(printf %s "$2" | head -c 200 | tr '\n' '~')', want '$(printf %s "$3" | head -c 200 | tr '\n' '~')'"; status=1; fi; }
fresh() { echo "script-kcat-$1-$$-$RANDOM$RANDOM"; }
read_all() { timeout 30 kcat -b "$addr" -C -t "$1" -p 0 -o "${3:-beginning}" -e -q -f "$2" 2>&1; }

for codec in none gzip snappy lz4 zstd; do
  topic=$(fresh "$codec")
  say "$codec produce" "$(seq 1000 | timeout 30 kcat -b "$addr" -P -t "$topic" -p 0 -z "$codec" 2>&1)" ""
  say "$codec consume" "$(read_all "$topic" '%o:%s\n')" "$(for i in $(seq 1000); do echo "$((i - 1)):$i"; done)"
done

topic=$(fresh records)
say "acks=0" "$(echo first | timeout 30 kcat -b "$addr" -P -t "$topic" -p 0 -X acks=0 2>&1)" ""
for _ in $(seq 50); do [ "$(read_all "$topic" '%s')" = first ] && break; done
say "key, value and headers" "$(printf 'k:v\n' | timeout 30 kcat -b "$addr" -P -t "$topic" -p 0 -K: -H a=1 -H a=2 -H b= 2>&1)" ""
printf ':null key\n' | timeout 30 kcat -b "$addr" -P -t "$topic" -p 0 -K: -Z
printf 'null value:\n' | timeout 30 kcat -b "$addr" -P -t "$topic" -p 0 -K: -Z
say "records" "$(read_all "$topic" '%o|%K|%k|%S|%s|%h\n')" "0|-1||5|first|
1|1|k|1|v|a=1,a=2,b=
2|-1||8|null key|
3|10|null value|-1||"

timestamp=$(timeout 30 kcat -b "$addr" -C -t "$topic" -p 0 -o 2 -c 1 -q -f '%T')
say "offset by time" "$(timeout 30 kcat -b "$addr" -Q -t "$topic:0:$timestamp" 2>&1 | grep -o 'offset [0-9]*')" "offset 2"
say "consume from a time" "$(read_all "$topic" '%o ' "s@$timestamp")" "2 3 "
say "latest" "$(timeout 30 kcat -b "$addr" -Q -t "$topic:0:-1" 2>&1 | grep -o 'offset [0-9]*')" "offset 4"
say "list" "$(timeout 30 kcat -b "$addr" -L -t "$topic" 2>&1 | grep -c "partition 0, leader")" "1"
say "idempotent" "$(seq 100 | timeout 30 kcat -b "$addr" -P -t "$topic" -p 0 -X enable.idempotence=true 2>&1)" ""
say "idempotent records" "$(read_all "$topic" '%s\n' 4)" "$(seq 100)"
exit $status
