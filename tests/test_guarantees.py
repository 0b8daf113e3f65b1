"""Each promise in `docs/guarantees.md` and `docs/security.md` cites tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOCUMENTS = [(TESTS.parent / "docs" / name, least) for name, least in (("guarantees.md", 80), ("security.md", 35))]
_CITED = re.compile(r"`([a-z_/]+\.py)(?:::(test_\w+))?`")


@pytest.mark.parametrize(("document", "least"), DOCUMENTS, ids=lambda value: getattr(value, "name", ""))
def test_every_test_that_a_promise_cites_is_there(document: Path, least: int) -> None:
    cited = _CITED.findall(document.read_text(encoding="utf-8"))
    assert len(cited) > least
    missing = [
        f"{file}::{name}"
        for file, name in cited
        if not (TESTS / file).is_file()
        or not re.search(rf"def {name or 'test_'}{'[(]' if name else ''}", (TESTS / file).read_text(encoding="utf-8"))
    ]
    assert missing == []


@pytest.mark.parametrize("document", [document for document, _ in DOCUMENTS], ids=lambda document: document.name)
def test_every_promise_cites_a_test(document: Path) -> None:
    rows = [line for line in document.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith("| promise")]
    assert [row for row in promises if _CITED.search(row) is None] == []
