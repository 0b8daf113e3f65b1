"""What a session of Spark may be set to changes nothing of what tables hold: rows, types, history."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from tests.spark.session import scenario as module
from tests.spark.session.scenario import read_again, scenario, with_conf

pytestmark = [pytest.mark.spark, pytest.mark.shared]

_RULES = ("PushDownPredicates", "ColumnPruning", "ConstantFolding", "CollapseProject", "PruneFilters", "OptimizeIn")
_COMMITTER = "org.apache.parquet.hadoop.ParquetOutputCommitter"
_ONE_BY_ONE = """
spark.sql.ansi.enabled=false
spark.sql.ansi.doubleQuotedIdentifiers=true
spark.sql.ansi.enforceReservedKeywords=true
spark.sql.caseSensitive=true
spark.sql.session.timeZone=Asia/Kolkata
spark.sql.session.timeZone=America/St_Johns
spark.sql.timestampType=TIMESTAMP_NTZ
spark.sql.storeAssignmentPolicy=LEGACY
spark.sql.storeAssignmentPolicy=STRICT
spark.sql.adaptive.enabled=false
spark.sql.autoBroadcastJoinThreshold=-1
spark.sql.cbo.enabled=true
spark.sql.codegen.wholeStage=true
spark.sql.codegen.wholeStage=false
spark.sql.columnVector.offheap.enabled=true
spark.sql.constraintPropagation.enabled=false
spark.sql.crossJoin.enabled=false
spark.sql.datetime.java8API.enabled=true
spark.sql.debug.maxToStringFields=1
spark.sql.maxPlanStringLength=10
spark.sql.redaction.string.regex=.*
spark.sql.ui.explainMode=codegen
spark.sql.decimalOperations.allowPrecisionLoss=false
spark.sql.defaultColumn.enabled=false
spark.sql.execution.arrow.maxRecordsPerBatch=1
spark.sql.execution.arrow.pyspark.enabled=true
spark.sql.execution.arrow.useLargeVarTypes=true
spark.sql.files.ignoreCorruptFiles=true
spark.sql.files.ignoreMissingFiles=true
spark.sql.files.maxPartitionBytes=1000b
spark.sql.files.maxRecordsPerFile=1
spark.sql.groupByOrdinal=false
spark.sql.lateralColumnAlias.enableImplicitResolution=false
spark.sql.leafNodeDefaultParallelism=7
spark.sql.legacy.castComplexTypesToString.enabled=true
spark.sql.legacy.charVarcharAsString=true
spark.sql.legacy.ctePrecedencePolicy=LEGACY
spark.sql.legacy.keepCommandOutputSchema=true
spark.sql.legacy.parquet.nanosAsLong=true
spark.sql.legacy.timeParserPolicy=LEGACY
spark.sql.legacy.typeCoercion.datetimeToString.enabled=true
spark.sql.optimizer.dynamicPartitionPruning.enabled=false
spark.sql.optimizer.nestedSchemaPruning.enabled=false
spark.sql.parquet.aggregatePushdown=true
spark.sql.parquet.binaryAsString=true
spark.sql.parquet.columnarReaderBatchSize=1
spark.sql.parquet.compression.codec=gzip
spark.sql.parquet.compression.codec=uncompressed
spark.sql.parquet.compression.codec=zstd
spark.sql.parquet.datetimeRebaseModeInRead=LEGACY
spark.sql.parquet.datetimeRebaseModeInWrite=LEGACY
spark.sql.parquet.enableVectorizedReader=false
spark.sql.parquet.fieldId.read.enabled=true
spark.sql.parquet.fieldId.write.enabled=false
spark.sql.parquet.filterPushdown=false
spark.sql.parquet.inferTimestampNTZ.enabled=false
spark.sql.parquet.int96RebaseModeInRead=LEGACY
spark.sql.parquet.int96RebaseModeInWrite=LEGACY
spark.sql.parquet.int96TimestampConversion=true
spark.sql.parquet.mergeSchema=true
spark.sql.parquet.outputTimestampType=INT96
spark.sql.parquet.outputTimestampType=TIMESTAMP_MILLIS
spark.sql.parquet.writeLegacyFormat=true
spark.sql.parser.quotedRegexColumnNames=true
spark.sql.runSQLOnFiles=false
spark.sql.selfJoinAutoResolveAmbiguity=false
spark.sql.shuffle.partitions=1
spark.sql.sources.commitProtocolClass=org.apache.spark.internal.io.HadoopMapReduceCommitProtocol
spark.sql.sources.default=delta
spark.sql.sources.parallelPartitionDiscovery.threshold=0
spark.sql.sources.partitionColumnTypeInference.enabled=false
spark.sql.sources.partitionOverwriteMode=dynamic
spark.sql.sources.useV1SourceList=
spark.sql.sources.useV1SourceList=csv
spark.sql.sources.validatePartitionColumns=false
spark.sql.variable.substitute=false
mapreduce.fileoutputcommitter.algorithm.version=2
mapreduce.output.basename=mine
parquet.enable.dictionary=false
parquet.writer.version=v2
spark.slackwater.rows=arrow
"""
SETTINGS: dict[str, Mapping[str, str]] = {
    **{line: {line.partition("=")[0]: line.partition("=")[2]} for line in _ONE_BY_ONE.split()},
    "optimizer rules": {
        "spark.sql.optimizer.excludedRules": ",".join(
            f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _RULES
        )
    },
    "committers": {
        "spark.sql.parquet.output.committer.class": _COMMITTER,
        "spark.sql.sources.outputCommitterClass": _COMMITTER,
    },
}
# Of each kind one that changes what Spark does most.
STANDING_FOR_ALL = (
    *("spark.sql.sources.useV1SourceList=csv", "spark.sql.session.timeZone=America/St_Johns"),
    *("spark.sql.ansi.enabled=false", "spark.sql.timestampType=TIMESTAMP_NTZ", "spark.sql.redaction.string.regex=.*"),
    *("spark.sql.parquet.outputTimestampType=INT96", "spark.sql.parquet.datetimeRebaseModeInWrite=LEGACY"),
    *("spark.sql.files.maxRecordsPerFile=1", "spark.sql.parquet.enableVectorizedReader=false"),
    *("spark.sql.sources.default=delta", "spark.sql.sources.partitionOverwriteMode=dynamic", "optimizer rules"),
    *("spark.sql.ansi.doubleQuotedIdentifiers=true", "spark.sql.runSQLOnFiles=false"),
)
_STATIC: dict[str, Mapping[str, str]] = {
    "kryo": {"spark.serializer": "org.apache.spark.serializer.KryoSerializer", "spark.kryo.unsafe": "true"},
    "off-heap": {
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "256m",
        "spark.sql.columnVector.offheap.enabled": "true",
    },
    "workers": {
        "spark.python.worker.reuse": "false",
        "spark.default.parallelism": "1",
        "spark.io.compression.codec": "zstd",
        "spark.speculation": "true",
        "spark.shuffle.compress": "false",
    },
}


def _pairs() -> list[tuple[str, str]]:
    """Twenty pairs of settings, always the same ones."""
    both = [(a, b) for a, b in itertools.combinations(SETTINGS, 2) if not SETTINGS[a].keys() & SETTINGS[b].keys()]
    return random.Random(20).sample(both, 20)  # noqa: S311  (it chooses, and guards nothing)


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results under the settings that the session has, and the tables read again as "again"."""
    slackwater.enable(spark)
    folder = tmp_path_factory.mktemp("defaults")
    return {**scenario(spark, folder), "again": read_again(spark, folder)}


