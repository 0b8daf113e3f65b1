"""All tasks of the first month."""

from __future__ import annotations

from . import changes, reads, tables, writes

TASKS = [*writes.TASKS, *changes.TASKS, *tables.TASKS, *reads.TASKS]
