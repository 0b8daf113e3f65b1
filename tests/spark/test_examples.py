"""The examples in the docstrings of the public names, as somebody pastes them; each public name has one."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import slackwater
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.tokens import Scope, Tokens
from slackwater.spark.history.system_time import SystemTime
from slackwater.spark.lake.time_slice import TimeSlice, TimeSliceTable
from slackwater.spark.lake.transaction import LakeTransaction, TransactionTable
from tests.owner.served.serving import served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

NAMED = [getattr(slackwater, name) for name in slackwater.__all__]
EXPLAINED = [*(found for found in NAMED if inspect.isclass(found) or inspect.isfunction(found))]
EXPLAINED += [LakeTransaction, SystemTime, TimeSlice, TimeSliceTable, TransactionTable]


def public(kind: type) -> dict[str, Any]:
    """The public methods of a class, by their names."""
    found = {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: each for name, each in found.items() if inspect.isfunction(each) or isinstance(each, classmethod)}


def entries(kind: type) -> list[str]:
    """The class methods of a class: what users begin with."""
    return [name for name, found in public(kind).items() if isinstance(found, classmethod)]


def text_of(explained: Any) -> str:
    return inspect.getdoc(explained.__func__ if isinstance(explained, classmethod) else explained) or ""


METHODS = {
    text_of(found): (f"{kind.__name__}.{name}", found)
    for kind in EXPLAINED
    if inspect.isclass(kind)
    for name, found in public(kind).items()
    if ">>> " in text_of(found)
}
"""Methods with an example; one that several classes have is there once."""


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[slackwater.Lake]:
    """Orders, of which there are none, and what is in stock; row versions can be followed."""
    followed = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as found:
        found.create_table("orders", "sku STRING, at TIMESTAMP")
        found.create_table("stock", "sku STRING, qty INT", properties=followed)
        stock = spark.createDataFrame([("A1", 10)], "sku STRING, qty INT")
        stock.write.format("delta").mode("append").save(found.location("stock"))
        yield found


@pytest.fixture
def flights(tmp_path: Path) -> str:
    """A table with two files of a row each."""
    path = str(tmp_path / "flights")
    kind = slackwater.protocol.schema.schema
    columns = (kind.StructField("month", kind.INTEGER), kind.StructField("carrier", kind.STRING))
    slackwater.Transaction.create(path, kind.StructType(columns), ["month"]).commit("CREATE TABLE")
    tx = slackwater.Transaction(path)
    for month in ("3", "4"):
        file = tmp_path / "flights" / f"month={month}" / "part-1.parquet"
        file.parent.mkdir()
        pq.write_table(pa.table({"carrier": ["AA"]}), file)
        size = file.stat().st_size
        tx.add(slackwater.AddFile(f"month={month}/part-1.parquet", {"month": month}, size, 0, stats='{"numRecords":1}'))
    tx.commit("WRITE")
    return path


@pytest.fixture
def table(spark: SparkSession, place: str) -> slackwater.DeltaTable:
    """A table with two rows in one file."""
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "id INT, v STRING").coalesce(1)
    rows.write.format("delta").save(place)
    return slackwater.DeltaTable.forPath(spark, place)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The URL of a served owner without tables, and a token for it."""
    owner = EmbeddedOwner.open(tmp_path / "served")
    tokens = Tokens(owner.database)
    with served(owner, tokens) as url:
        yield url, tokens.create("reader", [Scope.READ])


@pytest.fixture
def names(spark: SparkSession, path: str, request: pytest.FixtureRequest) -> Callable[[str], dict[str, Any]]:
    """What a text uses of what examples start with; tables and servers are made where they are named."""

    def given(text: str) -> dict[str, Any]:
        found: dict[str, Any] = {"slackwater": slackwater, "spark": spark, "F": F, "path": path}
        used = set(re.findall(r"\w+", text))
        if used & {"url", "token"}:
            found["url"], found["token"] = request.getfixturevalue("server")
        if used & {"table", "place"}:
            found["table"], found["place"] = request.getfixturevalue("table"), request.getfixturevalue("place")
        for name in used & {"lake", "flights"}:
            found[name] = request.getfixturevalue(name)
        return found

    return given


def run(name: str, text: str, names: dict[str, Any]) -> None:
    example = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert example.examples, "no example"
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(example, out=said.append)
    assert not failed, "".join(said)


@pytest.mark.modes
@pytest.mark.parametrize("explained", EXPLAINED, ids=lambda found: found.__name__)
def test_the_example_says_what_happens(explained: Any, names: Callable[[str], dict[str, Any]]) -> None:
    text = text_of(explained)
    run(explained.__name__, text, names(text))


@pytest.mark.parametrize("text", METHODS, ids=[name for name, _ in METHODS.values()])
def test_the_example_of_a_method_says_what_happens(text: str, names: Callable[[str], dict[str, Any]]) -> None:
    run(METHODS[text][0], text, names(text))


def test_whatever_makes_a_table_a_lake_a_snapshot_or_a_transaction_has_an_example() -> None:
    made = {name for kind in EXPLAINED if inspect.isclass(kind) for name in entries(kind)}
    assert len(made) > 10
    assert made - {name.partition(".")[2] for name, _ in METHODS.values()} == {"recover_state"}
