"""The help of every command: a verb first, nouns for values, and examples that parse and stand in the guide."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer

from slackwater.cli.main import app
from tests.cli.commands import run
from tests.stores.documents import blocks

GUIDE = "docs/guides/terminal.md"
# A verb that is not here is no mistake: add it. A noun is one.
VERBS = frozenset(
    "Adopt Check Compare Complete Convert Copy Count Create Delete Draw Inspect List Maintain Manage Migrate Print "
    "Recreate Release Remove Rename Replace Report Restore Revoke Serve Show Write".split()
)


def _walk(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if not command.hidden:
        yield name, command
    for each, found in getattr(command, "commands", {}).items():
        yield from _walk(found, f"{name} {each}".strip())


COMMANDS = dict(_walk(typer.main.get_command(app)))
EXAMPLES = [(name, line) for name, command in COMMANDS.items() for line in command.examples]
every_command = pytest.mark.parametrize("name", COMMANDS, ids=lambda name: name or "slackwater")


@cache
def _help(name: str, columns: int = 100) -> str:
    result = run(*name.split(), "--help", columns=columns)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_all_commands_and_groups_are_walked() -> None:
    assert len(COMMANDS) > 40


@every_command
def test_help_begins_with_a_verb(name: str) -> None:
    assert COMMANDS[name].help.split(maxsplit=1)[0].rstrip(",") in VERBS


@every_command
def test_help_shows_no_type_of_python(name: str) -> None:
    assert re.findall(r"<\w[^>\n]*>?", _help(name)) == []


@every_command
def test_values_of_options_and_arguments_are_nouns_in_capitals(name: str) -> None:
    command = COMMANDS[name]
    valued = [each for each in command.params if not getattr(each, "is_flag", False)]
    assert {each.name: each.metavar for each in valued if not re.fullmatch(r"[A-Z0-9_=]{2,}", each.metavar or "")} == {}


@every_command
def test_every_option_has_a_text(name: str) -> None:
    assert [each.name for each in COMMANDS[name].params if not each.help] == []


@every_command
def test_no_name_of_an_option_is_cut(name: str) -> None:
    options = {opt for each in COMMANDS[name].params for opt in (*each.opts, *each.secondary_opts) if "--" in opt}
    assert options - set(re.findall(r"--[\w-]+", _help(name, 60))) == set()


@every_command
@pytest.mark.parametrize("columns", [60, 100])
def test_help_ends_with_one_to_three_examples_on_lines_of_their_own(name: str, columns: int) -> None:
    examples = COMMANDS[name].examples
    assert 1 <= len(examples) <= 3
    shown = _help(name, columns).rstrip("\n").splitlines()
    assert shown[-len(examples) - 1 :] == ["Examples:", *(f"  {each}" for each in examples)]


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_an_example_is_accepted_by_the_parser(name: str, line: str) -> None:
    program, *arguments = shlex.split(line)
    assert program == "slackwater"
    assert f"{' '.join(arguments)} ".startswith(f"{name} ".lstrip())
    command: Any = typer.main.get_command(app)
    context = None
    while hasattr(command, "commands"):
        first, *arguments = arguments
        context = command.make_context(program, [first], parent=context)
        command = command.commands[first]
    # Parses the arguments, with the checks of their values, and does not run the command.
    command.make_context(program, arguments, parent=context)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("vacuum", "--retention-hours HOURS Retention in hours. Versions current within this period stay readable. "
                   "[default: delta.deletedFileRetentionDuration]"),
        ("vacuum", "--no-retention-check Reject a retention shorter than the table's. [default: on]"),
        ("vacuum", "HOURS Minimum age in hours of deleted files never named by the log. [default: 24]"),
        ("head", "-n, --number ROWS Maximum number of rows. [default: 10]"),
        ("lake tables", "--token TOKEN Access token of the lake's server. [env var: SLACKWATER_TOKEN]"),
        ("lake recover", "Usage: root lake recover [OPTIONS] LAKE [TABLE]..."),
        ("query", "--table NAME=PATH Table with its name in the query. Repeatable. [required]"),
        ("lake backfill", "NAME Name of the table. [default: all tables]"),
    ],
)  # fmt: skip
def test_help_names_units_and_defaults(name: str, line: str) -> None:
    assert line in " ".join(_help(name).split())


@pytest.mark.parametrize("group", ["", "lake", "log", "token"])
def test_a_group_without_a_command_prints_its_help(group: str) -> None:
    result = run(*group.split())
    assert (result.exit_code, result.stderr) == (2, "")
    assert result.stdout == run(*group.split(), "--help").stdout


# The guide runs in a folder of its own and now; a help names a place that looks like one of a server, and a time.
_IN_THE_GUIDE = {"/data/": "work/", "2026-11-21T10:00:00Z": '"$(date -u +%FT%TZ)"'}


def test_every_example_stands_in_the_guide_where_it_is_run() -> None:
    guide = {line for block in blocks(GUIDE, "console") for line in block.splitlines()}
    for _, line in EXAMPLES:
        found = line
        for here, there in _IN_THE_GUIDE.items():
            found = found.replace(here, there)
        assert found in guide
