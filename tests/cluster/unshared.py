"""Work of a process of its own on tables that its Spark may not find or change, and what came of each step."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from slackwater import DeltaTable
from tests.cluster import unshared_client
from tests.cluster.standalone import environment
from tests.spark.written import read, rows, save

ONE_SENTENCE = "must have the table's storage mounted at the same path"
WRITES = ("create", "append", "overwrite", "insert-only merge")
"""Steps that write rows and need to read none."""


def make_tables(spark: SparkSession, root: Path) -> None:
    """The tables that the steps are on: `t` has three rows, `v` has five, and one more that a vector hides."""
    root.mkdir(exist_ok=True)
    save(spark.range(3), root / "t")
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    save(spark.range(0, 6, 1, 1), root / "v", **properties)
    DeltaTable.forPath(spark, str(root / "v")).delete("id = 5")


def require_unchanged(spark: SparkSession, root: Path) -> None:
    """That the tables have the rows that `make_tables` gave them."""
    assert rows(read(spark, root / "t")) == [(0,), (1,), (2,)]
    assert rows(read(spark, root / "v")) == [(0,), (1,), (2,), (3,), (4,)]


def outcomes(
    address: str,
    tables: Path | str,
    shared: Path | str,
    settings: Mapping[str, str],
    variables: Mapping[str, str] | None = None,
    umask: int = -1,
) -> dict[str, Any]:
    """What a client says of each step; `variables` are those of its environment."""
    command = [sys.executable, unshared_client.__file__, address, str(tables), str(shared), json.dumps(settings)]
    told = {**environment(), **(variables or {})}
    done = subprocess.run(command, env=told, capture_output=True, check=False, umask=umask)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def in_namespace(mounts: str) -> tuple[str, ...]:
    """What a command is begun by that sees other disks than the rest of the machine."""
    return ("unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh")
