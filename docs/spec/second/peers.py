"""Peers: lines of the journal, ids of instances, targets (peers.md)."""
import hashlib
import unicodedata

from .crypto import Refused
from .records import compact_json, strict_json

RESERVED = set("~#?/\\%&=+:@[]\"'<>")
EDGES = {"user_assistant", "assistant_subagent", "assistant_assistant"}
KINDS = {"user", "assistant_instance", "channel"}
STATES = {"queued", "delivered", "acked", "dropped"}
PAYLOADS = {"chat_text": ["text"], "peer_request": ["text"], "peer_response": ["accepted", "text"]}
MISS = ["record", "ts", "instance_id", "subscription_id", "message_id", "message_ts",
        "missed_total"]


def instance_id(definition, suffix):
    if len(definition.encode()) > 128:
        raise Refused("too-large")
    bad = not definition or RESERVED & set(definition) \
        or any(c.isspace() or unicodedata.category(c) == "Cc" for c in definition)
    if bad:
        raise Refused("invalid-definition-id")
    return f"{definition}~{suffix:08x}"


def target(to):
    for member, kind in (("instance_id", "instance"), ("definition_id", "definition")):
        if member in to:
            if not to[member]:
                raise Refused("invalid-target")
            if len(to[member].encode()) > 137:
                raise Refused("too-large")
            return {kind: to[member]}
    raise Refused("invalid-target")


def secret(text):
    return hashlib.sha256(text.encode()).hexdigest()


def record(line):
    try:
        value = strict_json(line.encode())
        _need(isinstance(value, dict))
        if value.get("record") is not None:
            return {"miss": compact_json(_miss(value))}
        losses = value.pop("losses_unrecorded", False)
        _need(isinstance(losses, bool))
        return {"envelope": compact_json(_envelope(value)), "losses_unrecorded": losses}
    except ValueError:
        raise Refused("record") from None


def _miss(value):
    _need(value["record"] == "inbox_miss")
    for name in MISS[:-1]:
        _text(value, name)
    total = value.get("missed_total")
    _need(type(total) is int and total >= 0)
    return {name: value[name] for name in MISS}


def _envelope(value):
    out = {"message_id": _text(value, "message_id"), "ts": _text(value, "ts")}
    _optional(value, out, ["in_reply_to"])
    out["edge"] = _one_of(value, "edge", EDGES)
    caller = _object(value, "from", {"kind", "instance_id", "definition_id", "channel_origin"})
    out["from"] = {"kind": _one_of(caller, "kind", KINDS)}
    _optional(caller, out["from"], ["instance_id", "definition_id"])
    if caller.get("channel_origin") is not None:
        parts = ["connector", "human_sender", "channel", "workspace"]
        origin = _object(caller, "channel_origin", set(parts))
        out["from"]["channel_origin"] = {part: _text(origin, part) for part in parts}
    to = _object(value, "to", {"instance_id", "definition_id"})
    out["to"] = {}
    _optional(to, out["to"], ["instance_id", "definition_id"])
    out["delivery_state"] = _one_of(value, "delivery_state", STATES)
    kind = _one_of(value.get("payload") or {}, "type", set(PAYLOADS))
    payload = _object(value, "payload", {"type", *PAYLOADS[kind]})
    out["payload"] = {"type": kind}
    if kind == "peer_response":
        _need(isinstance(payload.get("accepted"), bool))
        out["payload"]["accepted"] = payload["accepted"]
    out["payload"]["text"] = _text(payload, "text")
    return out


def _need(holds):
    if not holds:
        raise ValueError("no record")


def _text(value, name):
    _need(isinstance(value.get(name), str))
    return value[name]


def _one_of(value, name, names):
    _need(isinstance(value, dict) and value.get(name) in names)
    return value[name]


def _object(value, name, members):
    found = value.get(name)
    _need(isinstance(found, dict) and set(found) <= members)
    return found


def _optional(value, out, names):
    for name in names:
        if value.get(name) is not None:
            out[name] = _text(value, name)
