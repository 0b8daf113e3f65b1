"""What people get wrong, and what they are told: the first line must do, in our words, and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import errors as of_pyspark

from slackwater.errors import SlackwaterError
from tests.spark.error_cases import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST_SENTENCE = 300
_NOT_FOR_PEOPLE = ("__slackwater", "Py4J", "py4j", "org.apache.", "java.", "io.grpc", "Traceback", "SQLSTATE")


@dataclass(frozen=True)
class Mistake:
    """A call that is wrong, `call`, after `arrange`, both with a path where nothing is at first.

    `says` is in what is told, where `{path}` is the table's. `kind` is what people catch: of our tree, by a name of
    `pyspark.errors`, or one of Python's own for an argument of a wrong type, as by delta-spark. With `of_spark` it is
    Spark that answers, in its own words, since nothing of ours was called.
    """

    name: str
    arrange: Work
    call: Work
    says: tuple[str, ...] = ()
    kind: str = "AnalysisException"
    of_spark: bool = False


def named(mistake: Mistake) -> str:
    """The name of a test's variation."""
    return mistake.name


def require_sentence(spark: SparkSession, path: str, mistake: Mistake) -> None:
    """Make the mistake, and see that one sentence answers it and nothing in the table's directory has changed."""
    mistake.arrange(spark, path)
    before = _everything_below(Path(path).parent)
    with pytest.raises(_kind(mistake.kind)) as caught:
        mistake.call(spark, path)
    told = str(caught.value).strip()
    assert mistake.of_spark != isinstance(caught.value, (SlackwaterError, TypeError, ValueError)), type(caught.value)
    # How long the name of a place is, is not for us to say.
    shown = told.replace(path, "/t")
    require_plain(shown.splitlines()[0] if mistake.of_spark else shown, mistake.of_spark)
    for said in mistake.says:
        assert said.format(path=path) in told, told
    assert _everything_below(Path(path).parent) == before


def require_plain(told: str, of_spark: bool = False) -> None:
    """One line that people can read: not long, without our internal names and without those of a JVM."""
    assert len(told.splitlines()) == 1, told
    assert len(told) <= LONGEST_SENTENCE, f"{len(told)}: {told}"
    assert not [word for word in _NOT_FOR_PEOPLE if word in told and not (of_spark and word == "SQLSTATE")], told


def _kind(name: str) -> type[BaseException]:
    of_python: Mapping[str, type[BaseException]] = {"TypeError": TypeError, "ValueError": ValueError}
    return of_python.get(name) or getattr(of_pyspark, name)


def _everything_below(directory: Path) -> dict[str, tuple[int, int]]:
    """The files below a directory with their sizes and times: what a call that is refused leaves as it is."""
    files = [(str(place), place.stat()) for place in directory.rglob("*") if place.is_file()]
    return {place: (told.st_size, told.st_mtime_ns) for place, told in files}


def sql(statement: str) -> Work:
    """A statement, with `{t}` for the table."""
    return lambda spark, path: spark.sql(statement.format(t=f"delta.`{path}`", path=path)).collect()
