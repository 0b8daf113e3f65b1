"""Asks delta-spark what becomes of values of one type in columns of another: `python -m tests.interop.record_casts`.

Writes `tests/data/casts.json`. A cell is a SQL value and the type of a column; each way of writing answers it by the
text of what is stored (null for NULL), or by `refused` (before any job) or `fails` (in the job). Runs in delta-spark's
own Python, which starts it again by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from .delta_spark_server import start
from .install_delta_spark import HOW_TO_INSTALL, environment, find

DATA = Path(__file__).parents[1] / "data"
CASTS = DATA / "casts.json"
ABOUT = (
    "What delta-spark 4.4.0 does with values of other types than their columns', by way of writing, "
    "spark.sql.storeAssignmentPolicy and spark.sql.ansi.enabled: value, type of the column, answer. Values as text, of "
    "binary columns as hex; a type where the column's has changed. Times in UTC. By tests/interop/record_casts.py."
)
REFUSED, FAILS = "refused", "fails"

Cell: TypeAlias = tuple[str, str]
Answer: TypeAlias = "str | dict[str, str | None]"

TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(3,1)", "string",
    "binary", "date", "timestamp", "timestamp_ntz",
)  # fmt: skip
SOME_TYPES = ("int", "bigint", "string", "date")
"""Those that stand for all where a way of writing goes by the rules of another."""
STRUCT, ARRAY, MAP, KEYS = "struct<a:int,b:string>", "array<int>", "map<string,int>", "map<int,string>"
NESTED: tuple[Cell, ...] = (
    ("named_struct('a', 1L, 'b', 'x')", STRUCT),
    ("named_struct('b', 'x', 'a', 1)", STRUCT),
    ("named_struct('A', 1, 'B', 'x')", STRUCT),
    ("named_struct('a', 1Y, 'b', 'x')", STRUCT),
    ("named_struct('a', 1)", STRUCT),
    ("named_struct('a', 1, 'b', 'x', 'c', 2)", STRUCT),
    ("named_struct('a', '7', 'b', 1)", STRUCT),
    ("named_struct('a', 'x', 'b', 'y')", STRUCT),
    ("named_struct('a', 3000000000L, 'b', 'y')", STRUCT),
    ("named_struct('x', 1, 'y', 'z')", STRUCT),
    ("named_struct('a', true, 'b', 'y')", STRUCT),
    ("named_struct('a', array(1), 'b', 'y')", STRUCT),
    ("'{}'", STRUCT),
    ("1", STRUCT),
    ("NULL", STRUCT),
    ("array(1)", ARRAY),
    ("array(1Y)", ARRAY),
    ("array(1L)", ARRAY),
    ("array(3000000000L)", ARRAY),
    ("array('1')", ARRAY),
    ("array('x')", ARRAY),
    ("array(1.5D, NULL)", ARRAY),
    ("array(NULL)", ARRAY),
    ("array(X'31')", ARRAY),
    ("array(DATE'2026-02-02')", ARRAY),
    ("1", ARRAY),
    ("map('a', 1)", ARRAY),
    ("array(named_struct('a', '2026-02-02'))", "array<struct<a:date>>"),
    ("array(named_struct('a', 'soon'))", "array<struct<a:date>>"),
    ("array(named_struct('b', DATE'2026-02-02'))", "array<struct<a:date>>"),
    ("map('a', 1)", MAP),
    ("map('a', 1Y)", MAP),
    ("map('a', 1L)", MAP),
    ("map('a', '1')", MAP),
    ("map('a', 'x')", MAP),
    ("map('a', 3000000000L)", MAP),
    ("map(1, 1)", MAP),
    ("array(1)", MAP),
    ("map(1Y, 'x')", KEYS),
    ("map('1', 'x')", KEYS),
    ("map('1', 'x', ' 1', 'y')", KEYS),
    ("map('x', 'y')", KEYS),
    ("map(1.5D, 'x')", KEYS),
    ("map(1, 2)", KEYS),
)  # fmt: skip
DECIMALS: tuple[Cell, ...] = tuple(
    (value, of)
    for value in ("5BD", "999BD", "12345BD", "12345678901BD", "CAST(-7 AS DECIMAL(20, 0))")
    for of in ("tinyint", "int", "bigint", "double", "decimal(20,10)")
)
NULL = "NULL"


def values() -> list[str]:
    """The values that are tried with every type; two of one type differ in what becomes of them."""
    return list(json.loads((DATA / "store_assignment.json").read_text())["results"])


class Recorder:
    """One delta-spark, asked cell by cell what it refuses, and in one command what it stores."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._tables = 0
        self._failed: set[Cell] = set()

    def mode(self, policy: str, ansi: str) -> None:
        self._session.conf.set("spark.sql.storeAssignmentPolicy", policy)
        self._session.conf.set("spark.sql.ansi.enabled", ansi)
        self._policy = policy

    def distinct_types(self, given: Sequence[str]) -> list[str]:
        """The first value of each type."""
        found: dict[str, str] = {}
        for value in given:
            found.setdefault(self._session.sql(f"SELECT {value} AS v").schema.simpleString(), value)
        return list(found.values())

    def table(self, types: Sequence[str], partitioned: bool = False) -> str:
        """An empty table with columns `c0`, `c1`, …, and one named `id`."""
        self._tables += 1
        name = f"delta.`{self._folder / str(self._tables)}`"
        columns = ", ".join(f"c{at} {of}" for at, of in enumerate(types))
        by = "PARTITIONED BY (c0)" if partitioned else ""
        self._session.sql(f"CREATE TABLE {name} (id INT, {columns}) USING delta {by}")
        return name

    def stored(self, name: str, types: Sequence[str]) -> list[str | None]:
        shown = [f"hex(c{at})" if of == "binary" else f"string(c{at})" for at, of in enumerate(types)]
        (row,) = self._session.sql(f"SELECT {', '.join(shown)} FROM {name}").collect()
        return list(row)

    def assignments(self, cells: Sequence[Cell], way: Way) -> dict[Cell, Answer]:
        """What becomes of `cells` in the columns of a table, which one command of `way` sets all at once."""
        probes = {of: self._filled([of], way) for of in dict.fromkeys(of for _, of in cells)}
        refused = [cell for cell in cells if not self._is_analysed(way.analysed(probes[cell[1]], [cell]))]
        taken = [cell for cell in cells if cell not in refused]
        # What fails would fail the others with it.
        doubtful = [cell for cell in taken if cell in self._failed or not self._casts(*cell)]
        answers: dict[Cell, Answer] = dict.fromkeys(refused, REFUSED)
        answers |= self._together([cell for cell in taken if cell not in doubtful], way, probes)
        for cell in [*doubtful, *(refused if way.analyses_another else ())]:
            answers |= self._alone(cell, way, probes)
        return {cell: answers[cell] for cell in cells}

    def _filled(self, types: Sequence[str], way: Way) -> str:
        name = self.table(types)
        if way.needs_row:
            self._session.sql(f"INSERT INTO {name} (id) VALUES (1)")
        return name

    def _is_analysed(self, statement: str) -> bool:
        state = self._session._jsparkSession.sessionState()
        jvm: Any = self._session._jvm
        skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
        return _succeeds(lambda: state.executePlan(state.sqlParser().parsePlan(statement), skip).assertAnalyzed())

    def _casts(self, value: str, of: str) -> bool:
        return self._policy == "LEGACY" or _succeeds(
            lambda: self._session.sql(f"SELECT CAST({value} AS {of})").collect()
        )

    def _together(self, cells: Sequence[Cell], way: Way, probes: dict[str, str]) -> dict[Cell, Answer]:
        types = [of for _, of in cells]
        name = self._filled(types, way)
        if _succeeds(lambda: way.run(self._session, name, cells)):
            return {cell: {"value": held} for cell, held in zip(cells, self.stored(name, types), strict=True)}
        if len(cells) <= 4:
            return {cell: answer for one in cells for cell, answer in self._alone(one, way, probes).items()}
        half = len(cells) // 2
        return self._together(cells[:half], way, probes) | self._together(cells[half:], way, probes)

    def _alone(self, cell: Cell, way: Way, probes: dict[str, str]) -> dict[Cell, Answer]:
        name, of = probes[cell[1]], cell[1]
        try:
            way.run(self._session, name, [cell])
        except AnalysisException:
            return {cell: REFUSED}
        except Exception:  # noqa: BLE001  (a job fails by errors of many kinds)
            self._failed.add(cell)
            return {cell: FAILS}
        probes[of] = self._filled([of], way)
        return {cell: {"value": self.stored(name, [of])[0]}}

    def saves(self, cells: Sequence[Cell], mode: str, partitioned: bool = False, **options: str) -> dict[Cell, Answer]:
        """What becomes of `cells` by `save` in `mode`, each in a write of its own."""
        probes = {of: self.table([of], partitioned) for of in dict.fromkeys(of for _, of in cells)}
        answers: dict[Cell, Answer] = {}
        for key, (value, of) in enumerate(cells):
            writer = self._session.sql(f"SELECT {key} AS id, {value} AS c0").write.format("delta").mode(mode)
            try:
                writer.options(**options).save(probes[of].split("`")[1])
            except AnalysisException:
                answers[value, of] = REFUSED
                continue
            held = self._session.table(probes[of]).schema["c0"].dataType.simpleString()
            answer: dict[str, str | None] = {"value": self.stored(f"{probes[of]} WHERE id = {key}", [held])[0]}
            if held != of:
                answer["type"] = held
                probes[of] = self.table([of], partitioned)
            answers[value, of] = answer
        return answers


