"""Batches of recordings, from recordings.md."""

from .crypto import Refused

BYTES_MAX = 384 * 1024
ITEMS_MAX = 4096


def batch(items):
    """The bytes of a batch; gaps that follow each other are one."""
    merged = []
    for item in items:
        if "missed" in item and merged and "missed" in merged[-1]:
            merged[-1] = {"missed": min(merged[-1]["missed"] + item["missed"], 2**64 - 1)}
        else:
            merged.append(item)
    written = b"\x01"
    for item in merged:
        if "missed" in item:
            written += bytes(4) + item["missed"].to_bytes(8, "big")
        else:
            envelope = bytes.fromhex(item["envelope"])
            written += len(envelope).to_bytes(4, "big") + envelope
    return written


def read_batch(raw):
    """The items of a stored batch; envelopes are not looked into."""
    if len(raw) > BYTES_MAX or raw[:1] != b"\x01":
        raise Refused("recording")
    items, at = [], 1
    while at < len(raw):
        length = int.from_bytes(raw[at:at + 4], "big")
        begin = at + 4
        end = begin + (length or 8)
        part = raw[begin:end]
        if begin > len(raw) or end > len(raw) or len(items) == ITEMS_MAX:
            raise Refused("recording")
        if length == 0:
            missed = int.from_bytes(part, "big")
            if missed == 0:
                raise Refused("recording")
            items.append({"missed": missed})
        else:
            items.append({"envelope": part.hex()})
        at = end
    if not items:
        raise Refused("recording")
    return items
