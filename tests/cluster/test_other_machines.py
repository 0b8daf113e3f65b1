"""Workers that are not as the driver's machine is: another disk, another user, a Python without this package."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.storage import open_store
from tests.cluster.standalone import SETTINGS, Place, connect_server, standalone_cluster
from tests.cluster.unshared import (
    ONE_SENTENCE,
    WRITES,
    in_namespace,
    make_tables,
    outcomes,
    require_unchanged,
)
from tests.contract.s3_server import BUCKET, s3_server
from tests.spark.written import listing, read

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]
# The first job waits for all executors: what is looked up before anything is done is looked up on each.
_ALL = {**SETTINGS, "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
_NOBODY = 65534


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A directory that any user reaches: pytest's own are for one user."""
    with TemporaryDirectory(prefix="slackwater-cluster-") as made:
        root = Path(made)
        root.chmod(0o755)
        yield root


@pytest.fixture
def tables(spark: SparkSession, anybodys: Path) -> Path:
    """A directory that any user reaches, with the tables of `make_tables`."""
    make_tables(spark, anybodys / "tables")
    return anybodys / "tables"


def require_refused(found: dict[str, tuple[str, str]], error: str, sentence: str) -> None:
    """That each step ended with `error`, which says `sentence`."""
    for step, (kind, message) in found.items():
        assert kind == error, (step, message)
        assert sentence in message, (step, message)
        assert "\n" not in message, step


@pytest.mark.parametrize("way", ["spark", "arrow"])
@pytest.mark.parametrize("hidden", ["all", "one"])
def test_workers_with_another_disk_are_refused_and_no_table_changes(
    spark: SparkSession, tmp_path: Path, tables: Path, way: str, hidden: str
) -> None:
    before, shared = listing(tables), tmp_path / "shared"
    elsewhere = Place(prefix=in_namespace(f"mount -t tmpfs none {tables}"))
    workers = (elsewhere if hidden == "all" else Place(), elsewhere)
    with standalone_cluster(tmp_path / "cluster", workers) as master:
        found = outcomes(master, tables, shared, {**_ALL, "spark.slackwater.rows": way})
    require_refused(found["at first"], "StorageRefused", ONE_SENTENCE)
    assert ("on some of its executors" in found["at first"]["append"][1]) == (hidden == "one")
    assert found["shared"] == 3
    for step, (error, message) in found["later"].items():
        if step in WRITES and (hidden == "all" or step == "append"):
            assert error in ("StorageError", "StorageRefused"), (step, message)
            assert ONE_SENTENCE in message, (step, message)
        elif hidden == "all":
            # What an executor does not find while a plan runs is Spark's own error.
            assert error != "done", (step, message)
    if hidden == "all":
        assert listing(tables) == before
        require_unchanged(spark, tables)


@contextmanager
def python_without(root: Path, worker: bool = True) -> Iterator[dict[str, str]]:
    """Variables of a worker whose Python has what this one has, but for slackwater; `python` is that Python."""
    packages = root / "packages"
    packages.mkdir()
    for found in Path(sys.executable).parent.parent.glob("lib/python3*/site-packages/*"):
        if "slackwater" not in found.name and found.suffix != ".pth":
            (packages / found.name).symlink_to(found)
    python = root / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    yield {"PYTHONPATH": str(packages), "PYSPARK_PYTHON": str(python)}