def _succeeds(command: Callable[[], object]) -> bool:
    try:
        command()
    except Exception:  # noqa: BLE001  (a job fails by errors of many kinds)
        return False
    return True


@dataclass(frozen=True)
class Way:
    """A command that sets the columns `c0`, `c1`, … of a table to the values of as many cells."""

    statement: Callable[[str, Sequence[Cell]], str]
    needs_row: bool = True
    analyses_another: bool = False

    def analysed(self, name: str, cells: Sequence[Cell]) -> str:
        return self.statement(name, cells)

    def run(self, session: SparkSession, name: str, cells: Sequence[Cell]) -> None:
        session.sql(self.statement(name, cells))


class AsTable(Way):
    """`saveAsTable` to a table that is there, which is analysed as an INSERT by name."""

    def analysed(self, name: str, cells: Sequence[Cell]) -> str:
        return f"INSERT INTO {name} BY NAME {self.statement(name, cells)}"

    def run(self, session: SparkSession, name: str, cells: Sequence[Cell]) -> None:
        rows = session.sql(self.statement(name, cells))
        rows.write.format("delta").mode("append").saveAsTable(name)


def update(name: str, cells: Sequence[Cell]) -> str:
    return f"UPDATE {name} SET " + ", ".join(f"c{at} = {value}" for at, (value, _) in enumerate(cells))


