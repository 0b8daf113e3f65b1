"""Lakes by name, and transactions between BEGIN and COMMIT: one timestamp, which is the time in every statement."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import (
    InvalidArgument,
    OperationNotAllowed,
    SqlSyntaxError,
    TableAlreadyExists,
    TableNotFound,
    UnsupportedFeature,
)
from tests.spark.written import first_row

pytestmark = [pytest.mark.spark]

Rows = Callable[..., list[tuple[Any, ...]]]


def elsewhere(work: Callable[[], Any]) -> Any:
    """What another thread finds, which is in no transaction of this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def counted(lake: slackwater.Lake, name: str) -> int:
    """How many rows others see."""
    number: int = elsewhere(lambda: lake.table(name).toDF().count())
    return number


def test_tables_of_a_lake_are_named_by_it(spark: SparkSession, rows: Rows, lake: slackwater.Lake) -> None:
    spark.sql("INSERT INTO lake.stock (sku, qty) VALUES ('a', 1), ('b', 2)")
    assert rows("SELECT sku, lake.stock.qty FROM LAKE.stock WHERE stock.qty > 1") == [("b", 2)]
    spark.sql("USE lake")
    spark.sql("UPDATE stock SET qty = 5 WHERE sku = 'a'")
    assert spark.table("stock").where("qty = 5").count() == 1
    spark.sql("CREATE TABLE sums AS SELECT sum(qty) AS q FROM stock")
    assert rows("SELECT * FROM sums") == [(7,)]
    spark.range(2).write.format("delta").saveAsTable("numbers")
    assert lake.table("numbers").toDF().count() == 2
    with pytest.raises(TableNotFound, match="SHOW TABLES IN lake"):
        spark.sql("SELECT * FROM missing")


def test_use_of_something_else_leaves_the_lake(spark: SparkSession, rows: Rows, lake: slackwater.Lake, db: str) -> None:
    spark.sql("CREATE TABLE stock USING delta AS SELECT 'here' AS v")
    spark.sql("USE lake")
    assert "sku" in spark.table("stock").columns
    assert rows(f"SELECT v FROM {db}.stock") == [("here",)]
    spark.sql(f"USE {db}")
    assert rows("SELECT v FROM stock") == [("here",)]


