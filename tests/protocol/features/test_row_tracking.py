from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import CorruptTable, InvalidArgument
from slackwater.protocol.actions.actions import NO_COLUMNS, DomainMetadata, Metadata, Protocol
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.features.row_tracking import (
    DOMAIN,
    NO_ROW_IDS,
    assign,
    assigns_row_ids,
    domain_metadata,
    high_water_mark,
    is_enabled,
    is_supported,
    materialized_names,
    validate_column_names,
    validate_row_tracking,
)
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    TableProperties,
)

TRACKED = Protocol(1, 7, None, ("rowTracking", "domainMetadata"))
ON = {"delta.enableRowTracking": "true"}
SUSPENDED = {"delta.rowTrackingSuspended": "true"}
NAMES = {MATERIALIZED_ROW_ID: "_row-id-col-1", MATERIALIZED_ROW_COMMIT_VERSION: "_row-commit-version-col-2"}


def _table(configuration: dict[str, str], protocol: Protocol = TRACKED) -> TableConfiguration:
    return TableConfiguration(protocol, Metadata("id", NO_COLUMNS, configuration=configuration))


def _add(path: str, rows: int | None, base: int | None = None, version: int | None = None) -> AddFile:
    stats = None if rows is None else json.dumps({"numRecords": rows})
    return AddFile(path, {}, 1, 0, stats=stats, base_row_id=base, default_row_commit_version=version)


def _ids(adds: list[AddFile]) -> list[tuple[int | None, int | None]]:
    return [(add.base_row_id, add.default_row_commit_version) for add in adds]


def test_supported_enabled_and_suspended_are_three_things() -> None:
    assert is_supported(_table({}))
    assert not is_supported(_table({}, Protocol(1, 7, None, ("domainMetadata",))))
    assert is_enabled(_table(ON))
    assert not is_enabled(_table({}))
    assert not is_enabled(_table(ON, Protocol(1, 2)))
    assert assigns_row_ids(_table({}))
    assert not assigns_row_ids(_table(SUSPENDED))
    assert not assigns_row_ids(_table({}, Protocol(1, 2)))


@pytest.mark.parametrize(
    ("configuration", "mark"),
    [
        ('{"highWaterMark":9}', 9),
        ('{"rowIdHighWaterMark":9}', 9),
        ('{"rowIdHighWaterMark":7,"highWaterMark":9}', 9),
        ('{"rowIdHighWaterMark":11,"highWaterMark":9}', 11),
        ('{"highWaterMark":-1}', -1),
    ],
)
def test_the_mark_is_read_under_both_keys_and_the_higher_counts(configuration: str, mark: int) -> None:
    assert high_water_mark({DOMAIN: DomainMetadata(DOMAIN, configuration)}) == mark


def test_a_table_without_the_domain_has_given_out_no_id() -> None:
    assert high_water_mark({}) == NO_ROW_IDS
    assert high_water_mark({DOMAIN: DomainMetadata(DOMAIN, '{"highWaterMark":9}', removed=True)}) == NO_ROW_IDS


@pytest.mark.parametrize("configuration", ["", "9", "[]", "{}", '{"highWaterMark":"9"}', '{"highWaterMark":true}'])
def test_a_domain_without_a_number_is_named(configuration: str) -> None:
    with pytest.raises(CorruptTable, match=r"domain delta\.rowTracking must"):
        high_water_mark({DOMAIN: DomainMetadata(DOMAIN, configuration)})


@given(st.integers(-1, 2**63 - 1))
def test_the_mark_that_is_written_is_read_by_everybody(mark: int) -> None:
    domain = domain_metadata(mark)
    assert (domain.domain, domain.removed) == ("delta.rowTracking", False)
    assert json.loads(domain.configuration) == {"highWaterMark": mark, "rowIdHighWaterMark": mark}
    assert high_water_mark({domain.domain: domain}) == mark


def test_new_files_get_consecutive_ids_and_the_version() -> None:
    adds, mark = assign([_add("a", 3), _add("b", 2), _add("c", 1)], NO_ROW_IDS, 7)
    assert _ids(adds) == [(0, 7), (3, 7), (5, 7)]
    assert mark == 5


def test_ids_go_on_above_the_mark() -> None:
    adds, mark = assign([_add("a", 3)], 99, 8)
    assert _ids(adds) == [(100, 8)]
    assert mark == 102


def test_a_file_without_rows_uses_no_id_up() -> None:
    adds, mark = assign([_add("a", 0), _add("b", 2)], 4, 1)
    assert _ids(adds) == [(5, 1), (5, 1)]
    assert mark == 6


def test_what_a_file_carries_stays() -> None:
    carried = _add("a", 3, base=2, version=1)
    adds, mark = assign([carried, _add("b", 2), _add("c", 2, base=0)], 9, 5)
    assert adds[0] is carried
    assert _ids(adds) == [(2, 1), (10, 5), (0, 5)]
    assert mark == 11


def test_a_commit_version_that_is_there_stays_where_the_id_is_missing() -> None:
    assert _ids(assign([_add("a", 1, version=2)], 0, 5)[0]) == [(1, 2)]


def test_no_files_leave_the_mark() -> None:
    assert assign([], 12, 3) == ([], 12)


