"""Declarative pipelines with Delta tables: the rows of the table in docs/guides/streaming.md."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import slackwater

# The pipelines and their server are processes of their own: the mode of the session does not matter.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.classic,
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark.pipelines") is None or importlib.util.find_spec("yaml") is None,
        reason="needs PySpark 4.1 with its pipelines",
    ),
]

SETTINGS = """
name: test
storage: file://{root}/storage
libraries:
  - glob:
      include: transformations/**
"""
BEGIN = """
import slackwater
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = slackwater.enable(SparkSession.active())
"""
BATCH = """
source = spark.read.format("delta").load("{root}/source")

@dp.materialized_view
def copied():
    return source.selectExpr("id * 2 AS id")
"""
INSIDE = """
@dp.materialized_view
def copied():
    return spark.read.format("delta").load("{root}/source")
"""
STREAM = """
source = spark.readStream.format("delta").load("{root}/source")

@dp.table
def copied():
    return source
"""
VIEW = """
@dp.materialized_view(format="delta")
def copied():
    return spark.range(3)
"""
SINK = """
dp.create_sink("out", "delta", {{"path": "{root}/out"}})

@dp.table
def numbers():
    return spark.readStream.format("rate").load()

@dp.append_flow(target="out")
def flow():
    return spark.readStream.table("numbers")
"""


@pytest.mark.parametrize(
    ("definition", "code", "message", "rows"),
    [
        (BATCH, 0, "Run is COMPLETED", [0, 2, 4]),
        (INSIDE, 1, "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION", None),
        (STREAM, 1, "UNKNOWN_RESPONSE", [0, 1, 2]),
        (VIEW, 1, "DATA_SOURCE_NOT_FOUND", None),
        (SINK, 1, "DATA_SOURCE_NOT_FOUND", None),
    ],
    ids=["batch", "batch inside of the function", "stream", "table in the format", "sink"],
)
def test_pipeline(tmp_path: Path, definition: str, code: int, message: str, rows: list[int] | None) -> None:
    slackwater.write(str(tmp_path / "source"), pa.table({"id": [0, 1, 2]}))
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SETTINGS.format(root=tmp_path))
    (tmp_path / "transformations" / "flows.py").write_text((BEGIN + definition).format(root=tmp_path))
    command = shutil.which("spark-pipelines", path=str(Path(sys.executable).parent))
    assert command is not None
    own = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    # The server imports the package as it is here, installed or not.
    paths = os.pathsep.join([str(Path(slackwater.__file__).parents[1]), *filter(None, [own.get("PYTHONPATH")])])
    environment = own | {
        "PYTHONPATH": paths,
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}:{own['PATH']}",
    }
    done = subprocess.run(
        [command, "run"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    said = done.stdout + done.stderr
    assert (done.returncode, message in said) == (code, True), said[-3000:]
    files = sorted((tmp_path / "spark-warehouse" / "copied").glob("*.parquet"))
    found = [value for file in files for value in pq.read_table(file)["id"].to_pylist()]
    assert sorted(found) == (rows or [])
    assert not (tmp_path / "out").exists()
