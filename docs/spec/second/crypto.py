"""Textbook ciphers, signatures and nkeys for the second implementation.

Slow, not in constant time, and for checking vectors only: never seal or sign real data with it.
"""

import base64
import hashlib
import hmac


class Refused(Exception):
    """An input that the specification refuses; its text is the error of the vector."""


# --- HKDF (RFC 5869) ---------------------------------------------------------------------------

HKDF_SALT = b"vak-bus-hkdf-salt-v1"
HKDF_INFO_PREFIX = b"vak-bus-aes-256-gcm-"


def hkdf_sha256(secret, salt, info, length):
    pseudo_random_key = hmac.new(salt, secret, hashlib.sha256).digest()
    out, block, number = b"", b"", 1
    while len(out) < length:
        block = hmac.new(pseudo_random_key, block + info + bytes([number]), hashlib.sha256).digest()
        out, number = out + block, number + 1
    return out[:length]


def payload_key(secret, key_id):
    return hkdf_sha256(secret, HKDF_SALT, HKDF_INFO_PREFIX + key_id.encode(), 32)


def secret_of_text(text):
    text = text[:-1] if text.endswith("\n") else text
    try:
        if text.startswith("base64:"):
            encoded = text[len("base64:"):]
            secret = base64.b64decode(encoded, validate=True)
            if base64.b64encode(secret).decode() != encoded:
                raise ValueError("another way to write it")
        elif text.startswith("hex:"):
            encoded = text[len("hex:"):]
            secret = bytes.fromhex(encoded)
            if len(encoded) != 2 * len(secret):
                raise ValueError("white space")
        else:
            secret = text.encode()
    except ValueError:
        raise Refused("bad-secret-text") from None
    if len(secret) < 32:
        raise Refused("secret-too-short")
    return secret


TOKEN_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_~-")


def key_id_parts(text):
    parts = text.split(".")
    good = len(parts) == 3 and all(
        1 <= len(part.encode()) <= 64 and set(part) <= TOKEN_CHARACTERS for part in parts)
    if not good:
        raise Refused("bad-key-id")
    return parts


# --- AES-256 (FIPS 197) in Galois/Counter mode (NIST SP 800-38D) -------------------------------


def _make_s_box():
    def times(a, b):
        product = 0
        while b:
            if b & 1:
                product ^= a
            a = a << 1 ^ (0x11B if a & 0x80 else 0)
            b >>= 1
        return product

    box = [0] * 256
    for value in range(256):
        inverse = next((x for x in range(256) if times(value, x) == 1), 0)
        result = 0x63
        for shift in range(5):
            result ^= (inverse << shift | inverse >> (8 - shift)) & 0xFF
        box[value] = result
    return box


S_BOX = _make_s_box()


def _expand_key(key):
    words = [list(key[at:at + 4]) for at in range(0, 32, 4)]
    round_constant = 1
    for number in range(8, 60):
        word = list(words[-1])
        if number % 8 == 0:
            word = [S_BOX[byte] for byte in word[1:] + word[:1]]
            word[0] ^= round_constant
            round_constant = round_constant << 1 ^ (0x11B if round_constant & 0x80 else 0)
        elif number % 8 == 4:
            word = [S_BOX[byte] for byte in word]
        words.append([a ^ b for a, b in zip(words[number - 8], word)])
    return [sum(words[at:at + 4], []) for at in range(0, 60, 4)]


def _double(byte):
    return (byte << 1 ^ (0x11B if byte & 0x80 else 0)) & 0xFF


def _encrypt_block(round_keys, block):
    state = [a ^ b for a, b in zip(block, round_keys[0])]
    for number in range(1, 15):
        state = [S_BOX[state[(at + 4 * (at % 4)) % 16]] for at in range(16)]
        if number < 14:
            mixed = []
            for column in range(0, 16, 4):
                a = state[column:column + 4]
                for row in range(4):
                    b, c, d, e = (a[(row + step) % 4] for step in range(4))
                    mixed.append(_double(b) ^ _double(c) ^ c ^ d ^ e)
            state = mixed
        state = [a ^ b for a, b in zip(state, round_keys[number])]
    return bytes(state)


def _ghash(subkey, data):
    h, y = int.from_bytes(subkey, "big"), 0
    for at in range(0, len(data), 16):
        x, v, product = y ^ int.from_bytes(data[at:at + 16], "big"), h, 0
        for bit in range(127, -1, -1):
            if x >> bit & 1:
                product ^= v
            v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
        y = product
    return y.to_bytes(16, "big")


def _padded(data):
    return data + bytes(-len(data) % 16)