@pytest.mark.parametrize(
    "stats", [None, "{}", '{"numRecords":null}', '{"numRecords":-1}', "not json", '{"numRecords":"3"}']
)
def test_a_file_that_does_not_say_its_rows_is_named(stats: str | None) -> None:
    with pytest.raises(InvalidArgument, match=r"part-1\.parquet: row tracking needs the number of rows"):
        assign([_add("part-0.parquet", 1), replace(_add("part-1.parquet", 1), stats=stats)], -1, 0)


@pytest.mark.parametrize(("base", "rows"), [(10, 1), (8, 3), (10, None), (-2, 1)])
def test_ids_that_the_table_never_gave_out_are_refused(base: int, rows: int | None) -> None:
    with pytest.raises(InvalidArgument, match=r"a: has the row ids .* assigned ids only up to 9"):
        assign([_add("a", rows, base=base)], 9, 1)


@pytest.mark.parametrize(("base", "rows"), [(9, 1), (7, 3), (9, None), (0, 10)])
def test_ids_up_to_the_mark_may_be_committed_again(base: int, rows: int | None) -> None:
    adds, mark = assign([_add("a", rows, base=base, version=0)], 9, 1)
    assert (_ids(adds), mark) == ([(base, 0)], 9)


def test_ids_do_not_overflow() -> None:
    last = 2**63 - 1
    assert assign([_add("a", 1)], last - 1, 0)[1] == last
    with pytest.raises(CorruptTable, match="a: the row ids of the table are used up"):
        assign([_add("a", 2)], last - 1, 0)


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=6))
def test_no_two_rows_ever_get_one_id(commits: list[list[int]]) -> None:
    seen: list[int] = []
    mark = NO_ROW_IDS
    for version, rows in enumerate(commits):
        adds, mark = assign([_add(str(n), count) for n, count in enumerate(rows)], mark, version)
        for add in adds:
            base = add.base_row_id
            assert base is not None
            seen += range(base, base + (add.num_records or 0))
    assert len(seen) == len(set(seen))
    assert max(seen, default=NO_ROW_IDS) == mark


def test_hidden_columns_get_names_that_are_free() -> None:
    numbers = map(str, itertools.count(1))
    names = materialized_names(TableProperties({}), ["a", "_ROW-ID-COL-1"], lambda: next(numbers))
    assert names == {MATERIALIZED_ROW_ID: "_row-id-col-2", MATERIALIZED_ROW_COMMIT_VERSION: "_row-commit-version-col-3"}


def test_names_that_were_given_are_kept() -> None:
    def never() -> str:
        raise AssertionError("no new name is needed")

    assert materialized_names(TableProperties({**NAMES, "x": "y"}), ["a"], never) == NAMES
    half = TableProperties({MATERIALIZED_ROW_ID: "mine"})
    assert materialized_names(half, [], lambda: "u") == {
        MATERIALIZED_ROW_ID: "mine",
        MATERIALIZED_ROW_COMMIT_VERSION: "_row-commit-version-col-u",
    }


def test_a_source_of_names_that_repeats_itself_is_given_up() -> None:
    with pytest.raises(InvalidArgument, match="found no free column name that starts with _row-id-col-"):
        materialized_names(TableProperties({}), ["_row-id-col-u"], lambda: "u")


def test_no_column_may_take_the_name_of_a_hidden_one() -> None:
    with pytest.raises(InvalidArgument, match="_ROW-ID-COL-1 belongs to a hidden column of row tracking"):
        validate_column_names(TableProperties(NAMES), ["a", "_ROW-ID-COL-1"])
    validate_column_names(TableProperties(NAMES), ["a"])
    validate_column_names(TableProperties({}), ["_row-id-col-1"])


@pytest.mark.parametrize(
    ("configuration", "files_without_ids", "message"),
    [
        ({**ON, **NAMES, **SUSPENDED}, 0, "enableRowTracking and delta.rowTrackingSuspended are both true"),
        (
            ON,
            0,
            "lacks delta.rowTracking.materializedRowIdColumnName and delta.rowTracking.materializedRowCommitVersion",
        ),
        ({**ON, MATERIALIZED_ROW_ID: "x"}, 0, "lacks delta.rowTracking.materializedRowCommitVersionColumnName"),
        ({**ON, **NAMES}, 2, "but 2 live files have no row ids"),
    ],
)
def test_enabling_without_what_it_needs_is_refused(
    configuration: dict[str, str], files_without_ids: int, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        validate_row_tracking(_table(configuration), files_without_ids)


@pytest.mark.parametrize(
    ("protocol", "configuration", "files_without_ids"),
    [
        (TRACKED, {**ON, **NAMES}, 0),
        (TRACKED, {}, 5),
        (TRACKED, SUSPENDED, 5),
        (Protocol(1, 2), ON, 5),
    ],
)
def test_rules_of_enabling_bind_only_where_it_is_enabled(
    protocol: Protocol, configuration: dict[str, str], files_without_ids: int
) -> None:
    table = _table(configuration, protocol)
    enabled = is_enabled(table)
    validate_row_tracking(table, files_without_ids)
    assert not (enabled and files_without_ids)
