from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import slackwater
from slackwater.cli.main import app
from tests.cli.commands import (
    PARTITIONED,
    STAMPED,
    TOO_NEW,
    document,
    error,
    lines,
    run,
    usage_error,
)
from tests.log.tables import TableLog, add, commit_info, remove

NOUNS = ("history", "detail", "files", "schema")
PROGRAM = [sys.executable, "-m", "slackwater"]


@pytest.mark.parametrize("noun", NOUNS)
def test_a_path_without_a_table_is_one_plain_line(noun: str, tmp_path: Path) -> None:
    assert error(noun, str(tmp_path)) == (
        f"error: {tmp_path.as_uri()} is not a Delta table: its _delta_log directory is missing or holds no commit"
    )


@pytest.mark.parametrize("noun", NOUNS)
def test_a_table_that_is_too_new_is_one_plain_line(noun: str) -> None:
    assert error(noun, TOO_NEW, "--json") == (
        f"error: {Path(TOO_NEW).as_uri()}: needs reader version 99. This version of Slackwater reads up to 3 "
        "(reader features: none). Upgrade Slackwater"
    )


def test_a_version_that_is_not_there_is_one_plain_line() -> None:
    assert error("detail", STAMPED, "--version", "9") == (
        f"error: {Path(STAMPED).as_uri()} has no version 9: its newest version is 3"
    )


def test_a_moment_before_the_first_version_is_one_plain_line() -> None:
    assert error("files", STAMPED, "--timestamp", "2001-01-01").startswith(
        f"error: {Path(STAMPED).as_uri()}: no version is as old as 2001-01-01 00:00:00.000 UTC"
    )


def test_a_moment_after_the_last_commit_is_one_plain_line() -> None:
    for command in ("files", "detail", "history", "schema"):
        message = error(command, STAMPED, "--timestamp", "2201-01-01")
        assert "2201-01-01 00:00:00.000 UTC is after the last commit, version 3" in message


def test_an_unknown_scheme_is_one_plain_line() -> None:
    assert error("detail", "nope://bucket/t").startswith("error: unknown scheme 'nope'")


def test_a_table_on_hdfs_is_one_plain_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.storage.open._hadoop", None)
    message = error("history", "hdfs://namenode/t")
    assert message.startswith("error: hdfs://namenode/t: files on hdfs://")
    assert "a classic Spark session" in message


def test_storage_options_reach_the_store() -> None:
    message = error("detail", "s3://bucket/t", "--storage-option", "nonsense=1", "--storage-option", "AWS_REGION=x")
    assert message.startswith("error: s3://bucket does not know a storage option")


def test_an_error_line_is_red_in_a_terminal_that_has_colour() -> None:
    program = subprocess.run(
        [*PROGRAM, "detail", TOO_NEW],
        env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (program.returncode, program.stdout) == (1, "")
    assert program.stderr.startswith("\x1b[31merror: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("detail",), "Missing argument"),
        (("detail", STAMPED, "--version", "-1"), "--version"),
        (("history", STAMPED, "--limit", "0"), "--limit"),
        (("detail", STAMPED, "--version", "1", "--timestamp", "2026-01-01"), "use a version or a timestamp, not both"),
        (("detail", STAMPED, "--timestamp", "yesterday"), "('yesterday') cannot be converted to a valid timestamp"),
        (("detail", STAMPED, "--storage-option", "AWS_REGION"), "expected KEY=VALUE"),
        (("defragment", STAMPED), "No such command"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...], message: str) -> None:
    assert message in usage_error(*arguments)


def test_a_malformed_storage_option_is_not_repeated_in_the_message() -> None:
    assert "hunter2" not in usage_error("detail", STAMPED, "--storage-option", "=hunter2")


def test_a_damaged_checkpoint_is_one_line_of_warning_and_the_answer_stands(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path)).create(add("f0")).grow(2)
    log.put("00000000000000000001.checkpoint.parquet", b"not parquet")
    result = run("detail", str(tmp_path))
    assert result.exit_code == 0
    assert result.stderr.startswith(f"warning: {tmp_path.as_uri()}")
    assert "00000000000000000001.checkpoint.parquet" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "numFiles           3" in [line.rstrip() for line in result.stdout.splitlines()]


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("slackwater.cli.table.describe.describe_detail", broken)
    assert isinstance(run("detail", STAMPED).exception, ZeroDivisionError)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_tables_fold_to_the_terminal_and_lose_nothing(columns: int) -> None:
    shown = lines("detail", STAMPED, columns=columns)
    assert max(map(len, shown)) <= columns
    values = "".join(line[19:] for line in shown)
    assert Path(STAMPED).as_uri() in values
    assert "76cd2cf5-ee8f-487e-8725-785a2c6bbb07" in values
    assert "delta.enableInCommitTimestamps=true" in values


