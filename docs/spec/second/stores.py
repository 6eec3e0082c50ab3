"""What is kept in a data directory, and what crosses the local socket: journal.md and link.md."""

import struct
import zlib

from .crypto import Refused

# --- journal.md ---------------------------------------------------------------------------------


class Reader:
    """Numbers, texts and times from the front of bytes."""

    def __init__(self, data):
        self.rest = data

    def take(self, count):
        if count > len(self.rest):
            raise Refused("record")
        head, self.rest = self.rest[:count], self.rest[count:]
        return head

    def number(self, count, signed=False):
        return int.from_bytes(self.take(count), "little", signed=signed)

    def u32(self):
        return self.number(4)

    def u64(self):
        return self.number(8)

    def time(self):
        return self.number(16, signed=True)

    def text(self, length_bytes=2):
        return self.take(self.number(length_bytes)).decode()

    def flag(self):
        value = self.number(1)
        if value > 1:
            raise Refused("record")
        return value == 1

    def maybe_time(self):
        return self.time() if self.flag() else None

    def duration(self):
        seconds, nanos = self.u64(), self.u32()
        if nanos >= 10 ** 9:
            raise Refused("record")
        return [seconds, nanos]

    def all(self):
        return self.take(len(self.rest)).hex()

    def many(self, read, entry_bytes):
        count = self.u32()
        if count * entry_bytes != len(self.rest):
            raise Refused("record")
        return [read() for _ in range(count)]


def packed_frame(r):
    """A frame in its packed form, up to the end."""
    version, flags = r.number(1), r.number(1)
    if version != 1 or flags > 3:
        raise Refused("record")
    frame = {"subject": r.text(), "id": r.text()}
    if flags & 1:
        frame["reply"] = r.text()
    if flags & 2:
        held, frame["priority"] = r.number(1), r.number(1)
        if held & 1:
            frame["not_before"] = r.time()
        if held & 2:
            frame["key"] = r.text(1)
    count, total = r.u32(), r.u32()
    headers = []
    for _ in range(count):
        name, value = r.number(1), r.number(2)
        headers.append([r.take(name).decode(), r.take(value).decode()])
    body = r.u32()
    if sum(len(name) + len(value) for name, value in headers) != total or body != len(r.rest):
        raise Refused("record")
    return {**frame, "headers": headers, "body": r.all()}


def declared(r):
    stream, key, name = r.u32(), r.take(16).hex(), r.text()
    filters = [r.text() for _ in range(r.u32())]
    retention = r.number(1)
    if retention > 2:
        raise Refused("record")
    return [stream, key, name, filters, retention, r.duration(), r.u64(), r.u64()]


RECORDS = {
    1: ("declared", declared),
    2: ("stored", lambda r: [r.u32(), r.u64(), r.time(), packed_frame(r)]),
    3: ("removed", lambda r: [r.u32(), r.u64()]),
    4: ("consumer-made",
        lambda r: [r.u64(), r.u32(), r.text(), r.text(), r.text(), r.duration()]),
    5: ("consumer-removed", lambda r: [r.u64()]),
    6: ("paused", lambda r: [r.u64(), r.maybe_time()]),
    7: ("leased", lambda r: [r.u64(), r.u64(), r.u64(), r.u32(), r.time(), r.time()]),
    8: ("waits", lambda r: [r.u64(), r.u64(), r.u32(), r.time(), r.flag()]),
    9: ("done", lambda r: [r.u64(), r.u64()]),
    10: ("put", lambda r: [r.text(), r.text(), r.u64(), r.time(), r.maybe_time(), r.all()]),
    11: ("ended", lambda r: [r.text(), r.text(), r.u64(), r.time(), r.flag()]),
    12: ("stream-at", lambda r: [
        r.u32(), r.u64(), r.many(lambda: [r.u64(), r.u64(), r.u64(), r.time()], 40)]),
    13: ("consumer-at", lambda r: [r.u64(), r.u64(), r.u64(), r.many(r.u64, 8)]),
    14: ("bucket-at", lambda r: [r.text(), r.u64(), r.u64()]),
    15: ("opened", lambda r: [r.u64(), r.time()]),
    16: ("blob-stored", lambda r: [r.text(), r.text(), r.u64(), r.u64(), r.take(32).hex()]),
    17: ("blob-removed", lambda r: [r.text(), r.text()]),
}


