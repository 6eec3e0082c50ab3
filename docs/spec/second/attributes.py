"""The rules of single attributes: alphabet, length, form."""

import base64
import ipaddress
import re

from . import subjects
from .crypto import Refused

SEALED = "application/octet-stream"
RESERVED = frozenset(
    "specversion id source type time subject datacontenttype data vakversion workspace session "
    "agent incarnation seq prevhash cause traceparent tracestate sealedtype keyid keyalg nonce "
    "signer signature".split())
SEQ_MAX = 2**53 - 1


# --- times -------------------------------------------------------------------------------------

TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})"
                  r"\.([0-9]{9})Z")
SECONDS_MIN, SECONDS_MAX = -62_167_219_200, 253_402_300_799


def _days_before(year, month, day):
    """Days from 1970-01-01 in the proleptic Gregorian calendar."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 \
        + day_of_year - 719_468


def _date(days):
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524
                   - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return era * 400 + year_of_era + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def time_of_text(text):
    """Nanoseconds since 1970."""
    found = TIME.fullmatch(text)
    if not found:
        raise Refused("field time")
    year, month, day, hour, minute, second, ns = map(int, found.groups())
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        raise Refused("field time")
    days = _days_before(year, month, day)
    if _date(days) != (year, month, day):
        raise Refused("field time")
    return ((days * 24 + hour) * 60 + minute) * 60 * 10**9 + second * 10**9 + ns


def text_of_time(unix_ns):
    """The canonical text of the nearest time that has one."""
    unix_ns = max(SECONDS_MIN * 10**9, min(unix_ns, SECONDS_MAX * 10**9 + 999_999_999))
    seconds, ns = divmod(unix_ns, 10**9)
    days, second = divmod(seconds, 86_400)
    year, month, day = _date(days)
    return (f"{year:04}-{month:02}-{day:02}T{second // 3600:02}:{second // 60 % 60:02}"
            f":{second % 60:02}.{ns:09}Z")


# --- texts -------------------------------------------------------------------------------------


def _fits(name, text, longest):
    if not text:
        raise Refused(f"field {name}")
    if len(text.encode()) > longest:
        raise Refused(f"too-long {name}")


def visible(name, text, longest):
    _fits(name, text, longest)
    if not all("!" <= c <= "~" for c in text):
        raise Refused(f"field {name}")
    return text


MIME_TOKEN = r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+"
QUOTED = r'"(?:[\t !#-\[\]-~]|\\[\t -~])*"'
MEDIA_TYPE = re.compile(
    rf"{MIME_TOKEN}/{MIME_TOKEN}(?:[ \t]*;[ \t]*{MIME_TOKEN}=(?:{MIME_TOKEN}|{QUOTED}))*")


def content_type(name, text):
    _fits(name, text, 256)
    if not MEDIA_TYPE.fullmatch(text):
        raise Refused(f"field {name}")
    return text


UNRESERVED = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=%s]|%%[0-9A-Fa-f]{2})*"
AUTHORITY = re.compile(
    "(?:" + UNRESERVED % ":" + r"@)?(?:\[([^\]]*)\]|" + UNRESERVED % "" + ")(?::[0-9]*)?")
REST = re.compile(r"(?://([^/?#]*))?" + "(" + UNRESERVED % ":@/" + ")"
                  r"(?:\?" + UNRESERVED % r":@/?" + ")?(?:#" + UNRESERVED % r":@/?" + ")?")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+\-.]*:")
IP_FUTURE = re.compile(r"[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+")


def _is_rest(text):
    found = REST.fullmatch(text)
    if not found:
        return False
    if found[1] is None:
        return True
    authority = AUTHORITY.fullmatch(found[1])
    if not authority:
        return False
    literal = authority[1]
    if literal is None or IP_FUTURE.fullmatch(literal):
        return True
    try:
        return "%" not in literal and bool(ipaddress.IPv6Address(literal))
    except ValueError:
        return False


def is_uri(text):
    scheme = SCHEME.match(text)
    return bool(scheme) and _is_rest(text[scheme.end():])


def is_uri_reference(text):
    if SCHEME.match(text):
        return is_uri(text)
    return ":" not in re.split(r"[/?#]", text)[0] and _is_rest(text)


def source(text):
    visible("source", text, 256)
    if not is_uri_reference(text):
        raise Refused("field source")
    return text


def _is_printable(c):
    code = ord(c)
    return not subjects.is_control(c) and not 0xFDD0 <= code <= 0xFDEF and code & 0xFFFE != 0xFFFE


def checked_extension(name, value):
    if not re.fullmatch(r"[a-z0-9]{1,20}", name):
        raise Refused(f"field {name[:20]}")
    if name in RESERVED:
        raise Refused(f"field {name}")
    if len(value.encode()) > 1024:
        raise Refused(f"too-long {name}")
    if not all(map(_is_printable, value)):
        raise Refused(f"field {name}")
    if name == "dataschema" and not is_uri(value):
        raise Refused("field dataschema")


def id_of(name, text):
    try:
        return subjects.subject(text) if name == "subject" else subjects.token(name, text)
    except Refused:
        raise Refused(f"field {name}") from None


def base64_of(text):
    """The bytes of canonical padded base64, or None."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def base64url_of(text):
    """The bytes of canonical base64url without padding, or None."""
    if not re.fullmatch(r"[A-Za-z0-9_-]*", text):
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return raw if base64.urlsafe_b64encode(raw).decode().rstrip("=") == text else None


