"""Sizes in bytes, written in properties and options: `134217728`, `128mb`, `10g`."""

from __future__ import annotations

import re

from slackwater.errors import InvalidArgument

_UNITS: dict[str, int] = {
    unit: 1024**power for power, units in enumerate(("|b", "k|kb", "m|mb", "g|gb", "t|tb")) for unit in units.split("|")
}


def size_in_bytes(name: str, text: str) -> int:
    """Return the size `text` in bytes, greater than 0. Raises InvalidArgument, with `name`, for an invalid size."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = _UNITS.get(found[2]) if found else None
    if found is None or unit is None or int(found[1]) == 0:
        raise InvalidArgument(
            f"{name} must be a size greater than 0, such as 128mb or 134217728, found {text!r}",
            error_class="DELTA_ILLEGAL_OPTION",
        )
    return int(found[1]) * unit
