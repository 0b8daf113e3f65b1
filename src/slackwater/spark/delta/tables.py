"""`delta.tables`: the table and the builders returned by its methods."""

from __future__ import annotations

from slackwater.spark.dml.merge.builder import DeltaMergeBuilder
from slackwater.spark.maintenance.builder import DeltaOptimizeBuilder
from slackwater.spark.table.builder import DeltaTableBuilder, IdentityGenerator
from slackwater.spark.table.table import DeltaTable

__all__ = ["DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder", "IdentityGenerator"]
