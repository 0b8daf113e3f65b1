"""The sections of the Delta protocol that docs/protocol-coverage.md must have.

`python -m tools.protocol_sections PROTOCOL.md` writes the list of a new text of the protocol. A test compares the list
with the page. Sections about one feature stand for their subsections.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "tests" / "data" / "protocol-sections.txt"
_HEADING = re.compile(r"^(#{1,3}) (.+)$", re.MULTILINE)
_CONTAINERS = ("Actions", "Additional Requirements for Writers", "Requirements for Readers", "Appendix")
_FILES = "Delta Table Specification"
_NOT_RULES = ("Delta Transaction Log Protocol", "Overview")


def sections(text: str) -> list[str]:
    """Return the sections of the protocol's `text` that need a row, each once."""
    found: list[str] = []
    above = ""
    for marks, title in _HEADING.findall(text):
        depth = len(marks)
        above = title if depth == 1 else above
        is_feature = depth == 1 and title not in (*_CONTAINERS, _FILES, *_NOT_RULES)
        is_part = (depth == 2 and above in (*_CONTAINERS, _FILES)) or (depth == 3 and above == _FILES)
        if (is_feature or is_part) and title.strip() not in found:
            found.append(title.strip())
    return found


def main() -> int:
    """Write the list of a text."""
    LIST.write_text("\n".join(sections(Path(sys.argv[1]).read_text(encoding="utf-8"))) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
