"""The lines of the guide to looking at tables and lakes, as they stand but for places."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from slackwater.lake.lake import LogLake
from tests.cli.commands import run
from tests.stores.documents import blocks
from tests.transaction.tables import schema


def test_the_commands_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LogLake.open(tmp_path / "lake") as lake:
        for name in ("orders", "stock"):
            lake.create_log(name, schema({"sku": "string", "qty": "integer"}))
            lake.backfill(name)
    monkeypatch.chdir(tmp_path)
    (block,) = blocks("docs/guides/look.md", "console")
    for line in block.replace("/data/", f"{tmp_path}/").splitlines():
        program, *arguments = shlex.split(line)
        result = run(*arguments)
        assert (program, result.exit_code) == ("slackwater", 0), (line, result.output)
    assert {path.name for path in tmp_path.iterdir()} == {"lake", "lake.html", "orders.svg", "layout.html"}
