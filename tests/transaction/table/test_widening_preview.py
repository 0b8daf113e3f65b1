"""Type changes in a table with `typeWidening-preview`: each change records the version of its commit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.schema.column_paths import parse_column_path
from slackwater.protocol.schema.schema import parse_type
from slackwater.protocol.schema_changes.alter_column import change_type, widened_for
from slackwater.protocol.schema_changes.alter_columns import rename_column
from slackwater.protocol.schema_changes.type_change_versions import with_change_versions
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.table.alteration import Alteration, change_table
from tests.transaction.tables import add, append, begin, commit_actions, only, put_commit, schema, table

PREVIEW = ("typeWidening-preview",)
WIDENING = {"delta.enableTypeWidening": "true"}
COLUMNS = {"id": "integer", "a": {"type": "array", "elementType": "short", "containsNull": True}}


def preview(columns: Any = None, features: tuple[str, ...] = PREVIEW, **metadata: Any) -> Snapshot:
    """Version 1 of a table with the preview, because no property adds it."""
    created = table(columns or COLUMNS)
    text = schema(columns or COLUMNS, **metadata)
    put_commit(
        created.store,
        1,
        {"commitInfo": {"timestamp": created.timestamp_ms}},
        Protocol(3, 7, features, features).to_json(),
        replace(created.metadata, schema_string=text, configuration=WIDENING).to_json(),
    )
    return Snapshot.open(created.store)


def widening(snapshot: Snapshot, column: str, new_type: str) -> Alteration:
    changed = change_type(snapshot.configuration, parse_column_path(column), parse_type(new_type))
    return change_table(snapshot, "CHANGE COLUMN", changed)


def changes(snapshot: Snapshot, version: int, column: str = "id") -> list[dict[str, Any]]:
    text = only(snapshot.store, version, "metaData")["schemaString"]
    fields = {field["name"]: field["metadata"] for field in json.loads(text)["fields"]}
    found: list[dict[str, Any]] = fields[column].get("delta.typeChanges", [])
    return found


def test_type_change_records_the_version_of_its_commit() -> None:
    before = preview()
    after = widening(before, "id", "long").commit(begin(before)).snapshot
    assert changes(after, 2) == [{"fromType": "integer", "toType": "long", "tableVersion": 2}]
    protocols = [action for action in commit_actions(after.store, 2) if "protocol" in action]
    assert protocols == []


def test_type_change_inside_an_array_records_path_and_version() -> None:
    before = preview()
    after = widening(before, "a.element", "integer").commit(begin(before)).snapshot
    expected = {"fromType": "short", "toType": "integer", "fieldPath": "element", "tableVersion": 2}
    assert changes(after, 2, "a") == [expected]


def test_rebased_type_change_records_the_version_that_it_became() -> None:
    before = preview()
    mine = begin(before)
    alteration = widening(before, "id", "long")
    append(before, add("theirs-1"))
    append(before, add("theirs-2"))
    assert alteration.commit(mine).version == 4
    assert [change["tableVersion"] for change in changes(before, 4)] == [4]


def test_later_type_change_leaves_earlier_versions_unchanged() -> None:
    before = preview()
    first = widening(before, "id", "long").commit(begin(before)).snapshot
    second = append(first, add("rows")).snapshot
    after = widening(second, "id", "decimal(20,0)").commit(begin(second)).snapshot
    assert [change["tableVersion"] for change in changes(after, 4)] == [2, 4]


def test_renamed_column_retains_the_versions_of_its_type_changes() -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    created = table({"id": "integer"}, properties=mapped)
    features = (*PREVIEW, "columnMapping")
    put_commit(
        created.store,
        1,
        {"commitInfo": {"timestamp": created.timestamp_ms}},
        Protocol(3, 7, features, features).to_json(),
        replace(created.metadata, configuration={**created.metadata.configuration, **WIDENING}).to_json(),
    )
    before = Snapshot.open(created.store)
    widened = widening(before, "id", "long").commit(begin(before)).snapshot
    renamed = rename_column(widened.configuration, ("id",), "n")
    wider = change_type(renamed, ("n",), parse_type("decimal(20,0)"))
    after = change_table(widened, "CHANGE COLUMN", wider).commit(begin(widened)).snapshot
    assert [change["tableVersion"] for change in changes(after, 3, "n")] == [2, 3]


def test_change_recorded_without_a_version_stays_without_one() -> None:
    """The table can have both features, and the stable feature records no versions."""
    old = {"delta.typeChanges": [{"fromType": "short", "toType": "integer"}]}
    before = preview(features=(*PREVIEW, "typeWidening"), id=old)
    after = widening(before, "id", "long").commit(begin(before)).snapshot
    assert [change.get("tableVersion") for change in changes(after, 2)] == [None, 2]


def test_type_change_of_a_multi_table_transaction_gets_the_version_of_its_commit() -> None:
    """Within the transaction, the change has the version after the transaction's read view."""
    before = preview()
    changed = change_type(before.configuration, ("id",), parse_type("long"))
    staged = changed.changed(metadata=with_change_versions(before.configuration, changed, 2))
    committed = changed.changed(metadata=with_change_versions(before.configuration, staged, 7))
    (column, _) = committed.schema
    assert [change["tableVersion"] for change in column.metadata["delta.typeChanges"]] == [7]


def test_stable_feature_records_no_version() -> None:
    before = preview(features=("typeWidening",))
    after = widening(before, "id", "long").commit(begin(before)).snapshot
    assert changes(after, 2) == [{"fromType": "integer", "toType": "long"}]


def test_write_that_evolves_the_schema_records_the_version() -> None:
    before = preview()
    data = replace(before.schema, fields=(replace(before.schema.fields[0], type=parse_type("long")),))
    changed = change_table(before, "WRITE", widened_for(before.configuration, data))
    mine = begin(before)
    append(before, add("theirs"))
    assert changes(changed.commit(mine).snapshot, 3) == [{"fromType": "integer", "toType": "long", "tableVersion": 3}]
