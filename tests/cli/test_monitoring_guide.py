"""The lines of the guide to many tables, docs/guides/monitoring.md, as they stand."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

import slackwater
from tests.cli.commands import run
from tests.stores.documents import blocks, run_document

GUIDE = "docs/guides/monitoring.md"


def test_the_lines_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    run_document(GUIDE, names, {})
    found = slackwater.Snapshot.load("work/health").to_arrow().to_pylist()
    assert [(row["table"], row["version"], row["files"], row["small_files"]) for row in found] == [
        ("orders", 3, 3, 3),
        ("stock", 3, 3, 3),
    ]
    assert all(row["log_mib"] >= 0 and row["commits_since_checkpoint"] >= 1 for row in found)
    names["lake"].close()
    for line in blocks(GUIDE, "console")[0].splitlines():
        program, *arguments = shlex.split(line)
        result = run(*arguments)
        assert (program, result.exit_code) == ("slackwater", 0), (line, result.output)
