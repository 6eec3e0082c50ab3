"""Proofs of one entry and of a log that goes on, from receipts.md."""

import base64
import binascii

from . import crypto, envelope, records, subjects, verifier
from .crypto import Refused
from .verifier import Finding

INCLUSION, CONSISTENCY = "c2sp.org/tlog-proof@v1", "vakbus/consistency@v1"


def certificate_line(token):
    return records.compact_json({"token": token}) + "\n"


def inclusion(lines, index, tokens, origin, name, seed):
    """The proof that the line with this index is in the log of `lines`."""
    leaves = [envelope.leaf_of(line) for line in lines]
    extra = lines[index] + b"\n" + "".join(map(certificate_line, tokens)).encode()
    head = records.checkpoint(origin, len(lines), envelope.root(leaves), name, seed)
    return written(INCLUSION, extra, f"index {index}", envelope.inclusion(index, leaves), head)


def consistency(lines, old, tokens, origin, name, seed):
    """The proof that the log of `lines` begins with its first `old` lines."""
    leaves = [envelope.leaf_of(line) for line in lines]
    extra = "".join(map(certificate_line, tokens)).encode()
    head = records.checkpoint(origin, len(lines), envelope.root(leaves), name, seed)
    return written(CONSISTENCY, extra, f"old {old}", envelope.consistency(old, leaves), head)


def written(kind, extra, number, hashes, head):
    encoded = [base64.b64encode(part).decode() for part in (extra, *hashes)]
    return "\n".join([kind, f"extra {encoded[0]}", number, *encoded[1:], "", head])


def read(text):
    """The parts of a proof, once its form holds."""
    refused = Refused("proof-form")
    if len(text.encode()) > 24 * 1024 * 1024:
        raise refused
    top, blank, head = text.partition("\n\n")
    lines = top.split("\n")
    if not blank or len(lines) < 3 or lines[0] not in (INCLUSION, CONSISTENCY) \
            or not lines[1].startswith("extra ") or len(lines) > 3 + 64:
        raise refused
    extra, *hashes = [plain_base64(text) for text in (lines[1][6:], *lines[3:])]
    if any(len(known) != 32 for known in hashes):
        raise refused
    is_inclusion = lines[0] == INCLUSION
    name, _, number = lines[2].partition(" ")
    if name != ("index" if is_inclusion else "old") or not number.isascii() \
            or not number.isdigit() or str(int(number)) != number or int(number) >= 2**64:
        raise refused
    entry = None
    if is_inclusion:
        entry, feed, extra = extra.partition(b"\n")
        if not feed or len(entry) > verifier.LINE_BYTES_MAX:
            raise refused
    tokens = read_tokens(extra)
    try:
        checkpoint = records.read_checkpoint(head)
    except Refused:
        raise refused from None
    return {"entry": entry, "tokens": tokens, "number": int(number), "hashes": hashes,
            "head": checkpoint}


def plain_base64(text):
    try:
        raw = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        raise Refused("proof-form") from None
    if base64.b64encode(raw).decode() != text:
        raise Refused("proof-form")
    return raw


def read_tokens(extra):
    refused = Refused("proof-form")
    lines = extra.split(b"\n")
    if lines.pop() or len(lines) > 16:
        raise refused
    tokens = []
    for line in lines:
        try:
            said = records.strict_json(line)
        except ValueError:
            raise refused from None
        good = isinstance(said, dict) and set(said) == {"token"} and isinstance(said["token"], str)
        if not good or certificate_line(said["token"]).encode() != line + b"\n":
            raise refused
        tokens.append(said["token"])
    return tokens


def verify(text, trust, kept):
    """The report of a proof."""
    try:
        proof = read(text)
    except Refused:
        raise Finding("proof-form", "proof") from None
    head = proof["head"]
    place = place_of(head[0])
    lines = "".join(map(certificate_line, proof["tokens"])).encode()
    run = verifier._Run({"certificates.jsonl": lines}, trust)
    run.place = place[:2]
    try:
        run.read_certificates()
    except Finding as finding:
        raise Finding(finding.code, "proof") from None
    report = {"workspace": place[0], "session": place[1], "log": place[2], "entries": head[1],
              "verdict": "verified" if trust else "consistent, signer unknown"}
    if proof["entry"] is None:
        run.vouches("proof", head)
        report.update(proof="consistency", **{"from": proof["number"]})
    else:
        report.update(proof="inclusion", entry=proof["number"] + 1, **judge(run, place[2], proof))
    report["kept"] = judge_kept(run, proof, kept)
    report["recorder"] = run.vouches("proof", head)["agent"]
    return report


