"""What happens to a table's files: of one seed always the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import orjson

from tests.fuzz.tables import Files, bases

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, 1e300, -0.0),
    *("", "x", "\0", "..", "../../etc/passwd", "file:///etc/passwd", "https://host/x", "true", "9" * 40, "2024-99-99"),
    *("é\ud7ff", "%", "%00", "1e999", "NaN", "{", "[]", '{"a":1}', "`", "a.b", "u", "i", "p", "x" * 5000),
    *([], {}, [None], [1, "a"], {"": None}, {"a": {"b": []}}, [[[[]]]]),
)
_EDGES = (b"\0", b"\xff", b"\x7f", b"\x80", b"\x01", b"PAR1", b"\n", b"}", b'"')


def mutated(seed: int) -> tuple[str, Files]:
    """A table that `seed` chose and damaged, and what was done to it."""
    chance = random.Random(seed)  # noqa: S311  (a seed tells the table)
    files = dict(chance.choice(bases()))
    done = [_mutate(files, chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    return "; ".join(done), files


def _mutate(files: Files, chance: random.Random) -> str:
    if not files:
        return "nothing is left"
    name = chance.choice(sorted(files))
    kinds: list[Callable[[bytes, random.Random], bytes]] = [_flip, _overwrite, _cut, _cut_line, _insert, _blank]
    if name.endswith(".parquet"):
        kinds += [_footer, _footer, _footer, _footer_length, _pages, _pages]
    elif not name.endswith(".bin"):
        kinds += [_value, _value, _value, _value, _value, _key, _deep]
    act = chance.choice((*kinds, None))
    if act is None:
        what = chance.choice(("remove", "copy", "swap", "rename"))
        other = chance.choice(sorted(files))
        if what == "remove":
            del files[name]
        elif what == "copy":
            files[other] = files[name]
        elif what == "swap":
            files[name], files[other] = files[other], files[name]
        else:
            files[_renamed(name, chance)] = files.pop(name)
        return f"{what} {name} {other}"
    files[name] = act(files[name], chance)
    return f"{act.__name__} {name}"


def _renamed(name: str, chance: random.Random) -> str:
    digits = [at for at, letter in enumerate(name) if letter.isdigit()]
    if not digits:
        return name + "x"
    at = chance.choice(digits)
    return name[:at] + chance.choice("0123456789") + name[at + 1 :]


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, chance: random.Random) -> bytes:
    start, length = chance.randrange(len(data) + 1), chance.choice((1, 4, 16, 64))
    return data[:start] + (chance.choice(_EDGES) * length)[:length] + data[start + length :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] if chance.random() < 0.7 else data[at:]


def _cut_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: chance.randrange(len(lines) + 1)])


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(_EDGES) * chance.choice((1, 3)) + data[at:]


def _blank(data: bytes, chance: random.Random) -> bytes:
    return chance.choice(
        (b"", b"\n", b"\0" * len(data), b"PAR1", b"PAR1" * 3, b"{}", b"null", b"[]", b"\xef\xbb\xbf{}")
    )


def _footer_bounds(data: bytes) -> tuple[int, int]:
    length = int.from_bytes(data[-8:-4], "little") if len(data) > 12 else 0
    return max(0, len(data) - 8 - length), max(0, len(data) - 8)


def _footer(data: bytes, chance: random.Random) -> bytes:
    """Some bytes of the footer, which is a tree of lengths, types and offsets."""
    start, end = _footer_bounds(data)
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        if end > start:
            changed[chance.randrange(start, end)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(changed)


def _footer_length(data: bytes, chance: random.Random) -> bytes:
    length = chance.choice((0, 1, 7, len(data), len(data) - 8, 2**31 - 1, 2**31, 2**32 - 1, chance.randrange(2**32)))
    return data[:-8] + (length % 2**32).to_bytes(4, "little") + data[-4:]


def _pages(data: bytes, chance: random.Random) -> bytes:
    end, _ = _footer_bounds(data)
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 4, 32))):
        if end > 4:
            changed[chance.randrange(4, end)] = chance.choice((0, 0x7F, 0xFF, chance.randrange(256)))
    return bytes(changed)


def _value(data: bytes, chance: random.Random) -> bytes:
    """Another value somewhere in the JSON of one line."""
    return _in_json(data, chance, lambda node, key: node.__setitem__(key, chance.choice(_VALUES)))


def _key(data: bytes, chance: random.Random) -> bytes:
    """A member less, or under another name."""

    def change(node: Any, key: Any) -> None:
        value = node.pop(key)
        if isinstance(node, dict) and chance.random() < 0.5:
            node[chance.choice(("path", "version", "", "add", str(key).upper()))] = value

    return _in_json(data, chance, change)


def _deep(data: bytes, chance: random.Random) -> bytes:
    deep: Any = 1
    for _ in range(chance.choice((50, 300, 900))):
        deep = {"type": deep} if chance.random() < 0.5 else [deep]
    return _in_json(data, chance, lambda node, key: node.__setitem__(key, chance.choice((deep, str(deep)))))


def _in_json(data: bytes, chance: random.Random, change: Callable[[Any, Any], None]) -> bytes:
    lines = data.splitlines()
    if not lines:
        return data
    at = chance.randrange(len(lines))
    try:
        node = orjson.loads(lines[at])
    except orjson.JSONDecodeError:
        return data
    places = list(_places(node))
    if not places:
        return data
    holder, key = chance.choice(places)
    inner = holder[key]
    if isinstance(inner, str) and inner.startswith("{") and chance.random() < 0.8:
        # A schema, statistics or a configuration that is text.
        holder[key] = _in_json(inner.encode(), chance, change).decode("utf-8", "replace")
    else:
        change(holder, key)
    try:
        lines[at] = json.dumps(node).encode("utf-8", "surrogatepass")
    except RecursionError:
        # What was deep already went deeper than can be written here.
        return data
    return b"\n".join(lines) + b"\n"


def _places(node: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [node]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, (dict, list)):
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            found += [(holder, key) for key in keys]
            waiting += [holder[key] for key in keys]
    return found
