"""What MkDocs asks while it builds the site: diagrams as drawings, and that nothing is loaded from elsewhere."""

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


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Mermaid's text becomes its drawing, which `tools/diagrams.py` has made."""

    def drawing(found: re.Match[str]) -> str:
        path = DRAWN / f"{name_of(found[1])}.svg"
        if not path.is_file():
            raise SystemExit(f"a diagram is not drawn, run tools/diagrams.py:\n{found[1]}")
        return f'<div class="diagram">\n{path.read_text(encoding="utf-8").strip()}\n</div>'

    return FENCE.sub(drawing, markdown)


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
