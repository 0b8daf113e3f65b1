"""The catalogue: one table for each table feature, its rows, and the engines that cannot read it with the reason."""

from __future__ import annotations

from datetime import date

from . import log_checks
from .feature import Batch, Column, Feature, Refused, values
from .type_cases import TYPE_CASES

_ID = Column("id", "BIGINT")
_NAME = Column("name", "STRING")
_TWO = (_ID, _NAME)
_ROWS = (
    Batch.of("id, name", {"1L, 'a'": (1, "a"), "2L, NULL": (2, None)}),
    Batch.of("id, name", {"3L, 'é'": (3, "é")}),
    Batch.of("id, name", {"4L, ''": (4, ""), "5L, 'e'": (5, "e")}),
)
_ODD = (Column("the id", "BIGINT"), Column("a.b=c,d", "STRING"), Column("part;1", "INT"))
_ODD_NAMES = "`the id`, `a.b=c,d`, `part;1`"
_ODD_ROWS = (
    Batch.of(_ODD_NAMES, {"1L, 'a', 1": (1, "a", 1), "2L, NULL, 1": (2, None, 1)}),
    Batch.of(_ODD_NAMES, {"3L, 'é', 2": (3, "é", 2)}),
    Batch.of(_ODD_NAMES, {"4L, '', CAST(NULL AS INT)": (4, "", None)}),
)
_NOT_BY_PYARROW = {"deltalake-pyarrow": "the reader feature is not known to deltalake's pyarrow reader"}
_NOT_BY_POLARS = {"polars": "the reader feature is not known to it"}
_COLUMN_MAPPING_UNREADABLE = {
    "deltalake-pyarrow": "columns are looked up by display name where column mapping gives them another: nulls",
    "duckdb": "partition values under column mapping are nulls",
    "polars": "column mapping is not known to it",
}
_CHECKPOINTS = {"delta.checkpointInterval": "1"}

_NO_SHAPES = dict.fromkeys(("datafusion", "deltalake-pyarrow", "duckdb", "polars"), "the types are not known to it")
_NO_SHREDDING = dict.fromkeys(_NO_SHAPES, "the reader feature is not known to it")
_NO_VARIANTS = {
    "duckdb": "it knows the feature, but not the type in Arrow",
    "polars": "its Parquet reader does not know the annotation of variants",
}
_OBJECT = {"value": b"\x02\x02\x00\x01\x00\x02\x06\x0c\x01\x0dtwo", "metadata": b"\x01\x02\x00\x01\x02ab"}
_TEXT = {"value": b"\x0dtwo", "metadata": b"\x01\x00\x00"}


def _variants(key: int) -> Batch:
    row = f"""{key}L, parse_json('{{"a":1,"b":"two"}}'), named_struct('v', parse_json('"two"'))"""
    return Batch.of("id, v, s", {row: (key, _OBJECT, {"v": _TEXT})})


_VARIANTS = (_variants(1), _variants(2), _variants(3))
_WKB = "0101000000000000000000F03F0000000000000040"
_GEOMETRY, _GEOGRAPHY = f"st_geomfromwkb(X'{_WKB}', 4326)", f"st_geogfromwkb(X'{_WKB}')"
_POINT = {"srid": 4326, "wkb": bytes.fromhex(_WKB)}

