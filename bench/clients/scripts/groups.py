"""Members of every client in groups of one and of three, one of which is killed while it reads: each value is read, and
again only what the killed member had read."""
import collections
import os
import subprocess
import sys
import threading
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from check import ADDR, case, check, done, fresh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "members")
COUNT, PARTITIONS = 3000, 6
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", os.environ.get("KAFKA_CLASSPATH", ""), "org.apache.kafka.tools.consumer.ConsoleConsumer"]


def script(runner, name):
    return lambda topic, group, protocol: [runner, os.path.join(HERE, name), ADDR, topic, group, protocol]


def console(topic, group, protocol):
    command = JAVA + ["--bootstrap-server", ADDR, "--topic", topic, "--group", group, "--from-beginning",
                      "--command-property", "group.protocol=" + protocol, "--command-property", "auto.commit.interval.ms=200"]
    return command + ["--command-property", "session.timeout.ms=6000"] if protocol == "classic" else command


CLIENTS = [
    ("confluent-kafka", script(sys.executable, "confluent.py"), ["classic", "consumer"]),
    ("kafka-python", script(sys.executable, "kafka_python.py"), ["classic"]),
    ("aiokafka", script(sys.executable, "aio.py"), ["classic"]),
    ("kafkajs", script("node", "kafkajs.js"), ["classic"]),
    ("ConsoleConsumer", console, ["classic", "consumer"]),
]


admin = AdminClient({"bootstrap.servers": ADDR})


class Member:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.values = []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.values.append(line.rstrip("\n"))

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.thread.join()


def produce(topic, numbers):
    producer = Producer({"bootstrap.servers": ADDR, "enable.idempotence": True})
    for n in numbers:
        producer.produce(topic, f"value-{n}", partition=n % PARTITIONS)
    check("left to deliver", producer.flush(30), 0)


def wait(what, members, cond):
    deadline = time.monotonic() + 90
    while not cond():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: the members have {[len(m.values) for m in members]} values")
        for m in members:
            if m.process.poll() not in (None, -9):
                raise AssertionError(f"a member ended: {m.process.stderr.read()[-300:]}")
        time.sleep(0.02)


def run(command, protocol, size):
    topic, group = fresh("groups"), fresh("group")
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    members = [Member(command(topic, group, protocol)) for _ in range(size)]
    try:
        half = COUNT if size == 1 else COUNT // 2
        # A little at a time, until each member has its part.
        sent = PARTITIONS * 10
        produce(topic, range(sent))
        if size > 1:
            while not all(m.values for m in members):
                seen = sum(len(m.values) for m in members)
                if sent < half:
                    produce(topic, range(sent, sent + PARTITIONS))
                    sent += PARTITIONS
                wait("each member reads", members, lambda: all(m.values for m in members) or sent < half and sum(len(m.values) for m in members) > seen)
        produce(topic, range(sent, half))
        if size > 1:
            wait("the first half", members, lambda: sum(len(m.values) for m in members) >= half // 2)
            members[1].kill()
            produce(topic, range(half, COUNT))
        want = {f"value-{n}" for n in range(COUNT)}
        wait("every value", members, lambda: want <= {v for m in members for v in m.values})
        counts = collections.Counter(v for m in members for v in m.values)
        check("values that nobody sent", set(counts) - want, set())
        again = {v for v, n in counts.items() if n > 1}
        if size > 1:
            again -= set(members[1].values)
        check("values that came again", sorted(again), [])
    finally:
        for m in members:
            m.kill()


for name, command, protocols in CLIENTS:
    for protocol in protocols:
        for size in (1, 3):
            case(f"{name} {protocol} group of {size}", run, command, protocol, size)
done()
