"""Receipts, dead letters, certificates and checkpoints, from receipts.md and identity.md."""

import base64
import hashlib
import json

from . import attributes, crypto, subjects
from .crypto import Refused

# --- JSON --------------------------------------------------------------------------------------


def compact_json(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _once(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a member stands twice")
    return dict(pairs)


def strict_json(raw):
    """One JSON value, no member twice; ValueError otherwise."""
    def refuse(_):
        raise ValueError("no JSON")
    return json.loads(raw.decode(), object_pairs_hook=_once, parse_constant=refuse)


def _is_int(value, low, high):
    return type(value) is int and low <= value <= high


# --- receipts and dead letters -----------------------------------------------------------------

RECEIPT = ["task_id", "role", "worker", "attempt", "exit_code", "output_hash", "stdout_bytes",
           "stderr_bytes", "started", "finished"]


def receipt_json(receipt):
    return compact_json({name: receipt[name] for name in RECEIPT}).encode()


def read_receipt(raw):
    try:
        r = strict_json(raw)
    except ValueError:
        raise Refused("receipt") from None
    if not isinstance(r, dict) or set(r) != set(RECEIPT):
        raise Refused("receipt")
    texts = ("task_id", "role", "worker", "output_hash", "started", "finished")
    good = all(isinstance(r[name], str) for name in texts) \
        and 1 <= len(r["task_id"].encode()) <= 128 \
        and _is_int(r["attempt"], 1, 2**32 - 1) and _is_int(r["exit_code"], -2**31, 2**31 - 1) \
        and all(_is_int(r[name], 0, 2**64 - 1) for name in ("stdout_bytes", "stderr_bytes"))
    if not good:
        raise Refused("receipt")
    try:
        subjects.token("role", r["role"]), subjects.token("worker", r["worker"])
        attributes.read_attribute("cause", r["output_hash"])
        times = [attributes.time_of_text(r[name]) for name in ("started", "finished")]
    except Refused:
        raise Refused("receipt") from None
    if times[1] < times[0]:
        raise Refused("receipt")
    return r


def output_hash(stdout, stderr):
    return hashlib.sha256(hashlib.sha256(stdout).digest() + hashlib.sha256(stderr).digest())


def receipt_id(task_leaf):
    return f"{task_leaf}.receipt"


DEAD_LETTER = ["envelope_id", "subject", "stream", "seq", "attempts", "failure_reason",
               "failed_at", "worker_id", "original"]
ORIGINAL = ["id", "headers", "body_base64"]


def dead_letter_json(letter):
    ordered = {name: letter[name] for name in DEAD_LETTER}
    original = letter["original"]
    ordered["original"] = {name: original[name] for name in ORIGINAL}
    if "placement" in original:
        ordered["original"]["placement"] = {
            name: original["placement"][name] for name in ("priority", "key")
            if name in original["placement"]}
    return compact_json(ordered).encode()


def dead_letter_id(stream, stored_unix_ns, seq):
    return f"{stream[:64]}@{stored_unix_ns}:{seq}"


GIVEN_UP = ["exhausted", "hopeless", "vanished", "refused", "key-withdrawn", "expired", "cancelled"]


def _whole(value, bits):
    return type(value) is int and 0 <= value < 2**bits


ALERTS = {
    "vak.alert.dead-letter": {
        "letter": lambda value: value is None or _whole(value, 64),
        "task": lambda value: isinstance(value, str),
        "kind": lambda value: value in GIVEN_UP,
        "attempts": lambda value: _whole(value, 32),
        "queue": lambda value: isinstance(value, str),
    },
    "vak.alert.dead-letter-failed": {
        "task": lambda value: isinstance(value, str),
        "kind": lambda value: value in GIVEN_UP,
        "error_kind": lambda value: isinstance(value, str),
        "queue": lambda value: isinstance(value, str),
    },
}


def read_alert(event_type, raw):
    """An alert's members in their order."""
    if event_type not in ALERTS:
        raise Refused("alert-type")
    members = ALERTS[event_type]
    try:
        alert = strict_json(raw)
    except ValueError:
        raise Refused("alert") from None
    if not isinstance(alert, dict) or not set(alert) <= set(members):
        raise Refused("alert")
    if not all((name in alert or name == "letter") and is_good(alert.get(name))
               for name, is_good in members.items()):
        raise Refused("alert")
    return {name: alert[name] for name in members if alert.get(name) is not None}


# --- approvals ----------------------------------------------------------------------------------


def _text(value, low, high):
    return isinstance(value, str) and low <= len(value.encode()) <= high \
        and not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value)


def _members(raw, needed, optional=()):
    """The members of one JSON object, all that are needed and no other."""
    if len(raw) > 32 * 1024:
        raise Refused("approval")
    try:
        value = strict_json(raw)
    except ValueError:
        raise Refused("approval") from None
    if not isinstance(value, dict) or not set(needed) <= set(value) <= {*needed, *optional}:
        raise Refused("approval")
    return value


def _absent_or(check, value):
    return value is None or check(value)


def _canonical_time(value):
    try:
        attributes.time_of_text(value)
    except (Refused, TypeError, AttributeError):
        return False
    return True


def _leaf(value):
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def _kept(value, names):
    return {name: value[name] for name in names if value.get(name) is not None}


REQUEST = ("action", "target", "choices", "approval_choice", "question", "run", "valid_s",
           "answer_until", "supersedes")


def read_approval_request(raw):
    r = _members(raw, REQUEST[:3], REQUEST[3:])
    choices, valid = r["choices"], r.get("valid_s")
    if not (_text(r["action"], 1, 128) and _text(r["target"], 0, 1024)
            and isinstance(choices, list) and 2 <= len(choices) <= 16
            and all(_text(choice, 1, 64) for choice in choices)
            and len(set(choices)) == len(choices)
            and _absent_or(lambda text: _text(text, 1, 64), r.get("approval_choice"))
            and _absent_or(lambda text: _text(text, 1, 1024), r.get("question"))
            and _absent_or(lambda text: _text(text, 1, 128), r.get("run"))
            and (valid is None or type(valid) is int and 1 <= valid <= 604_800)
            and _absent_or(_canonical_time, r.get("answer_until"))
            and _absent_or(_leaf, r.get("supersedes"))):
        raise Refused("approval")
    written = _kept(r, REQUEST)
    for name, default in (("approval_choice", "yes"), ("valid_s", 3600)):
        if written.get(name) == default:
            del written[name]
    return written


AUTHORIZATION = ("action", "target", "approval_choice", "run")


def _authorization(value):
    if not isinstance(value, dict) or not set(AUTHORIZATION[:3]) <= set(value) <= {*AUTHORIZATION}:
        raise Refused("approval")
    if not (_text(value["action"], 1, 128) and _text(value["target"], 0, 1024)
            and _text(value["approval_choice"], 1, 64)
            and _absent_or(lambda text: _text(text, 1, 128), value.get("run"))):
        raise Refused("approval")
    return _kept(value, AUTHORIZATION)


VERDICT = ("request_id", "choice", "note", "authorization", "valid_until")


def read_approval_verdict(raw):
    v = _members(raw, VERDICT[:2], VERDICT[2:])
    note = v.get("note")
    bound = v.get("authorization") is not None
    if not (_text(v["request_id"], 1, 128) and _text(v["choice"], 1, 64)
            and (note is None or isinstance(note, str) and 1 <= len(note.encode()) <= 4096)
            and bound == (v.get("valid_until") is not None)
            and _absent_or(_canonical_time, v.get("valid_until"))):
        raise Refused("approval")
    written = _kept(v, VERDICT)
    if bound:
        written["authorization"] = _authorization(v["authorization"])
    return written


END = ("approval", "request_id", "verdict", "authorization", "choice", "by")
END_NEEDS = {"consumed": {"approval", "request_id", "verdict", "authorization", "choice"},
             "withdrawn": {"approval"}, "superseded": {"approval", "by"}}


def read_approval_end(kind, raw):
    written = _kept(_members(raw, END[:1], END[1:]), END)
    needs = END_NEEDS[kind]
    if not (needs <= set(written) <= needs | {"request_id"} and _leaf(written["approval"])
            and _absent_or(lambda text: _text(text, 1, 128), written.get("request_id"))
            and _absent_or(_leaf, written.get("verdict"))
            and _absent_or(lambda text: _text(text, 1, 64), written.get("choice"))
            and _absent_or(lambda text: _text(text, 1, 128), written.get("by"))):
        raise Refused("approval")
    if "authorization" in written:
        written["authorization"] = _authorization(written["authorization"])
    return written


def approval_ids(request_leaf, verdict_leaf):
    return {"verdict": f"{request_leaf}.verdict", "withdrawal": f"{request_leaf}.withdrawn",
            "notice": f"{verdict_leaf}.notice"}


# --- certificates: NATS user JWTs of version 2 --------------------------------------------------


def _sha512_256(data):
    """SHA-512/256 (FIPS 180-4), which not every hashlib has."""
    mask = 2**64 - 1

    def root(number, degree):
        """The first 64 bits of the fraction of a root of a prime."""
        scaled, low, high = number << 64 * degree, 0, number << 64
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**degree <= scaled else (low, middle - 1)
        return low & mask

    primes = [n for n in range(2, 410) if all(n % d for d in range(2, n))]
    constants = [root(prime, 3) for prime in primes[:80]]

    def turn(value, by):
        return (value >> by | value << (64 - by)) & mask

    def sha512(state, text):
        text += b"\x80" + bytes((111 - len(text)) % 128) + (8 * len(text)).to_bytes(16, "big")
        for start in range(0, len(text), 128):
            w = [int.from_bytes(text[at:at + 8], "big") for at in range(start, start + 128, 8)]
            for at in range(16, 80):
                x, y = w[at - 15], w[at - 2]
                w.append((w[at - 16] + (turn(x, 1) ^ turn(x, 8) ^ x >> 7) + w[at - 7]
                          + (turn(y, 19) ^ turn(y, 61) ^ y >> 6)) & mask)
            a, b, c, d, e, f, g, h = state
            for word, constant in zip(w, constants):
                one = h + (turn(e, 14) ^ turn(e, 18) ^ turn(e, 41)) + (e & f ^ ~e & mask & g) \
                    + constant + word
                two = (turn(a, 28) ^ turn(a, 34) ^ turn(a, 39)) + (a & b ^ a & c ^ b & c)
                a, b, c, d, e, f, g, h = (one + two) & mask, a, b, c, (d + one) & mask, e, f, g
            state = [(x + y) & mask for x, y in zip(state, (a, b, c, d, e, f, g, h))]
        return state

    first = [root(prime, 2) ^ 0xA5A5A5A5A5A5A5A5 for prime in primes[:8]]
    state = sha512(sha512(first, b"SHA-512/256"), data)
    return b"".join(word.to_bytes(8, "big") for word in state)[:32]


def _go_json(value):
    """JSON as Go writes it: what matters to HTML is escaped."""
    text = compact_json(value)
    for c in "<>&\u2028\u2029":
        text = text.replace(c, f"\\u{ord(c):04x}")
    return text.encode()


def _base64url(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


JWT_HEADER = b'{"typ":"JWT","alg":"ed25519-nkey"}'


def permissions(rules):
    publish = {"allow": rules["allow", "publish"], "deny": rules["deny", "publish"]}
    subscribe = {"allow": rules["allow", "subscribe"], "deny": list(rules["deny", "subscribe"])}
    for direction in (publish, subscribe):
        if not direction["allow"]:
            direction["deny"] = [">"]
    subscribe["deny"] += [f"{f}.>" for f in subscribe["allow"] if f.endswith(".*")]
    kept = [{name: filters for name, filters in direction.items() if filters}
            for direction in (publish, subscribe)]
    return {"pub": kept[0], "sub": kept[1]}


def certificate(account_seed, agent_public, workspace, agent, roles, session, queue, issued_unix_s,
                valid_s):
    """The token that an account signs for an agent's public key."""
    policies = [subjects.policy(role, workspace, agent, session, queue) for role in roles]
    account = crypto.public_text("account", crypto.public_key(account_seed))
    head = {} if valid_s is None else {"exp": issued_unix_s + valid_s}
    rest = {"iat": issued_unix_s, "iss": account, "name": agent,
            "sub": crypto.public_text("user", agent_public)}
    own_id = base64.b32encode(_sha512_256(_go_json({**head, **rest}))).decode().rstrip("=")
    tags = [f"workspace:{workspace}"] + [f"role:{role}" for role in roles] \
        + [f"{kind}:{name}" for kind, name in (("session", session), ("queue", queue)) if name]
    body = {**permissions(subjects.union(policies)), "subs": -1, "data": -1, "payload": -1,
            "tags": tags, "type": "user", "version": 2}
    claims = {**head, "jti": own_id, **rest, "nats": body}
    signed = f"{_base64url(JWT_HEADER)}.{_base64url(_go_json(claims))}"
    return f"{signed}.{_base64url(crypto.sign(account_seed, signed.encode()))}"


def read_certificate(token):
    """What a certificate says, once its form and its issuer's signature hold."""
    refused = Refused("certificate")
    parts = [attributes.base64url_of(part) for part in token.split(".")]
    if len(token.encode()) > 65_536 or len(parts) != 3 or None in parts or len(parts[2]) != 64:
        raise refused
    try:
        header, claims = strict_json(parts[0]), strict_json(parts[1])
        nats, tags = claims["nats"], claims["nats"].get("tags", [])
        issuer = crypto.public_of_text(claims["iss"])
        subject = crypto.public_of_text(claims["sub"])
        good = header["typ"].lower() == "jwt" and header["alg"] == "ed25519-nkey" \
            and nats["type"] == "user" and nats["version"] == 2 and "type" not in claims \
            and (issuer[0], subject[0]) == ("account", "user") \
            and nats.get("issuer_account", claims["iss"]) in ("", claims["iss"]) \
            and nats.get("bearer_token", False) is False \
            and all(_is_int(claims.get(name, 0), -2**63, 2**63 - 1) for name in ("iat", "exp", "nbf"))
        good = good and crypto.is_signed(issuer[1], token.rpartition(".")[0].encode(), parts[2])
        said = {"workspace": [], "role": [], "session": [], "queue": []}
        for tag in tags:
            kind, _, name = tag.partition(":")
            said[kind].append(name)
        roles = said["role"]
        good = good and len(said["workspace"]) == 1 and len(said["session"]) <= 1 \
            and len(said["queue"]) <= 1 and set(roles) <= set(subjects.ROLES)
        if not good:
            raise refused
        session, queue = (subjects.token(kind, said[kind][0]) if said[kind] else None
                          for kind in ("session", "queue"))
        workspace = subjects.token("workspace", said["workspace"][0])
        agent = subjects.token("agent", claims.get("name", ""))
    except (ValueError, KeyError, TypeError, AttributeError, Refused):
        raise refused from None
    expires = claims.get("exp", 0)
    policies = [subjects.policy(role, workspace, agent, session, queue) for role in roles]
    return {"workspace": workspace, "agent": agent, "roles": roles, "session": session,
            "queue": queue, "nkey": claims["sub"],
            "key": subject[1], "issuer": claims["iss"], "issued": claims.get("iat", 0),
            "begins": max(claims.get("iat", 0), claims.get("nbf", 0)), "expires": expires or None,
            "rules": subjects.union(policies)}


# --- revocations --------------------------------------------------------------------------------

REVOCATION_TAG = "vak-bus/revocation/v1"


def revocation(account_seed, agent_public, workspace, agent, at):
    """The line with which an account takes a key back."""
    said = f"{REVOCATION_TAG} {workspace} {agent} {crypto.public_text('user', agent_public)} {at}"
    return f"{said} {_base64url(crypto.sign(account_seed, said.encode()))}"


def read_revocation(line, account):
    """What a line says, once its form and the account's signature hold."""
    said, _, signed = line.rpartition(" ")
    parts, signature = said.split(" "), attributes.base64url_of(signed)
    try:
        if len(line.encode()) > 512 or len(parts) != 5 or parts[0] != REVOCATION_TAG \
                or signature is None or len(signature) != 64 \
                or crypto.public_of_text(parts[3])[0] != "user":
            raise Refused("revocation")
        workspace = subjects.token("workspace", parts[1])
        agent = subjects.token("agent", parts[2])
        attributes.time_of_text(parts[4])
    except Refused:
        raise Refused("revocation") from None
    if not crypto.is_signed(crypto.public_of_text(account)[1], said.encode(), signature):
        raise Refused("signature")
    return {"workspace": workspace, "agent": agent, "nkey": parts[3], "at": parts[4]}


# --- tickets ------------------------------------------------------------------------------------

TICKET_TAG, TICKET_PREFIX = "vak-bus/ticket/v1", "vakt1."


def _packed_text(text):
    return len(text.encode()).to_bytes(2, "little") + text.encode()


def ticket(account_seed, id_, end_unix_s, workspace, agent, session, queue, roles):
    """The text that lets its bearer in once."""
    said = id_ + end_unix_s.to_bytes(8, "little", signed=True)
    said += b"".join(map(_packed_text, (workspace, agent, session or "", queue or "")))
    said += bytes([len(roles)]) + b"".join(map(_packed_text, roles))
    signature = crypto.sign(account_seed, _packed_text(TICKET_TAG) + said)
    return f"{TICKET_PREFIX}{_base64url(said)}.{_base64url(signature)}"


def read_ticket(text, account):
    """What a ticket says, once its form and the account's signature hold."""
    refused = Refused("ticket")
    parts = [attributes.base64url_of(part) for part in text[len(TICKET_PREFIX):].split(".")]
    if len(text.encode()) > 1024 or not text.startswith(TICKET_PREFIX) or len(parts) != 2 \
            or None in parts or len(parts[1]) != 64:
        raise refused
    rest = said = parts[0]

    def take(count):
        nonlocal rest
        head, rest = rest[:count], rest[count:]
        if len(head) != count:
            raise refused
        return head

    def packed_text():
        return take(int.from_bytes(take(2), "little")).decode()

    try:
        id_, end = take(16), int.from_bytes(take(8), "little", signed=True)
        workspace = subjects.token("workspace", packed_text())
        agent = subjects.token("agent", packed_text())
        session, queue = packed_text(), packed_text()
        for name, value in (("session", session), ("role_name", queue)):
            if value:
                subjects.token(name, value)
        roles = [packed_text() for _ in range(take(1)[0])]
        ranks = [subjects.ROLES.index(role) for role in roles]
    except (ValueError, Refused):
        raise refused from None
    if rest or not roles or ranks != sorted(set(ranks)) or not 0 <= end <= (2**63 - 1) // 10**9:
        raise refused
    signed = _packed_text(TICKET_TAG) + said
    if not crypto.is_signed(crypto.public_of_text(account)[1], signed, parts[1]):
        raise Refused("signature")
    return {"id": id_.hex(), "end_unix_s": end, "workspace": workspace, "agent": agent,
            "session": session or None, "queue": queue or None, "roles": roles}


# --- checkpoints: C2SP signed notes -------------------------------------------------------------

DASH = "\u2014 "


def note_key_id(name, public):
    return hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4]


def checkpoint(origin, size, root, name, seed):
    body = f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"
    blob = note_key_id(name, crypto.public_key(seed)) + crypto.sign(seed, body.encode())
    return f"{body}\n{DASH}{name} {base64.b64encode(blob).decode()}\n"


def read_checkpoint(text):
    """Origin, size, root, the signed bytes, and (name, key id, signature) of each line."""
    refused = Refused("checkpoint-form")
    lines = text.split("\n")
    if len(text.encode()) > 256 * 1024 or len(lines) < 6 or lines[3] or lines[-1]:
        raise refused
    origin, size, root = lines[0], lines[1], attributes.base64_of(lines[2])
    good = origin and not any(map(subjects.is_control, origin)) \
        and size.isascii() and size.isdigit() and str(int(size)) == size and int(size) < 2**64 \
        and root is not None and len(root) == 32 and 1 <= len(lines) - 5 <= 16
    if not good:
        raise refused
    signatures = []
    for line in lines[4:-1]:
        name, blank, blob = line[len(DASH):].partition(" ")
        blob = attributes.base64_of(blob) if blank and line.startswith(DASH) else None
        bad_name = not name or any(
            c in subjects.WHITE_SPACE or subjects.is_control(c) or c == "+" for c in name)
        if blob is None or len(blob) < 5 or bad_name:
            raise refused
        signatures.append((name, blob[:4], blob[4:]))
    return origin, int(size), root, "\n".join(lines[:3]).encode() + b"\n", signatures