def record(payload):
    r = Reader(payload)
    tag = r.number(1)
    if tag not in RECORDS:
        raise Refused("record")
    kind, read = RECORDS[tag]
    fields = read(r)
    if r.rest:
        raise Refused("record")
    return {"kind": kind, "fields": fields}


def with_lengths(payloads):
    return b"".join(struct.pack("<I", len(payload)) + payload for payload in payloads)


def file_header(magic, one, other):
    fields = magic + struct.pack("<QQ", one, other)
    return fields + struct.pack("<I", zlib.crc32(fields))


def batch(salt, segment, first, synced, payloads):
    records = with_lengths(payloads)
    checked = struct.pack("<IIQQQ", len(records), len(payloads), segment, first, synced) + records
    crc = zlib.crc32(struct.pack("<Q", salt) + checked)
    whole = b"VkbB" + struct.pack("<I", crc) + checked
    return whole + bytes(-len(whole) % 8)


def picture(position, segment, payloads):
    """A picture of one piece, and the piece that ends it."""
    out = file_header(b"vakbusp\x01", position, segment)
    for number, body in enumerate([with_lengths(payloads), b""]):
        checked = struct.pack("<III", number, len(body), len(payloads)) + body
        crc = zlib.crc32(struct.pack("<Q", position) + checked)
        out += struct.pack("<I", crc) + checked
    return out


# --- link.md ------------------------------------------------------------------------------------

def challenge(versions, server, nonce):
    return b"vakbus-link\n" + struct.pack("<HH", *versions) + server + nonce


def challenge_signed(server_versions, client_versions, server, nonce):
    versions = struct.pack("<HHHH", *server_versions, *client_versions)
    return b"vak-bus/link/hello/v1\n" + nonce + server + versions


def response(versions, signature, token):
    return b"vakbus-link\n" + struct.pack("<HH", *versions) + signature + token.encode()


def message(kind, words, parts):
    body = encode(kind, words)
    for part in parts:
        body += struct.pack("<I", len(part)) + part
    return struct.pack("<I", len(body)) + body


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def encode(kind, value):
    """A value in postcard: `kind` is a name of `TYPES`, or a plain one."""
    if kind.startswith("?"):
        return b"\0" if value is None else b"\1" + encode(kind[1:], value)
    if kind.startswith("*"):
        return varint(len(value)) + b"".join(encode(kind[1:], entry) for entry in value)
    if kind.startswith("!"):
        (name, inner), = value.items()
        return b"\0" + encode(kind[1:], inner) if name == "Ok" else b"\1" + encode("Fault", inner)
    if kind == "Settled":
        delivery, verdict = value
        return encode("number", delivery) + encode("Verdict", verdict)
    if kind == "Outcome":
        return encode("!nothing", value)
    if kind == "nothing":
        return b""
    if kind in ("number", "bool"):
        return varint(int(value))
    if kind == "byte":
        return bytes([value])
    if kind == "signed":
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind == "text":
        return varint(len(value.encode())) + value.encode()
    if kind == "hash":
        return bytes(value)
    shape = TYPES[kind]
    if isinstance(shape, dict):
        return fields(shape, value)
    name, inner = (value, None) if isinstance(value, str) else next(iter(value.items()))
    names = [entry[0] for entry in shape]
    index = names.index(name)
    held = shape[index][1]
    if held is None:
        return varint(index)
    if isinstance(held, dict):
        return varint(index) + fields(held, inner)
    return varint(index) + encode(held, inner)


def fields(shape, value):
    return b"".join(encode(kind, value[name]) for name, kind in shape.items())


