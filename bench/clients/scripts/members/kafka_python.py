"""A member of a group by kafka-python: ADDR TOPIC GROUP PROTOCOL. Prints each value."""
import sys

from kafka import KafkaConsumer

addr, topic, group, _ = sys.argv[1:]
consumer = KafkaConsumer(topic, bootstrap_servers=addr, group_id=group, auto_offset_reset="earliest", auto_commit_interval_ms=200,
                         session_timeout_ms=6000, heartbeat_interval_ms=1000)
for m in consumer:
    print(m.value.decode(), flush=True)
