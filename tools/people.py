"""Run README, the start page and every guide as a reader pastes them; `make people`.

    python tools/people.py [--page PAGE ...] [--mode classic|connect|plain ...] [--python PATH] [--logs DIRECTORY]

Builds the wheel, and installs only the wheel with its extras into a new environment; `--python` is an existing
environment instead. Each page runs in a new process in an empty folder: all its lines for Python and for the shell, in
order. A page with Spark runs in Spark's classic mode, and through a Spark Connect server that is started for the page.
Pages without Spark run once, in the mode `plain`. Prints a row for each page and mode, and the failed ones again at the
end. Exit code 1 if a page failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.contract.s3_server import s3_server  # noqa: E402 - a program of this tree
from tests.stores.documents import Block, all_blocks  # noqa: E402

EXTRAS = "spark,connect,lake,server,stores,cli,png,pandas,polars,duckdb"
MODES = ("classic", "connect", "plain")
SHELLS = ("console", "sh")
# Needs of blocks that this program starts a server for.
PROVIDED = frozenset({"a bucket"})
# Pages name this port, the one of a Connect server without settings.
PORT = 15002
SECONDS = 1200


@dataclass(frozen=True)
class Outcome:
    """How a page ran: whether it passed, and a sentence with the numbers."""

    page: str
    mode: str
    has_passed: bool
    says: str


def every_page() -> list[str]:
    """Return the pages with lines to run, README first."""
    guides = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))
    return [page for page in ("README.md", *guides) if any(_is_run(b) and not b.file for b in all_blocks(page))]


def modes_of(page: str) -> tuple[str, ...]:
    """Return the modes of a page: both of Spark if its Python uses Spark, otherwise `plain`."""
    lines = [block.text for block in _lines(page, "classic") if block.language == "python" and not block.file]
    uses_spark = any("spark" in text.lower() for text in lines)
    return ("classic", "connect") if uses_spark else ("plain",)


def run_page(page: str, mode: str, python: str, log: Path) -> Outcome:
    """Run a page in a new process in an empty folder, with its output in `log`."""
    blocks = _lines(page, mode)
    needed = {block.needs for block in all_blocks(page) if block.needs and _is_code(block)}
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="people-") as kept,
        log.open("wb") as output,
        contextlib.ExitStack() as stack,
    ):
        folder, told = Path(kept) / "folder", Path(kept) / "blocks.json"
        folder.mkdir()
        told.write_text(json.dumps({"name": page, "blocks": [_as_json(b) for b in blocks]}), encoding="utf-8")
        environment = _environment(python)
        try:
            if "a bucket" in needed:
                options = stack.enter_context(s3_server(bucket="bucket"))
                environment |= {key.upper(): value for key, value in options.items()}
            if mode == "connect":
                is_named = any(f":{PORT}" in block.text for block in blocks)
                port = PORT if is_named else _free_port()
                stack.enter_context(_connect_server(python, folder, port, environment, log.with_suffix(".server.log")))
                # A builder without an address uses this variable.
                environment["SPARK_REMOTE"] = f"sc://localhost:{port}"
            code = _exit_code([python, str(ROOT / "tools" / "pasted_page.py"), str(told)], folder, environment, output)
            has_passed, why = code == 0, f"exit code {code}"
        except (subprocess.TimeoutExpired, OSError) as error:
            has_passed, why = False, str(error)
    says = f"{len(blocks)} blocks, {time.monotonic() - begun:.0f} s"
    says += "".join(f"; skipped, needs {each}" for each in sorted(needed - PROVIDED))
    return Outcome(page, mode, has_passed, says if has_passed else f"{says}: {why}, {_last_block(log)}, see {log}")


def _last_block(log: Path) -> str:
    """Return the line of the page at which the output ends."""
    begun = [
        line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.startswith("==== ")
    ]
    return begun[-1].removeprefix("==== ") if begun else "before the first block"


def _exit_code(command: list[str], folder: Path, environment: dict[str, str], output: IO[bytes]) -> int:
    """Run a command to its end, and end the processes that it left, such as the JVM of Spark."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait(SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _lines(page: str, mode: str) -> list[Block]:
    return [b for b in all_blocks(page) if _is_run(b) and (b.file or mode == "plain" or b.is_for(mode))]


