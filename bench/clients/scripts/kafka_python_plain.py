"""kafka-python: codecs, values, headers, nulls, times, offsets, acks, admin."""
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from check import ADDR, CODECS, case, check, done, fresh, records


def produce(name, sent, **config):
    producer = KafkaProducer(bootstrap_servers=ADDR, **config)
    futures = [producer.send(name, value=v, key=k, headers=h, partition=0, timestamp_ms=t) for t, k, v, h in sent]
    producer.flush()
    metas = [f.get(30) for f in futures]
    producer.close()
    return metas


def reader(name, start=0):
    consumer = KafkaConsumer(bootstrap_servers=ADDR, group_id=None, check_crcs=True)
    partition = TopicPartition(name, 0)
    consumer.assign([partition])
    consumer.seek(partition, start)
    return consumer, partition


def consume(name, count, start=0):
    consumer, partition = reader(name, start)
    got, deadline = [], time.monotonic() + 30
    while len(got) < count and time.monotonic() < deadline:
        got += consumer.poll(500).get(partition, [])
    consumer.close()
    return got


def make(prefix):
    """A topic made by asking for it, as this client does by default."""
    name = fresh(prefix)
    producer = KafkaProducer(bootstrap_servers=ADDR)
    producer.partitions_for(name)
    producer.close()
    return name


def round_trip(codec, idempotent):
    name, sent = make("kp"), records()
    config = {"compression_type": None if codec == "none" else codec, "enable_idempotence": idempotent}
    if idempotent:
        config["acks"] = "all"
    metas = produce(name, sent, **config)
    check("offsets of the futures", [m.offset for m in metas], list(range(len(sent))))
    got = consume(name, len(sent))
    check("offsets", [m.offset for m in got], list(range(len(sent))))
    check("records", [(m.timestamp, m.key, m.value, [tuple(h) for h in m.headers]) for m in got], sent)


def acks(level):
    name = make("acks")
    produce(name, records(), acks=level, enable_idempotence=False)
    check("records", len(consume(name, len(records()))), len(records()))


def by_time():
    name, sent = make("time"), records()
    produce(name, sent)
    consumer, p = reader(name)
    base = sent[0][0]
    for ask, want in ((base, 0), (base + 1, 1), (base + 3, 3), (base + 4, 5), (base + 15, 10)):
        found = consumer.offsets_for_times({p: ask})[p]
        check(f"offset at +{ask - base}", found.offset, want)
        check("its time", found.timestamp, sent[want][0])
    check("after the end", consumer.offsets_for_times({p: base + 10**6})[p], None)
    check("beginning", consumer.beginning_offsets([p])[p], 0)
    check("end", consumer.end_offsets([p])[p], len(sent))
    consumer.close()


def administer():
    name = make("admin")
    admin = KafkaAdminClient(bootstrap_servers=ADDR)
    check("listed", name in admin.list_topics(), True)
    admin.delete_topics([name])
    admin.close()


for codec in CODECS:
    for idempotent in (False, True):
        case(f"{codec} idempotent={idempotent}", round_trip, codec, idempotent)
for level in ("all", 1, 0):
    case(f"acks={level}", acks, level)
case("by time", by_time)
case("admin", administer)
done()
