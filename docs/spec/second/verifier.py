"""The offline verification of a bundle, from receipts.md."""

import base64

from . import attributes, crypto, envelope, records, subjects
from .crypto import Refused

NAMES = ["certificates", "tasks", "receipts", "dead-letters"]
RECORDERS = {"orchestrator", "operator", "auditor", "keeper"}
LINE_BYTES_MAX = 16 * 1024 * 1024


class Finding(Exception):
    """The first thing that is wrong: its code, the file and the line."""

    def __init__(self, code, file, line=None):
        super().__init__(code)
        self.code, self.file, self.line = code, file, line

    def value(self):
        return {"finding": self.code, "file": self.file, "line": self.line}


def verify(files, trust, kept):
    """The report of a bundle given as a dict of contents by file name."""
    return _Run(files, trust).verify(kept)


class _Run:
    def __init__(self, files, trust):
        self.files, self.account = files, trust
        self.is_given = trust is not None
        self.by_key, self.place, self.heads = {}, None, {}

    def verify(self, kept):
        self.names = self.check_names()
        for name in self.names:
            self.read_head(name)
        logs = {"certificates": self.read_certificates()}
        self.compare("certificates", logs["certificates"])
        contents, chains = {}, 0
        for name in self.names[1:]:
            contents[name] = self.read_log(name)
            chains += walk(f"{name}.jsonl", contents[name])
            logs[name] = [entry["line"] for entry in contents[name]]
            self.compare(name, logs[name])
        self.judge_recorder([entry for name in self.names[1:] for entry in contents[name]])
        still_open, twice = answers(contents)
        covered = {}
        for number, text in enumerate(kept, 1):
            name, size = self.compare_kept(text, f"kept checkpoint {number}", logs, contents)
            covered[name] = max(size, covered.get(name, 0))
        return {
            "verdict": ("verified" if self.is_given else "consistent, signer unknown")
            + ("" if "tasks" in self.names else ", tasks not shown"),
            "kept": len(kept), "workspace": self.place[0], "session": self.place[1],
            "recorder": self.recorder(), "open": still_open, "twice": twice, "chains": chains,
            "completeness": {name: shown(covered.get(name), len(logs[name]))
                             for name in self.names},
            "entries": {name: len(logs.get(name, [])) for name in NAMES}}

    def check_names(self):
        has_tasks = not self.files.keys().isdisjoint(("tasks.jsonl", "tasks.checkpoint"))
        names = [name for name in NAMES if has_tasks or name != "tasks"]
        for name in names:
            if f"{name}.jsonl" not in self.files:
                raise Finding("missing-file", f"{name}.jsonl")
        for name in names:
            if f"{name}.checkpoint" not in self.files:
                raise Finding("incomplete", f"{name}.checkpoint")
        known = {f"{name}.{end}" for name in NAMES for end in ("jsonl", "checkpoint")}
        for file in sorted(self.files):
            if file not in known:
                raise Finding("unexpected-file", file)
        return names

    def read_head(self, name):
        file = f"{name}.checkpoint"
        try:
            head = records.read_checkpoint(self.files[file].decode())
        except (Refused, UnicodeDecodeError):
            raise Finding("checkpoint-form", file) from None
        if len(head[4]) != 1:
            raise Finding("checkpoint-form", file)
        parts = head[0].split("/")
        try:
            good = len(parts) == 4 and (parts[0], parts[3]) == ("vakbus", name)
            place = (subjects.token("workspace", parts[1]), subjects.token("session", parts[2])) \
                if good else None
        except Refused:
            place = None
        if place is None or (self.place or place) != place:
            raise Finding("checkpoint-origin", file)
        self.place, self.heads[name] = place, head

    def recorder(self):
        return self.heads["certificates"][4][0][0]

    def lines(self, file):
        rest, number = self.files[file], 0
        while rest:
            number += 1
            line, feed, rest = rest.partition(b"\n")
            if len(line) > LINE_BYTES_MAX:
                raise Finding("unreadable-line", file, number)
            if not feed:
                raise Finding("unterminated", file, number)
            yield number, line

    def read_certificates(self):
        file, lines = "certificates.jsonl", []
        for number, line in self.lines(file):
            try:
                said = records.strict_json(line)
                good = isinstance(said, dict) and set(said) == {"token"} \
                    and isinstance(said["token"], str)
            except ValueError:
                good = False
            if not good:
                raise Finding("unreadable-line", file, number)
            if records.compact_json(said).encode() != line:
                raise Finding("not-canonical", file, number)
            try:
                own = records.read_certificate(said["token"])
            except Refused:
                raise Finding("certificate-invalid", file, number) from None
            if own["workspace"] != self.place[0]:
                raise Finding("certificate-invalid", file, number)
            self.account = self.account or own["issuer"]
            if own["issuer"] != self.account:
                raise Finding("certificate-untrusted", file, number)
            if own["nkey"] in self.by_key:
                raise Finding("certificate-invalid", file, number)
            self.by_key[own["nkey"]] = own
            lines.append(line)
        return lines

    def vouches(self, file, head):
        for name, key_id, signature in head[4]:
            for own in self.by_key.values():
                if own["agent"] != name or records.note_key_id(name, own["key"]) != key_id \
                        or len(signature) != 64:
                    continue
                if not crypto.is_signed(own["key"], head[3], signature):
                    raise Finding("checkpoint-signature", file)
                if not RECORDERS & set(own["roles"]):
                    raise Finding("checkpoint-role", file)
                return own
        raise Finding("checkpoint-signer", file)

    def vouches_at(self, file, head, entries):
        own = self.vouches(file, head)
        times = [attributes.time_of_text(entry["e"]["time"]) for entry in entries]
        if times and has_ended_at(own, max(times)):
            raise Finding("checkpoint-expired", file)

    def judge_recorder(self, entries):
        for name in self.names:
            self.vouches_at(f"{name}.checkpoint", self.heads[name], entries)

    def compare(self, name, lines):
        file, head = f"{name}.checkpoint", self.heads[name]
        self.vouches(file, head)
        if head[4][0][0] != self.recorder():
            raise Finding("checkpoint-signer", file)
        if len(lines) < head[1]:
            raise Finding("truncated", f"{name}.jsonl")
        if len(lines) > head[1]:
            raise Finding("extra-entries", f"{name}.jsonl", head[1] + 1)
        if envelope.root([envelope.leaf_of(line) for line in lines]) != head[2]:
            raise Finding("altered", f"{name}.jsonl")

    def compare_kept(self, text, given, logs, contents):
        try:
            head = records.read_checkpoint(text)
        except Refused:
            raise Finding("checkpoint-form", given) from None
        origins = {"/".join(("vakbus", *self.place, name)): name for name in self.names}
        if head[0] not in origins:
            raise Finding("kept-foreign", given)
        name = origins[head[0]]
        self.vouches_at(given, head, contents.get(name, [])[:head[1]])
        lines = logs[name]
        if len(lines) < head[1]:
            raise Finding("cut-tail", f"{name}.jsonl")
        if envelope.root([envelope.leaf_of(line) for line in lines[:head[1]]]) != head[2]:
            raise Finding("rewritten", f"{name}.jsonl")
        return name, head[1]

    def read_log(self, name):
        file, entries = f"{name}.jsonl", []
        for number, line in self.lines(file):
            try:
                e = read_line(line)
            except Refused as error:
                code = "not-canonical" if str(error) == "not-canonical" else "unreadable-line"
                raise Finding(code, file, number) from None
            if not self.belongs(name, e):
                raise Finding("wrong-place", file, number)
            fault = self.signer_fault(e)
            if fault:
                raise Finding(fault, file, number)
            said = read_said(name, e, file, number)
            entries.append({"line": line, "e": e, "leaf": envelope.leaf(e).hex(), "said": said})
        return entries

    def belongs(self, name, e):
        workspace, session = self.place
        if e["workspace"] != workspace or e.get("session", session) != session:
            return False
        try:
            kind, of_workspace, ids = subjects.read_address(e["subject"])
        except Refused:
            return False
        wanted = {"tasks": "task", "receipts": "receipt", "dead-letters": "dead-letter"}[name]
        return (kind, of_workspace) == (wanted, workspace) and \
            (kind != "receipt" or ids == [session])

    def signer_fault(self, e):
        if "signature" not in e:
            return "unsigned"
        own = self.by_key.get(e["signature"]["signer"])
        if own is None:
            return "unknown-signer"
        if own["workspace"] != e["workspace"]:
            return "wrong-workspace"
        if own["agent"] != e["agent"]:
            return "wrong-agent"
        if e["source"] != f"vak://{own['workspace']}/{own['agent']}":
            return "wrong-source"
        signature = bytes.fromhex(e["signature"]["bytes"])
        if not crypto.is_signed(own["key"], envelope.signature_input(e), signature):
            return "bad-signature"
        if not is_valid_at(own, attributes.time_of_text(e["time"])):
            return "expired"
        return None if subjects.may(own["rules"], "publish", e["subject"]) else "not-permitted"


