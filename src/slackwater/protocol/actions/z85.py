"""Z85, the base-85 text encoding of bytes in deletion vector descriptors.

Source: delta-protocol.md "Deletion Vector Descriptor Schema"; ZeroMQ RFC 32.
"""

from __future__ import annotations

import uuid

import numpy as np

from slackwater.errors import InvalidArgument

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
ENCODED_UUID_LENGTH = 20

_SYMBOLS = np.frombuffer(ALPHABET.encode("ascii"), dtype=np.uint8)
_NO_DIGIT = 255
_DIGITS = np.full(256, _NO_DIGIT, dtype=np.uint8)
_DIGITS[_SYMBOLS] = np.arange(85, dtype=np.uint8)
_POWERS = np.array([85**4, 85**3, 85**2, 85, 1], dtype=np.uint64)


def encode(data: bytes) -> str:
    """Return the Z85 text of `data`: five characters for four bytes.

    Pads the data with zero bytes to a multiple of four, like Delta. The decoder must know the original length. Source:
    ZeroMQ RFC 32.
    """
    padded = data + bytes(-len(data) % 4)
    rest = np.frombuffer(padded, dtype=">u4").astype(np.uint32)
    digits = np.empty((len(rest), 5), dtype=np.uint8)
    for column in range(4, -1, -1):
        digits[:, column] = rest % np.uint32(85)
        rest = rest // np.uint32(85)
    return _SYMBOLS[digits].tobytes().decode("ascii")


def decode(text: str) -> bytes:
    """Return the bytes of Z85 `text`: four bytes for five characters.

    Raises InvalidArgument if the length is not a multiple of five, a character is outside the alphabet, or a group of
    five exceeds 32 bits. Source: ZeroMQ RFC 32.
    """
    if len(text) % 5:
        raise InvalidArgument(f"Z85 text must have a multiple of 5 characters, found {len(text)}: {_shown(text)}")
    if not text.isascii():
        raise InvalidArgument(f"Z85 text has a character outside its alphabet: {_shown(text)}")
    digits = _DIGITS[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
    if bool((digits == _NO_DIGIT).any()):
        position = int(np.argmax(digits == _NO_DIGIT))
        raise InvalidArgument(f"Z85 text has {text[position]!r} at {position}, outside its alphabet: {_shown(text)}")
    groups = digits.reshape(-1, 5).astype(np.uint64) @ _POWERS
    if len(groups) and int(groups.max()) > 0xFFFFFFFF:
        position = 5 * int(np.argmax(groups > 0xFFFFFFFF))
        raise InvalidArgument(f"Z85 group {text[position : position + 5]!r} at {position} exceeds 32 bits")
    return groups.astype(">u4").tobytes()


def encode_uuid(value: uuid.UUID) -> str:
    """Return the 20 characters of a UUID, big endian like in its canonical text."""
    return encode(value.bytes)


def decode_uuid(text: str) -> uuid.UUID:
    """Return the UUID encoded in 20 characters of Z85. Raises InvalidArgument for any other text."""
    if len(text) != ENCODED_UUID_LENGTH:
        raise InvalidArgument(f"a UUID has {ENCODED_UUID_LENGTH} characters in Z85, found {len(text)}: {_shown(text)}")
    return uuid.UUID(bytes=decode(text))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
