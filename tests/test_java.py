"""JVMs of tests share one archive of classes, and one that it does not fit starts without a word."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.classic,
    pytest.mark.skipif(not java.is_shared(), reason="no archive: `make classes` makes it"),
    pytest.mark.skipif(java.options() != os.environ["JDK_JAVA_OPTIONS"], reason="other options are set"),
]


def test_the_jvm_of_the_session_has_the_archive(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    process = gateway.proc
    assert str(java.ARCHIVE) in Path(f"/proc/{process.pid}/maps").read_text()


def test_a_jvm_with_other_classes_starts_and_says_nothing(tmp_path: Path) -> None:
    found = shutil.which("java")
    assert found
    command = [found, "-cp", str(tmp_path), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
