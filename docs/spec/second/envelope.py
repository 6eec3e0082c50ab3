"""Envelopes: rules, hashed lists and the three wire forms, from envelope.md and chain.md.

An envelope is a dict with the members of the vectors; optional ones are left out when absent.
"""

import base64
import hashlib
import json
import re

from . import attributes
from .attributes import (RESERVED, SEALED, check, checked_extension, id_of, parse_tracestate,
                         read_attribute, text_of_time, time_of_text)
from .crypto import Refused

SEQ_MAX = 2**53 - 1
EXTENSIONS_MAX = 64

# --- hashed lists ------------------------------------------------------------------------------


def list_hash(tag, *parts):
    digest = hashlib.sha256()
    for part in (tag, *parts):
        if part is None:
            digest.update(b"\xff\xff\xff\xff")
            continue
        part = part.encode() if isinstance(part, str) else part
        part = part.to_bytes(8, "big") if isinstance(part, int) else part
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()


def _hex(text):
    return None if text is None else bytes.fromhex(text)


def _uuid(text):
    return bytes.fromhex(text.replace("-", ""))


def _extension_parts(envelope):
    pairs = sorted(envelope["extensions"].items(), key=lambda pair: pair[0].encode())
    return [part for pair in pairs for part in pair]


def payload_hash(e):
    return hashlib.sha256(bytes.fromhex(e["payload"])).digest()


def leaf(e):
    return list_hash("vak-bus/leaf/v1", "1.0", e["id"], e["source"], e["type"], e["time"],
                     e["workspace"], e["agent"], e["seq"], _hex(e["prevhash"]), payload_hash(e))


def aad(e):
    seal = e.get("seal", {})
    digest = list_hash(
        "vak-bus/aad/v1", "1", e["id"], e["type"], e["workspace"], e["seq"], e["subject"],
        e["source"], e["agent"], e["time"], e.get("content_type"), seal.get("key_id"),
        seal.get("algorithm"), _hex(e["prevhash"]), _hex(e.get("cause")), e.get("session"),
        _uuid(e["incarnation"]), _hex(e["trace_id"]), *_extension_parts(e))
    return f"{e['id']}:{e['type']}:{e['workspace']}:{e['seq']}:{digest.hex()}".encode()


def signature_input(e):
    seal = e.get("seal", {})
    digest = list_hash(
        "vak-bus/attributes/v1", "1", e["subject"], e.get("content_type"), e.get("session"),
        _uuid(e["incarnation"]), _hex(e.get("cause")), _hex(e["trace_id"]), seal.get("key_id"),
        seal.get("algorithm"), _hex(seal.get("nonce")), e.get("signature", {}).get("signer"),
        *_extension_parts(e))
    return b"vak-bus/signature/v1" + leaf(e) + digest


def genesis_of_subject(workspace, subject):
    return list_hash("vak-bus/genesis/subject/v1", workspace, subject)


def genesis_of_incarnation(workspace, agent, incarnation, subject):
    return list_hash(
        "vak-bus/genesis/incarnation/v1", workspace, agent, _uuid(incarnation), subject)


def continued_life(e):
    """The earlier process life that the first event of a life goes on from, by its own word."""
    life = e["extensions"].get("continues", "")
    is_uuid = re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", life)
    return life if is_uuid and life != e["incarnation"] else None


LEAVES_MAX = 512


def checkpoint_of(leaves):
    return b"".join(bytes.fromhex(leaf) for leaf in leaves)


def read_checkpoint(event_type, seq, prevhash, payload):
    """The number of the first event that a checkpoint lists, and the leaves."""
    leaves = [payload[at:at + 32].hex() for at in range(0, len(payload), 32)]
    if event_type != "vak.live.checkpoint" or len(payload) % 32 != 0 \
            or not 1 <= len(leaves) <= min(LEAVES_MAX, seq - 1) or leaves[-1] != prevhash:
        raise Refused("checkpoint")
    return seq - len(leaves), leaves


# --- the attributes as text, in the order of the wire forms ------------------------------------


