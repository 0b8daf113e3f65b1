"""Hooks of MkDocs: drawings of diagrams, the changelog as a page, and a check that nothing is loaded from elsewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.diagrams import DRAWN, FENCE, name_of
else:
    sys.path.insert(0, str(Path(__file__).parent))
    from diagrams import DRAWN, FENCE, name_of

_LOADED = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=["']?(https?:)?//[^"'\s>]+""")


_CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Replace the text of Mermaid by its drawing, made by `tools/diagrams.py`, and the changelog's page by the file."""
    if page is not None and page.file.src_uri == "changelog.md":
        markdown = changelog()

    def drawing(found: re.Match[str]) -> str:
        path = DRAWN / f"{name_of(found[1])}.svg"
        if not path.is_file():
            raise SystemExit(f"a diagram is not drawn, run tools/diagrams.py:\n{found[1]}")
        return f'<div class="diagram">\n{path.read_text(encoding="utf-8").strip()}\n</div>'

    return FENCE.sub(drawing, markdown)


def changelog() -> str:
    """Return the text of CHANGELOG.md, with links as seen from docs/."""
    return _CHANGELOG.read_text(encoding="utf-8").replace("](docs/", "](")


def on_post_build(config: Any, **_: Any) -> None:
    """Fail where a page would load anything from another host: the site is read offline too."""
    site = Path(config["site_dir"])
    loaded = [
        f"{page.relative_to(site)}: {found[0]}"
        for page in site.rglob("*.html")
        for found in _LOADED.finditer(page.read_text(encoding="utf-8"))
        if 'rel="canonical"' not in found[0]
    ]
    if loaded:
        raise SystemExit("pages load from other hosts:\n" + "\n".join(loaded[:20]))
