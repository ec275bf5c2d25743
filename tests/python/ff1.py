"""Public IDs once more, from the standard instead of from the Rust code.

FF1 follows the steps of NIST SP 800-38G, algorithms 7 and 8, on lists of digits, and is slow. Only AES comes
from a library, the package `cryptography`.

    ff1.py FILE           checks the standard's samples, then every entry of protocol/public-ids.json
    ff1.py --print FILE   prints the file as it should be, for the keys, tags and IDs below
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


# The standard's functions, by their names there.


def num_radix(digits: list[int], radix: int) -> int:
    value = 0
    for digit in digits:
        value = value * radix + digit
    return value


def str_radix(value: int, radix: int, length: int) -> list[int]:
    digits = [0] * length
    for place in range(length):
        digits[length - 1 - place] = value % radix
        value //= radix
    return digits


def ciph(key: bytes, block: bytes) -> bytes:
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(block) + encryptor.finalize()


def prf(key: bytes, data: bytes) -> bytes:
    mac = bytes(16)
    for at in range(0, len(data), 16):
        mac = ciph(key, bytes(x ^ y for x, y in zip(mac, data[at : at + 16], strict=True)))
    return mac


class FF1:
    """One key, one radix, one tweak."""

    def __init__(self, key: bytes, radix: int, tweak: bytes) -> None:
        self.key, self.radix, self.tweak = key, radix, tweak

    def y(self, n: int, i: int, half: list[int]) -> int:
        """Steps 3 to 5 and 6 i to 6 iv."""
        t, u = len(self.tweak), n // 2
        v = n - u
        # ceil(v * log2(radix)): the smallest number of bits that holds radix ** v values.
        bits = 0
        while 2**bits < self.radix**v:
            bits += 1
        b = -(-bits // 8)
        d = 4 * -(-b // 4) + 4
        p = bytes([1, 2, 1]) + self.radix.to_bytes(3, "big") + bytes([10, u % 256])
        p += n.to_bytes(4, "big") + t.to_bytes(4, "big")
        q = self.tweak + bytes((-t - b - 1) % 16) + bytes([i])
        q += num_radix(half, self.radix).to_bytes(b, "big")
        r = prf(self.key, p + q)
        s, j = r, 1
        while len(s) < d:
            s += ciph(self.key, bytes(x ^ y for x, y in zip(r, j.to_bytes(16, "big"), strict=True)))
            j += 1
        return int.from_bytes(s[:d], "big")

    def encrypt(self, x: list[int]) -> list[int]:
        n = len(x)
        u = n // 2
        a, b = x[:u], x[u:]
        for i in range(10):
            m = u if i % 2 == 0 else n - u
            c = (num_radix(a, self.radix) + self.y(n, i, b)) % self.radix**m
            a, b = b, str_radix(c, self.radix, m)
        return a + b

    def decrypt(self, x: list[int]) -> list[int]:
        n = len(x)
        u = n // 2
        a, b = x[:u], x[u:]
        for i in range(9, -1, -1):
            m = u if i % 2 == 0 else n - u
            c = (num_radix(b, self.radix) - self.y(n, i, a)) % self.radix**m
            a, b = str_radix(c, self.radix, m), a
        return a + b


# https://csrc.nist.gov/projects/cryptographic-standards-and-guidelines/example-values, FF1samples.pdf.
KEY = "2b7e151628aed2a6abf7158809cf4f3cef4359d8d580aa4f7f036d6f04fc6a94"
SAMPLES = [
    (16, 10, "", "0123456789", "2433477484"),
    (16, 10, "39383736353433323130", "0123456789", "6124200773"),
    (16, 36, "3737373770717273373737", "0123456789abcdefghi", "a9tv40mll9kdu509eum"),
    (24, 10, "", "0123456789", "2830668132"),
    (24, 10, "39383736353433323130", "0123456789", "2496655549"),
    (24, 36, "3737373770717273373737", "0123456789abcdefghi", "xbj3kv35jrawxv32ysr"),
    (32, 10, "", "0123456789", "6657667009"),
    (32, 10, "39383736353433323130", "0123456789", "1001623463"),
    (32, 36, "3737373770717273373737", "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"),
]


def check_samples() -> list[str]:
    wrong = []
    for number, (key_bytes, radix, tweak, plain, cipher) in enumerate(SAMPLES, 1):
        ff1 = FF1(bytes.fromhex(KEY)[:key_bytes], radix, bytes.fromhex(tweak))
        x, y = ([DIGITS.index(digit) for digit in text] for text in (plain, cipher))
        if ff1.encrypt(x) != y or ff1.decrypt(y) != x:
            wrong.append(f"sample {number} of the standard")
    return wrong


# Public IDs, by docs/public-ids.md.


def tweak_of(tag: str) -> bytes:
    return hashlib.sha256(b"leafd public ID\0" + tag.encode()).digest()[:16]


def gf32(x: int, y: int) -> int:
    """The product modulo x^5 + x^2 + 1."""
    product = 0
    for bit in range(5):
        if y >> bit & 1:
            product ^= x << bit
    for bit in range(8, 4, -1):
        if product >> bit & 1:
            product ^= 0b100101 << bit - 5
    return product


def check_symbol(symbols: list[int]) -> int:
    total, weight = 0, 1
    for symbol in reversed(symbols):
        weight = gf32(weight, 2)
        total ^= gf32(weight, symbol)
    return total


def encode(key_id: str, key: bytes, tag: str, number: int) -> str:
    bits = FF1(key, 2, tweak_of(tag)).encrypt(str_radix(number, 2, 63))
    symbols = [CROCKFORD.index(key_id), *str_radix(num_radix(bits, 2), 32, 13)]
    return "".join(CROCKFORD[symbol] for symbol in [*symbols, check_symbol(symbols)])


def read(text: str) -> tuple[str, list[int]] | dict[str, object]:
    """The key's ID and the ciphertext, or what is wrong."""
    for at, character in enumerate(text[:15], 1):
        if character not in CROCKFORD or (at == 2 and CROCKFORD.index(character) > 7):
            return {"error": "character", "at": at}
    if len(text) != 15:
        return {"error": "length"}
    symbols = [CROCKFORD.index(character) for character in text]
    if check_symbol(symbols[:14]) != symbols[14]:
        return {"error": "check"}
    return text[0], str_radix(num_radix(symbols[1:14], 32), 2, 63)


