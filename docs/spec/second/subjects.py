"""Tokens, subjects, filters, addresses, names and the rights of the roles, from subjects.md."""

from .crypto import TOKEN_CHARACTERS, Refused

PLAIN = TOKEN_CHARACTERS - {"~"}
WHITE_SPACE = frozenset(
    "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    + "".join(map(chr, range(0x2000, 0x200B))))


def is_control(c):
    return ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F


def token(field, text):
    if not text:
        raise Refused(f"empty {field}")
    if len(text.encode()) > 64:
        raise Refused(f"too-long {field}")
    if not set(text) <= TOKEN_CHARACTERS:
        raise Refused(f"character {field}")
    return text


def escape(field, name):
    text = "".join(chr(b) if chr(b) in PLAIN else f"~{b:02x}" for b in name.encode()) or "~"
    if len(text) > 64:
        raise Refused(f"too-long {field}")
    return text


def unescape(field, text):
    if text == "~":
        return ""
    out, rest = bytearray(), list(text)
    while rest:
        c = rest.pop(0)
        if c == "~":
            digits = "".join(rest[:2])
            del rest[:2]
            if len(digits) != 2 or not set(digits) <= set("0123456789abcdef"):
                raise Refused(f"escape {field}")
            byte = int(digits, 16)
            if chr(byte) in PLAIN:
                raise Refused(f"escape {field}")
            out.append(byte)
        else:
            out += c.encode()
    try:
        return out.decode()
    except UnicodeDecodeError:
        raise Refused(f"escape {field}") from None


def _check(field, text):
    if not text:
        raise Refused(f"empty {field}")
    if len(text.encode()) > 1024:
        raise Refused(f"too-long {field}")
    if any(c in WHITE_SPACE or is_control(c) for c in text):
        raise Refused(f"character {field}")
    if "" in text.split("."):
        raise Refused(f"empty-level {field}")


def subject(text):
    _check("subject", text)
    if {"*", ">"} & set(text.split(".")):
        raise Refused("wildcard subject")
    return text


def subject_filter(text):
    _check("filter", text)
    if ">" in text.split(".")[:-1]:
        raise Refused("tail-not-last filter")
    return text


def covers(outer, inner):
    """Whether every subject of `inner`, a filter or a subject, is one of `outer`."""
    outer, inner = outer.split("."), inner.split(".")
    if outer[-1] == ">":
        head = len(outer) - 1
        if len(inner) <= head:
            return False
        outer, inner = outer[:-1], inner[:head]
    return len(outer) == len(inner) and all(
        b != ">" if a == "*" else a == b for a, b in zip(outer, inner))


def overlaps(one, other):
    one, other = one.split("."), other.split(".")
    for a, b in zip(one, other):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return len(one) == len(other)


# --- addresses: kind, word, names of the ids, last level, plane, chain --------------------------

ADDRESSES = [
    ("tokens", "events", ["session"], "tokens", "live", "sender"),
    ("terminal", "events", ["session"], "terminal", "live", "sender"),
    ("telemetry", "events", ["session"], "telemetry", "live", "sender"),
    ("alert", "events", ["session"], "alert", "live", "sender"),
    ("task", "work", ["role"], "task", "durable", "sender"),
    ("inbox", "agent", ["agent"], "inbox", "durable", "sender"),
    ("receipt", "receipts", ["session"], "completed", "durable", "subject"),
    ("approval", "approvals", ["session"], "request", "durable", "subject"),
    ("dead-letter", "dlq", ["agent"], "failed", "durable", "sender"),
    ("room-message", "room", ["room"], "message", "durable", "sender"),
    ("room-control", "room", ["room"], "control", "durable", "subject"),
    ("key-grant", "keys", ["agent"], "grant", "durable", "sender"),
    ("state-changed", "state", ["kind"], "changed", "live", "sender"),
    ("outbox", "outbox", ["agent"], "record", "durable", "sender"),
    ("history", "history", ["kind", "key"], None, "durable", "sender"),
    ("call", "call", ["module", "verb"], None, "call", "sender"),
    ("condition", "conditions", ["kind", "key"], None, "durable", "sender"),
]


def render(kind, workspace, ids):
    word, fields, last = next(row[1:4] for row in ADDRESSES if row[0] == kind)
    levels = ["vak", word, token("workspace", workspace)]
    levels += [token(field, text) for field, text in zip(fields, ids, strict=True)]
    return ".".join(levels if last is None else levels + [last])


def read_address(text):
    """Kind, workspace and ids of a registered subject."""
    levels = subject(text).split(".")
    if len(levels) != 5 or levels[0] != "vak":
        raise Refused("not-registered")
    for kind, word, fields, last, _, _ in ADDRESSES:
        if levels[1] == word and last in (None, levels[4]):
            token("workspace", levels[2])
            ids = levels[3:3 + len(fields)]
            return kind, levels[2], [token(f, text) for f, text in zip(fields, ids)]
    raise Refused("not-registered")


def plane_and_chain(kind):
    return next(row[4:6] for row in ADDRESSES if row[0] == kind)


def pattern(kind, workspace, middle="*"):
    _, word, fields, last, _, _ = next(row for row in ADDRESSES if row[0] == kind)
    return f"vak.{word}.{workspace}.{middle}.{'*' if last is None else last}"


# --- names -------------------------------------------------------------------------------------


def bucket_of_workspace(purpose, workspace):
    if "~" not in workspace:
        return f"{purpose}_{workspace}"
    return purpose + "-" + workspace.replace("-", "--").replace("~", "-t")


def bucket_key_of_token(text):
    return text.replace("~", "=")


NAMES = {
    "stream": (255, TOKEN_CHARACTERS),
    "consumer": (255, TOKEN_CHARACTERS),
    "bucket": (251, PLAIN),
    "bucket key": (768, PLAIN | set("/=.")),
}


def name(field, text):
    longest, characters = NAMES[field]
    if not text:
        raise Refused(f"empty {field}")
    if len(text.encode()) > longest:
        raise Refused(f"too-long {field}")
    if not set(text) <= characters:
        raise Refused(f"character {field}")
    if field == "bucket key" and "" in text.split("."):
        raise Refused(f"empty-level {field}")
    return text


# --- rights ------------------------------------------------------------------------------------

ROLES = ["worker", "orchestrator", "observer", "operator", "auditor", "keeper", "view"]

DISCARD_DEAD_LETTERS = "$JS.API.STREAM.MSG.DELETE.VAK_DLQ"


def policy(role, workspace, agent, session, queue):
    """The rules of a role: lists of filters by (effect, action)."""
    session, queue, ws = session or "*", queue or "*", workspace
    events = f"vak.events.{ws}.>"
    claims = f"$KV.{bucket_of_workspace('VAK_CLAIMS', ws)}.*"
    cancels = f"$KV.{bucket_of_workspace('VAK_CANCELS', ws)}.*"
    results = f"$KV.{bucket_of_workspace('VAK_RESULTS', ws)}.*"
    result_blobs = f"$O.{bucket_of_workspace('VAK_RESULTS', ws)}.M.*"
    inbox = pattern("inbox", ws, agent)
    outbox = pattern("outbox", ws, agent)
    outbox_states = f"$KV.{bucket_of_workspace('VAK_OUTBOX', ws)}.*"
    recordings = [f"vak.history.{ws}.tokens.*", f"vak.history.{ws}.terminal.*"]
    rules = {("deny", "publish"): [], ("allow", "publish"): [],
             ("deny", "subscribe"): [], ("allow", "subscribe"): []}
    publish, subscribe = rules["allow", "publish"], rules["allow", "subscribe"]
    if role == "worker":
        publish += [f"vak.events.{ws}.{session}.>", pattern("receipt", ws, session),
                    pattern("approval", ws, session), pattern("dead-letter", ws, agent), claims,
                    results, result_blobs]
        rules["deny", "publish"] += [f"vak.work.{ws}.>"]
        subscribe += [inbox, pattern("task", ws, queue), pattern("receipt", ws, session), claims,
                      results, cancels, pattern("call", ws, queue)]
        rules["deny", "subscribe"] += [f"vak.approvals.{ws}.>"]
    if role in ("orchestrator", "operator"):
        publish += [pattern("task", ws), pattern("inbox", ws), pattern("call", ws), outbox]
        subscribe += [inbox, events, pattern("receipt", ws), pattern("dead-letter", ws), results,
                      result_blobs, outbox, outbox_states, *recordings]
    if role == "operator":
        publish += [pattern("dead-letter", ws), pattern("condition", ws),
                    pattern("approval", ws), DISCARD_DEAD_LETTERS, cancels,
                    f"$JS.API.STREAM.MSG.DELETE.VAK_WORK_{ws}",
                    f"$JS.API.STREAM.INFO.VAK_WORK_{ws}",
                    f"$JS.API.CONSUMER.LIST.VAK_WORK_{ws}",
                    f"$JS.API.CONSUMER.PAUSE.VAK_WORK_{ws}.*",
                    f"$JS.API.STREAM.SNAPSHOT.VAK_WORK_{ws}", pattern("outbox", ws),
                    f"$JS.API.STREAM.INFO.VAK_OUTBOX_{ws}"]
        subscribe += [pattern("approval", ws), pattern("condition", ws), pattern("task", ws),
                      claims, cancels, pattern("outbox", ws)]
    if role == "observer":
        subscribe += [events, *recordings]
    if role == "auditor":
        subscribe += [pattern("receipt", ws), pattern("approval", ws), pattern("dead-letter", ws),
                      events, *recordings]
    if role == "keeper":
        publish += [pattern("dead-letter", ws), pattern("condition", ws), claims,
                    DISCARD_DEAD_LETTERS, outbox_states,
                    f"$JS.API.CONSUMER.DELETE.VAK_OUTBOX_{ws}.*",
                    f"$JS.API.STREAM.MSG.DELETE.VAK_REC_{ws}", *recordings]
        subscribe += [pattern("task", ws), pattern("condition", ws), claims,
                      pattern("outbox", ws), outbox_states, *recordings]
    subscribe += [f"_INBOX.{agent}.>", f"$KV.{bucket_of_workspace('VAK_AGENTS', ws)}.>"]
    return rules


def union(policies):
    """All allow rules and all deny rules, each once."""
    rules = {}
    for one in policies:
        for place, filters in one.items():
            known = rules.setdefault(place, [])
            known += [f for f in filters if f not in known]
    return rules


def listed(rules):
    return [f"{effect} {action} {f}" for action in ("publish", "subscribe")
            for effect in ("deny", "allow") for f in rules[effect, action]]


def may(rules, action, asked):
    """Whether the filter may be published to or subscribed."""
    if action == "publish" and {"*", ">"} & set(asked.split(".")):
        return False
    return any(covers(f, asked) for f in rules["allow", action]) and \
        not any(overlaps(f, asked) for f in rules["deny", action])
