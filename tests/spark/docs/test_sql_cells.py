"""SQL cells of JupySQL in the session: docs/guides/notebooks.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.written import read, rows
from tests.stores.documents import blocks

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]

GUIDE = "docs/guides/notebooks.md"


@pytest.fixture
def cell(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Run a cell of a notebook in which `spark` is the session, and return its value."""
    pytest.importorskip("sql", reason="needs JupySQL: pip install --group peers")
    shells = pytest.importorskip("IPython.core.interactiveshell")
    config = pytest.importorskip("traitlets.config")
    monkeypatch.setenv("PLOOMBER_STATS_ENABLED", "false")
    shell = shells.InteractiveShell.instance(config=config.Config({"HistoryManager": {"enabled": False}}))
    shell.user_ns["spark"] = spark

    def run(text: str) -> Any:
        done = shell.run_cell(text)
        done.raise_error()
        return done.result

    yield run
    shells.InteractiveShell.clear_instance()


def test_statements_of_sql_cells(spark: SparkSession, cell: Callable[[str], Any], tmp_path: Path) -> None:
    path = tmp_path / "orders"
    spark.createDataFrame([("A1", 10), ("B2", 4)], "sku STRING, qty INT").write.format("delta").save(str(path))
    begin, update = blocks(GUIDE, "ipython")
    cell(begin)
    cell(update.replace("work/", f"{tmp_path}/"))
    assert rows(read(spark, path)) == [("A1", 11), ("B2", 5)]
    for statement in ("INSERT INTO {} VALUES ('C3', 1)", "DELETE FROM {} WHERE qty = 5", "OPTIMIZE {}", "VACUUM {}"):
        cell("%%sql\n" + statement.format(f"delta.`{path}`"))
    assert rows(read(spark, path)) == [("A1", 11), ("C3", 1)]
    found = cell(f"%%sql\nSELECT count(*) AS n FROM delta.`{path}` VERSION AS OF 0")
    assert list(found.DataFrame().n) == [2]
    history = cell(f"%%sql\nDESCRIBE HISTORY delta.`{path}`").DataFrame()
    assert list(history.operation)[-2:] == ["UPDATE", "WRITE"]
