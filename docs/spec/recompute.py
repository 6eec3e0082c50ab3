#!/usr/bin/env python3
"""Recomputes every golden vector with the second implementation, which needs Python 3.11 alone.

Prints what differs, case by case, and a closing line; exits with 1 when anything does.
"""

import base64
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True

from second import (  # noqa: E402
    commands, crypto, envelope, events, peers, proofs, recordings, records, stores, subjects, verifier,
)
from second.crypto import Refused  # noqa: E402

PAGES = pathlib.Path(__file__).resolve().parent
VECTORS = PAGES / "vectors"


def subjects_out(case):
    """Everything in subjects.json."""
    do = case["do"]
    if do == "render":
        subject = subjects.render(case["kind"], case["workspace"], case["ids"])
        plane, chain = subjects.plane_and_chain(case["kind"])
        return {"subject": subject, "plane": plane, "chain": chain}
    if do == "read":
        kind, workspace, ids = subjects.read_address(case["subject"])
        return {"kind": kind, "workspace": workspace, "ids": ids}
    if do == "subject":
        return subjects.subject(case["text"])
    if do == "filter":
        return subjects.subject_filter(case["text"])
    if do == "escape":
        return subjects.escape("name", case["name"])
    if do == "unescape":
        return subjects.unescape("name", case["token"])
    if do == "match":
        return subjects.covers(case["filter"], case["subject"])
    if do == "compare":
        one, other = case["one"], case["other"]
        return {"covers": subjects.covers(one, other), "overlaps": subjects.overlaps(one, other)}
    if do == "name":
        return subjects.name(case["field"], case["text"])
    if do == "bucket":
        return subjects.bucket_of_workspace(case["purpose"], case["workspace"])
    if do == "bucket-key":
        return subjects.bucket_key_of_token(case["token"])
    policies = [subjects.policy(role, case["workspace"], case["agent"], case.get("session"),
                                case.get("queue")) for role in case["roles"]]
    rules = subjects.union(policies)
    if do == "rights":
        return subjects.listed(rules)
    if do == "may":
        return subjects.may(rules, case["action"], case["filter"])
    raise KeyError(do)


def envelopes_out(e):
    """Everything that is computed from an envelope: hashes, bound bytes and wire forms."""
    return {
        "payload_hash": envelope.payload_hash(e).hex(), "leaf": envelope.leaf(e).hex(),
        "aad": envelope.aad(e).decode(), "signature_input": envelope.signature_input(e).hex(),
        "binary": {"headers": envelope.encode_binary(e), "body": e["payload"]},
        "json": envelope.encode_json(e).decode(), "compact": envelope.encode_compact(e).hex()}


def decoding_out(case):
    """What a receiver makes of headers and a body."""
    body = bytes.fromhex(case["body_hex"]) if "body_hex" in case else case["body"].encode()
    return envelope.decode(case["headers"], body)


def chains_out(case):
    if case["scope"] == "subject":
        genesis = envelope.genesis_of_subject(case["workspace"], case["subject"])
    else:
        genesis = envelope.genesis_of_incarnation(
            case["workspace"], case["agent"], case["incarnation"], case["subject"])
    after = case.get("after", {"seq": 0, "leaf": genesis.hex()})
    prev, links = after["leaf"], []
    for seq, event in enumerate(case["events"], after["seq"] + 1):
        e = {**case["template"], **event, "workspace": case["workspace"],
             "subject": case["subject"], "seq": seq, "prevhash": prev}
        prev = envelope.leaf(e).hex()
        links.append({"seq": seq, "prevhash": e["prevhash"], "leaf": prev})
    return {"genesis": genesis.hex(), "links": links}


def live_checkpoints_out(case):
    """What a checkpoint of live messages lists."""
    if case["do"] == "make":
        return {"payload": envelope.checkpoint_of(case["leaves"]).hex()}
    first, leaves = envelope.read_checkpoint(
        case["type"], case["seq"], case["prevhash"], bytes.fromhex(case["payload"]))
    return {"first_seq": first, "leaves": leaves}


