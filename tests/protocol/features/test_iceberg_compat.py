from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument, InvalidSchema
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.column_mapping import FIELD_ID, PHYSICAL_NAME
from slackwater.protocol.features.iceberg_compat import (
    NESTED_IDS,
    active_version,
    allows_type_change,
    assign_nested_ids,
    hidden_field_ids,
    materializes_partition_values,
    nested_ids,
    validate_iceberg_compat,
)
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    GeospatialType,
    MapType,
    StructField,
    StructType,
    VariantType,
    schema_to_json,
    walk_fields,
)

V1 = {"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "name"}
V2 = {"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "id"}
BOTH = Protocol(3, 7, ("columnMapping",), ("columnMapping", "icebergCompatV1", "icebergCompatV2"))
WITH_VECTORS = Protocol(
    3,
    7,
    ("columnMapping", "deletionVectors"),
    ("columnMapping", "deletionVectors", "icebergCompatV1", "icebergCompatV2"),
)


def _column(name: str, number: int, data_type: DataType = LONG, **metadata: object) -> StructField:
    return StructField(name, data_type, True, {FIELD_ID: number, PHYSICAL_NAME: f"col-{number}", **metadata})


V3 = {
    "delta.enableIcebergCompatV3": "true",
    "delta.columnMapping.mode": "name",
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
}
WITH_V3 = Protocol(
    3,
    7,
    ("columnMapping", "deletionVectors", "typeWidening"),
    (
        *(BOTH.writer_features or ()),
        "icebergCompatV3",
        "rowTracking",
        "domainMetadata",
        "deletionVectors",
        "typeWidening",
    ),
)
PLAIN = StructType((_column("a", 1), _column("p", 2)))


def _table(
    configuration: dict[str, str],
    schema: StructType = PLAIN,
    partitions: tuple[str, ...] = (),
    protocol: Protocol = BOTH,
) -> TableConfiguration:
    return TableConfiguration(protocol, Metadata("id", schema_to_json(schema), partitions, configuration))


# Whether it is active


@pytest.mark.parametrize(
    ("protocol", "configuration", "version"),
    [
        (BOTH, {}, None),
        (BOTH, V1, 1),
        (BOTH, V2, 2),
        (BOTH, {**V2, "delta.enableIcebergCompatV1": "false"}, 2),
        (Protocol(2, 7, None, ("columnMapping", "icebergCompatV2")), V2, 2),
        (Protocol(3, 7, ("columnMapping",), ("columnMapping",)), V2, None),
        (Protocol(2, 5), V1, None),
    ],
)
def test_a_version_is_active_where_it_is_supported_and_enabled(
    protocol: Protocol, configuration: dict[str, str], version: int | None
) -> None:
    table = _table(configuration, protocol=protocol)
    assert active_version(table) == version
    assert materializes_partition_values(table) is (version is not None)


def test_both_versions_at_once_are_refused() -> None:
    with pytest.raises(
        InvalidArgument, match=r"only one of delta\.enableIcebergCompatV1 and delta\.enableIcebergCompatV2"
    ):
        active_version(_table({**V1, **V2}))


# The rules


@pytest.mark.parametrize("configuration", [V1, V2])
@pytest.mark.parametrize("mode", ["none", None])
def test_column_mapping_must_be_on(configuration: dict[str, str], mode: str | None) -> None:
    changed = {key: value for key, value in configuration.items() if key != "delta.columnMapping.mode"}
    if mode:
        changed["delta.columnMapping.mode"] = mode
    with pytest.raises(InvalidArgument, match=r"needs delta\.columnMapping\.mode to be name or id"):
        validate_iceberg_compat(_table(changed))


def test_version_1_does_not_go_with_support_for_deletion_vectors() -> None:
    with pytest.raises(InvalidArgument, match=r"V1 is true, but the table supports deletion vectors"):
        validate_iceberg_compat(_table(V1, protocol=WITH_VECTORS))


def test_version_2_does_not_go_with_active_deletion_vectors() -> None:
    on = {**V2, "delta.enableDeletionVectors": "true"}
    with pytest.raises(InvalidArgument, match=r"V2 is true, which needs delta.enableDeletionVectors to be false"):
        validate_iceberg_compat(_table(on, protocol=WITH_VECTORS))
    off = {**V2, "delta.enableDeletionVectors": "false"}
    assert validate_iceberg_compat(_table(off, protocol=WITH_VECTORS)) is None  # type: ignore[func-returns-value]
    assert validate_iceberg_compat(_table(on)) is None  # type: ignore[func-returns-value]


_ALWAYS = [BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, DecimalType(9, 2), STRING, BINARY, BOOLEAN, TIMESTAMP, DATE]


def _refusal(configuration: dict[str, str], data_type: DataType) -> str:
    """What is said against a column of this type; nothing where it is allowed."""
    schema, _ = assign_nested_ids(StructType((_column("a", 1, data_type),)), 1)
    try:
        validate_iceberg_compat(_table(configuration, schema))
    except InvalidArgument as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("data_type", "in_1", "in_2"),
    [
        *((t, True, True) for t in [*_ALWAYS, TIMESTAMP_NTZ, StructType((_column("x", 5),))]),
        (ArrayType(LONG), False, True),
        (MapType(STRING, LONG), False, True),
        (StructType((_column("x", 5, ArrayType(LONG)),)), False, True),
        (VOID, False, False),
        (StructType((_column("x", 5, VOID),)), False, False),
        (ArrayType(VOID), False, False),
    ],
    ids=str,
)
def test_only_types_that_iceberg_has_are_allowed(data_type: DataType, in_1: bool, in_2: bool) -> None:
    refusals = [_refusal(V1, data_type), _refusal(V2, data_type)]
    assert [not refusal for refusal in refusals] == [in_1, in_2]
    assert all("does not allow the type" in refusal for refusal in refusals if refusal)


@pytest.mark.parametrize("configuration", [V1, V2])
@pytest.mark.parametrize("partitions", [("a",), (), ("p", "a")])
def test_a_partitioned_table_keeps_its_partition_columns(
    configuration: dict[str, str], partitions: tuple[str, ...]
) -> None:
    before, after = _table(configuration, PLAIN, ("p",)), _table(configuration, PLAIN, partitions)
    with pytest.raises(InvalidArgument, match="does not allow a change of the partition columns from p to"):
        validate_iceberg_compat(after, before)


@pytest.mark.parametrize("configuration", [V1, V2])
def test_a_partition_column_may_change_its_type_and_a_table_may_become_partitioned(
    configuration: dict[str, str],
) -> None:
    other = StructType((_column("a", 1), _column("p", 2, STRING)))
    before, after = _table(configuration, PLAIN, ("p",)), _table(configuration, other, ("p",))
    unpartitioned = _table(configuration, PLAIN)
    outcomes = [
        validate_iceberg_compat(after, before),  # type: ignore[func-returns-value]
        validate_iceberg_compat(after, unpartitioned),  # type: ignore[func-returns-value]
    ]
    assert outcomes == [None, None]


def test_version_1_needs_earlier_files_of_a_partitioned_table_rewritten() -> None:
    off = _table({"delta.columnMapping.mode": "name"}, PLAIN, ("p",))
    on = _table(V1, PLAIN, ("p",))
    with pytest.raises(InvalidArgument, match="some files lack them"):
        validate_iceberg_compat(on, off, has_earlier_files=True)
    outcomes = [
        validate_iceberg_compat(on, off),  # type: ignore[func-returns-value]
        validate_iceberg_compat(on, on, has_earlier_files=True),  # type: ignore[func-returns-value]
        validate_iceberg_compat(_table(V2, PLAIN, ("p",)), off, has_earlier_files=True),  # type: ignore[func-returns-value]
        validate_iceberg_compat(_table(V1), _table({}), has_earlier_files=True),  # type: ignore[func-returns-value]
    ]
    assert outcomes == [None] * 4


def test_version_2_needs_ids_for_the_parts_of_arrays_and_maps() -> None:
    schema = StructType((_column("a", 1, MapType(LONG, ArrayType(LONG))),))
    with pytest.raises(InvalidArgument, match=r"column a: .*needs ids for key, value, value\.element in parquet"):
        validate_iceberg_compat(_table(V2, schema))


@pytest.mark.parametrize("ids", [{"col-1.element": 1}, {"col-1.element": 2}])
def test_version_2_needs_ids_that_nothing_else_has(ids: dict[str, int]) -> None:
    schema = StructType((_column("a", 1, ArrayType(LONG), **{NESTED_IDS: ids}), _column("b", 2)))
    with pytest.raises(InvalidArgument, match=r"needs unique ids, and a has . too"):
        validate_iceberg_compat(_table(V2, schema))


def test_nothing_is_asked_of_a_table_where_neither_is_active() -> None:
    schema = StructType((StructField("a", ArrayType(VOID)),))
    outcome = validate_iceberg_compat(_table({}, schema))  # type: ignore[func-returns-value]
    assert outcome is None


# Ids of the parts of arrays and maps

# The schema of the protocol's example, whose columns have no ids of their own.
NESTED_IDS_OF_REFERENCE = "delta.columnMapping.nested.ids"
EXAMPLE = StructType(
    (
        StructField("col1", ArrayType(ArrayType(INTEGER))),
        StructField("col2", MapType(INTEGER, ArrayType(INTEGER))),
        StructField("col3", MapType(INTEGER, StructType((StructField("subcol1", ArrayType(INTEGER)),)))),
    )
)


def _all_ids(schema: StructType) -> dict[str, object]:
    return {".".join(path): column.metadata.get(NESTED_IDS) for path, column in walk_fields(schema)}


def test_the_example_of_the_protocol_gets_the_ids_of_the_example() -> None:
    schema, highest = assign_nested_ids(EXAMPLE, 99)
    assert highest == 107
    assert _all_ids(schema) == {
        "col1": {"col1.element": 100, "col1.element.element": 101},
        "col2": {"col2.key": 102, "col2.value": 103, "col2.value.element": 104},
        "col3": {"col3.key": 105, "col3.value": 106},
        "col3.value.subcol1": {"subcol1.element": 107},
    }


def test_keys_start_with_the_physical_name_where_there_is_one() -> None:
    schema, highest = assign_nested_ids(StructType((_column("a.b", 1, ArrayType(LONG)),)), 1)
    assert schema.fields[0].metadata[NESTED_IDS] == {"col-1.element": 2}
    assert highest == 2


def test_ids_that_are_there_stay_and_new_ones_follow_all_of_them() -> None:
    known = {"col-1.key": 50, "col-1.value": 7}
    schema = StructType(
        (
            _column("m", 1, MapType(LONG, ArrayType(LONG)), **{NESTED_IDS: known}),
            _column("n", 2, ArrayType(LONG)),
            _column("o", 60),
        )
    )
    assigned, highest = assign_nested_ids(schema, 10)
    assert assigned.fields[0].metadata[NESTED_IDS] == {"col-1.key": 50, "col-1.value": 7, "col-1.value.element": 61}
    assert assigned.fields[1].metadata[NESTED_IDS] == {"col-2.element": 62}
    assert highest == 62


@pytest.mark.parametrize("key", [NESTED_IDS, "delta.columnMapping.nested.ids"])
@pytest.mark.parametrize("prefix", ["col-1", "a", "before the rename", "a.element"])
def test_ids_are_found_under_the_keys_of_every_writer(key: str, prefix: str) -> None:
    ids = {f"{prefix}.element": 5, f"{prefix}.element.element": 6}
    column = _column("a", 1, ArrayType(ArrayType(LONG)), **{key: ids})
    assigned, highest = assign_nested_ids(StructType((column,)), 9)
    assert assigned.fields[0].metadata[NESTED_IDS] == {"col-1.element": 5, "col-1.element.element": 6}
    assert highest == 9


def test_a_schema_that_has_its_ids_is_left_as_it_is() -> None:
    once, highest = assign_nested_ids(EXAMPLE, 0)
    assert assign_nested_ids(once, highest) == (once, highest)
    plain, same = assign_nested_ids(PLAIN, 2)
    assert (plain, same) == (PLAIN, 2)
    assert all(NESTED_IDS not in column.metadata for column in plain)


@pytest.mark.parametrize("ids", [[1], {"a.element": "1"}, {"a.element": True}])
def test_ids_that_are_no_numbers_are_named(ids: object) -> None:
    with pytest.raises(InvalidSchema, match=r"column a: parquet\.field\.nested\.ids must"):
        nested_ids(_column("a", 1, ArrayType(LONG), **{NESTED_IDS: ids}))


def test_ids_must_fit_into_32_bits() -> None:
    schema = StructType((_column("a", 1, ArrayType(LONG)),))
    assert assign_nested_ids(schema, 2**31 - 2)[1] == 2**31 - 1
    with pytest.raises(InvalidArgument, match="column ids of the table are used up"):
        assign_nested_ids(schema, 2**31 - 1)


_TYPES = st.recursive(
    st.sampled_from([LONG, STRING]),
    lambda inner: st.one_of(
        st.builds(ArrayType, inner),
        st.builds(MapType, inner, inner),
        st.builds(lambda *types: StructType(tuple(StructField(f"f{n}", t) for n, t in enumerate(types))), inner, inner),
    ),
    max_leaves=12,
)


@given(st.lists(_TYPES, min_size=1, max_size=4), st.integers(0, 1000))
def test_every_part_of_any_schema_gets_an_id_of_its_own(types: list[DataType], max_id: int) -> None:
    schema = StructType(tuple(StructField(f"c{n}", t) for n, t in enumerate(types)))
    assigned, highest = assign_nested_ids(schema, max_id)
    ids = [number for _, column in walk_fields(assigned) for number in nested_ids(column).values()]
    assert sorted(ids) == list(range(max_id + 1, highest + 1))
    assert len(ids) == str(schema).count("array<") + 2 * str(schema).count("map<")
    assert str(assigned) == str(schema)


def test_nested_ids_are_written_under_both_keys() -> None:
    schema, _ = assign_nested_ids(EXAMPLE, 99)
    with_ids = [column for _, column in walk_fields(schema) if NESTED_IDS in column.metadata]
    assert with_ids
    assert all(column.metadata[NESTED_IDS] == column.metadata[NESTED_IDS_OF_REFERENCE] for column in with_ids)
    # A table that has one of them gets the other, with the same ids.
    column = _column("a", 1, ArrayType(LONG), **{NESTED_IDS: {"col-1.element": 5}})
    (completed,) = assign_nested_ids(StructType((column,)), 9)[0].fields
    assert completed.metadata[NESTED_IDS_OF_REFERENCE] == {"col-1.element": 5}


def test_the_reference_implementations_nested_ids_count_where_they_differ() -> None:
    both = {
        NESTED_IDS: {"col-1.key": 5, "col-1.value": 6},
        NESTED_IDS_OF_REFERENCE: {"col-1.key": 15},
    }
    assert nested_ids(_column("a", 1, MapType(LONG, LONG), **both)) == {"key": 15, "value": 6}


# Version 3


def _third(*schema: StructType, **changed: str) -> TableConfiguration:
    return _table({**V3, **changed}, schema[0] if schema else PLAIN, protocol=WITH_V3)


def test_version_3_needs_row_tracking_and_excludes_the_other_versions() -> None:
    assert active_version(_third()) == 3
    assert validate_iceberg_compat(_third()) is None  # type: ignore[func-returns-value]
    with pytest.raises(InvalidArgument, match=r"V3 is true, which needs delta\.enableRowTracking to be true"):
        validate_iceberg_compat(_third(**{"delta.enableRowTracking": "false"}))
    with pytest.raises(
        InvalidArgument, match=r"only one of delta\.enableIcebergCompatV2 and delta\.enableIcebergCompatV3"
    ):
        validate_iceberg_compat(_third(**V2))
    with pytest.raises(InvalidArgument, match=r"needs delta\.columnMapping\.mode to be name or id"):
        validate_iceberg_compat(_third(**{"delta.columnMapping.mode": "none"}))


def test_version_3_allows_deletion_vectors() -> None:
    table = _third(**{"delta.enableDeletionVectors": "true"})
    assert validate_iceberg_compat(table) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("data_type", "in_2", "in_3"),
    [
        *((t, True, True) for t in [*_ALWAYS, TIMESTAMP_NTZ, ArrayType(LONG), MapType(STRING, LONG)]),
        (VariantType(), False, True),
        (ArrayType(VariantType()), False, True),
        (GeospatialType("geometry", "OGC:CRS84"), False, True),
        (VOID, False, False),
    ],
    ids=str,
)
def test_version_3_allows_variants_and_shapes(data_type: DataType, in_2: bool, in_3: bool) -> None:
    schema, _ = assign_nested_ids(StructType((_column("a", 1, data_type),)), 1)
    for table, allowed in ((_table(V2, schema), in_2), (_third(schema), in_3)):
        if allowed:
            assert validate_iceberg_compat(table) is None  # type: ignore[func-returns-value]
        else:
            with pytest.raises(InvalidArgument, match="does not allow the type"):
                validate_iceberg_compat(table)


