"""The engines that changes of rows and streams are measured against, each in a process that lives while it is used."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.interop.install_delta_spark import Installation, environment

_SERVER = Path(__file__).with_name("dml_rival_server.py")
_SECONDS_TO_END = 30


class RivalFailed(Exception):
    """A rival could not do the work, and this is what it said."""


class Rival:
    """An engine that runs."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    def merge(self, path: Path, source: Path, updates: bool) -> float:
        """Seconds to merge the Parquet files of `source` into the table at `path` by `id`.

        Rows that match none are inserted; those that match are updated where `updates` says so. Raises RivalFailed.
        """
        seconds: float = self.ask(path=str(path), source=str(source), updates=updates)["seconds"]
        return seconds

    def compact(self, path: str) -> float:
        """Seconds to let the small files of the table at `path` become one. Raises RivalFailed."""
        seconds: float = self.ask(what="compact", path=path)["seconds"]
        return seconds

    def ask(self, **request: Any) -> dict[str, Any]:
        """What the process answers to a request. Raises RivalFailed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = ""
        # A rival that has ended reads nothing; its log says why it has.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        answer: dict[str, Any] = (
            json.loads(line) if line else {"error": f"it has ended:\n{self._log.read_text(errors='replace')[-4000:]}"}
        )
        if "error" in answer:
            raise RivalFailed(f"{self.name}: {answer['error']}")
        return answer


def delta_spark_settings(installation: Installation) -> dict[str, str]:
    """The settings that a session of delta-spark needs beside those of ours."""
    return {
        "spark.driver.extraClassPath": f"{installation.jars}/*",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # By default it reads a log in 50 tasks: on two cores, and with a short log, that would be most of its time.
        "spark.databricks.delta.snapshotPartitions": "2",
    }


@contextmanager
def delta_spark(installation: Installation, settings: Mapping[str, str], program: Path = _SERVER) -> Iterator[Rival]:
    """delta-spark with the `settings` of our session, until the block ends; `program` answers for it."""
    with _running(
        "delta-spark", installation.python, {**settings, **delta_spark_settings(installation)}, program
    ) as rival:
        yield rival


@contextmanager
def deltalake() -> Iterator[Rival]:
    """deltalake, until the block ends."""
    with _running("deltalake", sys.executable, {}, _SERVER) as rival:
        yield rival


@contextmanager
def _running(name: str, python: str, settings: Mapping[str, str], program: Path) -> Iterator[Rival]:
    command = [python, str(program), name, json.dumps(dict(settings))]
    with tempfile.TemporaryDirectory(prefix="slackwater-rival-") as folder:
        log = Path(folder) / "log"
        with (
            log.open("w") as errors,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(),
                cwd=folder,
            ) as process,
        ):  # fmt: skip
            assert process.stdin is not None
            try:
                yield Rival(name, process, log)
                process.stdin.close()
                process.wait(_SECONDS_TO_END)
            finally:
                process.kill()
                # What a rival that has ended did not read would be written once more.
                with suppress(BrokenPipeError):
                    process.stdin.close()
