"""Features known by name that this package neither reads nor writes, with the reason for messages.

Source: the RFCs of the Delta protocol; delta-spark's and the Delta kernel's lists of table features.
"""

from __future__ import annotations

from collections.abc import Iterable

_NOT_YET = "It is not in the Delta protocol yet"
_TREE = f"stores the list of files in Iceberg's metadata tree. {_NOT_YET}"
_REASONS = {
    "adaptiveMetadata": _TREE,
    "adaptiveMetadata-preview": _TREE,
    "collations-dev": f"compares texts by the rules of a language. {_NOT_YET}",
    "coordinatedCommits-preview": "needs the commit coordinator of the table. It is not in the Delta protocol",
    "intervals": f"stores intervals in columns. {_NOT_YET}",
    "redirectReaderWriter-preview": f"redirects readers and writers to another table. {_NOT_YET}",
    "redirectWriterOnly-preview": f"redirects writers to another table. {_NOT_YET}",
    "timestampNanos": f"stores timestamps with nanoseconds. {_NOT_YET}",
}


def explained(names: Iterable[str]) -> str:
    """Return sentences about the features in `names` with a known reason, each after a space. Empty without one."""
    return "".join(f" {name} {_REASONS[name]}." for name in names if name in _REASONS)
