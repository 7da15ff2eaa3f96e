"""A member of a group by aiokafka: ADDR TOPIC GROUP PROTOCOL. Prints each value."""
import asyncio
import sys

from aiokafka import AIOKafkaConsumer


async def main():
    addr, topic, group, _ = sys.argv[1:]
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=addr, group_id=group, auto_offset_reset="earliest",
                                auto_commit_interval_ms=200, session_timeout_ms=6000, heartbeat_interval_ms=1000)
    await consumer.start()
    async for m in consumer:
        print(m.value.decode(), flush=True)


asyncio.run(main())
