"""Protects the files of a long transaction. VACUUM deletes old untracked files as the files of a killed writer.

A late commit checks that its files exist and that no running VACUUM may delete them. A later VACUUM sees the commit.
Source: docs/guides/maintenance.md "What may go on meanwhile".
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.errors import ConcurrentWriteException
from slackwater.protocol.actions.paths import canonical_path, is_absolute
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.existence import missing_files
from slackwater.storage.path_guard import resolve_files
from slackwater.transaction.clock import Clock
from slackwater.transaction.running_vacuum import require_no_vacuum, vacuums_at_work
from slackwater.transaction.staged import StagedActions

_LATE_MS = 3_600_000
# Clocks differ, and VACUUM determines the age of files before it deletes them.
_MARGIN_MS = 3_600_000
_WAIT_S = 10.0
_MOST_WAITS = 180
_NAMED = 5


def is_late(age_ms: int) -> bool:
    """Return whether a transaction of this age, in milliseconds, must verify its files."""
    return age_ms >= _LATE_MS


def validate_late_files(
    before: Snapshot, staged: StagedActions, vector_paths: Sequence[str], begun_ms: int, clock: Clock
) -> None:
    """Validate that the files of a late commit after `before` exist and remain.

    Waits up to half an hour for a VACUUM that may delete the files. Raises ConcurrentWriteException if the VACUUM does
    not end or files are missing.
    """
    age_ms = clock.now_ms() - begun_ms
    if not is_late(age_ms):
        return
    places = _places(before, staged, vector_paths)
    if not places:
        return
    for _ in range(_MOST_WAITS):
        if not _may_be_taken(before, begun_ms, clock):
            break
        clock.sleep(_WAIT_S)
    else:
        require_no_vacuum(before, clock.now_ms(), "a commit of files written long ago")
    missing = missing_files(before.store, places)
    if missing:
        named = ", ".join(missing[:_NAMED]) + (", …" if len(missing) > _NAMED else "")
        raise ConcurrentWriteException(
            f"{before.store.root_url}: {len(missing)} files written by this transaction are missing ({named}). It "
            f"began {age_ms / 3_600_000:.1f} hours ago, so a VACUUM may have deleted them, and nothing was committed. "
            "Retry, and let VACUUM spare files younger than the longest transaction (untracked_hours)"
        )


def _may_be_taken(before: Snapshot, begun_ms: int, clock: Clock) -> bool:
    now_ms = clock.now_ms()
    return any(now_ms - begun_ms >= found.spares_ms - _MARGIN_MS for found in vacuums_at_work(before, now_ms))


def _places(before: Snapshot, staged: StagedActions, vector_paths: Sequence[str]) -> list[str]:
    """Return the paths of files written for the commit, without files of earlier versions."""
    written = [change.path for change in staged.change_files]
    if not staged.known_files:
        again = {canonical_path(remove.path) for remove in staged.removes}
        written += [add.path for add in staged.adds if canonical_path(add.path) not in again]
    places = [*resolve_files(before.store, written, allow_outside_root=True), *vector_paths]
    return [place for place in places if not is_absolute(place)]
