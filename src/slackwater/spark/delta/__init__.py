"""delta-spark's import paths (`delta.tables` and others), installed only on request."""

from __future__ import annotations

from importlib import import_module

from slackwater.spark.delta.pip_utils import configure_spark_with_delta_pip
from slackwater.spark.table.table import DeltaTable

__all__ = ["DeltaTable", "__version__", "configure_spark_with_delta_pip"]
__version__: str = import_module("slackwater").__version__