def read_line(line):
    """The envelope of a line: its json form, or that in base64 where it has line breaks."""
    try:
        said = records.strict_json(line)
        wrapped = said["json_base64"] if isinstance(said, dict) and set(said) == {"json_base64"} \
            else None
    except (ValueError, UnicodeDecodeError):
        wrapped = None
    if not isinstance(wrapped, str):
        return envelope.decode_json(line)
    try:
        inner = base64.b64decode(wrapped, validate=True)
    except ValueError:
        raise Refused("json") from None
    if base64.b64encode(inner).decode() != wrapped:
        raise Refused("json")
    e = envelope.decode_json(inner)
    if b"\n" not in inner or wrap(inner) != line:
        raise Refused("not-canonical")
    return e


def wrap(line):
    """The line of an envelope whose json form is no line."""
    said = {"json_base64": base64.b64encode(line).decode()}
    return records.compact_json(said).encode()


def is_valid_at(own, time):
    """Whether a certificate is valid at a time in nanoseconds."""
    return own["begins"] * 10**9 <= time and not has_ended_at(own, time)


def has_ended_at(own, time):
    """Whether the validity of a certificate is over at a time in nanoseconds."""
    return own["expires"] is not None and own["expires"] * 10**9 <= time


def shown(covered, entries):
    """How much of a log is there, in words, when kept checkpoints cover so many entries."""
    if covered is None:
        return "unknown"
    if covered < entries:
        return f"complete up to entry {covered} of {entries}, unknown after"
    return "complete"


