"""Each promise in `docs/guarantees.md` cites tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
DOCUMENT = TESTS.parent / "docs" / "guarantees.md"
_CITED = re.compile(r"`([a-z_/]+\.py)(?:::(test_\w+))?`")


def test_every_test_that_a_promise_cites_is_there() -> None:
    cited = _CITED.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert len(cited) > 30
    missing = [
        f"{file}::{name}"
        for file, name in cited
        if not (TESTS / file).is_file() or f"def {name or 'test_'}" not in (TESTS / file).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_every_promise_cites_a_test() -> None:
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith("| promise")]
    assert [row for row in promises if _CITED.search(row) is None] == []
