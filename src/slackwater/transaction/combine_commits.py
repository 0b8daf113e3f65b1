"""Combines several staged commits of one table into one commit. Later actions supersede earlier ones.

Source: delta-protocol.md "Action Reconciliation", "Delta Log Entries" (what a single log entry must not hold).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slackwater.protocol.actions.files import AddFile, RemoveFile
from slackwater.protocol.actions.paths import canonical_path
from slackwater.transaction.staged import ReadSet, StagedActions


def combine_actions(parts: Sequence[StagedActions]) -> StagedActions:
    """Return one commit with the effect of `parts` in order. Each part was based on the result of the parts before."""
    if len(parts) == 1:
        return parts[0]
    result = StagedActions()
    adds: dict[str, AddFile] = {}
    removes: dict[tuple[str, str | None], RemoveFile] = {}
    # Paths whose first action is an add: no earlier version has these files.
    fresh: set[str] = set()
    for part in parts:
        removed = {canonical_path(remove.path) for remove in part.removes}
        fresh |= {
            path for path in map(canonical_path, (add.path for add in part.adds))
            if path not in removed and path not in adds and not any(key[0] == path for key in removes)
        } if part.fresh_adds else set()  # fmt: skip
        for remove in part.removes:
            path = canonical_path(remove.path)
            added = adds.pop(path, None)
            if added is None:
                removes[path, remove.deletion_vector_id] = remove
        for add in part.adds:
            path = canonical_path(add.path)
            # The combined commit assigns the row ids.
            adds[path] = replace(add, base_row_id=None, default_row_commit_version=None) if path in fresh else add
        result.change_files += part.change_files
        result.transactions.update(part.transactions)
        result.domains.update(part.domains)
        result.protocol = part.protocol or result.protocol
        result.metadata = part.metadata or result.metadata
    result.adds = list(adds.values())
    result.removes = list(removes.values())
    result.fresh_adds = adds.keys() <= fresh
    result.restates = any(part.restates or part.row_deletions for part in parts)
    result.known_files = any(part.known_files for part in parts)
    return result


def combine_reads(parts: Sequence[ReadSet]) -> ReadSet:
    """Return the union of all conditions and application ids read by `parts`."""
    return ReadSet(
        [reading for part in parts for reading in part.readings], {app for part in parts for app in part.app_ids}
    )