def test_version_3_needs_ids_for_the_parts_of_arrays_and_maps() -> None:
    with pytest.raises(InvalidArgument, match="needs ids for element"):
        validate_iceberg_compat(_third(StructType((_column("a", 1, ArrayType(LONG)),))))


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("byte", "short", True),
        ("byte", "integer", True),
        ("byte", "long", True),
        ("short", "integer", True),
        ("short", "long", True),
        ("integer", "long", True),
        ("float", "double", True),
        ("decimal(5,2)", "decimal(9,2)", True),
        ("decimal(5,2)", "decimal(9,3)", False),
        ("integer", "double", False),
        ("byte", "decimal(10,0)", False),
        ("date", "timestamp_ntz", False),
    ],
)
def test_only_type_changes_of_iceberg_are_allowed_in_the_history(old: str, new: str, allowed: bool) -> None:
    history = {"delta.typeChanges": [{"fromType": "byte", "toType": "short"}, {"fromType": old, "toType": new}]}
    schema = StructType((_column("a", 1, StructType((_column("x", 2, LONG, **history),))),))
    assert allows_type_change(old, new) is allowed
    for table in (_third(schema), _table(V2, schema, protocol=WITH_V3)):
        if allowed:
            assert validate_iceberg_compat(table) is None  # type: ignore[func-returns-value]
        else:
            with pytest.raises(InvalidArgument, match=re.escape(f"type change from {old} to {new}")):
                validate_iceberg_compat(table)
    without = _table(V2, schema, protocol=BOTH)
    assert validate_iceberg_compat(without) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("default", "allowed"),
    [
        ("1", True),
        ("-1.5", True),
        ("'x'", True),
        ("NULL", True),
        ("true", True),
        ("DATE '2026-01-02'", True),
        ("X'1F'", True),
        ("1 + 1", False),
        ("current_date()", False),
        ("CAST('1' AS INT)", False),
        ("upper('x')", False),
        ("- 'x'", False),
        ("(", False),
    ],
)
def test_version_3_needs_literal_defaults(default: str, allowed: bool) -> None:
    schema = StructType((_column("a", 1, LONG, CURRENT_DEFAULT=default),))
    if allowed:
        assert validate_iceberg_compat(_third(schema)) is None  # type: ignore[func-returns-value]
    else:
        with pytest.raises(InvalidArgument, match="needs a literal as default value"):
            validate_iceberg_compat(_third(schema))
    assert validate_iceberg_compat(_table(V2, schema)) is None  # type: ignore[func-returns-value]


