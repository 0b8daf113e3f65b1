"""Namespaces of a lake: the part before a dot in table names. A namespace exists while a table is in it."""

from __future__ import annotations

from slackwater.spark.catalog.session_lakes import AttachedLake


def tables_of(lake: AttachedLake, namespace: str) -> list[str]:
    """Return the sorted names of the tables in a namespace, without its prefix. An empty namespace means all tables."""
    start = f"{namespace}." if namespace else ""
    return sorted(name[len(start) :] for name in lake.table_names() if name.lower().startswith(start.lower()))


def is_namespace(lake: AttachedLake, namespace: str) -> bool:
    """Return whether a table is in the namespace."""
    return bool(tables_of(lake, namespace))


def namespaces_of(lake: AttachedLake) -> list[str]:
    """Return all namespaces, including nested ones."""
    names = [name.split(".")[:-1] for name in lake.table_names()]
    return sorted({".".join(parts[: at + 1]) for parts in names for at in range(len(parts))})
