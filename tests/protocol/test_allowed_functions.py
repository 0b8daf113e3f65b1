"""SQL in a table's metadata: only expressions of one row by functions that are known."""

from __future__ import annotations

import orjson
import pytest

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.allowed_functions import require_known_functions
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.write_expressions import row_rules
from slackwater.protocol.schema.schema import CURRENT_DEFAULT, GENERATION_EXPRESSION, INVARIANTS

PROTOCOL = Protocol(1, 7, None, ("generatedColumns", "allowColumnDefaults", "checkConstraints", "invariants"))


@pytest.mark.parametrize(
    "sql",
    [
        "x > 0",
        "at <= current_timestamp()",
        "CAST(at AS DATE)",
        "upper(s) = 'reflect(x)'",
        "x <> 'it''s (a)'",
        "a in (1, 2) and (b or not (c))",
        "cast(x as decimal(10,2)) + `if`(a, 1, 2)",
        "case when (a) then (b) else (c) end",
        "named_struct('a', 1).a",
        "m['a'](1)",
        "system.builtin.upper(s)",
        "exists(l, v -> v > 0)",
        "extract(year from ts)",
        "trim(both from s)",
        "x = r'\\' ",
        "a BETWEEN (1) AND (2)",
        "a = (map('x', 1)['x'])",
        "length(s) < 3 -- reflect",
    ],
)
def test_expressions_of_one_row_pass(sql: str) -> None:
    require_known_functions(sql, "the check")
    with pytest.raises(UnsupportedFeature):
        require_known_functions(f"{sql}\n + nowhere()", "the check")


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("reflect('java.lang.System', 'exit', 1)", "reflect"),
        ("REFLECT \n ( 'a')", "REFLECT"),
        ("`reflect`('a')", "reflect"),
        ("java_method/**/('x')", "java_method"),
        ("reflect--\n(1)", "reflect"),
        ("-- x\nreflect(1)", "reflect"),
        ("/* ' */ reflect(1) /* ' */", "reflect"),
        ("try_reflect('a', 'b')", "try_reflect"),
        ("x = input_file_name()", "input_file_name"),
        ("from_protobuf(b, 'm', '/etc/passwd')", "from_protobuf"),
        ("rand() > 0", "rand"),
        ("sum(x) > 1", "sum"),
        ("explode(l)", "explode"),
        ("spark_catalog.default.upper(x)", r"spark_catalog\.default\.upper"),
        ("IDENTIFIER('reflect')('x')", "IDENTIFIER"),
        ("x > (select 1)", "SELECT"),
        ("exists (SELECT 1)", "SELECT"),
        ("x in (values (1))", "VALUES"),
        ("a = (table t)", "TABLE"),
        ("a = (from t |> where true)", "FROM"),
        ("x = (map a using 'sh' from t)", "MAP"),
        ("lag(x) over (order by x)", "lag"),
    ],
)
def test_everything_else_is_refused_by_name(sql: str, named: str) -> None:
    with pytest.raises(UnsupportedFeature, match=rf"the check .*({named})\b"):
        require_known_functions(sql, "the check")


@pytest.mark.parametrize(
    "sql",
    [
        "'\\' || reflect(1) || '",
        "'\\'' || reflect(1) || ''",
        '"a" || reflect(1)',
        '"\'" || reflect(1) || "\'"',
        "r'\\' || reflect(1) || ''",
        "`'` || reflect(1) || `'`",
    ],
)
def test_no_setting_of_a_session_hides_a_call_in_a_text(sql: str) -> None:
    with pytest.raises(UnsupportedFeature, match="the function reflect"):
        require_known_functions(sql, "the check")


def table(configuration: dict[str, str] | None = None, metadata: dict[str, str] | None = None) -> Metadata:
    column = {"name": "s", "type": "string", "nullable": True, "metadata": metadata or {}}
    schema = orjson.dumps({"type": "struct", "fields": [column]}).decode()
    return Metadata("id", schema_string=schema, configuration=configuration or {})


CALL = "reflect('java.lang.System', 'getenv', 'HOME')"


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        (table({"delta.constraints.c": f"{CALL} = s"}), "CHECK constraint c"),
        (table({"DELTA.Constraints.c": f"{CALL} = s"}), "CHECK constraint c"),
        (table(metadata={GENERATION_EXPRESSION: CALL}), "the generation expression of column s"),
        (table(metadata={CURRENT_DEFAULT: CALL}), "the default value of column s"),
        (
            table(metadata={INVARIANTS: orjson.dumps({"expression": {"expression": f"{CALL} = s"}}).decode()}),
            "the invariant of column s",
        ),
    ],
)
def test_every_rule_of_a_table_is_looked_at(metadata: Metadata, says: str) -> None:
    with pytest.raises(UnsupportedFeature, match=f"{says} .*the function reflect"):
        row_rules(TableConfiguration(PROTOCOL, metadata))
