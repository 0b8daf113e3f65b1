"""Column names of a predicate, resolved against the schema of the table."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.char_varchar import is_padded
from slackwater.protocol.schema.schema import DataType, DecimalType, PrimitiveType, StructField, StructType


@dataclass(frozen=True, slots=True)
class ResolvedColumn:
    """A column as the schema spells it; `type` is None for what lies inside an array or a map."""

    path: tuple[str, ...]
    type: DataType | None
    comparable: bool

    @property
    def is_leaf(self) -> bool:
        """Whether the column holds plain values, which is what statistics speak of."""
        return isinstance(self.type, (PrimitiveType, DecimalType)) and str(self.type) != "void"


def resolve_column(schema: StructType, names: Sequence[str]) -> ResolvedColumn:
    """The column that `names` leads to, whatever their case; an exact spelling goes first.

    `comparable` is False where equality is not equality of the stored values (collated and CHAR(n) text), so that
    statistics cannot answer. Raises InvalidArgument for an unknown column, with the names there are.
    """
    struct = schema
    path: list[str] = []
    for depth, name in enumerate(names):
        field = struct.get(name)
        if field is None:
            parent = f" in {'.'.join(path)}" if path else ""
            meant = closest(name, struct.names)
            question = "" if meant is None else f": did you mean {meant}?"
            raise InvalidArgument(
                f"no column {'.'.join(names)}: there is no {name!r}{parent}, only {list(struct.names)}{question}",
                error_class="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
            )
        path.append(field.name)
        rest = tuple(names[depth + 1 :])
        if not rest:
            return ResolvedColumn(tuple(path), field.type, _is_comparable(field))
        if not isinstance(field.type, StructType):
            if isinstance(field.type, (PrimitiveType, DecimalType)):
                raise InvalidArgument(
                    f"no column {'.'.join(names)}: {'.'.join(path)} is a {field.type}, not a struct",
                    error_class="DELTA_COLUMN_PATH_NOT_NESTED",
                )
            return ResolvedColumn((*path, *rest), None, False)
        struct = field.type
    raise InvalidArgument("a column needs a name")


def closest(name: str, known: Sequence[str]) -> str | None:
    """The one of `known` that was meant by a mistyped `name`, whatever the case; None where none is like it."""
    folded = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), folded, n=1)
    return folded[found[0]] if found else None


def _is_comparable(field: StructField) -> bool:
    return "__COLLATIONS" not in field.metadata and not is_padded(field)