def merge_update(name: str, cells: Sequence[Cell]) -> str:
    sets = ", ".join(f"c{at} = {_of_source(at, value)}" for at, (value, _) in enumerate(cells))
    return f"{_merge(name, 1, cells)} WHEN MATCHED THEN UPDATE SET {sets}"


def merge_insert(name: str, cells: Sequence[Cell]) -> str:
    names = ", ".join(f"c{at}" for at in range(len(cells)))
    taken = ", ".join(_of_source(at, value) for at, (value, _) in enumerate(cells))
    return f"{_merge(name, 2, cells)} WHEN NOT MATCHED THEN INSERT (id, {names}) VALUES (s.id, {taken})"


def rows(_: str, cells: Sequence[Cell]) -> str:
    return "SELECT 1 AS id" + "".join(f", {value} AS c{at}" for at, (value, _) in enumerate(cells))


def _merge(name: str, key: int, cells: Sequence[Cell]) -> str:
    source = "".join(f", {value} AS s{at}" for at, (value, _) in enumerate(cells) if value != NULL)
    return f"MERGE INTO {name} t USING (SELECT {key} AS id{source}) s ON t.id = s.id"


def _of_source(at: int, value: str) -> str:
    return value if value == NULL else f"s.s{at}"


WAYS = {
    "update": Way(update),
    "saveAsTable append": AsTable(rows, needs_row=False, analyses_another=True),
    "merge update": Way(merge_update),
    "merge insert": Way(merge_insert, needs_row=False),
}


