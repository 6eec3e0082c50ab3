"""What a running command tells beside its bytes, from events.md."""

import math
import re

from . import records
from .crypto import Refused

BOOT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _count(value, low=0, high=2**64 - 1):
    return type(value) is int and low <= value <= high


def _object(raw, members):
    """The known members of one JSON object; none of them twice, and others are passed over."""
    def once(pairs):
        names = [name for name, _ in pairs if name in members]
        if len(set(names)) != len(names):
            raise ValueError("a member stands twice")
        return dict(pairs)

    def refuse(_):
        raise ValueError("no JSON")

    try:
        value = records.json.loads(raw.decode(), object_pairs_hook=once, parse_constant=refuse)
    except ValueError:
        raise Refused("event payload") from None
    if not isinstance(value, dict):
        raise Refused("event payload")
    return value


def _payload(is_good):
    if not is_good:
        raise Refused("event payload")


def size(raw):
    value = _object(raw, ("rows", "columns"))
    _payload(all(_count(value.get(name), 1, 65_535) for name in ("rows", "columns")))
    return {"rows": value["rows"], "columns": value["columns"]}


EXITS = {"code": True, "signal": True, "timeout": False, "killed": False, "not-started": False}
COUNTS = ("stdout_bytes", "stderr_bytes", "shown_lost_bytes")


def end(raw):
    value = _object(raw, ("exit", "code", *COUNTS))
    code = value.get("code")
    _payload(isinstance(value.get("exit"), str) and value["exit"] in EXITS
             and (code is None or _count(code, 0, 255))
             and all(_count(value.get(name)) for name in COUNTS))
    if EXITS[value["exit"]] != (code is not None):
        raise Refused("event code")
    out = {"exit": value["exit"]}
    if code is not None:
        out["code"] = code
    return out | {name: value[name] for name in COUNTS}


TELEMETRY = ("task", "attempt", "process", "last", "rss_bytes", "peak_rss_bytes", "cpu_ms",
             "cpu_rate", "interval_ms", "children")


def telemetry(raw):
    value = _object(raw, TELEMETRY + ("boot", "pid", "start_ticks"))
    process, rate = value.get("process"), value.get("cpu_rate")
    _payload(isinstance(value.get("task"), str) and _count(value.get("attempt"), 0, 2**32 - 1)
             and isinstance(process, dict) and isinstance(process.get("boot"), str)
             and _count(process.get("pid"), 0, 2**32 - 1) and _count(process.get("start_ticks"))
             and type(value.get("last")) is bool
             and all(value.get(name) is None or _count(value[name])
                     for name in ("rss_bytes", "peak_rss_bytes"))
             and _count(value.get("cpu_ms")) and _count(value.get("interval_ms"))
             and (rate is None or type(rate) in (int, float) and math.isfinite(rate))
             and value.get("children") in ("not-counted", "waited-for"))
    if not 1 <= len(value["task"].encode()) <= 128:
        raise Refused("event task")
    if value["attempt"] == 0:
        raise Refused("event attempt")
    if process["pid"] == 0:
        raise Refused("event process")
    if rate is not None and rate < 0:
        raise Refused("event cpu_rate")
    if not BOOT.fullmatch(process["boot"]):
        raise Refused("event process")
    out = {name: value.get(name) for name in TELEMETRY}
    out["process"] = {name: process[name] for name in ("boot", "pid", "start_ticks")}
    out["cpu_rate"] = None if rate is None else float(rate)
    return out


READERS = {"vak.terminal.size": size, "vak.terminal.end": end, "vak.telemetry.process": telemetry}


def written(event_type, raw):
    """The payload as a writer of this page writes it."""
    return records.compact_json(READERS[event_type](raw))