def trees_out(case):
    leaves = [envelope.leaf_of(entry.encode()) for entry in case["entries"]]
    return {
        "root": envelope.root(leaves).hex(),
        "inclusion": [[h.hex() for h in envelope.inclusion(index, leaves)]
                      for index in range(len(leaves))],
        "consistency": [[h.hex() for h in envelope.consistency(old, leaves)]
                        for old in range(1, len(leaves) + 1)]}


def keys_out(case):
    """Secrets, derived keys, nkeys and signatures."""
    do = case["do"]
    if do == "secret":
        return crypto.secret_of_text(case["text"]).hex()
    if do == "derive":
        crypto.key_id_parts(case["key_id"])
        return crypto.payload_key(crypto.secret_of_text(case["secret"]), case["key_id"]).hex()
    if do == "nkey":
        public = crypto.public_key(bytes.fromhex(case["seed"]))
        seed = crypto.seed_text(case["kind"], bytes.fromhex(case["seed"]))
        return {"public": public.hex(), "public_text": crypto.public_text(case["kind"], public),
                "seed_text": seed}
    if do == "read-nkey":
        kind, public = crypto.public_of_text(case["text"])
        return {"kind": kind, "public": public.hex()}
    message = bytes.fromhex(case["message"])
    if do == "sign":
        return crypto.sign(bytes.fromhex(case["seed"]), message).hex()
    if do == "verify":
        public, signature = bytes.fromhex(case["public"]), bytes.fromhex(case["signature"])
        return crypto.is_signed(public, message, signature)
    raise KeyError(do)


def seals_out(case):
    algorithm = case["algorithm"]
    if algorithm not in crypto.CIPHERS:
        raise Refused("unknown-algorithm")
    key, nonce, aad = (bytes.fromhex(case[name]) for name in ("key", "nonce", "aad"))
    if case["do"] == "seal":
        return crypto.seal(algorithm, key, nonce, aad, bytes.fromhex(case["plain"])).hex()
    return crypto.open_sealed(algorithm, key, nonce, aad, bytes.fromhex(case["sealed"])).hex()


def receipts_out(case):
    if case["do"] == "id":
        task = envelope.decode_json(case["task"].encode())
        return records.receipt_id(envelope.leaf(task).hex())
    if case["do"] == "write":
        return records.receipt_json(records.read_receipt(json.dumps(case["receipt"]).encode())
                                    ).decode()
    records.read_receipt(case["json"].encode())
    return "accepted"


def results_out(case):
    if case["do"] == "write":
        return commands.result_bytes(case["result"]).hex()
    return commands.read_result(bytes.fromhex(case["hex"]))


def emits_out(case):
    return commands.read_messages(bytes.fromhex(case["hex"]))


def approvals_out(case):
    """What a reader makes of a request, a verdict or an end, and the ids that follow from leaves."""
    do = case["do"]
    if do == "ids":
        return records.approval_ids(case["request"], case["verdict"])
    raw = case["json"].encode()
    if do in records.END_NEEDS:
        return records.compact_json(records.read_approval_end(do, raw))
    read = {"request": records.read_approval_request, "verdict": records.read_approval_verdict}
    return records.compact_json(read[do](raw))


def peers_out(case):
    """What a reader makes of a line of the peers' journal, of a definition, a target, a secret."""
    do = case["do"]
    if do == "record":
        return peers.record(case["line"])
    if do == "register":
        return peers.instance_id(case["definition_id"], case["suffix"])
    return peers.target(case["to"]) if do == "target" else peers.secret(case["text"])


def dead_letters_out(case):
    stored = case["stored_unix_ns"]
    letter = case["letter"]
    return {"json": records.dead_letter_json(letter).decode(),
            "id": records.dead_letter_id(letter["stream"], stored, letter["seq"]),
            "body": base64.b64decode(letter["original"]["body_base64"], validate=True).hex()}


def alerts_out(case):
    return records.compact_json(records.read_alert(case["type"], case["json"].encode()))


def certificates_out(case):
    if case["do"] == "issue":
        agent = crypto.public_key(bytes.fromhex(case["agent_seed"]))
        return records.certificate(
            bytes.fromhex(case["account_seed"]), agent, case["workspace"], case["agent"],
            case["roles"], case.get("session"), case.get("queue"), case["issued_unix_s"],
            case.get("valid_s"))
    read = records.read_certificate(case["token"])
    names = ("workspace", "agent", "roles", "session", "queue", "nkey", "issuer", "issued", "begins",
             "expires")
    out = {name: read[name] for name in names}
    out["may"] = [subjects.may(read["rules"], action, asked) for action, asked in case.get("ask", [])]
    return out


