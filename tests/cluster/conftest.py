"""What Spark tests start from; all of these run where `--cluster` is given."""

from tests.spark.conftest import conf, enabled, vectors

__all__ = ["conf", "enabled", "vectors"]
