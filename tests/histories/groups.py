"""The groups in the logs are the transactions: each commit describes all commits of its transaction, and no others."""

from __future__ import annotations

from collections.abc import Iterator

from tests.histories.recorded import RecordedHistory
from tests.histories.violations import Kind, Violation


def group_violations(recorded: RecordedHistory) -> Iterator[Violation]:
    """Groups that differ from their transaction, transactions over several tables without one, and other groups.

    Looks at the tables of `History.groups` only, which record groups.
    """
    groups = recorded.history.groups
    owners: set[tuple[str, int]] = set()
    for number, transaction in enumerate(recorded.transactions):
        if not recorded.counts[number]:
            continue
        expected = dict(transaction.versions) if len(transaction.versions) > 1 else None
        for table, version in transaction.versions.items():
            if table not in groups or version not in recorded.history.logs.get(table, {version: 0}):
                continue
            owners.add((table, version))
            found = groups[table].get(version)
            if (None if found is None else dict(found)) != expected:
                described = f"Version {version} of {table} describes the group {found}"
                message = f"{described}, but {recorded.name(number)} is {expected}."
                yield Violation(Kind.GROUP_DIFFERS, (transaction.id,), message)
    for table, by_version in groups.items():
        for version, found in by_version.items():
            if (table, version) not in owners:
                message = f"Version {version} of {table} describes the group {dict(found)}, which is no transaction."
                yield Violation(Kind.GROUP_DIFFERS, (), message)
