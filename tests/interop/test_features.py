"""Every feature of the catalogue, made by our writer: other engines read it, delta-spark writes on, and so do we."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater
from slackwater.errors import SlackwaterError

from .cases import each, marks
from .delta_spark import Answer, DeltaSpark, DeltaSparkError
from .feature import Feature, Refused
from .features import FEATURES
from .log_checks import actions, commits_of, table_features
from .once import once
from .peers import PEERS, require_same_rows, why_absent
from .rows import expected_rows, rows_of
from .types_alike import bare_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.interop

_REFUSING = "test_rows_that_our_metadata_forbids_are_refused_by_delta_spark_and_by_us"
_REFUSED = [
    pytest.param(feature, refused, id=f"{feature.name}: {refused.query}", marks=marks(feature, _REFUSING))
    for feature in FEATURES
    for refused in feature.refused
]
_REFUSED_STATEMENTS = [
    pytest.param(feature, refused, id=f"{feature.name}: {refused.query}", marks=marks(feature, "create"))
    for feature in FEATURES
    for refused in feature.refused_statements
]
# To which delta-spark, and then we, also add rows when both change them by turns.
_CHANGED_TOO = (
    *("all types", "partition values", "timestamps without a zone", "generatedColumns", "allowColumnDefaults"),
    *("identityColumns", "icebergCompatV2", "many features at once"),
)
_WITH_HISTORY = ("plain", "partitioned", "generatedColumns", "inCommitTimestamp")


@dataclass(frozen=True)
class MadeTable:
    """A table made by us with its feature's first batch, as we read it back; nobody writes to it."""

    path: str
    frame: DataFrame
    rows: pa.Table


Made = Callable[[Feature], MadeTable]
ReadByDeltaSpark = Callable[[Feature], Answer]