def read_said(name, e, file, number):
    """What an entry says about a task: None, "" when it is sealed, or the task's id."""
    if name != "receipts" or e["type"] != "vak.receipt.completed":
        return None
    if "seal" in e:
        return ""
    try:
        receipt = records.read_receipt(bytes.fromhex(e["payload"]))
    except Refused:
        raise Finding("receipt-form", file, number) from None
    if receipt["worker"] != e["agent"]:
        raise Finding("receipt-mismatch", file, number)
    return receipt["task_id"]


def scope_of(e):
    """Whose chain an envelope is part of, and the chain's genesis."""
    if subjects.plane_and_chain(subjects.read_address(e["subject"])[0])[1] == "subject":
        return (e["subject"],), envelope.genesis_of_subject(e["workspace"], e["subject"])
    genesis = envelope.genesis_of_incarnation(
        e["workspace"], e["agent"], e["incarnation"], e["subject"])
    return (e["subject"], e["agent"], e["incarnation"]), genesis


def earlier_life(e, scope):
    """The chain that the first event of a process life goes on from, by its own word."""
    life = envelope.continued_life(e)
    return (*scope[:2], life) if life and len(scope) == 3 and e["seq"] > 1 else None


def unborne(e, former, number, chains, placed, seen):
    """What is wrong with the word of an event that it goes on from the life `former`."""
    named, before = seen.get(e["prevhash"]), (former, e["seq"] - 1)
    if named == before or (named is None and former not in chains):
        return None
    if former in chains and before not in placed:
        return "chain-gap"
    return "chain-reordered" if placed.get(before, 0) > number else "chain-broken"