# --- trace -------------------------------------------------------------------------------------

MEMBER = re.compile(r"([a-z0-9][a-z0-9_\-*/@]{0,255})=([ -+\--<>-~]{0,255}[!-+\--<>-~])")


def parse_traceparent(text):
    """Trace id, span id and flags."""
    parts = text.strip(" \t").split("-", 4)
    sizes = [2, 32, 16, 2]
    good = len(parts) >= 4 and all(
        re.fullmatch("[0-9a-f]{%d}" % size, part) for size, part in zip(sizes, parts))
    if not good or parts[0] == "ff" or (parts[0] == "00" and len(parts) > 4):
        raise Refused("field traceparent")
    if not int(parts[1], 16) or not int(parts[2], 16):
        raise Refused("field traceparent")
    return parts[1], parts[2], int(parts[3], 16) & 3


def parse_tracestate(text):
    """The canonical text, or None when a member breaks the grammar."""
    members, count = {}, 0
    for member in text.split(","):
        member = member.strip(" \t")
        if not member:
            continue
        count += 1
        found = MEMBER.fullmatch(member)
        if count > 32 or not found:
            return None
        members.setdefault(found[1], found[2])
    kept = [f"{key}={value}" for key, value in members.items()]
    for only_long in (True, False):
        for at in range(len(kept) - 1, -1, -1):
            if len(",".join(kept)) > 2048 and (not only_long or len(kept[at]) > 128):
                del kept[at]
    return ",".join(kept)


# --- one attribute -----------------------------------------------------------------------------


def _matching(name, value, pattern):
    if not re.fullmatch(pattern, value):
        raise Refused(f"field {name}")
    return value


UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def read_attribute(name, value):
    if name in ("specversion", "vakversion"):
        if value != {"specversion": "1.0", "vakversion": "1"}[name]:
            raise Refused(f"version {name}")
        return value
    if name in ("id", "type", "signer"):
        return visible(name, value, 128)
    if name in ("keyid", "keyalg"):
        return visible(name, value, 256 if name == "keyid" else 32)
    if name == "source":
        return source(value)
    if name == "time":
        time_of_text(value)
        return value
    if name in ("datacontenttype", "sealedtype"):
        return content_type(name, value)
    if name in ("subject", "workspace", "session", "agent"):
        return id_of(name, value)
    if name == "incarnation":
        return _matching(name, value, UUID)
    if name == "seq":
        seq = int(_matching(name, value, r"[1-9][0-9]{0,15}"))
        if seq > SEQ_MAX:
            raise Refused("field seq")
        return seq
    if name in ("prevhash", "cause"):
        return _matching(name, value, "[0-9a-f]{64}")
    if name == "nonce":
        return _matching(name, value, "[0-9a-f]{24}")
    if name == "traceparent":
        return parse_traceparent(value)
    if name == "tracestate":
        return parse_tracestate(value) or ""
    raw = base64url_of(value) if len(value) == 86 else None
    if name != "signature" or raw is None:
        raise Refused(f"field {name}")
    return raw.hex()


def check(e):
    """Holds the texts of an envelope against their rules."""
    visible("id", e["id"], 128)
    source(e["source"])
    visible("type", e["type"], 128)
    if "content_type" in e:
        content_type("datacontenttype", e["content_type"])
    if not 1 <= e["seq"] <= SEQ_MAX:
        raise Refused("field seq")
    if "seal" in e:
        visible("keyid", e["seal"]["key_id"], 256)
        visible("keyalg", e["seal"]["algorithm"], 32)
    if "signature" in e:
        visible("signer", e["signature"]["signer"], 128)
