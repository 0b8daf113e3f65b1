"""Clients of Unity Catalog and tables of a served lake: delta-spark, Delta Kernel and DuckDB read and commit.

delta-spark reaches its own client of the Delta API through the connector of Unity Catalog, which no registry has. The
class in `unity_connector` has the connector's name and does nothing else.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.schema.schema import LONG, STRING, StructField, StructType
from tests.interop.install_delta_spark import HOW_TO_INSTALL, environment, find
from tests.interop.peers import duckdb_extension
from tests.owner.served.serving import served

_KERNEL = """
import glob, json, sys
from pyspark.sql import SparkSession

url, table_id, location, folder = sys.argv[1:]
jars = ",".join(glob.glob(folder + "/*.jar"))
spark = (
    SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false").getOrCreate()
)
jvm = spark._jvm
storage, kernel = jvm.io.delta.storage.commit.uccommitcoordinator, jvm.io.delta.kernel
settings = jvm.java.util.HashMap()
settings.put("type", "static")
settings.put("token", "unused")
token = jvm.io.unitycatalog.client.auth.TokenProvider.create(settings)
client = storage.UCTokenBasedRestClient(url, token, jvm.java.util.HashMap())
engine = kernel.defaults.engine.DefaultEngine.create(spark._jsc.hadoopConfiguration())
name = kernel.unitycatalog.UCTableIdentifier("main", "default", "t")
none = jvm.java.util.Optional.empty()
catalog = kernel.unitycatalog.UCCatalogManagedClient(client)
found = catalog.loadSnapshot(engine, table_id, location, name, none, none)
scanned = found.getScanBuilder().build().getScanFiles(engine)
files = 0
while scanned.hasNext():
    rows = scanned.next().getRows()
    while rows.hasNext():
        rows.next()
        files += 1
print("FOUND", json.dumps({"version": found.getVersion(), "timestamp": found.getTimestamp(engine), "files": files}))
for number in (1, 2):
    update = found.buildUpdateTableTransaction("kernel", kernel.Operation.WRITE).withTransactionId("kernel", number)
    done = update.build(engine).commit(engine, kernel.utils.CloseableIterable.emptyIterable())
    print("COMMITTED", done.getVersion())
    found = catalog.loadSnapshot(engine, table_id, location, name, none, none)
found.publish(engine)
print("PUBLISHED", found.getVersion())
"""


_DELTA_SPARK = """
import glob, json, sys
from pyspark.sql import SparkSession

url, folder, connector = sys.argv[1:]
jars = ",".join([*glob.glob(folder + "/*.jar"), connector])
builder = SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
for key, value in {
    "shuffle.partitions": "2",
    "extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "catalog.main": "io.unitycatalog.spark.UCSingleCatalog",
    "catalog.main.uri": url,
    "catalog.main.token": "any",
}.items():
    builder = builder.config("spark.sql." + key, value)
