"""Field types of requests to an owner and of its responses, with their wire types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from slackwater.owner.api.wire_model import WireType

GREATEST_VERSION = 2**63 - 1
GREATEST_TIMESTAMP_MS = 253_402_128_000_000
"""9999-12-30. In every time zone, this instant and the day after have a date."""
GREATEST_TIMEOUT_S = 3600.0
MOST_ITEMS = 10_000
ID_PATTERN = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
NAME_PATTERN = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,254}$"
TEXT_PATTERN = r"^[^\x00-\x1f\x7f]+$"

T = TypeVar("T")

_A_UUID = "A UUID in its canonical form."
EPOCH = "Milliseconds since the epoch."


def whole_number(value: Any) -> Any:
    """Return `value`, converted to int if integral."""
    # JSON does not distinguish 1.0 from 1. Above 53 bits a float may differ from the intended number.
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


Id = Annotated[
    str,
    WireType(pattern=ID_PATTERN, description=_A_UUID, told="a UUID such as 8c2c4f0e-31f5-4d2c-9a53-0f3f0f8a7b11"),
]
ToldId = Annotated[str, WireType(schema={"type": "string", "pattern": ID_PATTERN, "description": _A_UUID})]
"""An id in a response, unchecked because the owner created the id."""
Name = Annotated[
    str,
    WireType(
        pattern=NAME_PATTERN,
        description="1 to 255 of A-Z a-z 0-9 _ . -, no dot in front.",
        told="1 to 255 of the characters A-Z a-z 0-9 _ . - and does not begin with a dot",
    ),
]
Location = Annotated[
    str,
    WireType(pattern=TEXT_PATTERN, max_length=4096, description="The URL of the table's root, in a root of the owner."),
]
Version = Annotated[
    int, WireType(before=whole_number, ge=0, le=GREATEST_VERSION, told=f"a number from 0 to {GREATEST_VERSION}")
]
Known = Annotated[
    int, WireType(before=whole_number, ge=-1, le=GREATEST_VERSION, told=f"a number from -1 to {GREATEST_VERSION}")
]
"""A version, or -1."""
Instant = Annotated[
    int,
    WireType(
        before=whole_number,
        ge=0,
        le=GREATEST_TIMESTAMP_MS,
        description=EPOCH,
        told=f"a number of ms since the epoch up to {GREATEST_TIMESTAMP_MS}",
    ),
]
Many = Annotated[Sequence[T], WireType(max_length=MOST_ITEMS, fail_fast=True)]
"""An array in a request."""
Listed = Annotated[Sequence[T], WireType()]
"""An array in a response."""
MayMove = Annotated[bool, WireType(description="A later version than the one asked for will do: a blind append.")]
IsReplay = Annotated[bool, WireType(description="An earlier, equal request may have been carried out.")]