def _gcm(key, nonce, aad, data, sealed):
    """Applies the key stream to `data` and computes the tag over `sealed`."""
    round_keys = _expand_key(key)

    def counter(number):
        return _encrypt_block(round_keys, nonce + number.to_bytes(4, "big"))

    stream = b"".join(counter(2 + number) for number in range((len(data) + 15) // 16))
    out = bytes(a ^ b for a, b in zip(data, stream))
    covered = out if sealed is None else sealed
    lengths = (8 * len(aad)).to_bytes(8, "big") + (8 * len(covered)).to_bytes(8, "big")
    subkey = _encrypt_block(round_keys, bytes(16))
    digest = _ghash(subkey, _padded(aad) + _padded(covered) + lengths)
    return out, bytes(a ^ b for a, b in zip(digest, counter(1)))


# --- ChaCha20-Poly1305 (RFC 8439) --------------------------------------------------------------


def _rotate(value, by):
    return (value << by | value >> (32 - by)) & 0xFFFFFFFF


def _chacha_block(key, number, nonce):
    words = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    for part in (key, number.to_bytes(4, "little"), nonce):
        words += [int.from_bytes(part[at:at + 4], "little") for at in range(0, len(part), 4)]
    state = list(words)
    columns = [(at, at + 4, at + 8, at + 12) for at in range(4)]
    diagonals = [(at, 4 + (at + 1) % 4, 8 + (at + 2) % 4, 12 + (at + 3) % 4) for at in range(4)]
    for _ in range(10):
        for a, b, c, d in columns + diagonals:
            for first, second, third, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                state[first] = (state[first] + state[second]) & 0xFFFFFFFF
                state[third] = _rotate(state[third] ^ state[first], by)
    return b"".join(((a + b) & 0xFFFFFFFF).to_bytes(4, "little") for a, b in zip(state, words))


def _chacha(key, nonce, aad, data, sealed):
    count = (len(data) + 63) // 64
    stream = b"".join(_chacha_block(key, 1 + number, nonce) for number in range(count))
    out = bytes(a ^ b for a, b in zip(data, stream))
    covered = out if sealed is None else sealed
    one_time = _chacha_block(key, 0, nonce)
    r = int.from_bytes(one_time[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    lengths = len(aad).to_bytes(8, "little") + len(covered).to_bytes(8, "little")
    text = _padded(aad) + _padded(covered) + lengths
    sum_ = 0
    for at in range(0, len(text), 16):
        sum_ = (sum_ + int.from_bytes(text[at:at + 16] + b"\x01", "little")) * r % (2**130 - 5)
    tag = (sum_ + int.from_bytes(one_time[16:32], "little")) % 2**128
    return out, tag.to_bytes(16, "little")


CIPHERS = {"AES-256-GCM": _gcm, "ChaCha20-Poly1305": _chacha}


def seal(algorithm, key, nonce, aad, plain):
    sealed, tag = CIPHERS[algorithm](key, nonce, aad, plain, None)
    return sealed + tag


def open_sealed(algorithm, key, nonce, aad, sealed):
    if len(sealed) < 16:
        raise Refused("decryption-failed")
    plain, tag = CIPHERS[algorithm](key, nonce, aad, sealed[:-16], sealed[:-16])
    if not hmac.compare_digest(tag, sealed[-16:]):
        raise Refused("decryption-failed")
    return plain


# --- Ed25519 (RFC 8032), points in extended coordinates ----------------------------------------

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)
NEUTRAL = (0, 1, 1, 0)


def _add(one, other):
    x1, y1, z1, t1 = one
    x2, y2, z2, t2 = other
    a, b = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    c, d = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def _times(number, point):
    result = NEUTRAL
    while number:
        if number & 1:
            result = _add(result, point)
        point = _add(point, point)
        number >>= 1
    return result


def _is_same_point(one, other):
    return (one[0] * other[2] - other[0] * one[2]) % P == 0 and \
        (one[1] * other[2] - other[1] * one[2]) % P == 0


def _x_of(y, sign):
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_ONE % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return P - x if x & 1 != sign else x


def _point(text):
    value = int.from_bytes(text, "little")
    sign, y = value >> 255, value & (2**255 - 1)
    x = _x_of(y, sign) if y < P else None
    return None if x is None else (x, y, 1, x * y % P)


def _text(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = _x_of(BASE_Y, 0)
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def _expanded(seed):
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & (2**254 - 8) | 2**254
    return scalar, digest[32:]


def _challenge(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


def public_key(seed):
    return _text(_times(_expanded(seed)[0], BASE))


def sign(seed, message):
    scalar, prefix = _expanded(seed)
    public = _text(_times(scalar, BASE))
    r = _challenge(prefix, message)
    commitment = _text(_times(r, BASE))
    s = (r + _challenge(commitment, public, message) * scalar) % ORDER
    return commitment + s.to_bytes(32, "little")


def is_signed(public, message, signature):
    """Strict: no scalar out of range, no public key of small order, no cofactor."""
    key = _point(public)
    s = int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or key is None or s >= ORDER:
        return False
    if _is_same_point(_times(8, key), NEUTRAL):
        return False
    challenge = _challenge(signature[:32], public, message)
    minus_key = (P - key[0], key[1], 1, P - key[3])
    return _text(_add(_times(s, BASE), _times(challenge, minus_key))) == signature[:32]


# --- nkeys -------------------------------------------------------------------------------------

PREFIXES = {"operator": 14 << 3, "account": 0, "user": 20 << 3, "server": 13 << 3,
            "cluster": 2 << 3, "curve": 23 << 3}
SEED_PREFIX = 18 << 3


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
    return crc.to_bytes(2, "little")


def _base32(raw):
    return base64.b32encode(raw + crc16(raw)).decode().rstrip("=")


def public_text(kind, public):
    return _base32(bytes([PREFIXES[kind]]) + public)


def seed_text(kind, seed):
    prefix = PREFIXES[kind]
    return _base32(bytes([SEED_PREFIX | prefix >> 5, prefix << 3 & 0xFF]) + seed)


def public_of_text(text):
    """The kind and the 32 bytes of a public nkey."""
    if len(text.encode()) != 56 or text.startswith("S"):
        raise Refused("bad-nkey")
    try:
        raw = base64.b32decode(text)
    except ValueError:
        raise Refused("bad-nkey") from None
    kind = next((kind for kind, prefix in PREFIXES.items() if prefix == raw[0]), None)
    if kind is None or len(raw) != 35 or crc16(raw[:-2]) != raw[-2:] or _base32(raw[:-2]) != text:
        raise Refused("bad-nkey")
    return kind, raw[1:-2]
