"""What there is of Hadoop's file systems: HDFS is in `make stores` only."""

from __future__ import annotations

from tests.hadoop.places import KINDS

collect_ignore = [] if "hdfs" in KINDS else ["test_killed_writers.py"]
