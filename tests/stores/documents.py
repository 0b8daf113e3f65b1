"""Lines of the documents, run as they stand but for places and times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).parents[2]


def blocks(document: str, language: str = "python") -> list[str]:
    """The blocks of code in a document, in order."""
    text = (_REPOSITORY / document).read_text(encoding="utf-8")
    # All of them are looked at: the end of one looks like the beginning of one that names no language.
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for named, block in found if named == language]


def run(block: str, names: dict[str, Any], replaced: Mapping[str, str]) -> None:
    """Run a block with `names`, which it may add to; each text of `replaced` must be in it."""
    for old, new in replaced.items():
        assert old in block, f"{old!r} is no longer in the document"
        block = block.replace(old, new)
    exec(compile(block, "document", "exec"), names)  # noqa: S102 - our own documents
