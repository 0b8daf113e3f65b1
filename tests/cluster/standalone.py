"""A standalone cluster of Spark on this machine: a master, workers and a Connect server, each a process of its own.

A worker has a directory, a HOME and a place for temporary files of its own, as it has on a machine of its own; where
asked for, another user, or a disk that hides a directory.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

import slackwater
from tests.ports import free_port

SPARK_HOME = Path(pyspark.__file__).parent
CORES = 2
"""How many executors a session gets, of one core each: one on each worker."""
_MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_LEFT_OUT = re.compile(
    "SPARK_(REMOTE|LOCAL_REMOTE|CONNECT_.*|TESTING|API_MODE)|PYSPARK_(GATEWAY_.*|REMOTE_.*|SUBMIT_ARGS|PYTHON)|PYTHONPATH"
)
_MOST_S = 120
# Each session leaves half of the cluster to another one.
SETTINGS = {
    "spark.cores.max": str(CORES),
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
}
"""What a session on the cluster is made with."""


@dataclass(frozen=True)
class Place:
    """What is a process's own: variables of its environment, and a command that its own is started by."""

    variables: Mapping[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()


@contextlib.contextmanager
def standalone_cluster(root: Path, workers: Sequence[Place] = (Place(),) * 2) -> Iterator[str]:
    """The master's URL, once all `workers` are known to it; logs and the workers' directories are below `root`."""
    root.mkdir(parents=True, exist_ok=True)
    ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        log = root / "master.log"
        master = stack.enter_context(_started([*_spark_class(_MASTER), *ports], root / "master", log))
        url = _found(_MASTER_AT, log, master)
        for number, place in enumerate(workers):
            directory = root / f"worker-{number}"
            command = [*place.prefix, *_spark_class(_WORKER), *ports, "--cores", str(CORES), "--memory", "2g"]
            command += ["--work-dir", str(directory / "work"), url]
            worker_log = root / f"worker-{number}.log"
            worker = stack.enter_context(_started(command, directory, worker_log, place.variables))
            _found(re.compile("(Successfully registered with master)"), worker_log, worker)
        yield url


@contextlib.contextmanager
def connect_server(root: Path, master: str, place: Place | None = None) -> Iterator[str]:
    """The address of a Connect server on `master`, which is no child of its client; its log is below `root`."""
    with connect_process(root, master, place) as (address, _):
        yield address


@contextlib.contextmanager
def connect_process(
    root: Path, master: str, place: Place | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """As `connect_server`, with its process, which may be killed in the block."""
    place = place or Place()
    root.mkdir(parents=True, exist_ok=True)
    port = free_port()
    told = {**SETTINGS, "spark.connect.grpc.binding.port": str(port)}
    command = [*place.prefix, str(SPARK_HOME / "bin" / "spark-submit"), "--master", master]
    command += [word for key, value in told.items() for word in ("--conf", f"{key}={value}")]
    command += ["--class", _CONNECT, "spark-internal"]
    log = root / "connect.log"
    with _started(command, root / "connect", log, place.variables) as server:
        _found(re.compile("(Spark Connect server started)"), log, server)
        yield f"sc://127.0.0.1:{port}", server


def environment(directory: Path | None = None) -> dict[str, str]:
    """That of a process of the cluster: with `directory` its HOME is there, and nothing of this process's Spark."""
    kept = {key: value for key, value in os.environ.items() if not _LEFT_OUT.fullmatch(key)}
    package = str(Path(slackwater.__file__).parent.parent)
    made = {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": package}
    made |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    if directory is not None:
        made |= {"HOME": str(directory / "home"), "TMPDIR": str(directory / "tmp")}
        made["SPARK_LOCAL_DIRS"] = str(directory / "tmp")
    return {**kept, **made}


def _spark_class(name: str) -> list[str]:
    return [str(SPARK_HOME / "bin" / "spark-class"), name]


@contextlib.contextmanager
def _started(
    command: Sequence[str], directory: Path, log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own; it and all that it started end with the block."""
    for each in (directory, directory / "home", directory / "tmp", directory / "work"):
        each.mkdir(exist_ok=True)
        # A worker may be another user.
        each.chmod(0o777)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env={**environment(directory), **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to end, which ends its executors, and end what is left of its session."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _found(pattern: re.Pattern[str], log: Path, process: subprocess.Popen[bytes]) -> str:
    """What the process says of itself, as soon as it does."""
    until = time.monotonic() + _MOST_S
    while True:
        told = log.read_text(errors="replace")
        if match := pattern.search(told):
            return match[1]
        assert process.poll() is None, told
        assert time.monotonic() < until, told
        time.sleep(0.05)
