"""Code blocks of the documents, run as they stand but for places.

A comment directly before a block is its mark:

- `<!-- classic -->`, `<!-- connect -->`: the mode of Spark that the block is for.
- `<!-- needs: what -->`: the block needs a server or a program. A test provides it, `make people` skips the block.
- `<!-- file: name -->`: the block is the content of a file.
- `<!-- not run: why -->`: nothing runs the block.

A mode and a need are joined by a semicolon: `<!-- classic; needs: a cluster -->`.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).parents[2]
_MODES = ("classic", "connect")
_KINDS = ("needs: ", "file: ", "not run: ")
_BLOCK = re.compile(r"^(?:<!-- ([^\n]*) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Two runs print different times and ids: both are compared without them.
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        text: the code.
        line: the line of the document before the first line of the code, from 1.
        note: the mark, or an empty text.
        language: the language after the back quotes, or an empty text.
    """

    text: str
    line: int
    note: str
    language: str = ""

    @property
    def reason(self) -> str | None:
        """Reason why nothing runs the block; None if it is run."""
        return self._after("not run: ")

    @property
    def needs(self) -> str | None:
        """Server or program that the block needs; None if it needs neither."""
        return self._after("needs: ")

    @property
    def file(self) -> str | None:
        """Name of the file with this content; None if the block is code to run."""
        return self._after("file: ")

    def is_for(self, mode: str) -> bool:
        """Return whether the block is run in a mode of Spark."""
        named = [mark for mark in self._marks if mark in _MODES]
        return self.reason is None and self.file is None and (not named or mode in named)

    @property
    def is_known(self) -> bool:
        """Whether the marks have a meaning."""
        return all(mark in _MODES or mark.startswith(_KINDS) for mark in self._marks)

    @property
    def _marks(self) -> list[str]:
        return [mark for mark in self.note.split("; ") if mark]

    def _after(self, kind: str) -> str | None:
        return next((mark.removeprefix(kind) for mark in self._marks if mark.startswith(kind)), None)


def all_blocks(document: str) -> list[Block]:
    """Return the blocks of all languages in a document, in order."""
    text = (_REPOSITORY / document).read_text(encoding="utf-8")
    # All languages are parsed, because the end of a block looks like the begin of a block without a language.
    found = [
        Block(each[3], text.count("\n", 0, each.start(3)), each[1] or "", each[2]) for each in _BLOCK.finditer(text)
    ]
    for block in found:
        assert block.is_known, f"{document}:{block.line}: unknown mark {block.note!r}"
    return found


def marked_blocks(document: str, language: str = "python") -> list[Block]:
    """Return the blocks of one language in a document, in order."""
    return [block for block in all_blocks(document) if block.language == language]


def blocks(document: str, language: str = "python") -> list[str]:
    """Return the texts of the blocks of code in a document, in order."""
    return [block.text for block in marked_blocks(document, language)]


def run(block: str, names: dict[str, Any], replaced: Mapping[str, str]) -> None:
    """Run a block with `names`, which it may add to; each text of `replaced` must be in it."""
    for old, new in replaced.items():
        assert old in block, f"{old!r} is no longer in the document"
        block = block.replace(old, new)
    exec(compile(block, "document", "exec"), names)  # noqa: S102 - our own documents


def run_document(document: str, names: dict[str, Any], replaced: Mapping[str, str], mode: str = "classic") -> None:
    """Run all Python blocks for `mode`, in order; each text of `replaced` must be in the document.

    A block `text` directly after a block of Python is its output, and is compared with it.
    """
    every = all_blocks(document)
    texts = [block for block in every if block.language == "python" and block.is_for(mode)]
    for old in replaced:
        assert any(old in block.text for block in texts), f"{old!r} is no longer in {document}"
    for block in texts:
        text = block.text
        for old, new in replaced.items():
            text = text.replace(old, new)
        # An error shows the line of the document.
        code = compile("\n" * block.line + text, document, "exec")
        expected = _output_of(block, every)
        if expected is None:
            exec(code, names)  # noqa: S102 - our own documents
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, names)  # noqa: S102 - our own documents
        shown = printed.getvalue()
        assert _comparable(shown) == _comparable(expected), f"{document}:{block.line} prints\n{shown}"


def _output_of(block: Block, every: list[Block]) -> str | None:
    after = every[every.index(block) + 1 :]
    return after[0].text if after and after[0].language == "text" else None


def _comparable(output: str) -> list[str]:
    # The width of a column depends on its longest time.
    without_times = _TIME.sub("<time>", output)
    return [
        re.sub(r" *\| *", "|", re.sub(r"-+", "-", line)).strip() for line in without_times.splitlines() if line.strip()
    ]
