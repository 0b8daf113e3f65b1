"""Validation of commits before ratification: valid actions, and no change of the table's ownership.

Actions of an unknown kind are rejected. Readers must ignore them, but an owner cannot ratify actions of unknown
meaning. A newer client needs a newer owner. Source: delta-protocol.md "Actions", "Action Reconciliation", "Protocol
Evolution"; managed-commits.md "Writer Requirements for Managed Commits".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from slackwater.errors import CorruptTable, InvalidArgument, OperationNotAllowed
from slackwater.owner.api.actions import Action
from slackwater.owner.api.transactions import TableWrite
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.actions.files import AddCDCFile, AddFile, RemoveFile
from slackwater.protocol.actions.transaction_groups import ACTION, TransactionGroup
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED, form_in, validate_kept
from slackwater.protocol.features.row_tracking import high_water_mark
from slackwater.protocol.features.table_features import validate_writable
from slackwater.protocol.schema.schema import parse_schema


def require_valid(actions: Iterable[Action], in_group: bool = False) -> None:
    """Check the actions of one commit: known kinds, well-formed, without contradictions.

    `in_group`: the commit is one of several of a transaction, so that it may have a `transactionGroup`. Raises
    InvalidArgument with the number of the action, starting at 1, and UnsupportedFeature for a protocol without write
    support in this package.
    """
    seen: set[tuple[str, str]] = set()
    for number, action in enumerate(actions, 1):
        where = f"action {number} of the commit"
        if not isinstance(action, Mapping) or len(action) != 1:
            raise InvalidArgument(f"{where} must be an object with one key, its kind, found {str(action)[:120]}")
        ((kind, node),) = action.items()
        parse = _PARSERS.get(kind)
        if parse is None:
            raise InvalidArgument(
                f"{where} has the kind {str(kind)[:60]!r}, which this commit owner does not know (known: "
                f"{', '.join(_PARSERS)}). If a newer client made it, upgrade the owner"
            )
        if kind == ACTION and not in_group:
            raise InvalidArgument(
                f"{where} is a {ACTION}, so the commit is part of a multi-table transaction. Commit all tables of the "
                "transaction in one request"
            )
        if not isinstance(node, Mapping):
            raise InvalidArgument(f"{where}: {kind} must be an object, found {str(node)[:120]}")
        try:
            key = (kind, _key(parse(node, where)))
        except CorruptTable as error:
            told = str(error)
            raise InvalidArgument(told if told.startswith(where) else f"{where}: {told}") from error
        if key in seen:
            raise InvalidArgument(f"{where} is the second {kind} {key[1]!r}. A commit has at most one")
        seen.add(key)


def require_whole_group(
    writes: Sequence[TableWrite], txn_id: str, catalog: str, kept_of: Callable[[str], Mapping[str, str] | None]
) -> None:
    """Check the groups in the commits of transaction `txn_id`, whose actions are valid.

    Every commit describes the same group, or none has one. The group is the transaction: its id, all its tables with
    the versions of the request, and the id `catalog` of this owner. `kept_of` as in `require_kept`. Raises
    InvalidArgument, and OperationNotAllowed for a table that is not catalog-managed.
    """
    found = {write.table_id: TransactionGroup.among(write.actions, write.table_id) for write in writes}
    groups = {table_id: group for table_id, group in found.items() if group is not None}
    if not groups:
        return
    if missing := sorted(found.keys() - groups.keys()):
        raise InvalidArgument(
            f"transaction {txn_id}: the commit to table {missing[0]} has no {ACTION}, but another has one. Add the "
            "same one to all commits"
        )
    versions = {write.table_id: write.version for write in writes}
    for table_id, group in groups.items():
        where = f"transaction {txn_id}: the {ACTION} of table {table_id}"
        if group.transaction_id != txn_id:
            raise InvalidArgument(f"{where} has the transactionId {group.transaction_id}. Use the transaction's id")
        if group.catalog != catalog:
            raise InvalidArgument(
                f"{where} has the coordinatingCatalog {group.catalog!r}, but the catalog of the table is {catalog}. "
                "Commit all tables of a transaction at their own catalog"
            )
        if group.versions != versions:
            raise InvalidArgument(
                f"{where} has the participants {group.versions}, but the request commits {versions}. Name all tables "
                "of the transaction with their versions, and no others"
            )
        if form_in(kept_of(table_id) or {}) is not CATALOG_MANAGED:
            raise OperationNotAllowed(
                f"table {table_id} has no feature catalogManaged, which a {ACTION} needs. Migrate it with `slackwater "
                "lake migrate`"
            )


def require_kept(
    actions: Iterable[Action], owner_id: str, table_id: str, kept_of: Callable[[str], Mapping[str, str] | None]
) -> None:
    """Check an ordinary commit to a table: it must not change the owner or the in-commit timestamps.

    The actions are valid. `kept_of` returns the pinned properties of a table, None if unknown. Raises
    OperationNotAllowed if the commit changes them, InvalidArgument if the actions contradict the protocol.
    """
    where = f"the commit to table {table_id}"
    for action in actions:
        protocol, metadata = action.get("protocol"), action.get("metaData")
        if protocol is None and metadata is None:
            continue
        try:
            validate_kept(
                None if protocol is None else Protocol.from_json(protocol, where),
                None if metadata is None else Metadata.from_json(metadata, where),
                owner_id,
                table_id,
                where,
                kept_of(table_id),
            )
        except CorruptTable as error:
            raise InvalidArgument(str(error)) from error


def _key(parsed: Any) -> str:
    """Return the key of an action. A commit has at most one action per kind and key."""
    if isinstance(parsed, AddFile | RemoveFile | AddCDCFile):
        return parsed.path
    if isinstance(parsed, SetTransaction):
        return parsed.app_id
    return parsed.domain if isinstance(parsed, DomainMetadata) else ""


def _commit_info(node: Mapping[str, Any], where: str) -> None:
    """Accept any commitInfo. The owner checks the fields that it reads later."""


def _metadata(node: Mapping[str, Any], where: str) -> None:
    metadata = Metadata.from_json(node, where)
    columns = {name.lower() for name in parse_schema(metadata.schema_string).names}
    partitions = {name.lower() for name in metadata.partition_columns}
    if partitions - columns or len(partitions) != len(metadata.partition_columns):
        raise InvalidArgument(
            f"{where}: metaData must have partitionColumns that are columns of its schema, each once, found "
            f"{list(metadata.partition_columns)}"
        )


def _protocol(node: Mapping[str, Any], where: str) -> None:
    validate_writable(Protocol.from_json(node, where), where)


def _domain(node: Mapping[str, Any], where: str) -> DomainMetadata:
    domain = DomainMetadata.from_json(node, where)
    high_water_mark({domain.domain: domain})
    return domain


_PARSERS: Mapping[str, Callable[[Mapping[str, Any], str], Any]] = {
    "commitInfo": _commit_info,
    "add": AddFile.from_json,
    "remove": RemoveFile.from_json,
    "cdc": AddCDCFile.from_json,
    "metaData": _metadata,
    "protocol": _protocol,
    "txn": SetTransaction.from_json,
    "domainMetadata": _domain,
    ACTION: TransactionGroup.from_json,
}