NAMED = {"bucket": "text", "key": "text"}
TYPES = {
    "Duration": {"secs": "number", "nanos": "number"},
    "Fault": {"kind": "byte", "unknown": "bool", "subject": "?text", "detail": "text"},
    "ToServer": [
        ("Call", {"id": "number", "call": "Call"}), ("Publish", None),
        ("Credit", {"id": "number", "items": "number"}),
        ("Want", {"id": "number", "round": "number", "max": "number"}),
        ("Unwant", {"id": "number"}), ("Part", {"id": "number"}), ("Whole", {"id": "number"}),
        ("End", {"id": "number"}), ("Bye", None)],
    "Call": [
        ("Subscribe", {"filter": "text", "overflow": "Overflow"}),
        ("Request", {"wait": "Duration"}), ("Declare", "Stream"), ("Append", "Expect"),
        ("AppendAll", None), ("Last", {"subject": "text"}),
        ("Read", {"stream": "text", "seq": "number"}),
        ("Discard", {"stream": "text", "seq": "number"}), ("Consume", "Consumer"),
        ("Consumers", {"stream": "text"}),
        ("Pause", {"stream": "text", "consumer": "text", "until": "?signed"}),
        ("RemoveConsumer", {"stream": "text", "consumer": "text"}),
        ("Replay", {"stream": "text", "filter": "text", "from": "number", "credit": "number"}),
        ("Lag", {"stream": "text"}), ("Settle", "*Settled"), ("Extend", {"delivery": "number"}),
        ("Get", NAMED), ("Put", {**NAMED, "put": "Put"}),
        ("Delete", {**NAMED, "expect": "ExpectRevision"}),
        ("Watch", {"bucket": "text", "keys": "text", "after": "number", "credit": "number"}),
        ("PutBlob", NAMED), ("GetBlob", {**NAMED, "credit": "number"}), ("DeleteBlob", NAMED),
        ("ListBlobs", {"bucket": "text"}), ("Control", {"verb": "text", "argument": "text"})],
    "ToClient": [
        ("Answer", {"id": "number", "answer": "!Answer"}),
        ("Item", {"id": "number", "item": "Item"}),
        ("End", {"id": "number", "why": "?Fault"}), ("Closing", {"why": "?Fault"})],
    "Answer": [
        ("Done", None), ("WasThere", "bool"), ("Frame", None), ("Stored", "?Place"),
        ("Receipts", "*Receipt"), ("Consumers", "*ConsumerState"), ("Lag", "Lag"),
        ("Entry", "?number"), ("Revision", "number"), ("Blob", "?Blob"), ("Blobs", "*Blob"),
        ("Settled", "*Outcome"), ("Said", "text")],
    "Item": [
        ("Frames", None), ("Gap", "number"), ("Stored", "Place"),
        ("Changed", {"key": "text", "revision": "number", "state": "State"}),
        ("Current", None), ("Resync", None), ("Part", None),
        ("Deliveries", {"round": "number", "deliveries": "*Delivery"}), ("Credit", "number")],
    "Welcome": [("In", "Welcomed"), ("Refused", "Fault")],
    "Welcomed": {
        "version": "number", "durability": "byte", "calls_max": "number", "policy": "Policy"},
    "Policy": {"publish": "Rules", "subscribe": "Rules"},
    "Rules": {"allow": "*text", "deny": "*text"},
    "Overflow": [("DropOldest", "number"), ("Latest", "number")],
    "Stream": {
        "name": "text", "filters": "*text", "retention": "Retention", "dedupe_window": "Duration",
        "messages_max": "number", "messages_per_subject_max": "number"},
    "Retention": [("WorkQueue", None), ("AppendOnly", None), ("Kept", None)],
    "Expect": [("Any", None), ("LastOfSubject", "number")],
    "Consumer": {"stream": "text", "name": "text", "filter": "text", "lease": "Duration"},
    "ConsumerState": {"spec": "Consumer", "lag": "Lag", "paused_until": "?signed"},
    "Lag": {"pending": "number", "in_flight": "number", "oldest": "?Duration"},
    "Receipt": {"stream": "text", "seq": "number", "duplicate": "bool", "durability": "byte"},
    "Place": {"seq": "number", "time": "signed"},
    "Delivery": {"id": "number", "place": "Place", "attempt": "number", "lease": "Duration"},
    "Verdict": [
        ("Ack", None), ("Retry", "Duration"), ("Release", "Duration"), ("Reject", "text")],
    "ExpectRevision": [("Any", None), ("Absent", None), ("Exactly", "number")],
    "Put": {"expect": "ExpectRevision", "ttl": "?Duration"},
    "State": [("Value", None), ("Deleted", None), ("Expired", None)],
    "Blob": {"key": "text", "bytes": "number", "digest": "hash"},
}
