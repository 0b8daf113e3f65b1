"""Validation of commits before ratification: valid actions, and no change of the table's ownership.

Actions of an unknown kind are rejected. Readers must ignore them, but an owner cannot ratify actions of unknown
meaning. A newer client needs a newer owner. Source: delta-protocol.md "Actions", "Action Reconciliation", "Protocol
Evolution"; managed-commits.md "Writer Requirements for Managed Commits".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slackwater.errors import CorruptTable, InvalidArgument
from slackwater.owner.api.actions import Action
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.actions.files import AddCDCFile, AddFile, RemoveFile
from slackwater.protocol.features.managed_commits import validate_kept
from slackwater.protocol.features.row_tracking import high_water_mark
from slackwater.protocol.features.table_features import validate_writable
from slackwater.protocol.schema.schema import parse_schema


def require_valid(actions: Iterable[Action]) -> None:
    """Check the actions of one commit: known kinds, well-formed, without contradictions.

    Raises InvalidArgument with the number of the action, starting at 1, and UnsupportedFeature for a protocol without
    write support in this package.
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
                None if metadata is None else kept_of(table_id),
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
}
