"""The command line as the tests run it, and the tables they look into."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from slackwater.cli.main import app

TABLES = Path(__file__).parents[1] / "data" / "tables"
STAMPED = str(TABLES / "cdc-ict")
PARTITIONED = str(TABLES / "basic-partitioned")
MAPPED = str(TABLES / "ntz-id-mode" / "delta")
WITH_DELETED_ROWS = str(TABLES / "table-with-dv-small")
TOO_NEW = str(TABLES / "invalid-protocol-version")
PARAMETERS = str(TABLES / "operation-parameters")

# Typer reads the signatures of all commands at each call, which takes longer than most of the commands.
vars(typer.testing)["_get_command"] = functools.cache(get_command)


def run(*arguments: str, columns: int | None = None) -> Result:
    """`slackwater` with `arguments`, in a terminal `columns` wide where given, else into a pipe."""
    environment = {"COLUMNS": None if columns is None else str(columns), "NO_COLOR": None, "FORCE_COLOR": None}
    return CliRunner().invoke(app, list(arguments), env=environment)


def lines(*arguments: str, columns: int | None = None) -> list[str]:
    """The lines on stdout of a command that succeeds with nothing on stderr, without trailing blanks."""
    result = run(*arguments, columns=columns)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return [line.rstrip() for line in result.stdout.splitlines()]


def document(*arguments: str) -> Any:
    """The JSON document that a command prints; nothing else is on stdout."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def error(*arguments: str) -> str:
    """The one line on stderr of a command that fails with exit code 1 and leaves stdout empty."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1
    return result.stderr.rstrip("\n")


def usage_error(*arguments: str) -> str:
    """What stderr says of a command that was called wrongly: exit code 2, on one line, without its frame."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    return " ".join(result.stderr.replace("│", " ").split())
