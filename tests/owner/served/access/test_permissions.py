from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument
from slackwater.owner.served.access.permissions import Grant, Principal, Scope, namespace_of, parse_grants

COMMITTER = frozenset({Scope.COMMIT})


@pytest.mark.parametrize(
    ("pattern", "covered", "others"),
    [
        ("stock", ["stock"], ["stocks", "default.stock", "sales.stock", "STOCK"]),
        ("sales.orders", ["sales.orders"], ["orders", "sales.orders.old", "salesXorders"]),
        ("sales.*", ["sales.orders", "sales.stock"], ["sales", "sales.eu.orders", "salesx.orders", "orders"]),
        ("sales.eu.*", ["sales.eu.orders"], ["sales.orders", "sales.eu"]),
        ("default.*", ["stock", "orders"], ["sales.orders"]),
        ("*", ["stock", "sales.orders", "sales.eu.orders"], []),
    ],
)
def test_a_grant_covers_its_table_or_the_tables_of_its_namespace(
    pattern: str, covered: list[str], others: list[str]
) -> None:
    grant = Grant.parse(f"{pattern}:read")
    assert str(grant) == f"{pattern}:read"
    assert [name for name in covered + others if grant.covers(name)] == covered


@pytest.mark.parametrize(
    "text", ["", "stock", "stock:", ":read", "stock:write", "*.*:read", "sales*:read", ".*:read", "a b:read", "s:READ"]
)
def test_text_without_pattern_and_scope_is_not_a_grant(text: str) -> None:
    with pytest.raises(InvalidArgument, match="Write it like 'sales"):
        Grant.parse(text)


def test_a_grant_includes_lower_scopes_and_never_exceeds_the_scopes_of_the_caller() -> None:
    caller = Principal("etl", COMMITTER, grants=(Grant("sales.*", Scope.COMMIT), Grant("*", Scope.ADMIN)))
    assert caller.may(Scope.READ, "sales.orders")
    assert caller.may(Scope.COMMIT, "sales.orders")
    assert not caller.may(Scope.ADMIN, "sales.orders")
    reader = Principal("etl", COMMITTER, grants=(Grant("stock", Scope.READ),))
    assert [reader.may(scope, "stock") for scope in Scope] == [True, False, False]
    assert not reader.may(Scope.READ, "sales.orders")


def test_without_grants_the_scopes_apply_to_all_tables_and_with_an_empty_list_to_none() -> None:
    assert Principal("etl", COMMITTER).may_everywhere(Scope.COMMIT)
    assert not Principal("etl", COMMITTER, grants=()).may(Scope.READ, "stock")
    limited = Principal("etl", COMMITTER, grants=(Grant("default.*", Scope.COMMIT), Grant("*", Scope.READ)))
    assert limited.may_everywhere(Scope.READ)
    assert not limited.may_everywhere(Scope.COMMIT)


def test_grants_are_parsed_once_each_within_the_scopes() -> None:
    parsed = parse_grants(["a:read", "a:read", "b.*:commit"], COMMITTER)
    assert parsed == (Grant("a", Scope.READ), Grant("b.*", Scope.COMMIT))
    with pytest.raises(InvalidArgument, match="grant 'a:admin': the scopes of the token do not include 'admin'"):
        parse_grants(["a:admin"], COMMITTER)
    with pytest.raises(InvalidArgument, match="none was found"):
        parse_grants([], COMMITTER)


def test_a_namespace_is_the_name_before_the_last_dot() -> None:
    assert [namespace_of(name) for name in ("stock", "sales.orders", "a.b.c")] == ["default", "sales", "a.b"]
