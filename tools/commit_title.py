"""Check the title of a commit message: `type(scope): imperative`, at most 72 characters, one change.

Usage: commit_title.py FILE, as Git's hook `commit-msg` calls it. Exit code 1 and a sentence if the title breaks a rule.
"""

from __future__ import annotations

import re
import sys

TYPES = ("build", "chore", "ci", "docs", "feat", "fix", "perf", "refactor", "revert", "style", "test")
LONGEST = 72
_TITLE = re.compile(rf"(?:{'|'.join(TYPES)})(?:\([a-z0-9_./-]+\))?!?: [^A-Z\s].*[^.\s]")


def problem(title: str) -> str | None:
    """What is wrong with a title, or None."""
    if title.startswith(("Merge ", "fixup! ", "squash! ")):
        return None
    if len(title) > LONGEST:
        return f"the title has {len(title)} characters: at most {LONGEST} are allowed"
    if not _TITLE.fullmatch(title):
        return f"write `type(scope): imperative`, in lower case and without a full stop; types are {', '.join(TYPES)}"
    if ";" in title:
        return "a title names one change: split the commit, or move the second part into the body"
    return None


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as file:
        title = file.readline().rstrip("\n")
    found = problem(title)
    if found:
        print(f"commit title: {found}\n  {title}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