TABLE_FEATURES: tuple[Feature, ...] = (
    Feature(
        "appendOnly",
        _TWO,
        _ROWS,
        properties={"delta.appendOnly": "true"},
        refused_statements=(Refused("DELETE FROM {t} WHERE id = 1", "DELTA_CANNOT_MODIFY_APPEND_ONLY"),),
    ),
    Feature(
        "invariants",
        (Column("id", "BIGINT", nullable=False), _NAME),
        _ROWS,
        refused=(Refused(values("id, name", "CAST(NULL AS BIGINT), 'x'"), "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"),),
    ),
    Feature(
        "checkConstraints",
        _TWO,
        _ROWS,
        properties={"delta.constraints.positive": "id > 0", "delta.constraints.named": "name IS NULL OR name <> 'no'"},
        refused=(
            Refused(values("id, name", "-1L, 'x'"), "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
            Refused(values("id, name", "9L, 'no'"), "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
            Refused(values("id, name", "CAST(NULL AS BIGINT), 'x'"), "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
        ),
    ),
    Feature(
        "generatedColumns",
        (
            _ID,
            Column("day", "DATE"),
            Column("year", "INT", generated="year(day)"),
            Column("twice", "BIGINT", generated="id * 2"),
        ),
        (
            Batch.of("id, day", {"1L, DATE'2024-02-29'": (1, date(2024, 2, 29), 2024, 2)}),
            Batch.of("id, day", {"2L, DATE'1999-12-31'": (2, date(1999, 12, 31), 1999, 4)}),
            Batch.of("id, day", {"3L, CAST(NULL AS DATE)": (3, None, None, 6)}),
        ),
        partitioned_by=("year",),
        refused=(
            Refused(values("id, day, year", "1L, DATE'2024-02-29', 2023"), "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
            Refused(
                values("id, day, twice", "1L, DATE'2024-02-29', CAST(NULL AS BIGINT)"),
                "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
            ),
        ),
    ),
    Feature(
        "allowColumnDefaults",
        (_ID, Column("name", "STRING", default="'none'"), Column("count", "INT", default="1 + 6")),
        (
            Batch.of("id, name, count", {"1L, 'a', 1": (1, "a", 1)}),
            Batch.of("id, name, count", {"2L, NULL, 2": (2, None, 2)}),
            Batch.of("id", {"3L": (3, "none", 7)}),
        ),
        properties={"delta.feature.allowColumnDefaults": "supported"},
        table_features=frozenset({"allowColumnDefaults"}),
    ),
    Feature(
        "identityColumns",
        (Column("key", "BIGINT", identity=(10, -3)), _NAME),
        (
            Batch.of("name", {"'a'": (None, "a"), "'b'": (None, "b")}),
            Batch.of("name", {"'c'": (None, "c")}),
            Batch.of("name", {"'d'": (None, "d"), "'e'": (None, "e")}),
        ),
        varies=("key",),
        refused=(Refused(values("key, name", "7L, 'x'"), "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"),),
        check=log_checks.identity_marks_move_on,
    ),
    Feature(
        "identityColumns by default",
        (Column("key", "BIGINT", identity=(1, 1), by_default=True), _NAME),
        (
            Batch.of("name", {"'a'": (None, "a"), "'b'": (None, "b")}),
            Batch.of("name", {"'c'": (None, "c")}),
            Batch.of("name", {"'d'": (None, "d")}),
        ),
        varies=("key",),
        check=log_checks.identity_marks_move_on,
    ),
    Feature(
        "columnMapping name",
        _ODD,
        _ODD_ROWS,
        properties={"delta.columnMapping.mode": "name"},
        partitioned_by=("part;1",),
        check=log_checks.columns_have_ids,
        unreadable=_COLUMN_MAPPING_UNREADABLE,
    ),
    Feature(
        "columnMapping id",
        _ODD,
        _ODD_ROWS,
        properties={"delta.columnMapping.mode": "id"},
        partitioned_by=("part;1",),
        check=log_checks.columns_have_ids,
        unreadable=_COLUMN_MAPPING_UNREADABLE,
    ),
    Feature(
        "rowTracking",
        _TWO,
        _ROWS,
        properties={"delta.enableRowTracking": "true"},
        table_features=frozenset({"rowTracking", "domainMetadata"}),
        check=log_checks.row_ids_do_not_meet,
    ),
    Feature(
        "inCommitTimestamp",
        _TWO,
        _ROWS,
        properties={"delta.enableInCommitTimestamps": "true"},
        table_features=frozenset({"inCommitTimestamp"}),
        check=log_checks.in_commit_timestamps_rise,
    ),
    Feature(
        "clustering",
        _TWO,
        _ROWS,
        clustered_by=("id",),
        table_features=frozenset({"clustering", "domainMetadata"}),
        check=log_checks.clustering_stays,
    ),
    Feature(
        "icebergCompatV1",
        (*_TWO, Column("part", "INT")),
        (
            Batch.of("id, name, part", {"1L, 'a', 1": (1, "a", 1)}),
            Batch.of("id, name, part", {"3L, 'é', 1": (3, "é", 1)}),
            Batch.of("id, name, part", {"4L, '', CAST(NULL AS INT)": (4, "", None)}),
        ),
        properties={"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "name"},
        partitioned_by=("part",),
        table_features=frozenset({"icebergCompatV1", "columnMapping"}),
        check=log_checks.columns_have_ids,
        unreadable=_COLUMN_MAPPING_UNREADABLE,
    ),
    Feature(
        "icebergCompatV2",
        (_ID, Column("list", "ARRAY<INT>"), Column("map", "MAP<STRING, ARRAY<INT>>"), Column("part", "INT")),
        (
            Batch.of("id, list, map, part", {"1L, array(1, 2), map('k', array(3)), 1": (1, [1, 2], [("k", [3])], 1)}),
            Batch.of("id, list, map, part", {"2L, array(4), map('l', array(5)), 1": (2, [4], [("l", [5])], 1)}),
            Batch.of("id, list, map, part", {"3L, array(6), map('m', array(7)), 2": (3, [6], [("m", [7])], 2)}),
        ),
        properties={"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "name"},
        partitioned_by=("part",),
        table_features=frozenset({"icebergCompatV2", "columnMapping"}),
        check=log_checks.columns_have_ids,
        unreadable=_COLUMN_MAPPING_UNREADABLE,
    ),
    Feature("changeDataFeed", _TWO, _ROWS, properties={"delta.enableChangeDataFeed": "true"}),
    Feature(
        "deletionVectors",
        _TWO,
        _ROWS,
        properties={"delta.enableDeletionVectors": "true"},
        table_features=frozenset({"deletionVectors"}),
        unreadable=_NOT_BY_PYARROW,
    ),
    Feature(
        "domainMetadata",
        _TWO,
        _ROWS,
        properties={"delta.feature.domainMetadata": "supported"},
        table_features=frozenset({"domainMetadata"}),
    ),
    Feature(
        "vacuumProtocolCheck",
        _TWO,
        _ROWS,
        properties={"delta.feature.vacuumProtocolCheck": "supported"},
        table_features=frozenset({"vacuumProtocolCheck"}),
        unreadable={**_NOT_BY_PYARROW, **_NOT_BY_POLARS, "datafusion": "the reader feature is not known to it"},
    ),
    Feature(
        "variantType",
        (_ID, Column("v", "VARIANT"), Column("s", "STRUCT<v: VARIANT>")),
        _VARIANTS,
        table_features=frozenset({"variantType"}),
        unreadable=_NO_VARIANTS,
    ),
    Feature(
        "variantShredding",
        (_ID, Column("v", "VARIANT"), Column("s", "STRUCT<v: VARIANT>")),
        _VARIANTS,
        properties={"delta.enableVariantShredding": "true", **_CHECKPOINTS},
        table_features=frozenset({"variantType", "variantShredding"}),
        unreadable=_NO_SHREDDING,
    ),
    Feature(
        "geospatial",
        (_ID, Column("g", "GEOMETRY(4326)"), Column("h", "GEOGRAPHY(4326)")),
        (
            Batch.of("id, g, h", {f"1L, {_GEOMETRY}, {_GEOGRAPHY}": (1, _POINT, _POINT)}),
            Batch.of("id, g, h", {f"2L, {_GEOMETRY}, {_GEOGRAPHY}": (2, _POINT, _POINT)}),
            Batch.of("id, g, h", {f"3L, {_GEOMETRY}, {_GEOGRAPHY}": (3, _POINT, _POINT)}),
        ),
        table_features=frozenset({"geospatial"}),
        unreadable=_NO_SHAPES,
    ),
    Feature("checkpoints", _TWO, _ROWS, properties=_CHECKPOINTS, log_files=("*1.checkpoint.parquet",)),
    Feature(
        "checkpoints with struct statistics",
        (*_TWO, Column("part", "INT")),
        (
            Batch.of("id, name, part", {"1L, 'a', 1": (1, "a", 1)}),
            Batch.of("id, name, part", {"3L, 'é', 1": (3, "é", 1)}),
            Batch.of("id, name, part", {"4L, '', CAST(NULL AS INT)": (4, "", None)}),
        ),
        partitioned_by=("part",),
        properties={
            **_CHECKPOINTS,
            "delta.checkpoint.writeStatsAsStruct": "true",
            "delta.checkpoint.writeStatsAsJson": "false",
        },
        log_files=("*1.checkpoint.parquet",),
    ),
    Feature(
        "v2Checkpoint",
        _TWO,
        _ROWS,
        properties={**_CHECKPOINTS, "delta.checkpointPolicy": "v2"},
        table_features=frozenset({"v2Checkpoint"}),
        log_files=("*1.checkpoint.*.parquet", "_sidecars/*.parquet"),
        unreadable={**_NOT_BY_PYARROW, **_NOT_BY_POLARS},
    ),
    Feature(
        "comments and properties",
        (Column("id", "BIGINT", comment="the key"), _NAME),
        _ROWS,
        properties={"quality": "it's good", "delta.dataSkippingNumIndexedCols": "1"},
    ),
    Feature(
        "many features at once",
        (
            Column("the id", "BIGINT", nullable=False),
            Column("name", "STRING"),
            Column("next", "BIGINT", generated="`the id` + 1"),
        ),
        (
            Batch.of("`the id`, name", {"1L, 'a'": (1, "a", 2), "2L, NULL": (2, None, 3)}),
            Batch.of("`the id`, name", {"3L, 'é'": (3, "é", 4)}),
            Batch.of("`the id`, name", {"4L, ''": (4, "", 5)}),
        ),
        properties={
            "delta.checkpointPolicy": "v2",
            "delta.columnMapping.mode": "name",
            "delta.enableRowTracking": "true",
            "delta.enableInCommitTimestamps": "true",
            "delta.enableDeletionVectors": "true",
            "delta.enableChangeDataFeed": "true",
            "delta.constraints.small": "`the id` < 100",
        },
        table_features=frozenset({"rowTracking", "inCommitTimestamp", "checkConstraints", "generatedColumns"}),
        refused=(Refused(values("`the id`, name", "100L, 'x'"), "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),),
        check=log_checks.row_ids_do_not_meet,
        unreadable={**_NOT_BY_PYARROW, **_NOT_BY_POLARS},
    ),
)

FEATURES: tuple[Feature, ...] = (*TYPE_CASES, *TABLE_FEATURES)
