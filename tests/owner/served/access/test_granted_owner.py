from __future__ import annotations

from dataclasses import replace

import pytest

from slackwater.errors import NotAuthorized, TableNotFound
from slackwater.owner.api.commits import ManagedTable, StagedCommit
from slackwater.owner.served.access.granted_owner import NAMES_CACHED_S, GrantedOwner, TableNames, owner_for
from slackwater.owner.served.access.permissions import Grant, Principal, Scope
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import new_id, taken

READER = Principal("reader", frozenset({Scope.COMMIT}), grants=(Grant("sales.*", Scope.READ),))


def test_names_are_read_again_for_an_unknown_id_and_after_some_seconds() -> None:
    owner, now_s, reads = MemoryOwner(), [5.0], []
    first, renamed = taken(owner, "a"), dict[str, str]()

    def tables() -> list[ManagedTable]:
        reads.append(1)
        return [replace(table, name=renamed.get(table.table_id, table.name)) for table in owner.tables()]

    names = TableNames(tables, lambda: now_s[0])
    assert [names.name(first) for _ in range(3)] == ["a"] * 3
    assert len(reads) == 1
    second = taken(owner, "b")
    assert [names.name(each) for each in (second, new_id(), first)] == ["b", None, "a"]
    assert len(reads) == 3
    renamed[first] = "c"
    assert names.name(first) == "a"
    now_s[0] += NAMES_CACHED_S
    assert names.name(first) == "c"
    # The id of a released table is known, so that a repeated release gets its first result.
    owner._logs.clear()
    now_s[0] += NAMES_CACHED_S
    assert names.name(first) == "c"
    assert NAMES_CACHED_S <= 5


def test_calls_of_unity_catalog_need_grants_too() -> None:
    owner = MemoryOwner()
    hidden, visible = taken(owner, "hr.people"), taken(owner, "sales.orders")
    view = owner_for(owner, READER, TableNames(owner.tables))
    assert isinstance(view, GrantedOwner)
    with pytest.raises(TableNotFound, match=f"the commit owner has no table {hidden}"):
        view.store(hidden)
    with pytest.raises(TableNotFound, match=f"the table {visible} has no files"):
        view.store(visible)
    with pytest.raises(NotAuthorized):
        view.commit_staged(StagedCommit(visible, 1, 1, "x", 1))
    assert view.owner_id == owner.owner_id
    assert view.endpoint is None
    view.close()
    assert not owner.is_closed


def test_a_caller_without_grants_uses_the_owner_itself() -> None:
    owner = MemoryOwner()
    assert owner_for(owner, replace(READER, grants=None), TableNames(owner.tables)) is owner
