"""Values of parameters, `:name` and `?`, as literals in the text of a statement."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.sql.relations import Replacement, replaced
from slackwater.sql.tokens import tokens_of


def with_literals(text: str, args: Mapping[str, Any] | Sequence[Any]) -> str:
    """`text` with its parameters replaced by literals: named ones of a mapping, `?` in their order of a sequence.

    Raises InvalidArgument for a value that no literal says, for a parameter without a value, and for `?` left over.
    """
    tokens = tokens_of(text)
    found: list[Replacement] = []
    count = 0
    for at, token in enumerate(tokens or ()):
        if isinstance(args, Mapping):
            follows = tokens[at + 1] if tokens is not None and at + 1 < len(tokens) else None
            if token.upper != ":" or follows is None or not follows.is_name or follows.start != token.end:
                continue
            # `a:b` is a path into a variant; a parameter stands by itself.
            if at and tokens is not None and tokens[at - 1].end == token.start and tokens[at - 1].upper not in _OPENING:
                continue
            if follows.value not in args:
                raise InvalidArgument(f"the parameter :{follows.value} has no value in args: {sorted(args)}")
            found.append(Replacement(token.start, follows.end, sql_literal(args[follows.value])))
        elif token.upper == "?":
            if count >= len(args):
                raise InvalidArgument(f"args has {len(args)} values, and the statement more ? than that")
            found.append(Replacement(token.start, token.end, sql_literal(args[count])))
            count += 1
    return replaced(text, found)


_OPENING = frozenset({"(", ",", "=", "<", ">", "+", "-", "*", "/", "<=", ">=", "<>", "!=", "==", "<=>", "||", "["})


def sql_literal(value: Any) -> str:
    """A value of Python as SQL. Raises InvalidArgument for one of another kind, Columns among them."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}L" if not -(2**31) <= value < 2**31 else str(value)
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
    if isinstance(value, Decimal):
        return f"{value}BD"
    if isinstance(value, str):
        return text_literal(value)
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, dt.datetime):
        # A time without a zone is of this machine's, as Spark's `lit` takes it.
        return f"TIMESTAMP '{value.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat(' ')}Z'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, (list, tuple)):
        return f"array({', '.join(map(sql_literal, value))})"
    if isinstance(value, dict):
        return f"map({', '.join(f'{sql_literal(k)}, {sql_literal(v)}' for k, v in value.items())})"
    raise InvalidArgument(
        f"a parameter of a statement on a Delta table must be a plain value, found {type(value).__name__}: write the "
        "expression into the statement"
    )


def text_literal(value: str) -> str:
    """`value` in quotes, whatever characters it has."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"
