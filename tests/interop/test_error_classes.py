"""Error classes are delta-spark's: names and SQLSTATEs of its catalogue, and what it answers to the same call."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.error_classes import SQLSTATES

from .delta_spark import DeltaSpark, DeltaSparkError
from .install_delta_spark import HOW_TO_INSTALL, find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

SPARKS = {
    "CAST_INVALID_INPUT",
    "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN",
    "FAILED_READ_FILE.FILE_NOT_EXIST",
    "PARSE_SYNTAX_ERROR",
}


def test_names_and_sqlstates_are_those_of_the_catalogue() -> None:
    installation = find()
    if installation is None:
        pytest.skip(HOW_TO_INSTALL)
    (jar,) = Path(installation.jars).glob("delta-spark_*.jar")
    with zipfile.ZipFile(jar) as inside:
        catalogue = json.loads(inside.read("error/delta-error-classes.json"))
    ours = {name: state for name, state in SQLSTATES.items() if name not in SPARKS}
    assert ours == {name: catalogue.get(name, {}).get("sqlState") for name in ours}


def _cases() -> list[object]:
    pytest.importorskip("pyspark")
    from tests.spark import error_cases, error_cases_of_tables

    found = [*error_cases.REFUSALS, *error_cases_of_tables.REFUSALS]
    return [pytest.param(refusal, id=refusal.name) for refusal in found if refusal.theirs is not None]


@pytest.mark.parametrize("refusal", _cases())
def test_delta_spark_refuses_the_same_by_the_same_name(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, refusal: object
) -> None:
    from tests.spark.error_cases import Refusal

    assert isinstance(refusal, Refusal)
    path = str(tmp_path / "table")
    refusal.arrange(ours, path)
    with pytest.raises(DeltaSparkError) as caught:
        _ask(delta_spark, path, refusal.theirs)
    assert caught.value.condition.partition(".")[0] == (refusal.gap or refusal.error_class).partition(".")[0]


def _ask(engine: DeltaSpark, path: str, call: object) -> None:
    if isinstance(call, str):
        engine.run(call.format(t=f"delta.`{path}`", path=path))
    elif isinstance(call, dict):
        engine.read(path, **call)