def _is_run(block: Block) -> bool:
    return bool(block.file) or (
        _is_code(block) and block.reason is None and (block.needs is None or block.needs in PROVIDED)
    )


def _is_code(block: Block) -> bool:
    return block.language in ("python", *SHELLS)


def _as_json(block: Block) -> dict[str, str | int | None]:
    return {**asdict(block), "file": block.file}


def _environment(python: str) -> dict[str, str]:
    """Return the caller's environment without variables of this tree, of Spark and of Slackwater."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYSPARK", "SLACKWATER", "PYTEST"))}
    return kept | {
        "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": python,
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }


@contextlib.contextmanager
def _connect_server(python: str, folder: Path, port: int, environment: dict[str, str], log: Path) -> Iterator[None]:
    """Start a Spark Connect server in the folder of the page, like a reader does."""
    found = subprocess.run(
        [python, "-c", "import pyspark; print(pyspark.__path__[0])"], capture_output=True, text=True, check=True
    )
    script = Path(found.stdout.strip()) / "sbin" / "start-connect-server.sh"
    arguments = ["--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}"]
    arguments += ["--conf", "spark.ui.enabled=false"]
    with log.open("wb") as output:
        server = subprocess.Popen(
            ["bash", str(script), *arguments],
            cwd=folder,
            env={**environment, "SPARK_NO_DAEMONIZE": "1", "SPARK_HOME": str(script.parents[1])},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for(server, port)
        yield
    finally:
        # The script, and the JVM that it started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
            return
        time.sleep(0.2)
    raise OSError(f"the Spark Connect server does not listen on port {port}")


def _free_port() -> int:
    with socket.create_server(("localhost", 0)) as found:
        return int(found.getsockname()[1])


def new_environment(at: Path) -> str:
    """Build the wheel, install it with its extras into a new environment, and return the interpreter."""
    wheels = at / "wheels"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run(build, check=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(at / "environment")], check=True)
    python = str(at / "environment" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"slackwater[{EXTRAS}] @ {wheel.as_uri()}", "pytest"], check=True)
    return python


def main(arguments: list[str] | None = None) -> int:
    """Run the pages, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", action="append", help="a page, such as README.md or docs/start.md; repeatable")
    parser.add_argument("--mode", action="append", choices=MODES, help="repeatable; all by default")
    parser.add_argument("--python", help="an interpreter with Slackwater installed, instead of a new environment")
    parser.add_argument("--logs", type=Path, default=ROOT / "build" / "people", help="directory of the output of pages")
    options = parser.parse_args(arguments)
    pages = options.page or every_page()
    if unknown := [page for page in pages if page not in every_page()]:
        parser.error(f"not a page with lines to run: {', '.join(unknown)}. Pages: {', '.join(every_page())}")
    options.logs.mkdir(parents=True, exist_ok=True)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="people-environment-") as kept:
        python = options.python or new_environment(Path(kept))
        for page in pages:
            for mode in modes_of(page):
                if mode in (options.mode or MODES):
                    log = options.logs / f"{page.removesuffix('.md').replace('/', '-')}-{mode}.log"
                    outcomes.append(run_page(page, mode, python, log))
                    print(line_of(outcomes[-1]), flush=True)
    failed = [outcome for outcome in outcomes if not outcome.has_passed]
    print(f"\n{len(outcomes) - len(failed)} of {len(outcomes)} passed")
    for outcome in failed:
        print(line_of(outcome))
    return 0 if outcomes and not failed else 1


def line_of(outcome: Outcome) -> str:
    """Return a row of the table."""
    return f"{'ok    ' if outcome.has_passed else 'FAILED'}  {outcome.mode:8}  {outcome.page:42}  {outcome.says}"


if __name__ == "__main__":
    sys.exit(main())
