"""The examples in the docstrings of the public names, as somebody pastes them; each public name has one."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.protocol.schema.schema import INTEGER, STRING, StructField, StructType

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import slackwater
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.tokens import Tokens
from slackwater.spark.history.system_time import SystemTimeRelation
from slackwater.spark.lake.time_slice import TimeSlice, TimeSliceTable
from slackwater.spark.lake.transaction import LakeTransaction, TransactionTable
from slackwater.spark.maintenance.builder import DeltaReorgBuilder
from tests.owner.served.serving import served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

NAMED = [getattr(slackwater, name) for name in slackwater.__all__]
EXPLAINED = [*(found for found in NAMED if inspect.isclass(found) or inspect.isfunction(found))]
EXPLAINED += [DeltaReorgBuilder, LakeTransaction, SystemTimeRelation, TimeSlice, TimeSliceTable, TransactionTable]


def public(kind: type) -> dict[str, Any]:
    """The public methods of a class, by their names."""
    found = {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: each for name, each in found.items() if inspect.isfunction(each) or isinstance(each, classmethod)}


def text_of(explained: Any) -> str:
    return inspect.getdoc(explained.__func__ if isinstance(explained, classmethod) else explained) or ""


METHODS: dict[str, str] = {}
"""The texts of methods that have an example, by the first class that has them: what others inherit is run once."""
WITHOUT_EXAMPLE: set[str] = set()
"""Methods that have none."""
for each in EXPLAINED:
    for method, defined in public(each).items() if inspect.isclass(each) else ():
        if ">>> " in text_of(defined):
            METHODS.setdefault(text_of(defined), f"{each.__name__}.{method}")
        else:
            WITHOUT_EXAMPLE.add(f"{each.__name__}.{method}")


def written(
    rows: pa.Table, root: Path, stats: str, partition: Mapping[str, str | None] | None = None
) -> slackwater.AddFile:
    """A data file below `root` with `rows`, to be added to the table there."""
    name = "/".join([*(f"{column}={value}" for column, value in (partition or {}).items()), "part-1.parquet"])
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, root / name)
    return slackwater.AddFile(name, partition or {}, (root / name).stat().st_size, 0, stats=stats)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[slackwater.Lake]:
    """Orders, of which there are none, and what is in stock; row versions can be followed."""
    followed = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as found:
        found.create_table("orders", "sku STRING, at TIMESTAMP")
        found.create_table("stock", "sku STRING, qty INT", properties=followed)
        tx = slackwater.Transaction(found.location("stock"))
        rows = pa.table({"sku": ["A1"], "qty": pa.array([10], pa.int32())})
        tx.add(written(rows, Path(found.location("stock")), '{"numRecords":1}'))
        tx.commit("WRITE")
        yield found


@pytest.fixture
def flights(tmp_path: Path) -> str:
    """A table with two files of a row each."""
    path = str(tmp_path / "flights")
    columns = (StructField("month", INTEGER), StructField("carrier", STRING))
    slackwater.Transaction.create(path, StructType(columns), ["month"]).commit("CREATE TABLE")
    tx = slackwater.Transaction(path)
    for month in ("3", "4"):
        rows = pa.table({"carrier": ["AA"]})
        tx.add(written(rows, Path(path), '{"numRecords":1}', {"month": month}))
    tx.commit("WRITE")
    return path


@pytest.fixture
def table(spark: SparkSession, place: str) -> slackwater.DeltaTable:
    """A table with two rows in one file. Without a job of Spark's, as most examples need it."""
    columns = (StructField("id", INTEGER), StructField("v", STRING))
    tx = slackwater.Transaction.create(place, StructType(columns))
    stats = '{"numRecords":2,"minValues":{"id":1,"v":"a"},"maxValues":{"id":2,"v":"b"},"nullCount":{"id":0,"v":0}}'
    tx.add(written(pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}), Path(place), stats))
    tx.commit("WRITE")
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
        lines = "".join(example.source for example in doctest.DocTestParser().get_examples(text))
        used = set(re.findall(r"\w+", lines))
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


@pytest.mark.parametrize("text", METHODS, ids=METHODS.values())
def test_the_example_of_a_method_says_what_happens(text: str, names: Callable[[str], dict[str, Any]]) -> None:
    run(METHODS[text], text, names(text))


def test_every_public_method_has_an_example() -> None:
    assert len(METHODS) > 140
    assert not WITHOUT_EXAMPLE