def test_json_is_the_same_whatever_the_width() -> None:
    wide = run("files", PARTITIONED, "--json", columns=200).stdout
    assert wide == run("files", PARTITIONED, "--json", columns=20).stdout
    assert wide.endswith("]\n")


def test_what_stands_in_a_log_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path)).create(add("f0"))
    log.commit(1, commit_info(operation="[red]WRITE[/red]", userName="a\x1b[2Jb"))
    text = "\n".join(lines("history", str(tmp_path)))
    assert "[red]WRITE[/red]" in text
    assert "a\\x1b[2Jb" in text
    assert document("history", str(tmp_path))[0]["userName"] == "a\x1b[2Jb"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_has_gone_away_is_no_error(options: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        program = subprocess.run(
            [*PROGRAM, "history", STAMPED, *options], stdout=writing, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writing)
    assert program.stderr == b""


@pytest.mark.parametrize("command", ["optimize", "reorg", "delete", "update", "merge"])
def test_what_is_done_with_spark_is_said(command: str) -> None:
    assert f"error: {command} rewrites data files, which needs Spark. Use " in error(command, STAMPED, "--where", "x")
    assert command not in run("--help").stdout.split()


def test_the_version_is_said() -> None:
    said = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == (f"slackwater {slackwater.__version__}\n", "")


@pytest.mark.parametrize(
    ("shell", "environment"),
    [
        ("bash", {"COMP_WORDS": "slackwater {}", "COMP_CWORD": "{count}"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "slackwater {}"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "slackwater {}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
@pytest.mark.parametrize(
    ("typed", "offered"),
    [("hist", "history"), ("lake crea", "create"), ("history --wi", "--wide"), ("log comp", "compact")],
)
def test_a_shell_completes_what_is_typed(shell: str, environment: dict[str, str], typed: str, offered: str) -> None:
    asked = {name: text.format(typed, count=len(typed.split())) for name, text in environment.items()}
    told = {"_SLACKWATER_COMPLETE": f"complete_{shell}", **asked}
    answer = CliRunner().invoke(app, [], env=told, prog_name="slackwater")
    assert offered in answer.stdout
    assert "detail" not in answer.stdout


def test_the_script_for_a_shell_asks_the_program() -> None:
    told = {**os.environ, "_SLACKWATER_COMPLETE": "source_bash"}
    script = subprocess.run(PROGRAM, env=told, capture_output=True, text=True, check=False).stdout
    assert "_SLACKWATER_COMPLETE=complete_bash" in script
    assert "slackwater" in script


def in_terminal(*arguments: str, **environment: str) -> str:
    """What the program shows in a terminal, stdout and stderr together."""
    leader, follower = pty.openpty()
    told = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    with subprocess.Popen(
        [*PROGRAM, *arguments], stdout=follower, stderr=follower, env={**told, "TERM": "xterm-256color", **environment}
    ) as program:
        os.close(follower)
        shown = b""
        # At the end Linux answers with an error.
        with contextlib.suppress(OSError):
            while piece := os.read(leader, 65536):
                shown += piece
        program.wait()
    os.close(leader)
    return shown.decode()


def test_a_terminal_has_colours_unless_they_are_not_wanted() -> None:
    assert "\x1b[31merror" in in_terminal("detail", TOO_NEW)
    assert "\x1b[3" not in in_terminal("detail", TOO_NEW, NO_COLOR="1")
    assert "\x1b" not in in_terminal("detail", TOO_NEW, TERM="dumb")


@pytest.mark.parametrize("arguments", [("history", STAMPED), ("schema", STAMPED), ("--help",), ("detail", TOO_NEW)])
def test_into_a_pipe_go_no_colours(arguments: tuple[str, ...]) -> None:
    told = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    program = subprocess.run(
        [*PROGRAM, *arguments], env={**told, "TERM": "xterm-256color"}, capture_output=True, text=True, check=False
    )
    assert "\x1b" not in program.stdout + program.stderr


def test_what_is_watched_is_shown_again_until_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("slackwater.cli.common.watch.time.sleep", sleep)
    shown = lines("history", STAMPED, "--limit", "1", "--watch", "2.5")
    assert slept == [2.5] * 3
    assert shown == lines("history", STAMPED, "--limit", "1") * 3
    assert "--watch" in usage_error("history", STAMPED, "--watch", "0")


def test_importing_the_package_loads_nothing_of_the_command_line() -> None:
    code = "import slackwater, sys; print([m for m in ('typer', 'rich', 'slackwater.cli') if m in sys.modules])"
    program = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert program.stdout == "[]\n"


def test_the_command_line_loads_no_spark_and_nothing_that_one_command_alone_needs() -> None:
    others = ("pyspark", "sqlglot", "sqlalchemy", "httpx", "pandas", "duckdb", "polars", "slackwater.lake.lake")
    code = f"import slackwater.cli.main, sys; print([name for name in {others} if name in sys.modules])"
    program = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert program.stdout == "[]\n"


# Modules with an import that takes longer than a read of a small log.
HEAVY = (
    "pandas", "pyarrow.compute", "pyarrow.parquet", "ssl", "html.entities", "sqlglot", "sqlalchemy", "duckdb",
    "obstore", "httpx", "pydantic", "slackwater.data_files", "slackwater.stats", "slackwater.html.components",
    "slackwater.owner.api.commit_owner", "slackwater.protocol.features.protocol_upgrade",
)  # fmt: skip


@pytest.mark.parametrize("load", ["path", "path, version=1", "path, timestamp='2200-01-01', strict=False"])
def test_a_snapshot_of_a_small_log_loads_no_heavy_module(load: str, tmp_path: Path) -> None:
    TableLog(str(tmp_path)).create(add("f0")).grow(3).commit(4, remove("f0"))
    code = f"""
import slackwater, sys
path = {str(tmp_path)!r}
snapshot = slackwater.Snapshot.load({load})
print(repr(snapshot), [name for name in {HEAVY} if name in sys.modules])
"""
    program = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert program.stdout.endswith(", 1 column> []\n")


def test_a_history_loads_no_module_for_rows_and_no_owner() -> None:
    others = (
        *("pandas", "pyarrow.compute", "pyarrow.parquet", "sqlglot", "sqlalchemy", "duckdb", "obstore", "httpx"),
        *("slackwater.data_files", "slackwater.stats", "slackwater.transaction", "slackwater.lake.lake"),
    )
    code = f"""
import sys
from slackwater.cli.main import app
app(["history", {STAMPED!r}, "--limit", "1"], standalone_mode=False)
print([name for name in {others} if name in sys.modules])
"""
    program = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert program.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [("--help",), ("lake",), ("history", STAMPED, "--wide")], ids=" ".join)
def test_a_reader_that_has_enough_is_no_error(arguments: tuple[str, ...]) -> None:
    """Source: `slackwater --help | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "slackwater", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
