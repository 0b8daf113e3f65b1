"""Changes of a table as Unity Catalog's Delta API describes them, derived from the actions of a commit.

The catalog stores protocol, columns, properties and domains beside the log, so a commit repeats their changes.
Source: unitycatalog `api/delta.yaml` (DeltaTableUpdate, DeltaStructType).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from slackwater.owner.api.actions import Action
from slackwater.owner.served.unity.table_json import columns_json, protocol_json
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol
from slackwater.protocol.features import row_tracking
from slackwater.protocol.features.clustering import DOMAIN as CLUSTERING
from slackwater.protocol.features.table_configuration import TableConfiguration

DOMAINS = (CLUSTERING, row_tracking.DOMAIN)
"""Domains of the log that the API has."""

_DERIVED = frozenset(
    {
        "delta.minReaderVersion",
        "delta.minWriterVersion",
        "delta.clusteringColumns",
        "delta.rowTracking.rowIdHighWaterMark",
        "delta.lastUpdateVersion",
        "delta.lastCommitTimestamp",
    }
)
_FEATURE = "delta.feature."
_WHERE = "a commit"


def updates_of(
    actions: Iterable[Action], known_properties: Mapping[str, str], known_partitions: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the updates for the actions of one commit, at most one of each kind.

    `known_properties` and `known_partitions` are the properties and partition columns of the table in the catalog.
    """
    found: list[dict[str, Any]] = []
    domains: dict[str, Any] = {}
    removed: list[str] = []
    for action in actions:
        if "protocol" in action:
            protocol = Protocol.from_json(action["protocol"], _WHERE)
            found.append({"action": "set-protocol", "protocol": protocol_json(protocol)})
        elif "metaData" in action:
            found += _metadata_updates(
                Metadata.from_json(action["metaData"], _WHERE), known_properties, known_partitions
            )
        elif "domainMetadata" in action:
            domain = DomainMetadata.from_json(action["domainMetadata"], _WHERE)
            if domain.domain not in DOMAINS:
                continue
            if domain.removed:
                removed.append(domain.domain)
            else:
                domains[domain.domain] = _domain_json(domain)
    if domains:
        found.append({"action": "set-domain-metadata", "updates": domains})
    if removed:
        found.append({"action": "remove-domain-metadata", "domains": removed})
    return found


def new_table(name: str, location: str, configuration: TableConfiguration, actions: Iterable[Action]) -> dict[str, Any]:
    """Return the description of a new table. `actions` are those of its version 0, with its timestamp."""
    metadata, protocol = configuration.metadata, configuration.protocol
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    set_by_commit = {update["action"]: update for update in updates_of(actions, {}, ())}
    domains = set_by_commit.get("set-domain-metadata", {}).get("updates")
    return {
        "name": name,
        "location": location,
        "table-type": "MANAGED",
        "columns": columns_json(metadata.schema_string),
        "partition-columns": list(metadata.partition_columns),
        "protocol": protocol_json(protocol),
        "properties": dict(metadata.configuration),
        "last-commit-timestamp-ms": infos[0]["inCommitTimestamp"],
        **({"comment": metadata.description} if metadata.description is not None else {}),
        **({"domain-metadata": domains} if domains else {}),
    }


def own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return `properties` of a table in the catalog without those that the catalog derives from the log."""
    return {key: value for key, value in properties.items() if key not in _DERIVED and not key.startswith(_FEATURE)}


def _metadata_updates(
    metadata: Metadata, known_properties: Mapping[str, str], known_partitions: Sequence[str]
) -> list[dict[str, Any]]:
    before, after = own_properties(known_properties), metadata.configuration
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    gone = [key for key in before if key not in after]
    found: list[dict[str, Any]] = [{"action": "set-columns", "columns": columns_json(metadata.schema_string)}]
    if list(metadata.partition_columns) != list(known_partitions):
        found.append({"action": "set-partition-columns", "partition-columns": list(metadata.partition_columns)})
    if changed:
        found.append({"action": "set-properties", "updates": changed})
    if gone:
        found.append({"action": "remove-properties", "removals": gone})
    if metadata.description is not None:
        found.append({"action": "set-table-comment", "comment": metadata.description})
    return found


def _domain_json(domain: DomainMetadata) -> Any:
    if domain.domain == row_tracking.DOMAIN:
        return {"rowIdHighWaterMark": row_tracking.high_water_mark({domain.domain: domain})}
    return {"clusteringColumns": orjson.loads(domain.configuration).get("clusteringColumns", [])}
