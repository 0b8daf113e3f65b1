"""The pictures of a page: where they are kept, how each is drawn, and which of them are not as they should be."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Gallery:
    """What `page` shows of `directory`, both below docs/: a function for each picture, by the name of its file."""

    page: str
    directory: str
    drawn: Mapping[str, Callable[[], str]]

    def path(self, name: str) -> Path:
        """Where a picture is kept."""
        return DOCS / self.directory / name

    def is_stale(self, name: str) -> bool:
        """Whether a picture is missing, or not as it would be drawn now."""
        path = self.path(name)
        return not path.is_file() or shapes(path.read_text(encoding="utf-8")) != shapes(self.drawn[name]())

    def draw(self, name: str) -> None:
        """Draw a picture anew, where it is stale."""
        if self.is_stale(name):
            self.path(name).parent.mkdir(parents=True, exist_ok=True)
            self.path(name).write_text(self.drawn[name](), encoding="utf-8")

    def unknown(self) -> list[str]:
        """The pictures in the directory that nothing draws."""
        return sorted({path.name for path in (DOCS / self.directory).glob("*.svg")} - set(self.drawn))

    def unshown(self) -> list[str]:
        """The pictures that the page does not show."""
        page = DOCS / self.page
        text = page.read_text(encoding="utf-8")
        return [name for name in self.drawn if f"]({os.path.relpath(self.path(name), page.parent)})" not in text]


def shapes(drawn: str) -> str:
    """A picture without its style sheet: another look is no other fact."""
    before, _, rest = drawn.partition("<style>")
    return before + rest.partition("</style>")[2]
