"""Resolves column names of a predicate against the table schema."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.char_varchar import is_padded
from slackwater.protocol.schema.schema import (
    COLLATIONS,
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    collation_of,
)


@dataclass(frozen=True, slots=True)
class ResolvedColumn:
    """A column with the names of the schema. `type` is None inside an array or a map.

    `comparable` is False if Spark's equality differs from equality of the stored values.
    """

    path: tuple[str, ...]
    type: DataType | None
    comparable: bool

    @property
    def is_leaf(self) -> bool:
        """Return whether the type is primitive or decimal, but not void. Only such columns have statistics."""
        return isinstance(self.type, (PrimitiveType, DecimalType)) and str(self.type) != "void"


def resolve_column(schema: StructType, names: Sequence[str]) -> ResolvedColumn:
    """Return the column with the path `names`, in any case; an exact spelling has priority.

    `comparable` is False if Spark's equality differs from equality of the stored values (collated and CHAR(n) text).
    Statistics of such a column are not usable. Raises InvalidArgument for an unknown column, with the existing names.
    """
    struct = schema
    path: list[str] = []
    for depth, name in enumerate(names):
        field = struct.get(name)
        if field is None:
            known = f"{'.'.join(path)} has the fields" if path else "the columns are"
            meant = closest(name, struct.names)
            question = "" if meant is None else f". Did you mean {meant}?"
            raise InvalidArgument(
                f"no column {'.'.join(names)}: {known} {', '.join(struct.names)}{question}",
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
    """Return the name of `known` most similar to a mistyped `name`, in any case. None if no name is similar."""
    folded = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), folded, n=1)
    return folded[found[0]] if found else None


def _is_comparable(field: StructField) -> bool:
    return collation_of(field.type) is None and COLLATIONS not in field.metadata and not is_padded(field)
