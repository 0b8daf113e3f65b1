"""Every command that answers something answers in JSON and CSV, too."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from slackwater.cli.main import app
from slackwater.lake.lake import LogLake
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from tests.cli.commands import PARTITIONED, run, usage_error

# `serve` answers nobody on stdout, and logs in JSON; what is hidden is refused, since it is done with Spark.
_NO_ANSWER = {"serve"}


def _commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    within = getattr(command, "commands", None)
    if within is None:
        yield name, command
        return
    for each, found in within.items():
        yield from _commands(found, f"{name} {each}".strip())


def test_every_command_has_json_and_csv() -> None:
    lacking = [
        name
        for name, command in _commands(typer.main.get_command(app))
        if not command.hidden
        and name not in _NO_ANSWER
        and not {"--json", "--csv"} <= {option for param in command.params for option in param.opts}
    ]
    assert lacking == []


@pytest.fixture
def table(tmp_path: Path) -> str:
    shutil.copytree(PARTITIONED, tmp_path / "t")
    return str(tmp_path / "t")


@pytest.fixture
def lake(tmp_path: Path) -> str:
    with LogLake.open(tmp_path / "lake") as opened:
        for name in ("a", "b"):
            opened._create_log(name, StructType((StructField("id", LONG),)))
    return str(tmp_path / "lake")


@pytest.mark.parametrize(
    ("command", "column"),
    [
        (("log", "checkpoint", "{table}"), "version"),
        (("log", "compact", "{table}", "--from", "0", "--to", "1"), "path"),
        (("log", "cleanup", "{table}"), "deleted"),
        (("restore", "{table}", "--version", "0"), "num_restored_files"),
        (("clone", "{table}", "{table}-clone"), "source_num_of_files"),
        (("convert", "{table}"), "converted"),
        (("generate", "{table}"), "manifest"),
        (("layout", "{table}"), "column"),
        (("timeline", "{table}"), "timestamp"),
    ],
)  # fmt: skip
def test_what_is_done_to_a_table_is_told_to_machines(table: str, command: tuple[str, ...], column: str) -> None:
    _require_both([part.format(table=table) for part in command], column, Path(table).parent)


@pytest.mark.parametrize(
    ("command", "column"),
    [
        (("lake", "create", "{lake}", "--if-not-exists"), "location"),
        (("lake", "rename", "{lake}", "b", "c"), "table"),
        (("lake", "migrate", "{lake}", "b"), "table"),
        (("lake", "release", "{lake}", "a"), "table"),
        (("lake", "drop", "{lake}", "a", "--yes"), "table"),
        (("lake", "adopt", "{lake}", "t", "{lake}/../t"), "table"),
        (("lake", "repair", "{lake}"), "done"),
        (("lake", "backup", "{lake}", "{lake}/../copy.db"), "file"),
        (("token", "create", "reader", "--scope", "read", "--root", "{lake}"), "name"),
        (("token", "revoke", "writer", "--root", "{lake}"), "name"),
    ],
)  # fmt: skip
def test_what_is_done_to_a_lake_is_told_to_machines(
    lake: str, table: str, command: tuple[str, ...], column: str
) -> None:
    pytest.importorskip("uvicorn")
    assert run("token", "create", "writer", "--scope", "read", "--root", lake).exit_code == 0
    _require_both([part.format(lake=lake, table=table) for part in command], column, Path(lake).parent)


def test_a_recovery_is_told_to_machines(lake: str) -> None:
    shutil.rmtree(f"{lake}/_slackwater")
    _require_both(["lake", "recover", lake, "--dry-run"], "done", Path(lake).parent)


def _require_both(command: list[str], column: str, place: Path) -> None:
    """That `command` answers in JSON, and at the same place as it was before in CSV, with the column `column`."""
    shutil.copytree(place, f"{place}-before")
    found = run(*command, "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) is not None
    shutil.rmtree(place)
    shutil.copytree(f"{place}-before", place)
    told = run(*command, "--csv")
    assert told.exit_code == 0, told.output
    header, *rows = csv.reader(told.stdout.splitlines())
    assert header[0] == column or column in header
    assert all(len(row) == len(header) for row in rows)
    assert "not both" in usage_error(*command, "--json", "--csv")