@contextmanager
def cluster_without_slackwater(root: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A master, and what a client's environment must say for its executors to have a Python without slackwater."""
    root.mkdir()
    with python_without(root) as variables, standalone_cluster(root, (Place(variables),) * 2) as master:
        yield master, {"PYSPARK_PYTHON": variables["PYSPARK_PYTHON"], "PYSPARK_DRIVER_PYTHON": sys.executable}


def test_executors_without_slackwater_are_told_in_one_sentence_and_where_spark_moves_the_rows_need_none(
    spark: SparkSession, tmp_path: Path, tables: Path
) -> None:
    before = listing(tables)
    package = zipped(tmp_path)
    by_arrow = {**_ALL, "spark.slackwater.rows": "arrow"}
    with cluster_without_slackwater(tmp_path / "cluster") as (master, variables):
        found = outcomes(master, tables, "", by_arrow, variables)
        needed = {step: told for step, told in found["at first"].items() if step != "read by a log that Spark replays"}
        require_refused(needed, "UnsupportedFeature", "must have slackwater (pip install slackwater==")
        assert "ModuleNotFoundError: No module named 'slackwater'" in needed["append"][1]
        assert listing(tables) == before
        require_unchanged(spark, tables)
        shipped = outcomes(master, tables, "", {**by_arrow, "spark.submit.pyFiles": str(package)}, variables)
        require_done(shipped["at first"])
        shutil.rmtree(tables)
        make_tables(spark, tables)
        no_python = outcomes(master, tables, "", _ALL, {**variables, "PYSPARK_PYTHON": "/nowhere/python"})
        require_done(no_python["at first"])


def test_a_connect_server_without_slackwater_and_its_executors_are_sent_it(
    spark: SparkSession, tmp_path: Path, tables: Path
) -> None:
    root = tmp_path / "cluster"
    variables = {"PACKAGE": str(zipped(tmp_path))}
    root.mkdir()
    with (
        python_without(root) as without,
        standalone_cluster(root, (Place(without),) * 2) as master,
        connect_server(root, master, Place(without)) as address,
    ):
        found = outcomes(address, tables, "", {"spark.slackwater.rows": "arrow"}, variables)
    assert found["connect"]
    require_done(found["at first"])


def zipped(directory: Path) -> Path:
    """A zip of the package, as executors import it."""
    source, package = Path(slackwater.__file__).parent, directory / "slackwater.zip"
    with zipfile.ZipFile(package, "w") as archive:
        for file in source.rglob("*.py"):
            archive.write(file, file.relative_to(source.parent))
    return package


def require_done(found: dict[str, tuple[str, str]]) -> None:
    """That each step ended well."""
    assert {step: told for step, told in found.items() if told[0] != "done"} == {}


@pytest.fixture
def strangers() -> Place:
    """A worker of another user, who may read Python's packages wherever they are, and write what anybody may."""
    if os.getuid():
        pytest.skip("only root starts processes of another user")
    user = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    return Place(prefix=[*user, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"])


def test_executors_of_another_user_read_and_are_told_where_they_may_not_write(
    spark: SparkSession, anybodys: Path, tables: Path, strangers: Place
) -> None:
    before = listing(tables)
    reads = ("read", "read by a log that Spark replays", "read of rows that vectors hide", "change feed")
    with standalone_cluster(anybodys / "cluster", (strangers,) * 2) as master:
        for way in ("spark", "arrow"):
            found = outcomes(master, tables, "", {**_ALL, "spark.slackwater.rows": way})["at first"]
            require_done({step: found.pop(step) for step in reads})
            for step, (error, message) in found.items():
                assert error in ("StorageError", "StorageRefused"), (step, message)
                assert "ermission" in message, (step, message)
            assert listing(tables) == before


def test_executors_of_another_user_work_on_tables_in_a_store(
    spark: SparkSession, anybodys: Path, tables: Path, strangers: Place
) -> None:
    with s3_server() as options, standalone_cluster(anybodys / "cluster", (strangers,) * 2) as master:
        store = open_store(f"s3://{BUCKET}/a", options)
        for file in tables.rglob("*"):
            if file.is_file():
                store.put(file.relative_to(tables).as_posix(), file.read_bytes())
        found = {key.lower(): value for key, value in options.items()}
        settings = {
            "spark.hadoop.fs.s3a.endpoint": found["aws_endpoint_url"],
            "spark.hadoop.fs.s3a.endpoint.region": found["aws_region"],
            "spark.hadoop.fs.s3a.access.key": found["aws_access_key_id"],
            "spark.hadoop.fs.s3a.secret.key": found["aws_secret_access_key"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
        done: dict[str, Any] = outcomes(master, f"s3a://{BUCKET}/a", "", {**_ALL, **settings})
    refused = done["at first"].pop("read by a log that Spark replays")
    assert refused[0] in ("done", "UnsupportedFeature"), refused
    require_done(done["at first"])
    assert read(spark, tables / "t").count() == 3