def decode(keys: dict[str, bytes], tag: str, text: str) -> int | dict[str, object]:
    found = read(text)
    if isinstance(found, dict):
        return found
    key_id, bits = found
    if key_id not in keys:
        return {"error": "key"}
    return num_radix(FF1(keys[key_id], 2, tweak_of(tag)).decrypt(bits), 2)


# The file.

KEYS = {
    "0": bytes.fromhex(KEY),
    "z": hashlib.sha256(b"the other key of the vectors").digest(),
}
TAGS = ["", "orders", "order-line", "Orders", "заказы", "注文", "\U0001f343", "a" * 128]
IDS = [0, 1, 2, 17, 2**32 - 1, 2**32, 1_305_124_470_726_725_632, 2**63 - 2, 2**63 - 1]


# Tweaks that end in every place of a block: the standard has a block more for some of them.
TWEAK_LENGTHS = [0, 1, 10, 11, 12, 13, 15, 16, 17, 27, 28, 29, 64]


def ff1_number(key: bytes, length: int, tweak: bytes, plain: int) -> int:
    return num_radix(FF1(key, 2, tweak).encrypt(str_radix(plain, 2, length)), 2)


def ff1_vector(length: int, tweak_length: int) -> dict[str, object]:
    tweak = bytes(range(1, tweak_length + 1))
    plain = 17 + 2 ** (length - 1)
    cipher = ff1_number(KEYS["0"], length, tweak, plain)
    return {
        "key": "0",
        "length": length,
        "tweak": tweak.hex(),
        "plain": str(plain),
        "cipher": str(cipher),
    }


