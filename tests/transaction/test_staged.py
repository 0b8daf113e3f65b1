from __future__ import annotations

from dataclasses import replace

from slackwater.protocol.actions.actions import Protocol
from slackwater.transaction.staged import StagedActions
from tests.transaction.tables import table


def test_a_commit_that_changes_nothing_of_the_table_leaves_the_value_that_is_parsed() -> None:
    before = table().configuration
    assert StagedActions().table_after(before) is before
    same = StagedActions(protocol=replace(before.protocol), metadata=replace(before.metadata))
    assert same.table_after(before) is before


def test_a_changed_table_is_parsed_once_and_keeps_what_stays() -> None:
    before = table().configuration
    schema = before.schema
    staged = StagedActions(metadata=replace(before.metadata, configuration={"a": "b"}))
    after = staged.table_after(before)
    assert after.properties == {"a": "b"}
    assert after.schema is schema
    assert staged.table_after(before) is after


def test_what_is_staged_later_counts() -> None:
    before = table().configuration
    staged = StagedActions(metadata=replace(before.metadata, configuration={"a": "b"}))
    first = staged.table_after(before)
    properties = first.properties
    staged.protocol = Protocol(1, 4)
    second = staged.table_after(before)
    assert (second.protocol, second.metadata) == (Protocol(1, 4), first.metadata)
    assert second.properties is properties
    staged.metadata, staged.protocol = None, None
    assert staged.table_after(before) is before


def test_what_is_not_staged_is_that_of_the_version_before_each_attempt() -> None:
    before = table().configuration
    staged = StagedActions(metadata=replace(before.metadata, configuration={"a": "b"}))
    staged.table_after(before)
    assert staged.table_after(before.changed(Protocol(1, 4))).protocol == Protocol(1, 4)


def test_a_table_that_is_staged_whole_keeps_what_is_parsed_of_it() -> None:
    whole = table().configuration
    staged = StagedActions()
    staged.set_table(whole)
    assert (staged.protocol, staged.metadata) == (whole.protocol, whole.metadata)
    assert staged.table_after(None) is whole
