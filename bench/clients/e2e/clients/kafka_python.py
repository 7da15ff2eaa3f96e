"""kafka-python as a client of the end-to-end run; e2e/doc.go says what its arguments mean."""
import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import recfile


def produce(addr, topic, path, codec):
    config = {"bootstrap_servers": addr, "max_request_size": 16 << 20}
    if codec != "default":
        config["compression_type"] = None if codec == "none" else codec
    producer = KafkaProducer(**config)
    acked, failed = 0, None

    def good(_):
        nonlocal acked
        acked += 1

    def bad(err):
        nonlocal failed
        failed = failed or err

    for timestamp, key, value, headers in recfile.read(path):
        producer.send(topic, value=value, key=key, headers=headers, partition=0, timestamp_ms=timestamp).add_callback(good).add_errback(bad)
    producer.flush()
    producer.close()
    if failed is not None:
        raise SystemExit(str(failed))
    print(acked)


def consume(addr, topic, count):
    consumer = KafkaConsumer(bootstrap_servers=addr, group_id=None, auto_offset_reset="none", check_crcs=True,
                             max_partition_fetch_bytes=16 << 20, max_poll_records=10000)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    digest, deadline = recfile.Digest(count), time.monotonic() + 300
    while not digest.done:
        if time.monotonic() > deadline:
            raise SystemExit(f"only {digest.next} of {count} records in five minutes")
        for records in consumer.poll(500).values():
            for r in records:
                digest.add(r.offset, r.timestamp, r.key, r.value, r.headers)
    digest.report()
    consumer.close()


if sys.argv[1] == "produce":
    produce(*sys.argv[2:6])
else:
    consume(sys.argv[2], sys.argv[3], int(sys.argv[4]))
