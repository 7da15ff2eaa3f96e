"""aiokafka: codecs, values, headers, nulls, times, offsets, seek by time."""
import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from check import ADDR, CODECS, case, check, done, fresh, records


async def produce(name, sent, **config):
    producer = AIOKafkaProducer(bootstrap_servers=ADDR, **config)
    await producer.start()
    try:
        futures = [await producer.send(name, v, k, partition=0, timestamp_ms=t, headers=h) for t, k, v, h in sent]
        await producer.flush()
        return [await f for f in futures]
    finally:
        await producer.stop()


async def consume(name, count):
    consumer = AIOKafkaConsumer(bootstrap_servers=ADDR, group_id=None, check_crcs=True)
    await consumer.start()
    try:
        partition = TopicPartition(name, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        return [await asyncio.wait_for(consumer.getone(), 30) for _ in range(count)]
    finally:
        await consumer.stop()


async def round_trip(codec, idempotent):
    name, sent = fresh("aio"), records()
    metas = await produce(name, sent, compression_type=None if codec == "none" else codec, enable_idempotence=idempotent)
    check("offsets of the futures", [m.offset for m in metas], list(range(len(sent))))
    got = await consume(name, len(sent))
    check("offsets", [m.offset for m in got], list(range(len(sent))))
    check("records", [(m.timestamp, m.key, m.value, [tuple(h) for h in m.headers]) for m in got], sent)


async def by_time():
    name, sent = fresh("aio-time"), records()
    await produce(name, sent)
    consumer = AIOKafkaConsumer(bootstrap_servers=ADDR, group_id=None)
    await consumer.start()
    try:
        p = TopicPartition(name, 0)
        base = sent[0][0]
        for ask, want in ((base, 0), (base + 3, 3), (base + 4, 5), (base + 15, 10)):
            check(f"offset at +{ask - base}", (await consumer.offsets_for_times({p: ask}))[p].offset, want)
        check("end", (await consumer.end_offsets([p]))[p], len(sent))
    finally:
        await consumer.stop()


for codec in CODECS:
    for idempotent in (False, True):
        case(f"{codec} idempotent={idempotent}", lambda: asyncio.run(round_trip(codec, idempotent)))
case("by time", lambda: asyncio.run(by_time()))
done()
