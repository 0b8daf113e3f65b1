"""Operation kinds for pictures, such as write, update, delete and definition."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Kind(Enum):
    """A kind of operation. The value is its legend label."""

    WRITE = "write"
    CHANGE = "update, merge"
    DELETE = "delete"
    UPKEEP = "upkeep"
    DEFINITION = "definition"
    RETURN = "restore, clone"
    OTHER = "other"


_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "WRITE": Kind.WRITE,
        "STREAMING UPDATE": Kind.WRITE,
        "CREATE TABLE AS SELECT": Kind.WRITE,
        "CREATE OR REPLACE TABLE AS SELECT": Kind.WRITE,
        "REPLACE TABLE AS SELECT": Kind.WRITE,
        "COPY INTO": Kind.WRITE,
        "CONVERT": Kind.WRITE,
        "UPDATE": Kind.CHANGE,
        "MERGE": Kind.CHANGE,
        "DELETE": Kind.DELETE,
        "TRUNCATE": Kind.DELETE,
        "RESTORE": Kind.RETURN,
        "CLONE": Kind.RETURN,
        "OPTIMIZE": Kind.UPKEEP,
        "REORG": Kind.UPKEEP,
        "VACUUM": Kind.UPKEEP,
        "COMPUTE STATS": Kind.UPKEEP,
        "CHECKPOINT": Kind.UPKEEP,
    }
)
_DEFINING = frozenset(
    {"CREATE", "REPLACE", "SET", "UNSET", "ADD", "DROP", "RENAME", "CHANGE", "ALTER", "CLUSTER", "UPGRADE", "UPDATE"}
    | {"ADOPT", "RELEASE", "RECOVER", "ROW", "DOMAIN", "REMOVE"}
)


def kind_of(operation: str | None) -> Kind:
    """Return the kind of an operation name from the log. An unknown name, or None, is OTHER.

    >>> kind_of("VACUUM END"), kind_of("SET TBLPROPERTIES"), kind_of(None)
    (<Kind.UPKEEP: 'upkeep'>, <Kind.DEFINITION: 'definition'>, <Kind.OTHER: 'other'>)
    """
    if operation is None:
        return Kind.OTHER
    name = operation.upper()
    first = name.split(" ")[0]
    if name in _KINDS or (first in _KINDS and first not in _DEFINING):
        return _KINDS.get(name) or _KINDS[first]
    return Kind.DEFINITION if first in _DEFINING else Kind.OTHER