def texts(e):
    seal, signature = e.get("seal"), e.get("signature")
    rows = [("specversion", "1.0"), ("id", e["id"]), ("source", e["source"]), ("type", e["type"]),
            ("time", e["time"]), ("subject", e["subject"])]
    content_type = SEALED if seal else e.get("content_type")
    rows += [("datacontenttype", content_type), ("vakversion", "1"),
             ("workspace", e["workspace"]), ("session", e.get("session")), ("agent", e["agent"]),
             ("incarnation", e["incarnation"]), ("seq", str(e["seq"])), ("prevhash", e["prevhash"]),
             ("cause", e.get("cause")),
             ("traceparent", f"00-{e['trace_id']}-{e['span_id']}-{e['flags']:02x}"),
             ("tracestate", e["tracestate"] or None)]
    if seal:
        rows += [("sealedtype", e.get("content_type")), ("keyid", seal["key_id"]),
                 ("keyalg", seal["algorithm"]), ("nonce", seal["nonce"])]
    if signature:
        raw = bytes.fromhex(signature["bytes"])
        text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        rows += [("signer", signature["signer"]), ("signature", text)]
    rows += sorted(e["extensions"].items(), key=lambda pair: pair[0].encode())
    return [(name, value) for name, value in rows if value is not None]


class Reader:
    """Takes attributes in, each once, and puts an envelope together."""

    def __init__(self):
        self.read, self.extensions = {}, {}

    def put(self, name, value):
        if name in RESERVED and name != "data":
            read = read_attribute(name, value)
            if name in self.read:
                raise Refused(f"duplicate {name}")
            self.read[name] = read
            return
        checked_extension(name, value)
        if len(self.extensions) >= EXTENSIONS_MAX:
            raise Refused("too-many")
        if name in self.extensions:
            raise Refused(f"duplicate {name}")
        self.extensions[name] = value

    def finish(self, payload):
        read = self.read

        def need(name):
            if name not in read:
                raise Refused(f"missing {name}")
            return read[name]

        need("specversion"), need("vakversion")
        trace_id, span_id, flags = need("traceparent")
        e = {"trace_id": trace_id, "span_id": span_id, "flags": flags,
             "tracestate": read.get("tracestate", ""), "extensions": self.extensions,
             "payload": payload.hex()}
        if {"keyid", "keyalg", "nonce"} & set(read):
            e["seal"] = {"key_id": need("keyid"), "algorithm": need("keyalg"),
                         "nonce": need("nonce")}
        if {"signer", "signature"} & set(read):
            e["signature"] = {"signer": need("signer"), "bytes": need("signature")}
        content_type = read.get("datacontenttype")
        if "seal" in e:
            if content_type != SEALED:
                raise Refused("field datacontenttype")
            content_type = read.get("sealedtype")
        elif "sealedtype" in read:
            raise Refused("field sealedtype")
        for name in ("id", "source", "type", "time", "subject", "workspace", "agent",
                     "incarnation", "seq", "prevhash"):
            e[name] = need(name)
        e.update({name: read[name] for name in ("session", "cause") if name in read})
        if content_type is not None:
            e["content_type"] = content_type
        return e


# --- binary ------------------------------------------------------------------------------------


def percent_encode(value):
    plain = set(range(0x21, 0x7F)) - set(b'"%')
    return "".join(chr(b) if b in plain else f"%{b:02X}" for b in value.encode())


def percent_decode(text):
    if text.startswith('"'):
        found = re.fullmatch(r'"((?:[^"\\]|\\.)*)"', text, re.DOTALL)
        if not found:
            return None
        text = re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL)
    elif '"' in text:
        return None
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return None
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()),
                 text.encode())
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def encode_binary(e):
    return [[f"ce-{name}", percent_encode(value)] for name, value in texts(e)]


def decode_binary(headers, body):
    reader = Reader()
    for header, value in headers:
        if header[:3].lower() != "ce-":
            continue
        name = header[3:]
        if not re.fullmatch(r"[A-Za-z0-9]+", name):
            raise Refused(f"field {name[:20]}")
        value = percent_decode(value)
        if value is None:
            raise Refused(f"field {name.lower()}")
        reader.put(name.lower(), value)
    return reader.finish(body)


# --- json --------------------------------------------------------------------------------------


def _not_json(_):
    raise ValueError("no JSON")


JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_not_json)
BLANKS = " \t\r\n"


def quoted(text):
    return json.dumps(text, ensure_ascii=False)


def is_json_type(content_type):
    essence = content_type.split(";")[0].rstrip(" \t")
    kind, slash, subtype = essence.partition("/")
    return bool(slash) and (subtype.lower() == "json" or subtype.lower().endswith("+json"))


def _verbatim(e):
    """The payload as text, when it may stand under `data`."""
    if "seal" in e or not is_json_type(e.get("content_type", "")):
        return None
    try:
        text = bytes.fromhex(e["payload"]).decode()
        JSON.decode(text)
    except ValueError:
        return None
    return text if text == text.strip(BLANKS) else None