def walk(file, entries):
    """Walks the chains of a log; returns how many there are."""
    chains, placed, seen, followed = {}, {}, {}, set()
    for number, entry in enumerate(entries, 1):
        scope, genesis = scope_of(entry["e"])
        chains.setdefault(scope, {"seq": 0, "head": genesis.hex()})
        placed[scope, entry["e"]["seq"]] = number
    for number, entry in enumerate(entries, 1):
        e, scope = entry["e"], scope_of(entry["e"])[0]
        chain, prev = chains[scope], e["prevhash"]
        if entry["leaf"] in seen:
            raise Finding("chain-duplicate", file, number)
        if (scope, prev) in followed:
            raise Finding("chain-fork", file, number)
        former = earlier_life(e, scope)
        if former and chain["seq"] == 0 and prev != chain["head"]:
            fault = unborne(e, former, number, chains, placed, seen)
            if fault:
                raise Finding(fault, file, number)
        else:
            wanted = chain["seq"] + 1
            if e["seq"] > wanted:
                late = (scope, wanted) in placed
                raise Finding("chain-reordered" if late else "chain-gap", file, number)
            if e["seq"] < wanted:
                raise Finding("chain-reordered", file, number)
            if prev != chain["head"]:
                raise Finding("chain-broken", file, number)
        chain.update(seq=e["seq"], head=entry["leaf"])
        seen[entry["leaf"]] = (scope, e["seq"])
        followed.add((scope, prev))
    return len(chains)


def answers(contents):
    """Holds receipts against tasks; returns how many tasks are open, and how many ended twice."""
    tasks = None
    if "tasks" in contents:
        tasks = {entry["leaf"]: entry["e"]["id"] for entry in contents["tasks"]}
    answered = set()
    for number, entry in enumerate(contents["receipts"], 1):
        if entry["said"] is None:
            continue
        cause = entry["e"].get("cause")
        if cause is None or tasks is not None and cause not in tasks:
            raise Finding("receipt-without-task", "receipts.jsonl", number)
        if tasks is not None and entry["said"] not in ("", tasks[cause]):
            raise Finding("receipt-mismatch", "receipts.jsonl", number)
        if cause in answered:
            raise Finding("receipt-twice", "receipts.jsonl", number)
        answered.add(cause)
    given_up = {entry["e"].get("cause") for entry in contents["dead-letters"]}
    still_open = sum(leaf not in answered and leaf not in given_up for leaf in tasks or ())
    return still_open, sum(leaf in answered and leaf in given_up for leaf in tasks or ())


def bundle_of(folder):
    """The files of a directory."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def edited(files, edits):
    """The files after changes: each is a list of an operation and what it works on."""
    files = dict(files)
    for operation, file, *rest in edits:
        lines = files.get(file, b"").split(b"\n")
        if operation == "remove-file":
            del files[file]
        elif operation == "write-file":
            files[file] = rest[0].encode()
        elif operation == "copy-file":
            files[file] = files[rest[0]]
        elif operation == "cut-bytes":
            files[file] = files[file][:-rest[0]]
        else:
            at = rest[0] - 1
            if operation == "remove-line":
                del lines[at]
            elif operation == "repeat-line":
                lines.insert(at, lines[at])
            elif operation == "swap-lines":
                other = rest[1] - 1
                lines[at], lines[other] = lines[other], lines[at]
            elif operation == "replace":
                old, new = rest[1].encode(), rest[2].encode()
                if lines[at].count(old) == 0:
                    raise ValueError(f"{file} line {rest[0]} does not hold {rest[1]}")
                lines[at] = lines[at].replace(old, new)
            elif operation == "wrap":
                lines[at] = wrap(lines[at])
            elif operation == "sign-again":
                lines[at] = signed_again(lines[at], bytes.fromhex(rest[1]))
            else:
                raise ValueError(operation)
            files[file] = b"\n".join(lines)
    return files


def signed_again(line, seed):
    """The entry with a new signature by the key of `seed`."""
    e = envelope.decode_json(line)
    e["signature"] = {"signer": crypto.public_text("user", crypto.public_key(seed)), "bytes": ""}
    e["signature"]["bytes"] = crypto.sign(seed, envelope.signature_input(e)).hex()
    return envelope.encode_json(e)

