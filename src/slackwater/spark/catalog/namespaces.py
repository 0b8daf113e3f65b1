"""Namespaces of a lake: what stands before a dot in the names of its tables. They are there as long as a table is."""

from __future__ import annotations

from slackwater.spark.catalog.session_lakes import AttachedLake


def tables_of(lake: AttachedLake, namespace: str) -> list[str]:
    """The names of the tables in a namespace, without it, by their order; of all tables where it is empty."""
    start = f"{namespace}." if namespace else ""
    names = (table.name for table in lake.tables())
    return sorted(name[len(start) :] for name in names if name.lower().startswith(start.lower()))


def is_namespace(lake: AttachedLake, namespace: str) -> bool:
    """Whether a table is in it."""
    return bool(tables_of(lake, namespace))


def namespaces_of(lake: AttachedLake) -> list[str]:
    """All of them, those within others too."""
    names = [table.name.split(".")[:-1] for table in lake.tables()]
    return sorted({".".join(parts[: at + 1]) for parts in names for at in range(len(parts))})
