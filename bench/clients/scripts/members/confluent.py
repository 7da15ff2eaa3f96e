"""A member of a group by confluent-kafka: ADDR TOPIC GROUP PROTOCOL. Prints each value."""
import sys

from confluent_kafka import Consumer, KafkaException

addr, topic, group, protocol = sys.argv[1:]
config = {"bootstrap.servers": addr, "group.id": group, "auto.offset.reset": "earliest", "group.protocol": protocol,
          "auto.commit.interval.ms": 200}
if protocol == "classic":
    config["session.timeout.ms"] = 6000
consumer = Consumer(config)
consumer.subscribe([topic])
while True:
    m = consumer.poll(1)
    if m is None:
        continue
    if m.error():
        raise KafkaException(m.error())
    print(m.value().decode(), flush=True)
