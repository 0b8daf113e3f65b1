"""The guide to the terminal: every command stands there, and every line of it runs."""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import typer.main

from slackwater.cli.main import app
from tests.cli.commands import run
from tests.owner.served.certificates import self_signed
from tests.stores.documents import blocks, run_document
from tests.streams.checkpoints import copied

GUIDE = "docs/guides/terminal.md"
PROGRAM = [sys.executable, "-m", "slackwater"]


def commands(group: Any, name: str = "") -> Iterator[str]:
    """The commands that help lists, as they are typed."""
    if not hasattr(group, "commands"):
        yield name.strip()
        return
    for each, command in group.commands.items():
        if not command.hidden:
            yield from commands(command, f"{name} {each}")


def example_lines() -> list[str]:
    return [line for block in blocks(GUIDE, "console") for line in block.splitlines()]


def test_every_command_stands_in_the_guide() -> None:
    there_are = set(commands(typer.main.get_command(app)))
    assert len(there_are) > 25
    written = [" ".join(shlex.split(line)[1:]) for line in example_lines()]
    assert [name for name in sorted(there_are) if not any(f"{line} ".startswith(f"{name} ") for line in written)] == []


def test_every_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_document(GUIDE, {}, {})
    _make_places(tmp_path / "work")
    port = _free_port()
    monkeypatch.setattr("slackwater.cli.common.watch.time.sleep", _enough)
    with ExitStack() as servers:
        for line in example_lines():
            program, *arguments = shlex.split(
                line.replace("$(date -u +%FT%TZ)", datetime.now(timezone.utc).isoformat()).replace("8443", str(port))
            )
            assert program == "slackwater"
            if arguments[0] == "serve":
                _serve(arguments, servers)
                continue
            result = run(*arguments)
            assert result.exit_code == 0, f"{line}: {result.output}"
            if arguments[:2] == ["token", "create"]:
                monkeypatch.setenv("SLACKWATER_TOKEN", result.stdout.strip())


def _make_places(root: Path) -> None:
    copied("ours", root / "copied").rename(root / "query")
    for made, name in zip(self_signed(root), ("cert.pem", "key.pem"), strict=True):
        assert Path(made).name == name


def _serve(arguments: list[str], servers: ExitStack) -> None:
    process = subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    servers.enter_context(process)
    servers.callback(process.send_signal, signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("serving file://")


def _free_port() -> int:
    with socket.create_server(("localhost", 0)) as found:
        return int(found.getsockname()[1])


def _enough(_: float) -> Any:
    raise KeyboardInterrupt
