"""Records of an end-to-end run; recfile.go says how they are encoded."""
import hashlib
import struct


def read(path):
    """Yields (timestamp, key, value, [(name, value), ...]) of each record."""
    i64, i32 = struct.Struct(">q"), struct.Struct(">i")
    with open(path, "rb") as f:
        data = f.read()
    at = 0

    def take():
        nonlocal at
        (n,) = i32.unpack_from(data, at)
        at += 4
        if n < 0:
            return None
        piece = data[at:at + n]
        at += n
        return piece

    while at < len(data):
        (timestamp,) = i64.unpack_from(data, at)
        at += 8
        key, value = take(), take()
        (count,) = i32.unpack_from(data, at)
        at += 4
        headers = [(take().decode(), take()) for _ in range(count)]
        yield timestamp, key, value, headers


class Digest:
    """Checks offsets from 0 without a gap and digests the records."""

    def __init__(self, count):
        self.count, self.next, self.sha = count, 0, hashlib.sha256()
        self.head = struct.Struct(">qi")

    def add(self, offset, timestamp, key, value, headers):
        if offset != self.next:
            raise SystemExit(f"offset {offset} where {self.next} belongs")
        if self.next >= self.count:
            raise SystemExit(f"more than {self.count} records")
        self.next += 1
        n32 = struct.pack
        parts = [self.head.pack(timestamp, -1 if key is None else len(key)), key or b""]
        parts.append(n32(">i", -1 if value is None else len(value)))
        parts.append(value or b"")
        parts.append(n32(">i", len(headers)))
        for name, content in headers:
            name = name.encode()
            parts += [n32(">i", len(name)), name, n32(">i", -1 if content is None else len(content)), content or b""]
        self.sha.update(b"".join(parts))

    @property
    def done(self):
        return self.next == self.count

    def report(self):
        print(self.next, self.sha.hexdigest())