def recorded(recorder: Recorder) -> Iterator[tuple[str, dict[Cell, Answer]]]:
    """What delta-spark answers, by way of writing and settings."""
    kinds = recorder.distinct_types(values())
    every = [*((value, of) for value in kinds for of in TYPES), *NESTED]
    plain = [(value, of) for value in kinds for of in SOME_TYPES]
    some = [*plain, *NESTED]
    recorder.mode("ANSI", "true")
    yield "save append, ANSI, ansi true", recorder.saves(every, "append")
    yield "save append merging, ANSI, ansi true", recorder.saves(some, "append", mergeSchema="true")
    yield "save append partitioned, ANSI, ansi true", recorder.saves(plain, "append", partitioned=True)
    yield "save overwrite, ANSI, ansi true", recorder.saves(some, "overwrite")
    recorder.mode("LEGACY", "false")
    yield "save append, LEGACY, ansi false", recorder.saves(some, "append")
    # UPDATE under ANSI has a record of its own for plain types, which is where the values are from.
    flat = [*((value, of) for value in values() for of in TYPES), *NESTED]
    for name, way in WAYS.items():
        for policy in ("ANSI", "STRICT", "LEGACY"):
            for ansi in ("true", "false"):
                recorder.mode(policy, ansi)
                cells = some
                if name == "saveAsTable append":
                    cells = [*every, *DECIMALS] if ansi == "true" else [*NESTED, *DECIMALS]
                elif name == "update":
                    cells = {"ANSI": [*NESTED, *DECIMALS], "STRICT": [*flat, *DECIMALS], "LEGACY": flat}[policy]
                yield f"{name}, {policy}, ansi {ansi}", recorder.assignments(cells, way)


def as_text(results: Mapping[str, Mapping[Cell, Answer]]) -> str:
    """The record as JSON, one line for each value; a name whose answers are those of an earlier one names it."""
    lines, seen = [], dict[str, str]()
    for name, answers in results.items():
        rows: dict[str, dict[str, Answer]] = {}
        for (value, of), answer in answers.items():
            rows.setdefault(value, {})[of] = answer
        body = ",\n".join(f"  {json.dumps(value)}: {json.dumps(row)}" for value, row in rows.items())
        text = f"{{\n{body}\n }}"
        lines.append(f" {json.dumps(name)}: {json.dumps(seen.get(text)) if text in seen else text}")
        seen.setdefault(text, name)
    return f'{{"about": {json.dumps(ABOUT)},\n"results": {{\n' + ",\n".join(lines) + "\n}}\n"


def main() -> None:
    """Within delta-spark's Python with its JARs and a folder to work in; without arguments, start that."""
    if len(sys.argv) > 1:
        jars, folder = sys.argv[1:]
        session = start(jars, folder)
        results = {}
        for name, answers in recorded(Recorder(session, Path(folder))):
            sys.stderr.write(f"{name}: {len(answers)} cells\n")
            results[name] = answers
        CASTS.write_text(as_text(results))
        return
    installation = find() or sys.exit(HOW_TO_INSTALL)
    with TemporaryDirectory() as folder:
        command = [installation.python, "-m", "tests.interop.record_casts", installation.jars, folder]
        subprocess.run(command, check=True, env=environment(), cwd=DATA.parents[1])


if __name__ == "__main__":
    main()