def revocations_out(case):
    if case["do"] == "sign":
        agent = crypto.public_key(bytes.fromhex(case["agent_seed"]))
        return records.revocation(bytes.fromhex(case["account_seed"]), agent, case["workspace"],
                                  case["agent"], case["at"])
    return records.read_revocation(case["line"], case["account"])


def tickets_out(case):
    if case["do"] == "sign":
        return records.ticket(bytes.fromhex(case["account_seed"]), bytes.fromhex(case["id"]),
                              case["end_unix_s"], case["workspace"], case["agent"],
                              case["session"], case["queue"], case["roles"])
    return records.read_ticket(case["text"], case["account"])


def checkpoints_out(case):
    if case["do"] == "sign":
        root, seed = bytes.fromhex(case["root"]), bytes.fromhex(case["seed"])
        return records.checkpoint(case["origin"], case["size"], root, case["name"], seed)
    origin, size, root, body, signatures = records.read_checkpoint(case["text"])
    key = crypto.public_of_text(case["key"])[1]
    signed = [crypto.is_signed(key, body, signature) for name, key_id, signature in signatures
              if key_id == records.note_key_id(name, key) and len(signature) == 64]
    verdict = ("signed" if all(signed) else "bad-signature") if signed else "not-signed"
    return {"origin": origin, "size": size, "root": root.hex(), "verdict": verdict}


def messages_out(case):
    """The whole way of a message: derive, bind, seal, hash, sign, encode."""
    e = {**case["envelope"], "source": f"vak://{case['envelope']['workspace']}/"
                                       f"{case['envelope']['agent']}"}
    key_id = f"{e['workspace']}.{case['secret_name']}.{e['incarnation']}"
    key = crypto.payload_key(crypto.secret_of_text(case["secret"]), key_id)
    e["seal"] = {"key_id": key_id, "algorithm": "AES-256-GCM", "nonce": case["nonce"]}
    aad = envelope.aad(e)
    nonce = bytes.fromhex(case["nonce"])
    e["payload"] = crypto.seal("AES-256-GCM", key, nonce, aad, bytes.fromhex(e["payload"])).hex()
    out = {"key_id": key_id, "key": key.hex(), "aad": aad.decode(), "sealed": e["payload"],
           "leaf": envelope.leaf(e).hex()}
    if case.get("signer_seed"):
        seed = bytes.fromhex(case["signer_seed"])
        signer = crypto.public_text("user", crypto.public_key(seed))
        e["signature"] = {"signer": signer, "bytes": ""}
        signed = envelope.signature_input(e)
        e["signature"]["bytes"] = crypto.sign(seed, signed).hex()
        out.update(signature_input=signed.hex(), signature=e["signature"]["bytes"])
    out["headers"] = envelope.encode_binary(e)
    out["json"] = envelope.encode_json(e).decode()
    return out


def bundles_out(case):
    files = verifier.edited(verifier.bundle_of(VECTORS / "bundle"), case["edits"])
    try:
        return verifier.verify(files, case.get("trust"), case.get("kept", []))
    except verifier.Finding as finding:
        return finding.value()


def proofs_out(case):
    """Proofs about the receipts of the sample bundle, written, changed and judged."""
    lines = (VECTORS / "bundle" / "receipts.jsonl").read_bytes().splitlines()
    tokens = [json.loads(line)["token"] for line in
              (VECTORS / "bundle" / "certificates.jsonl").read_bytes().splitlines()]
    lines, origin = lines[:case.get("entries", 2)], "vakbus/w1/s1/receipts"
    seed = bytes.fromhex(case["seed"])
    chosen = [tokens[at] for at in case["certificates"]]
    make = proofs.inclusion if case["proof"] == "inclusion" else proofs.consistency
    text = make(lines, case["number"], chosen, origin, case["name"], seed)
    if case["do"] == "write":
        return text
    for old, new in case.get("replace", []):
        if old not in text:
            raise ValueError(f"the proof does not hold {old}")
        text = text.replace(old, new, 1)
    try:
        return proofs.verify(text, case.get("trust"), case.get("kept", []))
    except verifier.Finding as finding:
        return {"finding": finding.code, "file": finding.file}


