"""Places on Hadoop's file systems: the local one behind a mount point, and an HDFS in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hadoop.install_hdfs import folder
from tests.stores.install_connector import jars_of_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ["viewfs", *(["hdfs", "viewfs-hdfs"] if os.environ.get("SLACKWATER_HDFS") else [])]
"""What there is: HDFS needs what `make stores` fetches."""

_CLUSTER = "org.apache.hadoop.test.MiniDFSClusterManager"
_START_S = 180.0
_mounts = itertools.count()


def root_of(kind: str, spark: SparkSession, directory: Path, hdfs_root: Callable[[], str]) -> str:
    """A place of a kind: on this machine it is an empty directory, and nothing is there on HDFS yet."""
    if kind == "viewfs":
        return mounted(spark, directory.as_uri())
    return hdfs_root() if kind == "hdfs" else mounted(spark, hdfs_root())


def mounted(spark: SparkSession, target: str) -> str:
    """The URL, by a mount point of its own, of a directory."""
    name = f"tests{next(_mounts)}"
    spark.conf.set(f"fs.viewfs.mounttable.{name}.link./lake", target)
    return f"viewfs://{name}/lake"


@contextlib.contextmanager
def hdfs(scratch: Path) -> Iterator[str]:
    """The URL of an HDFS with one data node, which ends with the block."""
    config = scratch / "config.xml"
    command = ["java", f"-Dtest.build.data={scratch}", "-cp", f"{folder()}/*:{jars_of_pyspark()}/*", _CLUSTER]
    command += ["-format", "-datanodes", "1", "-writeConfig", str(config), "-D", f"hdfs.minidfs.basedir={scratch}/dfs"]
    with subprocess.Popen(command, cwd=scratch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            yield _address(server, config)
        finally:
            server.kill()


def _address(server: subprocess.Popen[bytes], config: Path) -> str:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        assert server.poll() is None, "the process of HDFS has ended"
        with contextlib.suppress(FileNotFoundError, ET.ParseError):
            for each in ET.parse(config).iter("property"):  # noqa: S314  (our own process wrote it)
                if each.findtext("name") == "fs.defaultFS":
                    return str(each.findtext("value")).rstrip("/")
        time.sleep(0.1)
    pytest.fail(f"HDFS did not come up in {_START_S} s")
