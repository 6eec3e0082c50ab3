"""What commands leave and what they emit: results and the emit socket, from tasks.md and tokens.md."""

import re

from . import records, subjects
from .crypto import Refused

# --- results ------------------------------------------------------------------------------------

INLINE_BYTES_MAX = 65536

NEEDED = ["task_id", "task", "attempt", "worker", "session", "stderr_hash", "output"]


def _need(condition):
    if not condition:
        raise Refused("result")


def _hash(text):
    _need(isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text))


def _number(value, bits):
    _need(type(value) is int and 0 <= value < 2**bits)


def _members(value, needed, optional=()):
    _need(isinstance(value, dict) and set(needed) <= set(value) <= {*needed, *optional})


def result_bytes(result):
    """The plain bytes of a result; `output` is {"inline": hex} where it stands there."""
    output, inline = result["output"], b""
    if "inline" in output:
        inline = bytes.fromhex(output["inline"])
        _need(len(inline) <= INLINE_BYTES_MAX)
        output = "inline"
    head = {name: result[name] for name in NEEDED[:5]}
    if "receipt" in result:
        head["receipt"] = result["receipt"]
    head["stderr_hash"], head["output"] = result["stderr_hash"], output
    if "left_out" in result:
        head["left_out"] = {name: result["left_out"][name]
                            for name in ("at", "bytes", "stdout_hash")}
    text = records.compact_json(head).encode()
    return len(text).to_bytes(4, "big") + text + inline


def read_result(raw):
    """What `result_bytes` was given; Refused when it is none."""
    _need(len(raw) >= 4)
    length = int.from_bytes(raw[:4], "big")
    text, inline = raw[4:4 + length], raw[4 + length:]
    _need(len(text) == length)
    try:
        head = records.strict_json(text)
        _members(head, NEEDED, ("receipt", "left_out"))
        _need(isinstance(head["task_id"], str))
        _hash(head["task"])
        _hash(head["stderr_hash"])
        _number(head["attempt"], 32)
        subjects.token("worker", head["worker"])
        subjects.token("session", head["session"])
    except (ValueError, TypeError, AttributeError, Refused):
        raise Refused("result") from None
    if "receipt" in head:
        _number(head["receipt"], 64)
    kept = _output(head, inline)
    if "left_out" in head:
        gap = head["left_out"]
        _members(gap, ("at", "bytes", "stdout_hash"))
        _number(gap["at"], 64)
        _number(gap["bytes"], 64)
        _hash(gap["stdout_hash"])
        _need(kept is not None and gap["bytes"] > 0 and gap["at"] <= kept)
    return head


def _output(head, inline):
    """Reads where the output is, and returns how many bytes are kept of it."""
    output = head["output"]
    if output == "inline":
        head["output"] = {"inline": inline.hex()}
        return len(inline)
    _need(not inline and isinstance(output, dict) and len(output) == 1)
    if "blob" in output:
        _members(output["blob"], ("key", "bytes"))
        _number(output["blob"]["bytes"], 64)
        try:
            subjects.name("bucket key", output["blob"]["key"])
        except Refused:
            raise Refused("result") from None
        return output["blob"]["bytes"]
    _members(output, ("not-kept",))
    _members(output["not-kept"], ("reason",))
    _need(isinstance(output["not-kept"]["reason"], str))
    return None


# --- the emit socket ----------------------------------------------------------------------------

KINDS = {0: "hello", 1: "text", 2: "thinking", 3: "stdout", 4: "stderr", 5: "end",
         128: "accepted", 129: "refused", 130: "done"}

MESSAGE_BYTES_MAX = 65536


def read_messages(raw):
    """The whole messages that `raw` begins with, and how many bytes of a later one follow."""
    messages = []
    while len(raw) >= 5:
        kind, length = raw[0], int.from_bytes(raw[1:5], "big")
        if kind not in KINDS or length > MESSAGE_BYTES_MAX:
            raise Refused("message")
        if len(raw) < 5 + length:
            break
        messages.append([KINDS[kind], raw[5:5 + length].hex()])
        raw = raw[5 + length:]
    return {"messages": messages, "left": len(raw)}