@pytest.fixture(scope="module")
def made(ours: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Makes the table of a feature, once."""

    def make(feature: Feature) -> MadeTable:
        path = str(tmp_path_factory.mktemp("made") / "table")
        feature.create_ours(ours, path)
        frame = ours.read.format("delta").load(path)
        return MadeTable(path, frame, frame.toArrow())

    return once(make)


@pytest.fixture(scope="module")
def read_by_delta_spark(made: Made, delta_spark: DeltaSpark) -> ReadByDeltaSpark:
    """The same table as delta-spark reads it, once."""
    return once(lambda feature: delta_spark.read(made(feature).path))


@pytest.mark.parametrize("feature", each("test_our_table_has_the_feature_and_we_read_it"))
def test_our_table_has_the_feature_and_we_read_it(feature: Feature, made: Made) -> None:
    table = made(feature)
    commits = commits_of(table.path)
    assert feature.table_features <= table_features(commits)
    assert rows_of(table.rows, feature.varies) == expected_rows(feature.column_names, feature.held(1))
    for pattern in feature.log_files:
        assert list((Path(table.path) / "_delta_log").glob(pattern)), pattern
    if feature.check is not None:
        feature.check(commits)


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("feature", each("test_another_engine_reads_our_table"))
def test_another_engine_reads_our_table(feature: Feature, peer: str, made: Made) -> None:
    absent = why_absent(peer)
    if absent is not None:
        pytest.skip(absent)
    table = made(feature)
    require_same_rows(lambda: PEERS[peer](table.path), table.rows, feature.unreadable.get(peer))


@pytest.mark.parametrize("feature", each("test_delta_spark_reads_our_table"))
def test_delta_spark_reads_our_table(feature: Feature, made: Made, read_by_delta_spark: ReadByDeltaSpark) -> None:
    assert rows_of(read_by_delta_spark(feature).rows) == rows_of(made(feature).rows)


@pytest.mark.parametrize("feature", each("test_delta_spark_finds_the_schema_that_we_find"))
def test_delta_spark_finds_the_schema_that_we_find(
    feature: Feature, made: Made, read_by_delta_spark: ReadByDeltaSpark
) -> None:
    assert bare_schema(read_by_delta_spark(feature).schema) == bare_schema(made(feature).frame.schema.jsonValue())


@pytest.mark.parametrize("feature", each("test_delta_spark_describes_our_table_as_we_do"))
def test_delta_spark_describes_our_table_as_we_do(
    feature: Feature, made: Made, ours: SparkSession, delta_spark: DeltaSpark
) -> None:
    path = made(feature).path
    mine = slackwater.DeltaTable.forPath(ours, path).detail().toArrow().to_pylist()[0]
    # The time of the last commit is its file's for delta-spark, also where commits have timestamps of their own.
    unlike = ("location", "lastModified")
    assert _as_texts(mine, unlike) == _as_texts(delta_spark.detail(path), unlike)


@pytest.mark.parametrize("feature", each("test_delta_spark_tells_our_history_as_we_do", _WITH_HISTORY))
def test_delta_spark_tells_our_history_as_we_do(
    feature: Feature, made: Made, ours: SparkSession, delta_spark: DeltaSpark
) -> None:
    path = made(feature).path
    mine = slackwater.DeltaTable.forPath(ours, path).history().toArrow().to_pylist()
    assert [_as_texts(commit) for commit in mine] == [_as_texts(commit) for commit in delta_spark.history(path)]


@pytest.mark.parametrize("feature", each("test_delta_spark_reads_our_change_feed", ["changeDataFeed"]))
def test_delta_spark_reads_our_change_feed(
    feature: Feature, made: Made, ours: SparkSession, delta_spark: DeltaSpark
) -> None:
    path, options = made(feature).path, {"readChangeFeed": "true", "startingVersion": "0"}
    mine = ours.read.format("delta").options(**options).load(path)
    assert rows_of(delta_spark.read(path, **options).rows) == rows_of(mine.toArrow())


@pytest.mark.parametrize("feature", each("test_delta_spark_appends_after_us_and_we_after_it", variations=_CHANGED_TOO))
def test_delta_spark_appends_after_us_and_we_after_it(
    feature: Feature, made: Made, ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = _copy(made(feature), tmp_path)
    _, theirs, mine = feature.batches
    delta_spark.write(theirs.query, path)
    ours.sql(mine.query).write.format("delta").mode("append").save(path)
    everything = delta_spark.read(path).rows
    assert rows_of(everything, feature.varies) == expected_rows(feature.column_names, feature.held(3))
    assert rows_of(ours.read.format("delta").load(path).toArrow()) == rows_of(everything)
    for column in feature.varies:
        assert len(everything[column].unique()) == everything.num_rows
    commits = commits_of(path)
    assert len(actions(commits, "protocol")) == 1
    if feature.check is not None:
        feature.check(commits)


@pytest.mark.parametrize(("feature", "refused"), _REFUSED)
def test_rows_that_our_metadata_forbids_are_refused_by_delta_spark_and_by_us(
    feature: Feature, refused: Refused, made: Made, ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = _copy(made(feature), tmp_path)
    before = len(commits_of(path))
    with pytest.raises(DeltaSparkError) as theirs:
        delta_spark.write(refused.query, path)
    assert theirs.value.condition == refused.condition
    with pytest.raises(SlackwaterError):
        ours.sql(refused.query).write.format("delta").mode("append").save(path)
    assert len(commits_of(path)) == before


@pytest.mark.parametrize(("feature", "refused"), _REFUSED_STATEMENTS)
def test_statements_that_our_metadata_forbids_are_refused_by_delta_spark(
    feature: Feature, refused: Refused, made: Made, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = _copy(made(feature), tmp_path)
    with pytest.raises(DeltaSparkError) as theirs:
        delta_spark.run(refused.query.replace("{t}", f"delta.`{path}`"))
    assert theirs.value.condition == refused.condition


def _copy(table: MadeTable, parent: Path) -> str:
    return str(shutil.copytree(table.path, parent / "table"))


def _as_texts(row: dict[str, Any], without: Sequence[str] = ()) -> dict[str, str]:
    """A row with its lists and maps in one order, so that a difference shows by column."""
    kept = {name: value for name, value in row.items() if name not in without}
    return {name: str(sorted(value) if isinstance(value, list) else value) for name, value in kept.items()}