def encode_json(e):
    members = [f"{quoted(name)}:{quoted(value)}" for name, value in texts(e)]
    data = _verbatim(e)
    if data is None:
        payload = base64.b64encode(bytes.fromhex(e["payload"])).decode()
        members.append(f'"data_base64":"{payload}"')
    else:
        members.append(f'"data":{data}')
    return ("{" + ",".join(members) + "}").encode()


def _members(text):
    """Names and values of an object, a value with the text it stands in."""
    at = 0

    def blanks():
        nonlocal at
        while at < len(text) and text[at] in BLANKS:
            at += 1

    def expect(characters):
        nonlocal at
        blanks()
        if text[at:at + 1] == "" or text[at] not in characters:
            raise ValueError(f"expected one of {characters}")
        at += 1
        return text[at - 1]

    expect("{")
    blanks()
    if text[at:at + 1] == "}":
        at += 1
    else:
        while True:
            blanks()
            if text[at:at + 1] != '"':
                raise ValueError("expected a name")
            name, at = JSON.raw_decode(text, at)
            expect(":")
            blanks()
            start = at
            value, at = JSON.raw_decode(text, at)
            yield name, value, text[start:at]
            if expect(",}") == "}":
                break
    blanks()
    if at != len(text):
        raise ValueError("something stands behind the object")


def decode_json(body):
    reader, payload = Reader(), None
    try:
        for name, value, raw in _members(body.decode()):
            if name in ("data", "data_base64"):
                if name == "data":
                    found = raw.encode()
                elif raw[0] == '"':
                    found = attributes.base64_of(value)
                    if found is None:
                        raise Refused("field data_base64")
                else:
                    raise ValueError("no text")
                if payload is not None:
                    raise Refused(f"field {name}")
                payload = found
                continue
            if raw[0] != '"':
                raise ValueError("no text")
            name.encode(), value.encode()
            reader.put(name, value)
    except ValueError:
        raise Refused("malformed") from None
    if payload is None:
        raise Refused("missing data")
    e = reader.finish(payload)
    if encode_json(e) != body:
        raise Refused("not-canonical")
    return e


# --- compact -----------------------------------------------------------------------------------


def _varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def _text(text):
    return _varint(len(text.encode())) + text.encode()


def _optional(value, write):
    return b"\x00" if value is None else b"\x01" + write(value)


def _zigzag(number):
    return _varint(2 * number if number >= 0 else -2 * number - 1)


