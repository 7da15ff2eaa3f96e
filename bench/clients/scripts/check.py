"""What the Python scripts share: a report of checks, records to send, and how to compare them."""
import sys
import time
import traceback
import uuid

ADDR = sys.argv[1]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
failed = False


def fresh(prefix):
    return f"script-{prefix}-{uuid.uuid4().hex[:12]}"


def check(what, got, want):
    """Demands got == want; None and b"" differ."""
    if got != want:
        raise AssertionError(f"{what}: got {str(got)[:200]!r}, want {str(want)[:200]!r}")


def case(what, f, *args):
    """Runs one check and reports it."""
    global failed
    try:
        f(*args)
        print("ok", what, flush=True)
    except Exception as err:  # every fault of a client or broker is this case's failure
        failed = True
        where = traceback.extract_tb(err.__traceback__)[-1]
        print(f"FAIL {what}: {type(err).__name__}: {err} ({where.name}:{where.lineno})", flush=True)


def done():
    sys.exit(1 if failed else 0)


def records(base=None):
    """(timestamp, key, value, headers) in which careless code confuses null with empty, or times."""
    base = base or int(time.time() * 1000) - 60_000
    return [
        (base, None, b"value", []),
        (base + 1, b"", b"value", []),
        (base + 2, b"key", None, []),
        (base + 3, b"key", b"", []),
        (base + 2, b"\x00\xff", b"\xc3\x28\x00", [("h", b"1"), ("h", b"2"), ("h", b"1"), ("e", b""), ("ü", b"\xff")]),
    ] + [(base + 10 + i, b"k%d" % i, b"v%d" % i * 20, []) for i in range(200)]
