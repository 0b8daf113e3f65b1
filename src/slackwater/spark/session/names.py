"""Names as SQL text."""

from __future__ import annotations

import re

_PATH_NAME = re.compile(r"(?is)delta\.`(.+)`\Z")


def quoted(name: str) -> str:
    """One column name as an identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def table_path(name: str) -> str | None:
    """The path in a table name of the form ``delta.`/path` ``, None for any other name."""
    match = _PATH_NAME.match(name.strip())
    return match[1].replace("``", "`") if match else None
