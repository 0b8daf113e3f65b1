"""The lines of the guide to looking at tables and lakes, as they stand."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.stores.documents import blocks, run_document

GUIDE = "docs/guides/look.md"


def test_the_lines_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_document(GUIDE, {}, {})
    (block,) = blocks(GUIDE, "console")
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        result = run(*arguments)
        assert (program, result.exit_code) == ("slackwater", 0), (line, result.output)
    assert {path.name for path in Path("work").iterdir()} == {"lake", "lake.html", "orders.svg", "layout.html"}
