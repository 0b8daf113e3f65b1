"""The README as packages have it: where it is read from an index, no file of the repository is beside it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")

# A picture that has lines of its own, and the line below that says what it shows.
_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)\s]+\)\n\n(?:\*[^*\n]+\*\n\n)?", re.MULTILINE)


def readme(text: str, site: str | None) -> str:
    """The text with links to the pages of `site`, the address of what `make docs` builds; None: without links."""

    def link(found: re.Match[str]) -> str:
        is_picture, words, target = found.groups()
        page = re.sub(r"\.md(?=#|$)", ".html", target.removeprefix("docs/"))
        if site and target.startswith("docs/"):
            return f"{is_picture}[{words}]({site.rstrip('/')}/{page})"
        return "" if is_picture else words

    return _LINK.sub(link, text if site else _PICTURE.sub("", text))


class ReadmeOfPackages(MetadataHookInterface):
    """SLACKWATER_SITE is where the site is, as for `make docs`."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        written = readme(text, os.environ.get("SLACKWATER_SITE"))
        metadata["readme"] = {"content-type": "text/markdown", "text": written}
