"""delta-spark as the tests see it: one process for a whole run, asked in JSON lines."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from .install_delta_spark import Installation, environment

_SERVER = Path(__file__).with_name("delta_spark_server.py")
_SECONDS_TO_END = 30


class DeltaSparkError(Exception):
    """delta-spark refused: `condition` is the name of its error class."""

    def __init__(self, message: str, condition: str) -> None:
        super().__init__(message)
        self.condition = condition


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, and their schema as Spark has it: `{"type": "struct", "fields": […]}`."""

    schema: Mapping[str, Any]
    rows: pa.Table


class DeltaSpark:
    """Calls of a running delta-spark. Each raises DeltaSparkError where delta-spark raises."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self.spark_version = str(self._heard()["version"])

    def sql(self, text: str) -> Answer:
        """The rows of a query."""
        return _answer(self._ask(call="sql", text=text))

    def run(self, statement: str) -> None:
        """Run a statement whose answer is of no interest."""
        self._ask(call="run", text=statement)

    def read(self, path: str, **options: str) -> Answer:
        """The table at `path`, with reader options."""
        return _answer(self._ask(call="read", path=path, options=options))

    def write(
        self, query: str, path: str, mode: str = "append", partition_by: Sequence[str] = (), **options: str
    ) -> None:
        """Write the rows of `query` to the table at `path`, as a DataFrame does."""
        self._ask(call="write", query=query, path=path, mode=mode, partition_by=list(partition_by), options=options)

    def stream(self, source: Path, ddl: str, path: str, checkpoint: Path, counted_by: str = "", **options: str) -> None:
        """Stream the files in `source` to the table at `path`; in complete mode where `counted_by` a column."""
        places = {"source": str(source), "path": path, "checkpoint": str(checkpoint)}
        self._ask(call="stream", ddl=ddl, counted_by=counted_by, options=options, **places)

    def stream_table(self, source: Path | str, path: str, checkpoint: Path, **options: str) -> None:
        """Stream the table at `source` to the one at `path`, to its end; `options` are the reader's."""
        places = {"source": str(source), "path": path, "checkpoint": str(checkpoint)}
        self._ask(call="stream_table", options=options, **places)

    def do(self, task: str, path: str) -> None:
        """Do the task of that name of `tests/people/tasks.py`, with a table at `path`."""
        self._ask(call="task", name=task, path=path)

    def do_in_a_month(self, task: str, folder: str) -> None:
        """Do the task of that name of `tests/spark/monthly/tasks.py` in an empty folder."""
        self._ask(call="month", name=task, folder=folder)

    def history(self, path: str) -> list[dict[str, Any]]:
        """DESCRIBE HISTORY, newest first; times in UTC."""
        rows: list[dict[str, Any]] = self.sql(f"DESCRIBE HISTORY delta.`{path}`").rows.to_pylist()
        return rows

    def detail(self, path: str) -> dict[str, Any]:
        """The one row of DESCRIBE DETAIL; times in UTC."""
        row: dict[str, Any] = self.sql(f"DESCRIBE DETAIL delta.`{path}`").rows.to_pylist()[0]
        return row

    def forget(self) -> None:
        """Read every log anew from now on, as a process just started would."""
        self._ask(call="forget")

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._heard()
        if "error" in answer:
            raise DeltaSparkError(answer["error"], answer["condition"])
        return answer

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"delta-spark has ended; it said:\n{self._log.read_text(errors='replace')[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def running(
    installation: Installation, folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[DeltaSpark]:
    """A delta-spark that runs until the block ends, with more `settings`; its log and scratch files are in `folder`."""
    command = [installation.python, str(_SERVER), installation.jars, str(folder), json.dumps(dict(settings or {}))]
    log = folder / "delta-spark.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment()
        ) as process,
    ):
        try:
            yield DeltaSpark(process, log)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(_SECONDS_TO_END)
        finally:
            process.kill()


def _answer(answer: Mapping[str, Any]) -> Answer:
    with pa.ipc.open_stream(base64.b64decode(answer["rows"])) as stream:
        return Answer(json.loads(answer["schema"]), stream.read_all())
