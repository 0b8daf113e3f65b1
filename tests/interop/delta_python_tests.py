"""A process that runs unmodified test files of delta-spark's repository against Slackwater, and prints the outcomes.

Arguments: the folder `python/delta/tests` of a checkout, and the mode, `classic` or `connect`. Tests of that folder
import `delta.tables`, which is Slackwater's, and `delta.testing`, which is loaded from the checkout. The last line of
the output is JSON: for each test its outcome, `ok`, `skipped`, or the last line of its error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import slackwater
from tests.connected import connected

# To compile the plans would take most of the time.
_QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
MODES = {
    "classic": {"delta.tests.test_deltatable": "DeltaTableTests", "delta.tests.test_sql": "DeltaSqlTests"},
    "connect": {"delta.connect.tests.test_deltatable": "DeltaTableTests"},
}


def main(folder: Path, mode: str) -> None:
    """Run the tests of the table's methods, and of SQL, and print the outcome of each."""
    slackwater.install_delta_names()
    # `delta.connect` has no package here: its `__init__` imports the client of delta-spark.
    for name in ("testing", "tests", "connect"):
        _load_from(f"delta.{name}", folder.parent / name)
    if mode == "connect":
        _use_a_free_port()
        # By this name its tests for Connect import the others.
        sys.modules["tests.test_deltatable"] = importlib.import_module("delta.tests.test_deltatable")
    outcomes = _Outcomes()
    for module, name in MODES[mode].items():
        cases = _enabled(getattr(importlib.import_module(module), name))
        unittest.defaultTestLoader.loadTestsFromTestCase(cases).run(outcomes)
    sys.stdout.write("\n" + json.dumps(outcomes.found) + "\n")


def _load_from(name: str, folder: Path) -> None:
    """Let modules below `name` be found in `folder`, beside Slackwater's modules of `delta`."""
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package


def _use_a_free_port() -> None:
    from pyspark.sql import SparkSession

    connected(SparkSession.builder, "local[2]")


def _enabled(cases: type[Any]) -> type[Any]:
    """The cases, whose session is enabled as the guide for users of delta-spark says."""

    class Enabled(cases):  # type: ignore[misc]
        @classmethod
        def setUpClass(cls) -> None:
            super().setUpClass()
            slackwater.enable(cls.spark)
            for key, value in _QUICK.items():
                cls.spark.conf.set(key, value)

    # The files of the checkout call their own private methods: those keep the name of the class they are of.
    Enabled.__name__ = cases.__name__
    return Enabled


def _name(test: unittest.TestCase) -> str:
    """The name of a test; those of SQL are named by their class too, as some have the name of another."""
    name = test.id().rpartition(".")[2]
    return f"sql.{name}" if type(test).__name__ == "DeltaSqlTests" else name


class _Outcomes(unittest.TestResult):
    """The outcome of each test, by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.found[_name(test)] = "ok"

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self.found[_name(test)] = "skipped"

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        super().addError(test, err)
        sys.stderr.write(self.errors[-1][1])
        self.found[_name(test)] = f"{err[0].__name__}: {err[1]}".strip()

    addFailure = addError  # noqa: N815


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    checkout = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(Path.cwd()))
    # Tables of the catalog are made below the working directory, and would be there in the next run.
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        main(checkout, sys.argv[2])
