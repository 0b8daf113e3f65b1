"""What holds of every text: nothing of it is lost, no fault of it is a fault of ours, and queries name their tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.sql.changes import delete_of, insert_of, merge_of, update_of
from slackwater.sql.definitions import column_of, creation_of, properties_of, property_keys
from slackwater.sql.lexer import TokenCursor, tokens_of
from slackwater.sql.parameters import with_literals
from slackwater.sql.predicate_pushdown import pushed_conditions
from slackwater.sql.relations import blocks_of, relations_of
from slackwater.sql.text_edits import TextEdit, apply_edits, as_view
from slackwater.sql.time_travel import at_suffix, travel_at
from tests.examples import examples
from tests.sql.queries import Made, queries
from tests.sql.reading import relations, tokens

_PIECES = (
    "SELECT FROM JOIN LEFT WHERE GROUP BY WITH RECURSIVE AS UNION ALL TABLE VALUES LATERAL VIEW PIVOT CASE WHEN THEN "
    "END INSERT INTO OVERWRITE PARTITION REPLACE USING ON MERGE MATCHED NOT SOURCE TARGET UPDATE SET DELETE CREATE IF "
    "EXISTS LIKE SHALLOW CLONE TBLPROPERTIES OPTIONS COMMENT LOCATION CLUSTER PARTITIONED GENERATED ALWAYS IDENTITY "
    "START DEFAULT FOR SYSTEM_TIME VERSION TIMESTAMP OF BETWEEN AND OR TO INTERVAL DAY STREAM IDENTIFIER TABLESAMPLE "
    "DISTINCT IS MAP a b.c `d` 'e' \"f\" r'g' 1 2.5 .5 3. ( ) ( ) , . ; : ? * = < > |> :: -> => [ ] @ @v3 -- /* */ "
    "' ` \n"
).split(" ")
_WORDY = st.lists(st.sampled_from(_PIECES), max_size=30).map(" ".join)
_GLUED = st.lists(st.sampled_from(_PIECES), max_size=20).map("".join)
_texts = st.one_of(_WORDY, _GLUED, st.text(max_size=40), st.text("'\"`\\/*-()r \nab1.;", max_size=30))
_BEGINS = {
    "delete": ("DELETE FROM t ", delete_of),
    "update": ("UPDATE t SET a = ", update_of),
    "merge": ("MERGE INTO t USING s ON a WHEN ", merge_of),
    "insert": ("INSERT INTO t ", insert_of),
    "insert behind common tables": ("WITH a AS (SELECT 1) INSERT INTO t ", insert_of),
    "create": ("CREATE TABLE t (a INT ", creation_of),
    "create with clauses": ("CREATE OR REPLACE TABLE t ", creation_of),
    "column": ("a INT ", column_of),
    "properties": ("(a = ", properties_of),
    "keys": ("(a ", property_keys),
}


@settings(max_examples=examples(300))
@given(_texts)
def test_tokens_cover_a_text_but_for_gaps_and_comments(text: str) -> None:
    found = tokens_of(text)
    if found is None:
        return
    at = 0
    for token in found:
        assert text[token.start : token.end] == token.raw != ""
        assert _is_gap(text[at : token.start])
        at = token.end
    assert _is_gap(text[at:])


def _is_gap(text: str) -> bool:
    return text.isspace() or not text or text.lstrip()[:2] in ("--", "/*")


@settings(max_examples=examples(300))
@given(_texts)
def test_tokens_are_the_same_with_a_space_between_them(text: str) -> None:
    found = tokens_of(text)
    if found is not None:
        again = tokens(" \n ".join(token.raw for token in found))
        assert [(token.kind, token.raw) for token in again] == [(token.kind, token.raw) for token in found]


@given(_texts)
def test_replacing_nothing_keeps_a_text(text: str) -> None:
    assert apply_edits(text, []) == text
    assert apply_edits(text, [TextEdit(each.start, each.end, each.raw) for each in tokens_of(text) or []]) == text


@settings(max_examples=examples(300))
@given(_texts)
def test_any_text_is_read_or_refused(text: str) -> None:
    found = tokens_of(text)
    if found is None:
        return
    with suppress(InvalidArgument, UnsupportedFeature):
        for block in blocks_of(text, found):
            columns = {relation: frozenset({"a", "b"}) for relation in block.relations}
            assert set(pushed_conditions(block, columns)) == set(columns)
        for relation in relations_of(text, found):
            assert 0 <= relation.start < relation.end <= relation.alias_at <= len(text)
    for at in range(len(found)):
        at_suffix(found, at)
        with suppress(InvalidArgument, UnsupportedFeature):
            travel_at(text, found, at)
    for token in found:
        assert isinstance(token.value, str)


@pytest.mark.parametrize("begin", _BEGINS)
@settings(max_examples=examples(150))
@given(behind=_texts)
def test_any_statement_is_taken_apart_or_refused(begin: str, behind: str) -> None:
    before, read = _BEGINS[begin]
    text = before + behind
    found = tokens_of(text)
    if found is not None:
        with suppress(InvalidArgument, UnsupportedFeature):
            _read(read, TokenCursor(text, found))


def _read(read: Callable[[TokenCursor], Any], cursor: TokenCursor) -> None:
    read(cursor)
    assert cursor.at <= cursor.end


@settings(max_examples=examples(200))
@given(_texts)
def test_parameters_that_are_not_there_change_nothing(text: str) -> None:
    with suppress(InvalidArgument, UnsupportedFeature):
        assert with_literals(text, {"no such": 1}) == text
    if "?" not in text:
        assert with_literals(text, [1]) == text


@settings(max_examples=examples(300))
@given(queries(2))
def test_a_query_names_its_tables(query: Made) -> None:
    assert _tables(query.text) == query.tables


@settings(max_examples=examples(200))
@given(queries(1))
def test_a_query_with_views_names_the_views_by_what_the_tables_were_known_by(query: Made) -> None:
    found = [relation for relation in relations(query.text) if relation.arguments is None]
    text = apply_edits(query.text, [each for relation in found for each in as_view(relation, "view_of")])
    again = [relation for relation in relations(text) if relation.arguments is None]
    assert [relation.parts for relation in again] == [("view_of",)] * len(found)
    shown = [relation.shown if relation.takes_alias else "view_of" for relation in found]
    assert [relation.shown for relation in again] == shown
    assert all(relation.travel is None for relation in again)


@settings(max_examples=examples(200))
@given(
    queries(1),
    st.sampled_from(("(SELECT a, ({}) FROM other)", "INSERT INTO x {}", "CREATE TABLE x AS {}", "EXPLAIN {}")),
)
def test_a_query_names_its_tables_wherever_it_stands(query: Made, around: str) -> None:
    others = {"other"} if "other" in around else set()
    assert _tables(around.replace("{}", query.text + "\n")) == query.tables | others


@settings(max_examples=examples(100))
@given(queries(1))
def test_the_case_of_words_and_the_gaps_between_them_do_not_matter(query: Made) -> None:
    found = tokens(query.text)
    lowered = "\n/* FROM n */ ".join(token.raw.lower() if token.upper else token.raw for token in found)
    # The dot of a number has no gap around it.
    text = re.sub(r"(\b\d+)\n/\* FROM n \*/ \.", r"\1.", lowered)
    assert {name.lower() for name in _tables(text)} == query.tables


def _tables(text: str) -> set[str]:
    return {".".join(relation.parts).lower() for relation in relations(text) if relation.arguments is None}
