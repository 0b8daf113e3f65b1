"""delta-spark's import paths give Slackwater's names to who asks for them, and never take another package's place."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import errors
from slackwater.spark.delta_import_shim import _Finder
from tests.spark.written import rows

pytestmark = [pytest.mark.spark, pytest.mark.shared]


@pytest.fixture(autouse=True)
def not_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process as it is before the names are asked for, and again after the test."""
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if not isinstance(finder, _Finder)])
    before = _modules()
    _forget()
    yield
    _forget()
    sys.modules.update(before)


def _modules() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "delta"}


def _forget() -> None:
    for name in _modules():
        del sys.modules[name]
    importlib.invalidate_caches()


def test_the_paths_of_delta_spark_give_our_names() -> None:
    assert importlib.util.find_spec("delta") is None
    slackwater.install_delta_names()
    slackwater.install_delta_names()
    names = {
        "delta": ["DeltaTable"],
        "delta.tables": [
            "DeltaMergeBuilder",
            "DeltaOptimizeBuilder",
            "DeltaTable",
            "DeltaTableBuilder",
            "IdentityGenerator",
        ],
    }
    for module, of_it in names.items():
        found = importlib.import_module(module)
        assert {name for name in found.__all__ if hasattr(slackwater, name)} >= set(of_it)
        assert all(getattr(found, name) is getattr(slackwater, name) for name in of_it)
    assert importlib.import_module("delta").__version__ == slackwater.__version__


def test_the_errors_of_delta_spark_are_our_errors() -> None:
    slackwater.install_delta_names()
    exceptions = importlib.import_module("delta.exceptions")
    lost = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    lost = [kind for kind in lost if issubclass(kind, errors.DeltaConcurrentModificationException)]
    assert sorted(exceptions.__all__) == sorted(kind.__name__ for kind in lost if kind.__name__.endswith("Exception"))
    assert all(getattr(exceptions, name) is getattr(errors, name) for name in exceptions.__all__)


def test_a_builder_is_given_back_and_its_session_answers(spark: SparkSession, path: str) -> None:
    slackwater.install_delta_names()
    from_delta = importlib.import_module("delta")
    builder = SparkSession.builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    assert from_delta.configure_spark_with_delta_pip(builder) is builder
    spark.range(2).write.format("delta").save(path)
    assert rows(from_delta.DeltaTable.forPath(spark, path).toDF()) == [(0,), (1,)]


def test_other_packages_are_left_to_spark() -> None:
    slackwater.install_delta_names()
    from_delta = importlib.import_module("delta")
    builder = from_delta.configure_spark_with_delta_pip(SparkSession.builder, ["org.x:y:1", "org.x:z:2"])
    options = builder._options
    assert options.pop("spark.jars.packages") == "org.x:y:1,org.x:z:2"
    from_delta.configure_spark_with_delta_pip(builder)
    assert "spark.jars.packages" not in options


def test_what_is_no_builder_is_a_type_error(spark: SparkSession) -> None:
    slackwater.install_delta_names()
    from_delta = importlib.import_module("delta")
    for wrong in (None, spark, "builder", SparkSession):
        with pytest.raises(TypeError, match="must be called with a SparkSession builder as the argument"):
            from_delta.configure_spark_with_delta_pip(wrong)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_package_of_that_name_keeps_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_loaded: bool
) -> None:
    _another(tmp_path, monkeypatch)
    if is_loaded:
        importlib.import_module("delta")
    before = list(sys.meta_path)
    with pytest.raises(errors.InvalidArgument, match=f"`import delta` finds {tmp_path}.*never replaces another"):
        slackwater.install_delta_names()
    assert importlib.import_module("delta").marker == "another"
    assert sys.meta_path == before


def test_a_module_that_was_loaded_from_what_is_gone_keeps_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as while_it_is_there:
        _another(tmp_path, while_it_is_there)
        loaded = importlib.import_module("delta")
    importlib.invalidate_caches()
    with pytest.raises(errors.InvalidArgument, match="never replaces another package"):
        slackwater.install_delta_names()
    assert sys.modules["delta"] is loaded


def test_a_package_that_is_installed_later_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slackwater.install_delta_names()
    _another(tmp_path, monkeypatch)
    assert importlib.import_module("delta").marker == "another"


def test_a_folder_of_that_name_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)
        assert importlib.import_module("delta").__file__ is None
    slackwater.install_delta_names()
    assert importlib.import_module("delta.tables").DeltaTable is slackwater.DeltaTable


def _another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "delta").mkdir()
    (tmp_path / "delta" / "__init__.py").write_text("marker = 'another'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
