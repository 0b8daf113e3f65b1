"""The Mermaid diagrams of docs/ as SVG files, so that the site needs no script from elsewhere.

`python tools/diagrams.py` draws those that are not there yet or changed, and removes what no page has any more. It
needs Chromium, and Mermaid from npm: `npm install --prefix DIRECTORY mermaid`, then `--mermaid DIRECTORY`. `--check`
draws nothing and fails where a drawing is missing; `tools/site.py` puts the drawings into the pages.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
DRAWN = DOCS / "images" / "diagrams"
FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PAGE = """<!DOCTYPE html><meta charset="utf-8"><body><pre id="text">{text}</pre>
<script src="{script}"></script><script>
mermaid.initialize({{startOnLoad: false, theme: "neutral", htmlLabels: false, flowchart: {{htmlLabels: false}},
  fontFamily: "system-ui, sans-serif"}});
mermaid.render("{name}", document.getElementById("text").textContent).then(
  drawn => {{ document.body.innerHTML = drawn.svg; }},
  error => {{ document.body.innerHTML = "<p>FAILED " + error + "</p>"; }});
</script>"""


def name_of(text: str) -> str:
    """The file of a diagram: it is drawn anew when its text changes."""
    return f"diagram-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def texts() -> dict[str, str]:
    """All diagrams of the pages, by their names."""
    found = (FENCE.findall(page.read_text(encoding="utf-8")) for page in sorted(DOCS.rglob("*.md")))
    return {name_of(text): text for each in found for text in each}


def draw(name: str, text: str, script: Path) -> str:
    """The SVG that Mermaid makes of a text."""
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "page.html"
        page.write_text(_PAGE.format(text=html.escape(text), script=script.as_uri(), name=name), encoding="utf-8")
        browser = shutil.which("chromium") or shutil.which("google-chrome") or "chrome"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
        told = [browser, *flags, "--virtual-time-budget=10000", "--dump-dom", page.as_uri()]
        body = subprocess.run(told, capture_output=True, text=True, check=True).stdout
    drawn = re.search(r"<svg.*</svg>", body, re.DOTALL)
    if drawn is None:
        raise SystemExit(f"Mermaid draws nothing of:\n{text}\n{body[:500]}")
    # A file of its own needs the name space, and tags that XML knows as closed.
    svg = drawn[0].replace("<br>", "<br/>")
    return svg if "xmlns=" in svg[:300] else svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mermaid", type=Path, default=Path("node_modules").parent, help="where npm put Mermaid")
    parser.add_argument("--check", action="store_true", help="draw nothing, fail where a drawing is missing")
    told = parser.parse_args()
    wanted = texts()
    there = {path.stem for path in DRAWN.glob("diagram-*.svg")}
    if told.check:
        missing = sorted(set(wanted) - there)
        sys.stdout.write("".join(f"not drawn: {name}\n{wanted[name]}\n" for name in missing))
        return len(missing)
    script = (told.mermaid / "node_modules/mermaid/dist/mermaid.min.js").resolve()
    for name in sorted(set(wanted) - there):
        (DRAWN / f"{name}.svg").write_text(draw(name, wanted[name], script) + "\n", encoding="utf-8")
    for name in there - set(wanted):
        (DRAWN / f"{name}.svg").unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