builder = builder.config("spark.databricks.delta.snapshotPartitions", "1")
spark = builder.getOrCreate()
for line in sys.stdin:
    try:
        found = [list(row) for row in spark.sql(line).collect()]
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print("ANSWER", json.dumps(found, default=str), flush=True)
"""


@pytest.fixture(scope="module")
def connector(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The compiled class of `unity_connector`, as a folder of classes in a JAR."""
    installed = find()
    if installed is None:
        pytest.skip(HOW_TO_INSTALL)
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("javac is not on the PATH: a JDK is needed")
    folder = tmp_path_factory.mktemp("connector")
    program = "import os, pyspark; print(os.path.dirname(pyspark.__file__))"
    home = subprocess.run([installed.python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    source = Path(__file__).parent / "unity_connector" / "UCSingleCatalog.java"
    path = f"{home}/jars/*:{installed.jars}/*"
    subprocess.run([compiler, "-nowarn", "-d", str(folder), "-cp", path, str(source)], capture_output=True, check=True)
    with zipfile.ZipFile(jar := folder / "connector.jar", "w") as file:
        for each in folder.rglob("*.class"):
            file.write(each, each.relative_to(folder))
    return str(jar)


class DeltaSpark:
    """A session of delta-spark in a process of its own, whose catalog `main` is the server."""

    def __init__(self, url: str, connector: str, program: Path) -> None:
        installed = find()
        assert installed is not None
        program.write_text(_DELTA_SPARK)
        self._log = (program.parent / "delta-spark.log").open("w+")
        self.process = subprocess.Popen(
            [installed.python, str(program), url, installed.jars, connector],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment(),
        )  # fmt: skip

    def sql(self, statement: str) -> Any:
        """The rows of a statement, or its error."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        self._log.seek(0)
        raise AssertionError(self._log.read()[-4000:])

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._log.close()


def test_delta_spark_creates_changes_and_reads_tables_beside_our_transactions(tmp_path: Path, connector: str) -> None:
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    lake = LogLake(owner, owner.root_url)
    for name in ("sales.orders", "sales.stock"):
        lake._create_log(
            name, StructType((StructField("id", LONG), StructField("name", STRING))), managed="catalogManaged"
        )

    def ours(number: int) -> None:
        def work(tx: LogTransaction) -> None:
            for name in ("sales.orders", "sales.stock"):
                tx.table(name).append(pa.table({"id": [number], "name": ["ours"]}))

        lake.run(work)

    with served(owner) as url, closing(DeltaSpark(url, connector, tmp_path / "program.py")) as spark:
        ours(0)
        # Ratified, and not published.
        assert owner.table("sales.orders").backfilled_version == 0
        assert spark.sql("SELECT * FROM main.sales.orders") == [[0, "ours"]]

        def beside() -> None:
            for number in range(1, 13):
                ours(number)
                time.sleep(0.3)

        with ThreadPoolExecutor(1) as pool:
            # Each of both sides meets the commits of the other one.
            running = pool.submit(beside)
            for number in range(100, 104):
                assert spark.sql(f"INSERT INTO main.sales.orders VALUES ({number}, 'theirs')") == []
            running.result(300)
        assert spark.sql("UPDATE main.sales.orders SET name = 'changed' WHERE id = 0") == [[1]]
        merged = "SELECT 1 AS id, 'merged' AS name UNION ALL SELECT 200, 'merged'"
        clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        statement = f"MERGE INTO main.sales.orders t USING ({merged}) s ON t.id = s.id {clauses}"
        assert spark.sql(statement) == [[2, 1, 0, 1]]
        assert spark.sql("DELETE FROM main.sales.orders WHERE id = 103") == [[1]]
        assert spark.sql("ALTER TABLE main.sales.orders ADD COLUMNS (n INT)") == []
        ours(300)
        expected = dict.fromkeys((*range(2, 13), 300), "ours")
        expected |= {0: "changed", 1: "merged", 200: "merged"} | dict.fromkeys(range(100, 103), "theirs")
        assert {row[0]: row[1] for row in spark.sql("SELECT * FROM main.sales.orders")} == expected
        # A table that it creates in the place that the server allocates, and we go on with.
        assert spark.sql("CREATE TABLE main.sales.fresh (id BIGINT, day DATE) USING delta") == []
        assert spark.sql("INSERT INTO main.sales.fresh VALUES (1, DATE'2026-11-27')") == []
        assert spark.sql("CREATE TABLE main.sales.copy USING delta AS SELECT id FROM main.sales.fresh") == []
        assert "already" in spark.sql("CREATE TABLE main.sales.fresh (id BIGINT) USING delta")
        with lake.transaction() as tx:
            tx.table("sales.fresh").append(pa.table({"id": [2], "day": [None]}, schema=_FRESH))
            tx.table("sales.stock").append(pa.table({"id": [301], "name": ["ours"]}))
        assert sorted(spark.sql("SELECT id FROM main.sales.fresh")) == [[1], [2]]
        assert spark.sql("SELECT * FROM main.sales.copy") == [[1]]
        rows = lake.snapshot("sales.orders").to_arrow().to_pylist()
        assert {row["id"]: row["name"] for row in rows} == expected
        assert len(rows) == len(expected)
        history = lake.history()
        stamps = [commit.timestamp for commit in history]
        assert stamps == sorted(stamps, reverse=True)
    with LogLake.open(tmp_path / "lake") as lake:
        lake.repair()
        assert not [table.problem for table in lake.tables() if table.problem]
        assert sorted(lake.table_names()) == ["sales.copy", "sales.fresh", "sales.orders", "sales.stock"]


_FRESH = pa.schema([("id", pa.int64()), ("day", pa.date32())])


def test_the_kernel_reads_what_is_ratified_commits_and_publishes(tmp_path: Path) -> None:
    installed = find()
    if installed is None:
        pytest.skip(HOW_TO_INSTALL)
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    lake = LogLake(owner, owner.root_url)
    lake._create_log("t", StructType((StructField("id", LONG),)), managed="catalogManaged")
    lake._create_log("other", StructType((StructField("id", LONG),)))
    for number in range(3):
        with lake.transaction() as tx:
            tx.table("t").append(pa.table({"id": [number]}))
            tx.table("other").append(pa.table({"id": [number]}))
    lake.owner.backfill_to_version(owner.table("t").table_id, 1)
    known, snapshot = owner.table("t"), lake.snapshot("t")
    program = tmp_path / "kernel.py"
    program.write_text(_KERNEL)
    with served(owner) as url:
        done = subprocess.run(
            [installed.python, str(program), url, known.table_id, known.location, installed.jars],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment(),
            check=False,
        )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line[:1].isupper() and " " in line)
    assert "FOUND" in said, done.stderr[-4000:]
    assert json.loads(said["FOUND"]) == {"version": 3, "timestamp": snapshot.timestamp_ms, "files": 3}
    # What the Kernel commits is ratified by our owner, between our own commits.
    assert said.get("COMMITTED") == "5", done.stderr[-4000:]
    assert said["PUBLISHED"] == "5"
    with LogLake.open(tmp_path / "lake") as lake:
        snapshot = lake.snapshot("t")
        assert (snapshot.version, snapshot.transactions["kernel"].version) == (5, 2)
        assert sorted(snapshot.to_arrow()["id"].to_pylist()) == [0, 1, 2]
        with lake.transaction() as tx:
            tx.table("t").append(pa.table({"id": [3]}))
            tx.table("other").append(pa.table({"id": [3]}))
        assert lake.snapshot("t").version == 6
        assert lake.snapshot("t").timestamp_ms > snapshot.timestamp_ms


def test_duckdb_attaches_the_server_reads_and_inserts(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    extensions = [duckdb_extension(name) for name in ("httpfs", "delta", "unity_catalog")]
    if None in extensions:
        pytest.skip("the extensions of DuckDB are not installed: pip install --group peers")
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    lake = LogLake(owner, owner.root_url)
    schema = StructType((StructField("id", LONG), StructField("name", STRING)))
    for name in ("t", "sales.orders"):
        lake._create_log(name, schema, managed="catalogManaged")
    lake._create_log("old", schema)
    for number in range(3):
        with lake.transaction() as tx:
            for name in ("t", "sales.orders", "old"):
                tx.table(name).append(pa.table({"id": [number], "name": ["x"]}))
    owner.backfill_to_version(owner.table("t").table_id, 1)
    with served(owner) as url, duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for each in extensions:
            connection.execute(f"LOAD '{each}'")
        connection.execute(f"CREATE SECRET (TYPE UNITY_CATALOG, TOKEN 'any', ENDPOINT '{url}', AWS_REGION 'none')")
        connection.execute("ATTACH 'lake' AS lake (TYPE UNITY_CATALOG)")
        # The first list of DuckDB 1.5.5 is empty at times, with the same requests and answers: it shows what it has
        # loaded so far.
        connection.execute("SHOW ALL TABLES").fetchall()
        assert [row[2] for row in connection.execute("SHOW ALL TABLES").fetchall()] == ["t", "orders"]
        assert connection.execute("SELECT id FROM lake.t ORDER BY id").fetchall() == [(0,), (1,), (2,)]
        assert connection.execute("SELECT count(*) FROM lake.sales.orders").fetchall() == [(3,)]
        connection.execute("INSERT INTO lake.sales.orders VALUES (7, 'by DuckDB'), (8, NULL)")
        found = connection.execute("SELECT id, name FROM lake.sales.orders WHERE id > 2 ORDER BY id").fetchall()
        assert found == [(7, "by DuckDB"), (8, None)]
    with LogLake.open(tmp_path / "lake") as lake:
        with lake.transaction() as tx:
            for name in ("sales.orders", "old"):
                tx.table(name).append(pa.table({"id": [9], "name": ["y"]}))
        rows = lake.snapshot("sales.orders").to_arrow().sort_by("id").to_pylist()
        assert [row["id"] for row in rows] == [0, 1, 2, 7, 8, 9]
        assert lake.snapshot("sales.orders").version == 5


def test_engines_without_the_catalog_refuse_its_tables_and_read_those_of_the_older_form(tmp_path: Path) -> None:
    """Source: docs/decisions/0016-default-form.md."""
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    deltalake = pytest.importorskip("deltalake")
    extension = duckdb_extension("delta")
    if extension is None:
        pytest.skip("the extensions of DuckDB are not installed: pip install --group peers")
    with (
        LogLake.open(tmp_path / "lake") as lake,
        duckdb.connect(config={"allow_unsigned_extensions": "true"}) as session,
    ):
        session.execute(f"LOAD '{extension}'")
        for name, managed in (("newer", "catalogManaged"), ("older", None)):
            lake._create_log(name, StructType((StructField("id", LONG),)), managed=managed)
            with lake.transaction() as tx:
                tx.table(name).append(pa.table({"id": [1]}))
            lake.backfill(name)
        newer, older = str(tmp_path / "lake" / "newer"), str(tmp_path / "lake" / "older")
        readers: list[Callable[[str], Any]] = [
            lambda path: session.execute(f"SELECT count(*) FROM delta_scan('{path}')").fetchall()[0][0],
            lambda path: polars.scan_delta(path).collect().height,
            lambda path: deltalake.DeltaTable(path).to_pyarrow_table().num_rows,
        ]
        for read in readers:
            assert read(older) == 1
            with pytest.raises(Exception, match=r"(?i)max.catalog.version"):
                read(newer)


def test_duckdb_reads_tables_of_multi_table_transactions_and_does_not_write_to_them(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    extensions = [duckdb_extension(name) for name in ("httpfs", "delta", "unity_catalog")]
    if None in extensions:
        pytest.skip("the extensions of DuckDB are not installed: pip install --group peers")
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    lake = LogLake(owner, owner.root_url)
    for name in ("t", "u"):
        properties = {"delta.feature.multiTableTransaction-dev": "supported"}
        lake._create_log(name, StructType((StructField("id", LONG),)), properties=properties)
    for number in range(2):
        with lake.transaction() as tx:
            for name in ("t", "u"):
                tx.table(name).append(pa.table({"id": [number]}))
        lake.owner.backfill_to_version(owner.table("t").table_id, 1)
    with served(owner) as url:
        database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        for extension in extensions:
            database.execute(f"LOAD '{extension}'")
        database.execute(f"CREATE SECRET (TYPE UNITY_CATALOG, TOKEN 'unused', ENDPOINT '{url}', AWS_REGION 'none')")
        database.execute("ATTACH 'lake' AS lake (TYPE UNITY_CATALOG)")
        # One version is published, the other is not.
        for name in ("t", "u"):
            assert database.execute(f"SELECT id FROM lake.{name} ORDER BY id").fetchall() == [(0,), (1,)]
        with pytest.raises(duckdb.Error, match="multiTableTransaction-dev"):
            database.execute("INSERT INTO lake.t VALUES (7)")
        database.close()
    assert lake.snapshot("t").version == 2
    lake.close()