def _is_the_same(spark: SparkSession, folder: Path, expected: Mapping[str, Any], *names: str) -> None:
    with with_conf(spark, {key: value for name in names for key, value in SETTINGS[name].items()}):
        found = scenario(spark, folder)
    # What was written under the settings is read without.
    assert {**found, "again": read_again(spark, folder)} == expected


@pytest.mark.long
def test_results_stay_the_same_under_settings_that_stand_for_all(
    spark: SparkSession, tmp_path: Path, expected: dict[str, Any]
) -> None:
    _is_the_same(spark, tmp_path, expected, *STANDING_FOR_ALL)


@pytest.mark.long
@pytest.mark.classic
@pytest.mark.parametrize("name", SETTINGS)
def test_results_stay_the_same_under_one_setting(
    spark: SparkSession, tmp_path: Path, expected: dict[str, Any], name: str
) -> None:
    _is_the_same(spark, tmp_path, expected, name)


@pytest.mark.long
@pytest.mark.classic
@pytest.mark.parametrize("pair", _pairs(), ids=" and ".join)
def test_results_stay_the_same_under_two_settings(
    spark: SparkSession, tmp_path: Path, expected: dict[str, Any], pair: tuple[str, str]
) -> None:
    _is_the_same(spark, tmp_path, expected, *pair)


@pytest.mark.long
@pytest.mark.classic
@pytest.mark.parametrize("name", _STATIC)
def test_results_stay_the_same_in_a_jvm_of_other_settings(tmp_path: Path, expected: dict[str, Any], name: str) -> None:
    settings = {**_STATIC[name], "spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false"}
    command = [sys.executable, "-m", module.__name__, str(tmp_path / "tables"), json.dumps(settings)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    program = subprocess.run(command, env=environment, capture_output=True, timeout=600, check=False)
    assert program.returncode == 0, program.stderr.decode()
    assert json.loads(program.stdout) == json.loads(json.dumps(expected))
