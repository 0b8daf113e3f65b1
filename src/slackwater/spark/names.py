"""Names as SQL text."""

from __future__ import annotations


def quoted(name: str) -> str:
    """One column name as an identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
