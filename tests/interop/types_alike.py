"""Schemas of two engines in one form: what a column is, without what an engine notes down for itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def bare_schema(node: Any) -> Any:
    """A type in Spark's JSON without the metadata of its columns, but for their comments."""
    if not isinstance(node, Mapping):
        return node
    kept = {name: bare_schema(value) for name, value in node.items() if name not in ("metadata", "fields")}
    if "fields" in node:
        kept["fields"] = [bare_schema(field) for field in node["fields"]]
    if "comment" in (node.get("metadata") or {}):
        kept["comment"] = node["metadata"]["comment"]
    return kept
