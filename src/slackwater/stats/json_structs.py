"""Batch conversion of JSON texts to Arrow structs, used to read statistics.

Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

_BATCH_ROWS = 1 << 16
_SLOW_ROWS = 256
_MIN_BLOCK_BYTES = 1 << 22
_MAX_BLOCK_BYTES = (1 << 31) - 1
# Reading fewer bytes takes less time than starting a thread.
_SMALL_BYTES = 1 << 20
_NAMED_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_json_structs(texts: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return one struct of type `wanted` per JSON object in `texts`; null if the text is null or malformed.

    `wanted` has int64, float, double, decimal, boolean and string leaves. An invalid value makes only its own field
    null.
    """
    texts = texts.cast(pa.large_string())
    parts = [texts.slice(start, _BATCH_ROWS) for start in range(0, len(texts), _BATCH_ROWS)]
    structs = [struct for part in parts for struct in _read(part, wanted)]
    return pa.concat_arrays(structs) if structs else pa.array([], wanted)


def struct_of(node: Any) -> Any:
    """Return the struct type of a name tree with types as leaves."""
    return pa.struct([(k, struct_of(v)) for k, v in node.items()]) if isinstance(node, dict) else node


def plant(tree: dict[str, Any], path: Sequence[str], leaf: Any) -> None:
    """Put `leaf` at `path` of a name tree."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = leaf


def _read(texts: pa.Array, wanted: pa.DataType) -> list[pa.Array]:
    """Return the structs of `texts` in parts.

    If the fast reader rejects a part, it is halved, down to a small part for the slow reader.
    """
    read = _read_columnar(texts, wanted)
    if read is None:
        # Spark quotes the numbers without a JSON form.
        read = _read_columnar(pc.replace_substring_regex(texts, r'"(NaN|-?Infinity)"', r"\1"), wanted)
    if read is not None:
        return [read]
    if len(texts) <= _SLOW_ROWS:
        return [pa.array([_pick(_parse(text), wanted) for text in texts.to_pylist()], wanted)]
    half = len(texts) // 2
    return _read(texts.slice(0, half), wanted) + _read(texts.slice(half), wanted)


def _read_columnar(texts: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Return all `texts` parsed by Arrow's JSON reader, None if it rejects any text.

    Each text is wrapped in an object on its own line, because the reader does not support a bare `null`. The wrapper
    also detects a line with two objects, and a text spread over two lines.
    """
    edge = pa.array([""], pa.large_string())
    lines = pa.concat_arrays([edge, texts.fill_null("null"), edge])
    one_list = pa.LargeListArray.from_arrays(pa.array([0, len(lines)], pa.int64()), lines)
    whole = pc.binary_join(one_list, pa.scalar('}\n{"s":', pa.large_string())).buffers()[2]
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    block_bytes = max(_MIN_BLOCK_BYTES, 2 * longest + 64)
    if block_bytes > _MAX_BLOCK_BYTES:
        return None
    try:
        table = pj.read_json(
            pa.BufferReader(whole.slice(len("}\n"), whole.size - len('}\n{"s":') - 1)),
            read_options=pj.ReadOptions(use_threads=whole.size > _SMALL_BYTES, block_size=block_bytes),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema([("s", wanted)]), unexpected_field_behavior="ignore"
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != len(texts):
        return None
    chunks = table.column("s").chunks
    return pa.concat_arrays(chunks) if chunks else pa.array([], wanted)


def _parse(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def _pick(node: Any, wanted: pa.DataType) -> Any:
    if pa.types.is_struct(wanted):
        if not isinstance(node, dict):
            return None
        return {field.name: _pick(node.get(field.name), field.type) for field in wanted}
    if isinstance(node, bool) or pa.types.is_boolean(wanted):
        return node if isinstance(node, bool) and pa.types.is_boolean(wanted) else None
    if pa.types.is_string(wanted):
        return node if isinstance(node, str) else None
    if pa.types.is_int64(wanted):
        return node if isinstance(node, int) and -(2**63) <= node < 2**63 else None
    if isinstance(node, str) and pa.types.is_floating(wanted):
        return _NAMED_NUMBERS.get(node)
    if not isinstance(node, (int, float, Decimal, str)):
        return None
    try:
        # Arrow rejects values outside the precision and scale, and text that is not a number.
        return float(node) if pa.types.is_floating(wanted) else pa.scalar(Decimal(node), wanted).as_py()
    except (ArithmeticError, ValueError, pa.ArrowException):
        return None