def test_a_transaction_is_all_or_nothing(spark: SparkSession, rows: Rows, lake: slackwater.Lake) -> None:
    spark.sql("USE lake")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO stock VALUES ('a', 1, current_timestamp())")
    spark.sql("INSERT INTO orders VALUES (1, 'a')")
    assert rows("SELECT sku, qty FROM stock") == [("a", 1)]
    assert spark.table("lake.orders").count() == 1
    assert counted(lake, "stock") == 0
    spark.sql("COMMIT")
    assert (counted(lake, "stock"), counted(lake, "orders")) == (1, 1)
    spark.sql("BEGIN TRANSACTION ON lake")
    spark.sql("DELETE FROM stock")
    spark.sql("MERGE INTO orders USING stock ON orders.sku = stock.sku WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert rows("SELECT count(*) FROM orders") == [(0,)]
    spark.sql("ROLLBACK TRANSACTION")
    assert (counted(lake, "stock"), counted(lake, "orders")) == (1, 1)


def test_there_is_one_time_in_a_transaction(spark: SparkSession, rows: Rows, lake: slackwater.Lake) -> None:
    spark.sql("USE lake")
    spark.sql("INSERT INTO stock VALUES ('old', 1, NULL)")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO stock VALUES ('a', 1, current_timestamp())")
    spark.sql("UPDATE stock SET at = now() WHERE sku = 'old'")
    asked = rows("SELECT CAST(current_timestamp() AS STRING), CAST(current_date AS STRING) FROM range(1)")
    spark.sql("COMMIT")
    (committed,) = rows("SELECT CAST(max(at) AS STRING), CAST(to_date(min(at)) AS STRING) FROM stock")
    assert asked == [committed]
    stamped = {row.timestamp for name in ("stock",) for row in lake.table(name).history(1).collect()}
    assert stamped == {row.at for row in lake.table("stock").toDF().collect()}
    moment = committed[0]
    assert rows(f"SELECT count(*) FROM stock FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}'") == [(2,)]
    assert rows(f"SELECT count(*) FROM stock TIMESTAMP AS OF TIMESTAMP '{moment}' - INTERVAL 1 MILLISECOND") == [(1,)]


def test_an_error_rolls_back_and_says_so(spark: SparkSession, rows: Rows, lake: slackwater.Lake) -> None:
    spark.sql("USE lake")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO orders VALUES (1, 'a')")
    with pytest.raises(Exception, match="nope") as raised:
        spark.sql("SELECT nope FROM orders")
    notes = getattr(raised.value, "__notes__", [""])
    assert "rolled back" in notes[-1]
    with pytest.raises(OperationNotAllowed, match="rolled back"):
        spark.sql("COMMIT")
    assert counted(lake, "orders") == 0
    spark.sql("INSERT INTO orders VALUES (2, 'b')")
    assert counted(lake, "orders") == 1


@pytest.mark.parametrize("statement", ["SELECT nope", "SELECT 'it", "DROP TABLE no_such_table_of_spark", "SELEC 1"])
def test_an_error_of_spark_alone_rolls_back(spark: SparkSession, lake: slackwater.Lake, statement: str) -> None:
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO lake.orders VALUES (1, 'a')")
    with pytest.raises(PySparkException):
        spark.sql(statement).collect()
    with pytest.raises(OperationNotAllowed, match="rolled back"):
        spark.sql("COMMIT")
    assert counted(lake, "orders") == 0


def test_transactions_are_not_nested(spark: SparkSession, lake: slackwater.Lake) -> None:
    with pytest.raises(OperationNotAllowed, match="no transaction is open"):
        spark.sql("COMMIT")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO lake.orders VALUES (1, 'a')")
    with pytest.raises(OperationNotAllowed, match="already open in this session"):
        spark.sql("BEGIN TRANSACTION")
    with pytest.raises(OperationNotAllowed):
        spark.sql("COMMIT")
    assert counted(lake, "orders") == 0


def test_settings_of_the_next_transaction(spark: SparkSession, lake: slackwater.Lake) -> None:
    spark.sql("SET TRANSACTION ISOLATION LEVEL SNAPSHOT, CONTROL LOCKING WRITES (lake.stock, orders)")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO lake.stock VALUES ('a', 1, NULL)")
    spark.sql("COMMIT TRANSACTION")
    assert counted(lake, "stock") == 1
    with pytest.raises(InvalidArgument, match="SERIALIZABLE or SNAPSHOT"):
        spark.sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


def test_another_session_is_not_inside(spark: SparkSession, rows: Rows, lake: slackwater.Lake) -> None:
    other = slackwater.enable(spark.newSession())
    with pytest.raises(Exception, match=r"(?i)lake"):
        other.sql("SELECT * FROM lake.stock").collect()
    lake.attach(other, "their")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO lake.stock VALUES ('a', 1, NULL)")
    assert counted(lake, "stock") == 0
    assert elsewhere(lambda: other.sql("SELECT * FROM their.stock").count()) == 0
    with pytest.raises(OperationNotAllowed, match="no transaction"):
        other.sql("COMMIT")
    spark.sql("COMMIT")
    assert counted(lake, "stock") == 1
    lake.detach(other)


def test_a_query_of_a_transaction_reads_no_more_than_it_must(
    spark: SparkSession, rows: Rows, lake: slackwater.Lake
) -> None:
    spark.sql("USE lake")
    lake.create_table("parts", "id INT, p INT", partition_by=["p"])
    spark.sql("INSERT INTO parts VALUES (1, 1), (2, 2)")
    spark.sql("BEGIN TRANSACTION")
    assert rows("SELECT id FROM parts WHERE p = 1") == [(1,)]
    spark.sql("INSERT INTO orders VALUES (1, 'a')")
    # Another writer changes what was not read: both may count.
    lake_again = slackwater.enable(spark.newSession())
    lake.attach(lake_again, "their")
    elsewhere(lambda: lake_again.sql("DELETE FROM their.parts WHERE p = 2"))
    spark.sql("COMMIT")
    assert counted(lake, "orders") == 1
    lake.detach(lake_again)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("DROP TABLE lake.missing", TableNotFound, "missing"),
        ("DROP TABLE lake.stock nonsense", SqlSyntaxError, "nonsense"),
        ("REPLACE TABLE lake.missing (id INT)", TableNotFound, "missing"),
        ("REPLACE TABLE lake.missing AS SELECT 1 AS id", TableNotFound, "missing"),
        ("CREATE TABLE lake.stock (id INT)", TableAlreadyExists, "stock"),
        ("CREATE TABLE lake.stock AS SELECT 1 AS id", TableAlreadyExists, "REPLACE it"),
        (
            "CREATE OR REPLACE TABLE lake.stock (id INT) LOCATION '/elsewhere'",
            InvalidArgument,
            "A replaced table stays at its location",
        ),
        ("CREATE TABLE lake.stock SHALLOW CLONE lake.orders", TableAlreadyExists, "stock|already"),
        ("REPLACE TABLE lake.missing SHALLOW CLONE lake.stock", TableNotFound, "missing"),
        ("CREATE OR REPLACE TABLE lake.stock SHALLOW CLONE lake.stock", InvalidArgument, "onto itself"),
        ("CREATE TABLE lake.copy SHALLOW CLONE lake.stock LOCATION '{place}'", InvalidArgument, "not empty"),
        ("BEGIN TRANSACTION ON nowhere", InvalidArgument, "attached as nowhere"),
    ],
)
def test_what_a_lake_does_not_do_by_sql(
    spark: SparkSession, lake: slackwater.Lake, tmp_path: Path, text: str, error: type[Exception], says: str
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    before = [(table.name, lake.snapshot(table.name).version) for table in lake.tables()]
    with pytest.raises(error, match=says):
        spark.sql(text.replace("{place}", str(tmp_path / "taken")))
    assert [(table.name, lake.snapshot(table.name).version) for table in lake.tables()] == before


def test_a_table_of_a_lake_is_a_clone_of_any_table(
    spark: SparkSession, rows: Rows, lake: slackwater.Lake, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/plain` USING delta AS SELECT id FROM range(3)")
    spark.sql(f"DELETE FROM delta.`{tmp_path}/plain` WHERE id = 0")
    text = f"CREATE TABLE lake.was SHALLOW CLONE delta.`{tmp_path}/plain` VERSION AS OF 0 TBLPROPERTIES ('k' = 'v')"
    (told,) = spark.sql(text).collect()
    assert (told.source_num_of_files, told.num_copied_files) == (len(lake.snapshot("was").files()), 0)
    spark.sql(f"CREATE TABLE IF NOT EXISTS lake.was SHALLOW CLONE delta.`{tmp_path}/plain`")
    spark.sql("INSERT INTO lake.stock (sku, qty) VALUES ('a', 1), ('b', 2)")
    spark.sql(f"CREATE TABLE lake.copy SHALLOW CLONE lake.stock LOCATION '{tmp_path}/elsewhere'")
    assert rows("SELECT * FROM lake.was") == [(0,), (1,), (2,)]
    assert rows("SELECT * FROM lake.copy") == rows("SELECT * FROM lake.stock")
    assert first_row(lake.table("was").detail()).properties["k"] == "v"
    assert lake.snapshot("copy").store.root_url.endswith("/elsewhere")
    spark.sql("BEGIN TRANSACTION ON lake")
    spark.sql("DELETE FROM lake.was WHERE id = 1")
    spark.sql("DELETE FROM lake.copy WHERE true")
    spark.sql("COMMIT")
    assert (rows("SELECT * FROM lake.was"), rows("SELECT * FROM lake.copy")) == ([(0,), (2,)], [])
    assert rows("SELECT sku FROM lake.stock") == [("a",), ("b",)]
    spark.sql(f"CREATE OR REPLACE TABLE lake.was SHALLOW CLONE delta.`{tmp_path}/plain`")
    assert rows("SELECT * FROM lake.was") == [(1,), (2,)]
    assert first_row(lake.table("was").history(1)).operation == "CLONE"
    assert rows(f"SELECT * FROM delta.`{tmp_path}/plain`") == [(1,), (2,)]


def test_a_table_of_a_lake_is_created_with_its_rows_in_one_commit(
    spark: SparkSession, rows: Rows, lake: slackwater.Lake
) -> None:
    spark.sql("CREATE TABLE lake.sums PARTITIONED BY (k) COMMENT 'all' AS SELECT id, id % 2 AS k FROM range(4)")
    (made,) = lake.table("sums").history().collect()
    assert (made.version, made.operation) == (0, "CREATE TABLE AS SELECT")
    assert first_row(lake.table("sums").detail()).description == "all"
    spark.range(3).write.format("delta").clusterBy("id").option("delta.appendOnly", "true").saveAsTable("lake.ids")
    (made,) = lake.table("ids").history().collect()
    assert made.operation == "CREATE TABLE AS SELECT"
    assert first_row(lake.table("ids").detail()).properties["delta.appendOnly"] == "true"
    assert rows("SELECT count(*), sum(id) FROM lake.ids JOIN lake.sums USING (id)") == [(3, 3)]
    with pytest.raises(Exception, match=r"(?i)divi"):
        spark.sql("CREATE TABLE lake.broken AS SELECT 1 DIV (id - 1) AS v FROM range(3)")
    assert "broken" not in [table.name for table in lake.tables()]


def test_a_table_of_a_lake_is_replaced_in_one_commit(spark: SparkSession, rows: Rows, lake: slackwater.Lake) -> None:
    spark.sql("INSERT INTO lake.stock (sku, qty) VALUES ('a', 1)")
    before = first_row(lake.table("stock").history())
    spark.sql("CREATE OR REPLACE TABLE lake.stock AS SELECT 'b' AS name")
    after = first_row(lake.table("stock").history())
    assert (after.version, after.operation) == (before.version + 1, "CREATE OR REPLACE TABLE AS SELECT")
    assert rows("SELECT * FROM lake.stock") == [("b",)]
    assert rows(f"SELECT sku FROM lake.stock VERSION AS OF {before.version}") == [("a",)]
    spark.sql("REPLACE TABLE lake.stock (id INT NOT NULL)")
    spark.sql("INSERT INTO lake.stock VALUES (1)")
    slackwater.DeltaTable.createOrReplace(spark).tableName("lake.stock").addColumn("n", "INT").execute()
    assert rows("SELECT * FROM lake.stock") == []
    assert [table.state.value for table in lake.tables() if table.name == "stock"] == ["active"]
    assert lake.as_of(after.timestamp.astimezone(dt.timezone.utc)).table("stock").toDF().collect() == [("b",)]


def test_a_table_of_a_lake_is_dropped(spark: SparkSession, lake: slackwater.Lake, tmp_path: Path) -> None:
    places = {name: Path(lake.location(name)) for name in ("stock", "orders")}
    elsewhere_at = tmp_path / "external"
    spark.sql(f"CREATE TABLE lake.external LOCATION '{elsewhere_at}' AS SELECT 1 AS id")
    spark.sql("BEGIN TRANSACTION ON lake")
    with pytest.raises(UnsupportedFeature, match="a transaction cannot create, replace or drop"):
        spark.sql("DROP TABLE lake.stock")
    spark.sql("ROLLBACK")
    spark.sql("DROP TABLE lake.stock")
    spark.sql("USE lake")
    spark.sql("DROP TABLE IF EXISTS orders PURGE")
    spark.sql("DROP TABLE IF EXISTS orders")
    spark.sql("DROP TABLE external")
    assert {"stock", "orders", "external"}.isdisjoint(table.name for table in lake.tables())
    assert not any(place.exists() for place in places.values())
    assert spark.read.format("delta").load(str(elsewhere_at)).count() == 1
    spark.sql("CREATE TABLE stock AS SELECT 2 AS id")
    assert spark.table("stock").collect() == [(2,)]


def test_a_table_of_the_catalog_is_dropped_beside_a_lake(spark: SparkSession, lake: slackwater.Lake, db: str) -> None:
    spark.sql("CREATE TABLE beside USING delta AS SELECT 'here' AS v")
    spark.sql("USE lake")
    spark.sql(f"DROP TABLE {db}.beside")
    assert not spark.catalog.tableExists(f"{db}.beside")


def test_a_lake_has_one_name_at_a_time(spark: SparkSession, lake: slackwater.Lake, tmp_path: Any) -> None:
    with slackwater.Lake.open(tmp_path / "other", spark=spark) as other:
        with pytest.raises(InvalidArgument, match="another lake is attached"):
            other.attach(spark)
        with pytest.raises(InvalidArgument, match="spark_catalog"):
            other.attach(spark, "spark_catalog")
        with pytest.raises(InvalidArgument, match="dots"):
            other.attach(spark, "a.b")
    spark.sql("BEGIN TRANSACTION")
    with pytest.raises(OperationNotAllowed, match="COMMIT or ROLLBACK"):
        lake.detach(spark)
    spark.sql("ROLLBACK")


def test_statements_are_all_or_nothing_in_one(spark: SparkSession, rows: Rows, lake: slackwater.Lake) -> None:
    spark.sql("USE lake")
    spark.sql(
        """BEGIN ATOMIC
        INSERT INTO orders VALUES (:id, CASE WHEN true THEN 'a;b' END);
        INSERT INTO stock SELECT sku, 1, now() FROM orders;
        END""",
        {"id": 1},
    )
    assert rows("SELECT orders.id, qty FROM orders JOIN stock USING (sku)") == [(1, 1)]
    with pytest.raises(Exception, match="nope"):
        spark.sql("BEGIN ATOMIC DELETE FROM orders; DELETE FROM stock WHERE nope = 1; END")
    assert (counted(lake, "orders"), counted(lake, "stock")) == (1, 1)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT assert_true(count(*) > 5) FROM orders",
        "WITH c AS (SELECT count(*) AS n FROM orders) SELECT raise_error('few') FROM c WHERE n < 5",
        "VALUES (assert_true(1 > 2))",
        "(SELECT assert_true(false))",
        "EXECUTE IMMEDIATE 'SELECT assert_true(false)'",
        "SELECT nope",
    ],
)
def test_a_query_stops_all_statements_of_one(spark: SparkSession, lake: slackwater.Lake, query: str) -> None:
    spark.sql("USE lake")
    with pytest.raises(PySparkException):
        spark.sql(f"BEGIN ATOMIC INSERT INTO orders VALUES (1, 'a'); {query}; INSERT INTO orders VALUES (2, 'b'); END")
    with pytest.raises(OperationNotAllowed, match="rolled back"):
        spark.sql("COMMIT")
    assert counted(lake, "orders") == 0
    spark.sql(
        "BEGIN ATOMIC SELECT assert_true(count(*) = 0) FROM orders; SELECT 1 AS a, 2 AS a, array(make_interval(1, 2)); "
        "SHOW TABLES; INSERT INTO orders VALUES (1, 'a'); END"
    )
    assert counted(lake, "orders") == 1


def test_parameters_belong_to_all_statements_of_one(spark: SparkSession, rows: Rows, lake: slackwater.Lake) -> None:
    text = "BEGIN ATOMIC INSERT INTO lake.orders VALUES (?, 'a'); INSERT INTO lake.orders VALUES (?, ?); END"
    spark.sql(text, [3, 4, "b"])
    assert rows("SELECT id, sku FROM lake.orders") == [(3, "a"), (4, "b")]
    with pytest.raises(InvalidArgument, match="args has 2 values"):
        spark.sql(text, [5, 6])
    with pytest.raises(InvalidArgument, match=":missing has no value"):
        spark.sql("BEGIN ATOMIC INSERT INTO lake.orders VALUES (7, 'c'); SELECT :missing; END", {"x": 1})
    assert counted(lake, "orders") == 2
    spark.sql("BEGIN TRANSACTION")
    spark.sql("ROLLBACK")


@pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK", "BEGIN TRANSACTION"])
def test_all_statements_of_one_are_one_transaction(spark: SparkSession, lake: slackwater.Lake, word: str) -> None:
    with pytest.raises(OperationNotAllowed, match="cannot be a statement of BEGIN ATOMIC"):
        spark.sql(f"BEGIN ATOMIC INSERT INTO lake.orders VALUES (1, 'a'); {word}; DELETE FROM lake.orders; END")
    assert counted(lake, "orders") == 0


def test_an_error_of_another_thread_rolls_nothing_back(spark: SparkSession, lake: slackwater.Lake) -> None:
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO lake.orders VALUES (1, 'a')")
    with ThreadPoolExecutor(1) as pool, pytest.raises(PySparkException):
        pool.submit(spark.sql, "SELECT nope").result()
    spark.sql("COMMIT")
    assert counted(lake, "orders") == 1


def test_dynamic_sql_changes_tables_of_the_current_lake(spark: SparkSession, rows: Rows, lake: slackwater.Lake) -> None:
    spark.sql("USE lake")
    spark.sql("EXECUTE IMMEDIATE 'INSERT INTO orders VALUES (8, ''z''), (9, ''y'')'")
    spark.sql("EXECUTE IMMEDIATE 'DELETE FROM orders WHERE id = ?' USING 9")
    assert rows("SELECT id FROM orders") == [(8,)]


def test_a_lake_that_is_closed_has_no_name(spark: SparkSession, rows: Rows, db: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE stock USING delta AS SELECT 'here' AS v")
    with slackwater.Lake.open(tmp_path / "closed", spark=spark) as opened:
        opened.create_table("stock", "sku STRING")
        opened.attach(spark)
        spark.sql("USE lake")
        spark.sql("BEGIN TRANSACTION")
        spark.sql("INSERT INTO stock VALUES ('a')")
    assert rows("SELECT * FROM stock") == [("here",)]
    with pytest.raises(OperationNotAllowed, match="no transaction is open"):
        spark.sql("COMMIT")
    with slackwater.Lake.open(tmp_path / "closed", spark=spark) as again:
        assert again.table("stock").toDF().count() == 0
        again.attach(spark)