def test_version_3_gives_the_hidden_columns_their_field_ids() -> None:
    assert hidden_field_ids(_third()) == {"_row-id-col-1": 2147483540, "_row-commit-version-col-1": 2147483539}
    assert hidden_field_ids(_table(V2)) == {}


def test_version_3_needs_earlier_files_with_row_ids_rewritten() -> None:
    off = _third(**{"delta.enableIcebergCompatV3": "false"})
    with pytest.raises(InvalidArgument, match="some files may lack them"):
        validate_iceberg_compat(_third(), off, has_earlier_files=True)
    untracked = _table({"delta.columnMapping.mode": "name"}, protocol=WITH_V3)
    outcomes = [
        validate_iceberg_compat(_third(), off),  # type: ignore[func-returns-value]
        validate_iceberg_compat(_third(), _third(), has_earlier_files=True),  # type: ignore[func-returns-value]
        validate_iceberg_compat(_third(), untracked, has_earlier_files=True),  # type: ignore[func-returns-value]
    ]
    assert outcomes == [None] * 3


# Partition columns in the files


@pytest.mark.parametrize(
    ("protocol", "configuration", "expected"),
    [
        (Protocol(1, 2), {}, False),
        (Protocol(1, 2), {"delta.writePartitionColumnsToParquet": "true"}, True),
        (Protocol(1, 7, None, ("materializePartitionColumns",)), {}, True),
        (
            Protocol(1, 7, None, ("materializePartitionColumns",)),
            {"delta.writePartitionColumnsToParquet": "false"},
            True,
        ),
        (Protocol(1, 2), {"delta.enableMaterializePartitionColumnsFeature": "true"}, False),
    ],
)
def test_a_feature_has_precedence_over_the_property_for_partition_columns_in_files(
    protocol: Protocol, configuration: dict[str, str], expected: bool
) -> None:
    assert materializes_partition_values(_table(configuration, protocol=protocol)) is expected
