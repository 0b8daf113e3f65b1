"""The README's chapters with their tables in a bucket."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from slackwater import Transaction
from slackwater.cli.main import app
from slackwater.lake.lake import LogLake
from tests.spark.written import read
from tests.stores.conftest import as_environment_says
from tests.stores.documents import blocks, run_document
from tests.stores.servers import Place
from tests.transaction.tables import schema

pytestmark = pytest.mark.spark


@pytest.fixture
def root(place: Place, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A place of one test, which the environment has the credentials of."""
    for key, value in as_environment_says(place).items():
        monkeypatch.setenv(key, value)
    return f"{place.url}/{request.node.originalname}"


@pytest.mark.shared
def test_the_lines_of_the_readme(spark: SparkSession, root: str, tmp_path: Path) -> None:
    """Tables and the lake in the bucket; what Spark keeps of a stream is on a disk, a lake's database elsewhere."""
    names: dict[str, Any] = {"spark": spark}
    elsewhere = {
        'Lake.open("work/lake"': f'Lake.open("{root}/lake", database="sqlite:///{tmp_path}/owner.db"',
        "city STRING) USING delta": f"city STRING) USING delta LOCATION '{root}/airports'",
        "work/checkpoints": str(tmp_path),
        'abspath("work/flights_trial")': f'"{root}/flights_trial"',
        "work/": f"{root}/",
    }
    try:
        run_document("README.md", names, elsewhere)
        left = spark.read.format("delta").option("versionAsOf", 5).load(f"{root}/flights").collect()
        assert sorted((row.month, row.carrier, row.delay) for row in left) == [
            (1, "AA", 0),
            (7, "DL", 4),
            (12, "UA", 91),
        ]
        assert [row.qty for row in names["lake"].table("stock").toDF().collect()] == [10]
        carriers = names["lake"].table("carriers").toDF().collect()
        assert sorted(tuple(row) for row in carriers) == [("AA", 1), ("DL", 1), ("UA", 1)]
        assert [tuple(row) for row in spark.table("airports").collect()] == [("OSL", "Oslo")]
        assert read(spark, f"{root}/airports").count() == 1
    finally:
        spark.sql("DROP TABLE IF EXISTS airports")
        if "lake" in names:
            names["lake"].close()


def test_the_commands_of_the_readme(spark: SparkSession, root: str) -> None:
    del spark  # it is who reads the settings; the rest is done without
    columns = schema({"month": "integer", "delay": "integer"})
    Transaction.create(f"{root}/flights", columns, partition_by=["month"]).commit("CREATE TABLE")
    terminal = next(block for block in blocks("README.md", "console") if "slackwater history" in block)
    lines = [line.partition("#")[0] for line in terminal.splitlines() if "work/flights" in line]
    for line in lines:
        answer = CliRunner().invoke(app, shlex.split(line.replace("work/flights", f"'{root}/flights'"))[1:])
        assert (answer.exit_code, answer.output != "") == (0, True), answer.output
    assert len(lines) == 6


def test_the_commands_of_the_readme_about_a_lake(spark: SparkSession, root: str, tmp_path: Path) -> None:
    del spark
    database = f"sqlite:///{tmp_path}/owner.db"
    with LogLake.open(f"{root}/lake", database=database) as lake:
        lake._create_log("stock", schema({"id": "long"}))
    terminal = next(block for block in blocks("README.md", "console") if "slackwater history" in block)
    lines = [line.partition("#")[0] for line in terminal.splitlines() if "work/lake " in f"{line} "]
    for line in lines:
        told = line.replace("work/lake.html", str(tmp_path / "lake.html")).replace("work/lake", f"'{root}/lake'")
        answer = CliRunner().invoke(app, [*shlex.split(told)[1:], "--database", database])
        assert answer.exit_code == 0, answer.output
    assert len(lines) == 2
    assert "stock" in (tmp_path / "lake.html").read_text()
