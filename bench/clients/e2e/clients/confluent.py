"""confluent-kafka (librdkafka) as a client of the end-to-end run; e2e/doc.go says what its arguments mean."""
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

import recfile


def produce(addr, topic, path, codec):
    config = {"bootstrap.servers": addr, "message.max.bytes": 16 << 20, "queue.buffering.max.kbytes": 1 << 20}
    if codec != "default":
        config["compression.type"] = codec
    if codec == "default":
        config["enable.idempotence"] = True  # what every client since Kafka 3 does unasked, but not librdkafka
    producer = Producer(config)
    acked, failed = 0, None

    def report(err, _):
        nonlocal acked, failed
        if err is None:
            acked += 1
        else:
            failed = err

    for timestamp, key, value, headers in recfile.read(path):
        while True:
            try:
                producer.produce(topic, value, key, partition=0, on_delivery=report, timestamp=timestamp, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    while producer.flush(10) > 0 and failed is None:
        pass
    if failed is not None:
        raise SystemExit(str(failed))
    print(acked)


def consume(addr, topic, count):
    consumer = Consumer({
        "bootstrap.servers": addr, "group.id": "unused", "enable.auto.commit": False, "check.crcs": True,
        "auto.offset.reset": "error", "fetch.message.max.bytes": 16 << 20, "fetch.max.bytes": 64 << 20,
    })
    consumer.assign([TopicPartition(topic, 0, 0)])
    digest, deadline = recfile.Digest(count), time.monotonic() + 300
    while not digest.done:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {digest.next} of {count} records in five minutes")
        for m in consumer.consume(10000, 0.5):
            if m.error():
                raise SystemExit(str(m.error()))
            digest.add(m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers() or [])
    digest.report()
    consumer.close()


if sys.argv[1] == "produce":
    produce(*sys.argv[2:6])
else:
    consume(sys.argv[2], sys.argv[3], int(sys.argv[4]))
