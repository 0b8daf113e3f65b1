"""Verifies multi-table transactions: each group in the log of a table is in the logs of all its participants.

Also names the staged commits of groups that are in no log. Source: the RFC "Multi-Table Transactions", "The
`transactionGroup` Action", "Recovery and Cleanup".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from slackwater.errors import CorruptLog, SlackwaterError
from slackwater.log.files.commits import ParsedCommit, parsed_commit
from slackwater.log.files.managed_log import read_commits
from slackwater.log.files.segment import LogListing
from slackwater.log.table import Table
from slackwater.maintenance.verify.findings import FaultKind, Findings
from slackwater.owner.api.staged_files import StagedFile, staged_files
from slackwater.protocol.actions.actions import parse_commit
from slackwater.protocol.actions.transaction_groups import ACTION, GROUP_TAG, TransactionGroup

ParticipantOf = Callable[[str], tuple[str, Table] | None]
"""Returns the name and the table with an id at the catalog, None for an unknown table."""


class GroupVerification:
    """Verifies the groups of the commits passed to `add`. `finish` then reads the other tables."""

    def __init__(self, table: Table, findings: Findings, participant_of: ParticipantOf | None) -> None:
        """Create the check for commits of `table`. Without `participant_of`, other tables are not read."""
        self._table = table
        self._findings = findings
        self._participant_of = participant_of
        self._groups: dict[int, TransactionGroup] = {}
        self._others: dict[str, tuple[str, Table, LogListing] | None] = {}

    def add(self, commit: ParsedCommit) -> None:
        """Add a commit of the table: its group must be well-formed, name this commit, and have the tag."""
        try:
            group = TransactionGroup.among(commit.actions, commit.file.path)
        except CorruptLog as error:
            self._fault(commit.file.path, str(error))
            return
        if group is None:
            return
        self._findings.looked("multi-table transactions")
        self._groups[commit.version] = group
        tags = commit.info.get("tags")
        tag = tags.get(GROUP_TAG) if isinstance(tags, Mapping) else None
        if tag != group.transaction_id:
            self._fault(commit.file.path, f"its tag {GROUP_TAG} is {tag}, but its {ACTION} has {group.transaction_id}")
        owned = self._table.owned
        own = [part for part in group.participants if owned is None or part.table_id == owned.table_id]
        if commit.version not in {part.version for part in own}:
            self._fault(commit.file.path, f"its {ACTION} does not name version {commit.version} of this table")

    def finish(self, listing: LogListing, target: int) -> None:
        """Compare the groups with the logs of the other participants, and look for staged commits of other groups.

        `target` is the last version whose commit was added.
        """
        self._look_at_staged(listing, target)
        if self._participant_of is None:
            if self._groups:
                self._findings.notes.append(
                    f"{len(self._groups)} commits belong to transactions over several tables, whose other tables were "
                    "not checked. Name the lake with --lake"
                )
            return
        own = self._table.owned
        for version, group in self._groups.items():
            for part in group.participants:
                if own is None or part.table_id != own.table_id:
                    self._look_at_participant(version, group, part.table_id, part.version)

    def _look_at_participant(self, version: int, group: TransactionGroup, table_id: str, expected: int) -> None:
        if table_id not in self._others:
            self._others[table_id] = self._opened(table_id)
        other = self._others[table_id]
        if other is None:
            return
        name, table, listing = other
        where, who = (
            f"version {version}",
            f"its transaction {group.transaction_id} is version {expected} of table {name}",
        )
        file = listing.commits.get(expected)
        if file is None:
            # The log cleanup removes old commits.
            if not listing.commits or expected >= min(listing.commits):
                self._fault(where, f"{who}, but that version is missing")
            return
        try:
            (data,) = read_commits(table.store, [file])
            found = TransactionGroup.among(parsed_commit(table.store, expected, data, file).actions, file.path)
        except SlackwaterError as error:
            self._fault(where, f"{who}, which cannot be read: {error}")
            return
        if found is None or found.transaction_id != group.transaction_id:
            self._fault(where, f"{who}, but that version is a commit of another transaction")
        elif found.versions != group.versions or found.catalog != group.catalog:
            self._fault(where, f"{who}, which has other participants: {found.versions}, not {group.versions}")

    def _opened(self, table_id: str) -> tuple[str, Table, LogListing] | None:
        """Return the participant with its log. Adds a note for a table that is not in the lake."""
        assert self._participant_of is not None  # noqa: S101  (finish returns before)
        found = self._participant_of(table_id)
        if found is None:
            self._findings.notes.append(
                f"the table {table_id} of a transaction is not in the lake, and was not checked"
            )
            return None
        name, table = found
        return name, table, table.list_log()

    def _look_at_staged(self, listing: LogListing, target: int) -> None:
        """Add a note for each staged commit whose group is not the group of its version."""
        found = list(staged_files(self._table.store))
        numbers = Counter(staged.file.version for staged in found)
        for staged in found:
            version = staged.file.version
            logged = listing.commits.get(version)
            if logged is None and (self._table.owned is None or version < min(listing.commits, default=0)):
                # Only the owner knows a later version. The log cleanup removed an earlier one.
                continue
            if logged is not None and version > target:
                continue
            is_copy = logged is not None and numbers[version] == 1 and logged.size_bytes == staged.meta.size_bytes
            group = None if is_copy else self._group_in(staged)
            if group is not None and group != self._groups.get(version):
                tables = ", ".join(f"{self._name(part.table_id)} version {part.version}" for part in group.participants)
                self._findings.notes.append(
                    f"{staged.meta.path} is a staged commit of transaction {group.transaction_id} ({tables}), which "
                    "has not been ratified. If its writer crashed, `slackwater lake repair` deletes it after an hour"
                )

    def _group_in(self, staged: StagedFile) -> TransactionGroup | None:
        try:
            return TransactionGroup.among(parse_commit(self._table.store.read(staged.meta.path), ""), "")
        except SlackwaterError:
            # Deleted since, or a file that no commit needs.
            return None

    def _name(self, table_id: str) -> str:
        found = None if self._participant_of is None else self._participant_of(table_id)
        return table_id if found is None else found[0]

    def _fault(self, where: str, says: str) -> None:
        self._findings.fault(FaultKind.GROUP, where, says)
