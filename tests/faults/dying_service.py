"""Services that look after a table, and where a process that does one is killed."""

from __future__ import annotations

import os
from typing import Any

from slackwater.log.table import Table
from slackwater.maintenance.clone import shallow_clone
from slackwater.maintenance.convert import convert
from slackwater.maintenance.manifests import SYMLINK_FORMAT_MANIFEST, generate
from slackwater.maintenance.restore import restore
from slackwater.maintenance.truncate_history import truncate_history
from slackwater.maintenance.vacuum import VacuumRequest, vacuum
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.local_store import LocalObjectStore
from tests.faults.dying_writer import die_at

VACUUM, RESTORE, CLONE, TRUNCATE, CONVERT = "vacuum", "restore", "clone", "truncate", "convert"
GENERATE = "generate"
_START, _END = f"{4:020d}.json", f"{5:020d}.json"

# Which service, and as in `dying_writer.POINTS`.
POINTS: dict[str, tuple[str, tuple[Any, str, str, int, bool]]] = {
    "before the vacuum is told": (VACUUM, (LocalObjectStore, "put_if_absent", _START, 0, False)),
    "the vacuum told, nothing deleted": (VACUUM, (LocalObjectStore, "put_if_absent", _START, 0, True)),
    "before the first file goes": (VACUUM, (os, "unlink", "/f", 0, False)),
    "after the first file": (VACUUM, (os, "unlink", "/f", 0, True)),
    "all files gone, nothing remembered": (VACUUM, (LocalObjectStore, "put", "_last_vacuum_info", 0, False)),
    "remembered, the end not told": (VACUUM, (LocalObjectStore, "put_if_absent", _END, 0, False)),
    "the end told": (VACUUM, (LocalObjectStore, "put_if_absent", _END, 0, True)),
    "before the restore": (RESTORE, (LocalObjectStore, "put_if_absent", _START, 0, False)),
    "the restore staged": (RESTORE, (os, "link", _START, 0, False)),
    "the restore visible, not answered": (RESTORE, (os, "link", _START, 0, True)),
    "before the clone": (CLONE, (LocalObjectStore, "put_if_absent", f"{0:020d}.json", 0, False)),
    "the clone visible, not answered": (CLONE, (LocalObjectStore, "put_if_absent", f"{0:020d}.json", 0, True)),
    "before the conversion": (CONVERT, (LocalObjectStore, "put_if_absent", f"{0:020d}.json", 0, False)),
    "the conversion staged": (CONVERT, (os, "link", f"{0:020d}.json", 0, False)),
    "the conversion visible, not answered": (CONVERT, (os, "link", f"{0:020d}.json", 0, True)),
    "before the checkpoint that all begins with": (TRUNCATE, (LocalObjectStore, "put_file", "checkpoint", 0, False)),
    "before the history goes": (TRUNCATE, (LocalObjectStore, "delete", f"{0:020d}.json", 0, False)),
    "in the middle of the history": (TRUNCATE, (os, "unlink", "_delta_log/0", 2, False)),
    "before the manifests": (GENERATE, (LocalObjectStore, "put", "/p=", 0, False)),
    "a manifest staged": (GENERATE, (os, "replace", "p=1/manifest", 0, False)),
    "a manifest replaced": (GENERATE, (os, "replace", "p=1/manifest", 0, True)),
    "new manifests, an old one not gone": (GENERATE, (LocalObjectStore, "delete", "p=2/manifest", 0, False)),
    "the old one gone": (GENERATE, (LocalObjectStore, "delete", "p=2/manifest", 0, True)),
    "after the history": (TRUNCATE, (LocalObjectStore, "delete", f"{0:020d}.json", 0, True)),
}


def serve(path: str, service: str) -> None:
    """Do one of the services to the table at `path`."""
    table = Table.at(path)
    if service == VACUUM:
        vacuum(table, VacuumRequest())
    elif service == RESTORE:
        restore(table, 1)
    elif service == CLONE:
        shallow_clone(Snapshot.open(table, 2), Table.at(f"{path}_clone"), is_replaced=True)
    elif service == CONVERT:
        convert(table)
    elif service == GENERATE:
        generate(Snapshot.open(table), SYMLINK_FORMAT_MANIFEST)
    else:
        truncate_history(table)


def serve_until(path: str, point: str) -> None:
    """Do the service of a point to the table at `path`; this process is killed there."""
    service, where = POINTS[point]
    die_at(*where)
    serve(path, service)