def _head(e):
    out = b"\x01" + _text(e["id"]) + _text(e["source"]) + _text(e["type"])
    out += _zigzag(time_of_text(e["time"])) + _optional(e.get("content_type"), _text)
    out += _text(e["subject"]) + _hex(e["trace_id"]) + _hex(e["span_id"]) + bytes([e["flags"]])
    out += _text(e["tracestate"]) + _text(e["workspace"]) + _optional(e.get("session"), _text)
    out += _text(e["agent"]) + _uuid(e["incarnation"]) + _varint(e["seq"]) + _hex(e["prevhash"])
    out += _optional(e.get("cause"), _hex)
    out += _optional(e.get("seal"), lambda seal: _text(seal["key_id"]) + _text(seal["algorithm"])
                     + _hex(seal["nonce"]))
    out += _optional(e.get("signature"), lambda s: _text(s["signer"]) + _hex(s["bytes"]))
    parts = _extension_parts(e)
    return out + _varint(len(parts) // 2) + b"".join(_text(part) for part in parts)


def encode_compact(e):
    payload = bytes.fromhex(e["payload"])
    return _head(e) + len(payload).to_bytes(4, "big") + payload


class _Bytes:
    def __init__(self, raw):
        self.rest = raw

    def take(self, count):
        if count > len(self.rest):
            raise Refused("malformed")
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def hex(self, count):
        return self.take(count).hex()

    def varint(self, bits):
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if number >> bits or shift > bits + 7:
                raise Refused("malformed")
            if byte < 0x80:
                return number

    def text(self):
        try:
            return self.take(self.varint(64)).decode()
        except UnicodeDecodeError:
            raise Refused("malformed") from None

    def optional(self, read):
        mark = self.take(1)[0]
        if mark > 1:
            raise Refused("malformed")
        return read() if mark else None


LONGEST = {"id": 128, "source": 256, "type": 128, "datacontenttype": 256, "keyid": 256,
           "keyalg": 32, "signer": 128}


def decode_compact(body):
    if not body:
        raise Refused("malformed")
    if body[0] != 1:
        raise Refused("version compact form")
    raw = _Bytes(body[1:])
    e = {"id": raw.text(), "source": raw.text(), "type": raw.text()}
    zigzag = raw.varint(128)
    unix_ns = -(zigzag + 1) // 2 if zigzag & 1 else zigzag // 2
    content_type = raw.optional(raw.text)
    e["subject"] = raw.text()
    e.update(trace_id=raw.hex(16), span_id=raw.hex(8), flags=raw.take(1)[0])
    tracestate = raw.text()
    e["workspace"] = raw.text()
    session = raw.optional(raw.text)
    e["agent"] = raw.text()
    digits = raw.hex(16)
    e["incarnation"] = "-".join(digits[a:b] for a, b in
                                ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))
    e.update(seq=raw.varint(64), prevhash=raw.hex(32))
    cause = raw.optional(lambda: raw.hex(32))
    seal = raw.optional(lambda: {"key_id": raw.text(), "algorithm": raw.text(),
                                 "nonce": raw.hex(12)})
    signature = raw.optional(lambda: {"signer": raw.text(), "bytes": raw.hex(64)})
    count = raw.varint(64)
    if count > EXTENSIONS_MAX:
        raise Refused("malformed")
    pairs = [(raw.text(), raw.text()) for _ in range(count)]
    length = int.from_bytes(raw.take(4), "big")
    if length != len(raw.rest):
        raise Refused("malformed")
    e["payload"] = raw.rest.hex()
    for name, value in (("content_type", content_type), ("session", session), ("cause", cause),
                        ("seal", seal), ("signature", signature)):
        if value is not None:
            e[name] = value
    long_texts = {"id": e["id"], "source": e["source"], "type": e["type"],
                  "datacontenttype": content_type or "", "keyid": (seal or {}).get("key_id", ""),
                  "keyalg": (seal or {}).get("algorithm", ""),
                  "signer": (signature or {}).get("signer", "")}
    for name, text in long_texts.items():
        if len(text.encode()) > LONGEST[name]:
            raise Refused(f"too-long {name}")
    for name, value in pairs:
        checked_extension(name, value)
    if not int(e["trace_id"], 16) or not int(e["span_id"], 16):
        raise Refused("field traceparent")
    for name in ("subject", "workspace", "session", "agent"):
        if name in e:
            id_of(name, e[name])
    e.update(extensions=dict(pairs), flags=e["flags"] & 3, time=text_of_time(unix_ns),
             tracestate=parse_tracestate(tracestate) or "")
    check(e)
    if encode_compact(e) != body:
        raise Refused("not-canonical")
    return e


# --- telling the forms apart -------------------------------------------------------------------

JSON_TYPE = "application/cloudevents+json"
COMPACT_TYPE = "application/vnd.vakbus.envelope"


def decode(headers, body):
    types = [value for name, value in headers if name.lower() == "content-type"]
    if len(types) > 1:
        raise Refused("duplicate content-type")
    essence = types[0].split(";")[0].strip().lower() if types else ""
    if essence in (JSON_TYPE, "application/cloudevents"):
        return decode_json(body)
    if essence == COMPACT_TYPE:
        return decode_compact(body)
    if essence.startswith(("application/cloudevents+", "application/cloudevents-batch")):
        raise Refused("unknown-form")
    return decode_binary(headers, body)


# --- RFC 6962 ----------------------------------------------------------------------------------


def _split(count):
    return 1 << (count - 1).bit_length() - 1


def root(leaves):
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    k = _split(len(leaves))
    return hashlib.sha256(b"\x01" + root(leaves[:k]) + root(leaves[k:])).digest()


def leaf_of(entry):
    return hashlib.sha256(b"\x00" + entry).digest()


def inclusion(index, leaves):
    if len(leaves) <= 1:
        return []
    k = _split(len(leaves))
    if index < k:
        return inclusion(index, leaves[:k]) + [root(leaves[k:])]
    return inclusion(index - k, leaves[k:]) + [root(leaves[:k])]


def consistency(old, leaves, is_old_root=True):
    if old == len(leaves):
        return [] if is_old_root else [root(leaves)]
    k = _split(len(leaves))
    if old <= k:
        return consistency(old, leaves[:k], is_old_root) + [root(leaves[k:])]
    return consistency(old - k, leaves[k:], False) + [root(leaves[:k])]