def document() -> dict[str, object]:
    pairs = [(key, tag, id) for key in KEYS for tag in ("", "orders") for id in IDS]
    pairs += [(key, tag, id) for key in KEYS for tag in TAGS[2:] for id in (0, 17)]
    good = encode("0", KEYS["0"], "orders", 17)

    def refused(text: str, why: str) -> dict[str, object]:
        outcome = decode(KEYS, "orders", text)
        assert isinstance(outcome, dict), text
        return {"text": text, **outcome, "why": why}

    other = encode("1", KEYS["0"], "orders", 17)
    capital = next(at for at, character in enumerate(good) if character.isalpha())
    return {
        "label": "leafd public ID\0",
        "keys": [{"id": id, "hex": key.hex()} for id, key in KEYS.items()],
        "vectors": [
            {
                "key": key,
                "tag": tag,
                "tweak": tweak_of(tag).hex(),
                "id": str(id),
                "text": encode(key, KEYS[key], tag, id),
            }
            for key, tag, id in pairs
        ],
        "ff1": [ff1_vector(length, tweak) for length in (40, 63) for tweak in TWEAK_LENGTHS],
        "refused": [
            refused("", "empty"),
            refused(good[:14], "one character is missing"),
            refused(good + "0", "one character is too many"),
            refused(good + "i", "one character is too many, and its value does not matter"),
            refused(good[:1] + "8" + good[2:], "the ciphertext has 63 bits"),
            refused(good[:1] + "z" + good[2:], "the ciphertext has 63 bits"),
            refused(good[:5] + "i" + good[6:], "i is not in the alphabet"),
            refused(good[:6] + "l" + good[7:], "l is not in the alphabet"),
            refused(good[:7] + "o" + good[8:], "o is not in the alphabet"),
            refused(good[:14] + "u", "u is not in the alphabet"),
            refused(good[:capital] + good[capital].upper() + good[capital + 1 :], "capital"),
            refused(good[:4] + "-" + good[4:], "hyphens are not skipped"),
            refused(good[:4] + "é" + good[5:], "not ASCII"),
            refused(good[:14] + CROCKFORD[CROCKFORD.index(good[14]) ^ 1], "wrong check symbol"),
            refused(good[:2] + good[3] + good[2] + good[4:], "two symbols are swapped"),
            refused(other, "no key has this ID"),
        ],
    }


def check_file(path: Path) -> list[str]:
    data = json.loads(path.read_text(encoding="utf-8"))
    keys = {key["id"]: bytes.fromhex(key["hex"]) for key in data["keys"]}
    wrong = []
    if data["label"] != "leafd public ID\0":
        wrong.append("the label")
    for vector in data["vectors"]:
        key, tag, id, text = vector["key"], vector["tag"], int(vector["id"]), vector["text"]
        if vector["tweak"] != tweak_of(tag).hex():
            wrong.append(f"the tweak of {tag!r}")
        if encode(key, keys[key], tag, id) != text:
            wrong.append(f"{id} of {tag!r} by key {key} is not {text}")
        if decode(keys, tag, text) != id:
            wrong.append(f"{text} of {tag!r} is not {id}")
    for entry in data["ff1"]:
        length, tweak = entry["length"], bytes.fromhex(entry["tweak"])
        if ff1_number(keys[entry["key"]], length, tweak, int(entry["plain"])) != int(entry["cipher"]):
            wrong.append(f"FF1 of {length} bits with the tweak {entry['tweak']!r}")
    for entry in data["refused"]:
        expected = {name: entry[name] for name in ("error", "at") if name in entry}
        outcome = decode(keys, "orders", entry["text"])
        if outcome != expected:
            wrong.append(f"{entry['text']!r}: {outcome} instead of {expected}")
    if len(data["vectors"]) < 36 or len(data["refused"]) < 12 or len(data["ff1"]) < 20:
        wrong.append("the file has lost entries")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--print", action="store_true", help="print the file as it should be")
    parser.add_argument("file", type=Path, help="protocol/public-ids.json")
    arguments = parser.parse_args()
    wrong = check_samples()
    if arguments.print and not wrong:
        print(layout(document()))
        return 0
    wrong += check_file(arguments.file)
    for what in wrong:
        print(f"{arguments.file}: wrong: {what}", file=sys.stderr)
    return 1 if wrong else 0


def layout(data: dict[str, object]) -> str:
    """JSON with one entry of a list per line."""

    def line(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    parts = []
    for name, value in data.items():
        if isinstance(value, list):
            entries = ",\n".join(f"    {line(entry)}" for entry in value)
            parts.append(f"  {line(name)}: [\n{entries}\n  ]")
        else:
            parts.append(f"  {line(name)}: {line(value)}")
    return "{\n" + ",\n".join(parts) + "\n}"


if __name__ == "__main__":
    sys.exit(main())
