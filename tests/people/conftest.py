"""What tests of Spark start from."""

from tests.spark.conftest import conf, enabled, path

__all__ = ["conf", "enabled", "path"]