def place_of(origin):
    for name in verifier.NAMES[1:]:
        parts = origin.split("/")
        if len(parts) == 4 and (parts[0], parts[3]) == ("vakbus", name):
            try:
                tokens = [subjects.token(kind, text)
                          for kind, text in zip(("workspace", "session"), parts[1:3])]
            except Refused:
                break
            return (*tokens, name)
    raise Finding("checkpoint-origin", "proof")


def judge(run, log, proof):
    """What an entry says, once it, its signer and the path to the root hold."""
    try:
        e = verifier.read_line(proof["entry"])
    except Refused as error:
        code = "not-canonical" if str(error) == "not-canonical" else "unreadable-line"
        raise Finding(code, "proof") from None
    if not run.belongs(log, e):
        raise Finding("wrong-place", "proof")
    fault = run.signer_fault(e)
    if fault:
        raise Finding(fault, "proof")
    task = verifier.read_said(log, e, "proof", None)
    run.vouches_at("proof", proof["head"], [{"e": e}])
    leaf = envelope.leaf_of(proof["entry"])
    path = proof["number"], proof["head"][1], proof["hashes"]
    if climbed(leaf, *path) != proof["head"][2]:
        raise Finding("proof-mismatch", "proof")
    return {"signer": e["agent"], "leaf": envelope.leaf(e).hex(), "task": task or None}


def node(left, right):
    return crypto.hashlib.sha256(b"\x01" + left + right).digest()


def climbed(leaf, index, size, hashes):
    """The root that a path from a leaf leads to, by the way down; none when it does not fit."""
    def down(index, size, rest):
        if size == 1:
            return leaf if not rest else None
        if not rest:
            return None
        half = 1 << (size - 1).bit_length() - 1
        if index < half:
            left = down(index, half, rest[:-1])
            return left and node(left, rest[-1])
        right = down(index - half, size - half, rest[:-1])
        return right and node(rest[-1], right)
    return down(index, size, hashes) if index < size else None


def goes_on(old, new, old_root, new_root, hashes):
    """Whether a tree of `new` entries begins with one of `old`."""
    def down(old, new, rest, is_root):
        """The roots of the old and of the new part, from the proof of a subtree."""
        if old == new:
            if is_root:
                return (old_root, old_root) if not rest else None
            return (rest[0], rest[0]) if len(rest) == 1 else None
        if not rest:
            return None
        half, last = 1 << (new - 1).bit_length() - 1, rest[-1]
        if old <= half:
            found = down(old, half, rest[:-1], is_root)
            return found and (found[0], node(found[1], last))
        found = down(old - half, new - half, rest[:-1], False)
        return found and (node(last, found[0]), node(last, found[1]))
    if not 0 < old <= new:
        return False
    return down(old, new, hashes, True) == (old_root, new_root)


def judge_kept(run, proof, kept):
    """Holds a proof against the checkpoints that were kept; how many there are."""
    head, is_inclusion = proof["head"], proof["entry"] is not None
    if not kept and not is_inclusion:
        raise Finding("kept-missing", "proof")
    wanted = head[1] if is_inclusion else proof["number"]
    for number, text in enumerate(kept, 1):
        given = f"kept checkpoint {number}"
        try:
            earlier = records.read_checkpoint(text)
        except Refused:
            raise Finding("checkpoint-form", given) from None
        if earlier[0] != head[0] or earlier[1] != wanted:
            raise Finding("kept-foreign", given)
        run.vouches(given, earlier)
        if is_inclusion and earlier[2] != head[2]:
            raise Finding("rewritten", "proof")
        if not is_inclusion \
                and not goes_on(wanted, head[1], earlier[2], head[2], proof["hashes"]):
            raise Finding("proof-mismatch", "proof")
    return len(kept)
