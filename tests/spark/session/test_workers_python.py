"""Which Python the workers of a Spark on this machine are: another one than this process's is asked what it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slackwater.spark.session.classic_connect import this_python_for_server, use_this_python, workers_have_this_python
from slackwater.spark.storage import row_transport
from slackwater.spark.storage.row_transport import has_python_workers
from slackwater.storage import open_store

pytestmark = [pytest.mark.spark, pytest.mark.classic]
CHOICES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
SETTINGS = ("spark.pyspark.python", "spark.pyspark.driver.python")


@pytest.fixture
def other_python(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """One that has no packages, as that of a shell in which no environment is activated."""
    bare = tmp_path / "bin" / "python"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    spark.__dict__.pop(row_transport._WORKERS, None)
    return str(bare)


def test_the_same_python_has_what_this_process_has(spark: SparkSession) -> None:
    assert workers_have_this_python(spark)


@pytest.mark.usefixtures("other_python")
def test_another_python_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    assert not workers_have_this_python(spark)
    assert not has_python_workers(spark, open_store(str(tmp_path)))


def test_a_python_that_is_not_there_is_no_error_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "no-such-python")
    assert not workers_have_this_python(spark)


# A program and its Spark are processes of their own: the mode of the session is all the same.
@pytest.mark.parametrize("mode", ["classic", pytest.param("connect", marks=pytest.mark.long)])
@pytest.mark.long
def test_workers_of_a_program_that_names_no_python_run_by_its_own(tmp_path: Path, mode: str) -> None:
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    other.chmod(0o755)
    variables = {name: value for name, value in os.environ.items() if name not in CHOICES}
    variables |= {"PATH": f"{other.parent}:{os.environ['PATH']}", "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-m", "tests.spark.session.default_python", mode, str(tmp_path / "t")]
    program = subprocess.run(command, env=variables, capture_output=True, timeout=300, check=False)
    assert program.returncode == 0, program.stderr.decode()
    assert json.loads(program.stdout) == [9, True, None]


@pytest.fixture
def unchosen(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session, as where nobody chose a Python."""
    for name in CHOICES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    return spark


def test_a_session_on_this_machine_takes_this_python(unchosen: SparkSession) -> None:
    use_this_python(unchosen)
    assert unchosen.sparkContext.pythonExec == sys.executable


@pytest.mark.parametrize("name", CHOICES)
def test_a_python_that_the_environment_chooses_stays(
    unchosen: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "mine")
    use_this_python(unchosen)
    assert unchosen.sparkContext.pythonExec == "python3"
    with this_python_for_server({"spark.remote": "local[1]"}):
        assert {each: os.environ.get(each) for each in CHOICES} == dict.fromkeys(CHOICES) | {name: "mine"}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_python_that_a_setting_chooses_stays(
    unchosen: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(unchosen.sparkContext, "_conf", unchosen.sparkContext.getConf().set(name, "mine"))
    use_this_python(unchosen)
    assert unchosen.sparkContext.pythonExec == "python3"
    with this_python_for_server({"spark.remote": "local[1]", name: "mine"}):
        assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.parametrize(("url", "takes"), [("local[1]", True), ("sc://host", False), ("spark://host", False)])
@pytest.mark.usefixtures("unchosen")
def test_only_a_server_on_this_machine_takes_this_python(url: str, takes: bool) -> None:
    for option in ("spark.remote", "spark.master"):
        with this_python_for_server({option: url}):
            assert os.environ.get("PYSPARK_PYTHON") == (sys.executable if takes else None)
        assert "PYSPARK_PYTHON" not in os.environ
