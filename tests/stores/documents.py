"""Lines of the documents, run as they stand but for places and times.

A comment right before a block says what it is for: `<!-- classic -->` and `<!-- connect -->` of which mode of Spark it
is, `<!-- not run: why -->` that it is not run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).parents[2]
_MODES = ("classic", "connect")


@dataclass(frozen=True)
class Block:
    """A block of code: its text, the line it begins in, from 1, and what the comment before it says."""

    text: str
    line: int
    note: str

    @property
    def reason(self) -> str | None:
        """Why it is not run; None where it is."""
        return self.note.removeprefix("not run: ") if self.note.startswith("not run: ") else None

    def is_for(self, mode: str) -> bool:
        """Whether it is run in a mode of Spark."""
        return self.reason is None and self.note in ("", mode)


def marked_blocks(document: str, language: str = "python") -> list[Block]:
    """The blocks of code in a document, in order."""
    text = (_REPOSITORY / document).read_text(encoding="utf-8")
    # All of them are looked at: the end of one looks like the beginning of one that names no language.
    found = re.finditer(r"^(?:<!-- ([^\n]*) -->\n)?```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    blocks = [(each, Block(each[3], text.count("\n", 0, each.start(3)), each[1] or "")) for each in found]
    for _, block in blocks:
        assert block.reason or block.note in ("", *_MODES), f"{document}:{block.line}: {block.note!r} says nothing"
    return [block for each, block in blocks if each[2] == language]


def blocks(document: str, language: str = "python") -> list[str]:
    """The texts of the blocks of code in a document, in order."""
    return [block.text for block in marked_blocks(document, language)]


def run(block: str, names: dict[str, Any], replaced: Mapping[str, str]) -> None:
    """Run a block with `names`, which it may add to; each text of `replaced` must be in it."""
    for old, new in replaced.items():
        assert old in block, f"{old!r} is no longer in the document"
        block = block.replace(old, new)
    exec(compile(block, "document", "exec"), names)  # noqa: S102 - our own documents


def run_document(document: str, names: dict[str, Any], replaced: Mapping[str, str], mode: str = "classic") -> None:
    """Run all blocks of Python that are for `mode`, in order; each text of `replaced` must be in the document."""
    texts = [block for block in marked_blocks(document) if block.is_for(mode)]
    for old in replaced:
        assert any(old in block.text for block in texts), f"{old!r} is no longer in {document}"
    for block in texts:
        text = block.text
        for old, new in replaced.items():
            text = text.replace(old, new)
        # An error shows the line of the document.
        exec(compile("\n" * block.line + text, document, "exec"), names)  # noqa: S102 - our own documents
