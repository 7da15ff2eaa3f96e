"""confluent-kafka (librdkafka): codecs, values, headers, nulls, times, offsets, acks, seek by time, admin."""
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec

from check import ADDR, CODECS, case, check, done, fresh, records

admin = AdminClient({"bootstrap.servers": ADDR})


def topic(prefix, partitions=1, **config):
    name = fresh(prefix)
    admin.create_topics([NewTopic(name, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()})])[name].result(30)
    return name


def produce(name, sent, **config):
    offsets, errors = [], []
    producer = Producer({"bootstrap.servers": ADDR, "linger.ms": 20, **config})
    for timestamp, key, value, headers in sent:
        producer.produce(name, value, key, partition=0, timestamp=timestamp, headers=headers,
                         on_delivery=lambda err, m: errors.append(err) if err else offsets.append(m.offset()))
    producer.flush(30)
    check("delivery errors", errors, [])
    return offsets


def consume(name, count, start=0):
    consumer = Consumer({"bootstrap.servers": ADDR, "group.id": "unused", "enable.auto.commit": False, "check.crcs": True, "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(name, 0, start)])
    got, deadline = [], time.monotonic() + 30
    while len(got) < count and time.monotonic() < deadline:
        m = consumer.poll(0.5)
        if m is None:
            continue
        if m.error():
            raise KafkaException(m.error())
        got.append(m)
    consumer.close()
    return got


def round_trip(codec, idempotent):
    name, sent = topic("rdk", retention_ms="-1"), records()
    offsets = produce(name, sent, **{"compression.type": codec, "enable.idempotence": idempotent})
    check("offsets of the reports", offsets, list(range(len(sent))))
    got = consume(name, len(sent))
    check("offsets", [m.offset() for m in got], list(range(len(sent))))
    check("records", [(m.timestamp()[1], m.key(), m.value(), m.headers() or []) for m in got], sent)


def acks(level):
    name = topic("acks")
    produce(name, records(), acks=level)
    check("records", len(consume(name, len(records()))), len(records()))


def by_time():
    name, sent = topic("time", retention_ms="-1"), records()
    produce(name, sent)
    consumer = Consumer({"bootstrap.servers": ADDR, "group.id": "unused"})
    base = sent[0][0]
    for ask, want in ((base, 0), (base + 1, 1), (base + 3, 3), (base + 4, 5), (base + 15, 10), (base + 10**6, -1)):
        check(f"offset at +{ask - base}", consumer.offsets_for_times([TopicPartition(name, 0, ask)], 10)[0].offset, want)
    check("watermarks", consumer.get_watermark_offsets(TopicPartition(name, 0), 10), (0, len(sent)))
    consumer.close()


def administer():
    name = topic("admin", retention_ms="5000")
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    config = admin.describe_configs([resource])[resource].result(10)
    check("retention.ms", config["retention.ms"].value, "5000")
    admin.create_partitions([NewPartitions(name, 3)])[name].result(10)
    deadline = time.monotonic() + 10
    while len(admin.list_topics(name, 10).topics[name].partitions) != 3:
        if time.monotonic() > deadline:
            raise AssertionError("three partitions do not show up")
    produce(name, records())
    p = TopicPartition(name, 0, 3)
    check("low watermark", admin.delete_records([p])[p].result(10).low_watermark, 3)
    p = TopicPartition(name, 0)
    check("earliest", admin.list_offsets({p: OffsetSpec.earliest()})[p].result(10).offset, 3)
    check("latest", admin.list_offsets({p: OffsetSpec.latest()})[p].result(10).offset, len(records()))
    admin.delete_topics([name])[name].result(10)


for codec in CODECS:
    for idempotent in (False, True):
        case(f"{codec} idempotent={idempotent}", round_trip, codec, idempotent)
for level in ("all", "1", "0"):
    case(f"acks={level}", acks, level)
case("by time", by_time)
case("admin", administer)
done()