def journals_out(case):
    """What stands in a data directory."""
    do = case["do"]
    if do == "record":
        return stores.record(bytes.fromhex(case["payload"]))
    if do == "segment":
        return stores.file_header(b"vakbusj\x01", case["number"], case["salt"]).hex()
    payloads = [bytes.fromhex(payload) for payload in case["payloads"]]
    if do == "batch":
        return stores.batch(case["salt"], case["segment"], case["first"], case["synced"],
                            payloads).hex()
    if do == "picture":
        return stores.picture(case["position"], case["segment"], payloads).hex()
    raise KeyError(do)


def events_out(case):
    """What a reader makes of a payload: the same as its writer would write it."""
    return events.written(case["type"], case["json"].encode())


def recordings_out(case):
    """What a part of a recording is written as, and what is read from it."""
    if case["do"] == "make":
        return {"batch": recordings.batch(case["items"]).hex()}
    return {"items": recordings.read_batch(bytes.fromhex(case["batch"]))}


def links_out(case):
    """What crosses the local socket."""
    do = case["do"]
    if do in ("ToServer", "ToClient", "Welcome"):
        parts = [bytes.fromhex(part) for part in case["parts"]]
        return stores.message(do, case["words"], parts).hex()
    if do == "response":
        return stores.response(case["versions"], bytes.fromhex(case["signature"]),
                               case["token"]).hex()
    server, nonce = bytes.fromhex(case["server"]), bytes.fromhex(case["nonce"])
    if do == "challenge":
        return stores.challenge(case["versions"], server, nonce).hex()
    if do == "signed":
        return stores.challenge_signed(case["versions"], case["client_versions"], server,
                                       nonce).hex()
    raise KeyError(do)


FILES = {
    "alerts": alerts_out,
    "journals": journals_out, "links": links_out,
    "bundles": bundles_out, "certificates": certificates_out, "chains": chains_out,
    "approvals": approvals_out, "checkpoints": checkpoints_out, "dead-letters": dead_letters_out, "decoding": decoding_out,
    "emits": emits_out, "envelopes": envelopes_out, "events": events_out, "keys": keys_out,
    "live-checkpoints": live_checkpoints_out,
    "messages": messages_out, "peers": peers_out, "proofs": proofs_out,
    "recordings": recordings_out, "receipts": receipts_out, "results": results_out, "revocations": revocations_out, "seals": seals_out, "subjects": subjects_out,
    "tickets": tickets_out, "trees": trees_out,
}


def computed(out, case):
    try:
        return out(case)
    except Refused as refused:
        return {"refused": str(refused)}
    except Exception as fault:  # A damaged vector is a case that differs, like any other.
        return {"fault": f"{type(fault).__name__}: {fault}"}


def strange_examples():
    """Hashes, keys and signatures on the pages that no vector holds, by page."""
    known = "".join(path.read_text("utf-8") for path in VECTORS.glob("*.json"))
    for page in sorted(PAGES.glob("*.md")):
        text = re.sub(r"<!-- describes: .* -->", "", page.read_text("utf-8"))
        for digits in re.findall(r"\b(?:[0-9a-f]{2}){32,}\b", text):
            if digits not in known:
                yield page.name, digits


def main():
    passed = failed = 0
    for page, digits in strange_examples():
        print(f"{page}: no vector holds {digits}")
        failed += 1
    known = {path.stem for path in VECTORS.glob("*.json")}
    for stray in sorted(known ^ set(FILES)):
        print(f"{stray}.json: {'nobody recomputes it' if stray in known else 'it is not there'}")
        failed += 1
    for name in sorted(known & set(FILES)):
        for case in json.loads((VECTORS / f"{name}.json").read_text("utf-8"))["cases"]:
            found = computed(FILES[name], case["in"])
            if found == case["out"]:
                passed += 1
                continue
            failed += 1
            print(f"{name}.json: {case['id']} differs")
            print(f"  written:    {json.dumps(case['out'], ensure_ascii=False)}")
            print(f"  recomputed: {json.dumps(found, ensure_ascii=False)}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
