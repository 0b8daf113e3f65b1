"""Removes a table feature from the protocol after all use of the feature in the table has ended.

The protocol document retains a listed feature permanently. DROP FEATURE extends the protocol in the same manner as the
reference implementation, and only if a user names the feature. A writer feature is removed in one commit. Older
versions may contain traces of a reader feature, and a client without the feature would misread the traces. Protected
checkpoints hide those versions, or the versions are deleted first.
Source: delta-protocol.md "Supported Features"; the RFC "Checkpoint Protection"; delta-spark's DROP FEATURE.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidArgument, OperationNotAllowed
from slackwater.log import checkpoint_protection
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint, write_last_checkpoint
from slackwater.log.cleanup import delete_versions_before
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.log.history import format_ms
from slackwater.predicate.predicate import Constant
from slackwater.protocol.actions.actions import DomainMetadata, Metadata
from slackwater.protocol.features import clustering, managed_commits, row_tracking
from slackwater.protocol.features.column_mapping import NONE
from slackwater.protocol.features.column_mapping_ids import USAGE_TRACKING
from slackwater.protocol.features.protocol_upgrade import required_features, with_features, without_feature
from slackwater.protocol.features.table_features import canonical_feature, known_feature
from slackwater.protocol.properties.properties import (
    DROP_FEATURE_RETENTION,
    HAS_DROPPED_OR_RENAMED,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    REQUIRE_CHECKPOINT_PROTECTION,
    ROW_TRACKING_SUSPENDED,
)
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.schema import schema_to_json
from slackwater.protocol.schema.type_widening import widened_columns, without_type_changes
from slackwater.scan.earlier_types import with_earlier_types
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.table.alteration import parameter_text
from slackwater.transaction.table.history_protection import (
    add_vector_tombstones,
    history_retention_ms,
    remove_protected_versions,
    with_checkpoint,
    write_barriers,
)

_PROPERTIES = {
    "inCommitTimestamp": (ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP),
    "rowTracking": (MATERIALIZED_ROW_ID, MATERIALIZED_ROW_COMMIT_VERSION, ROW_TRACKING_SUSPENDED),
    USAGE_TRACKING: (HAS_DROPPED_OR_RENAMED,),
    checkpoint_protection.FEATURE: (REQUIRE_CHECKPOINT_PROTECTION,),
}
_REWRITES = 5
Rewrite = Callable[[pa.Table], Snapshot]
"""A function that rewrites files (columns of ADD_SCHEMA) with the current types, and returns the newest version."""

_DOMAINS = {"rowTracking": row_tracking.DOMAIN, "clustering": clustering.DOMAIN}


def drop_feature(
    snapshot: Snapshot,
    name: str,
    truncate_history: bool = False,
    clock_ms: Callable[[], int] | None = None,
    user_metadata: str | None = None,
    user_name: str | None = None,
    rewrite: Rewrite | None = None,
) -> CommitResult:
    """Remove the feature `name` from the protocol and return the commit. The history records `user_metadata`.

    Properties that enable the feature are removed first. For a reader feature, three versions with checkpoints then
    hide the older versions, and the commit adds the feature checkpointProtection. With `truncate_history`, the older
    versions are deleted instead, if they are old enough. The feature checkpointProtection itself is removed only with
    `truncate_history`. `rewrite` is called for typeWidening, with the files of earlier types. Also raises the errors
    of `begin`, `with_earlier_types` and `rewrite`.

    Raises:
        InvalidArgument: If the feature does not exist, the table does not support it, another feature requires it, or
            `truncate_history` is set for a writer feature.
        OperationNotAllowed: If the table or its older versions may still use the feature. The message names the remedy.
            For typeWidening, if files of earlier types exist and `rewrite` is None. Also if the feature is managed
            commits, because only a release ends ownership.
    """
    clock = Clock() if clock_ms is None else Clock(now_ms=clock_ms)
    transaction = begin(snapshot, clock=clock)
    feature, is_reader = _removable(snapshot, name, truncate_history)
    without_feature(snapshot.protocol, feature)
    metadata, _ = _turned_off(snapshot, feature)
    _require_unused(snapshot, feature, metadata)
    is_widened = feature == "typeWidening" and bool(widened_columns(snapshot.schema))
    if is_widened:
        snapshot = _with_current_types(snapshot, rewrite)
        metadata, _ = _turned_off(snapshot, feature)
        transaction = begin(snapshot, clock=clock)
        # A concurrent RESTORE may add files of earlier types again.
        transaction.read_where(Constant(True))
    if is_reader and metadata != snapshot.metadata:
        transaction.set_metadata(metadata)
        keys = sorted(set(snapshot.metadata.configuration) - set(metadata.configuration))
        parameters = {"properties": parameter_text(keys)}
        snapshot = transaction.commit(
            "UNSET TBLPROPERTIES", parameters, user_metadata=user_metadata, user_name=user_name
        ).snapshot
    # The first version of a table has no history.
    is_protected = is_reader and not truncate_history and snapshot.version > 0
    if is_protected:
        if feature == "deletionVectors":
            snapshot = add_vector_tombstones(snapshot, clock, user_name)
        snapshot = write_barriers(snapshot, clock, user_name)
    elif is_reader:
        snapshot = _forget_history(snapshot, feature, clock.now_ms())
    elif feature == checkpoint_protection.FEATURE:
        remove_protected_versions(snapshot, clock.now_ms())
    transaction = _removal(snapshot, feature, is_protected, clock)
    parameters = {"featureName": feature, "truncateHistory": parameter_text(truncate_history)}
    dropped = transaction.commit("DROP FEATURE", parameters, user_metadata=user_metadata, user_name=user_name)
    return with_checkpoint(dropped, clock.now_ms()) if is_protected else dropped


def _removable(snapshot: Snapshot, name: str, truncate_history: bool) -> tuple[str, bool]:
    """Return the canonical name of the feature, and whether readers must know it. Raises as `drop_feature` does."""
    feature, known = canonical_feature(name), known_feature(name)
    is_protection = feature == checkpoint_protection.FEATURE
    if known is None:
        raise InvalidArgument(
            f"there is no table feature {name!r}", error_class="DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"
        )
    if truncate_history and not known.reader and not is_protection:
        raise InvalidArgument(
            f"the feature {feature} does not concern readers. Omit truncateHistory",
            error_class="DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED",
        )
    if feature in managed_commits.FEATURES:
        raise OperationNotAllowed(
            f"{snapshot.store.root_url}: DROP FEATURE cannot change the owner of the table. Release the table with "
            "Lake.release"
        )
    if is_protection and not truncate_history and snapshot.configuration.supports(feature):
        raise OperationNotAllowed(
            f"{snapshot.store.root_url}: {feature} protects versions that may hold traces of dropped features. To "
            "delete these versions and then drop the feature, call with truncateHistory=True",
            error_class="DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION",
        )
    return feature, known.reader


def _removal(snapshot: Snapshot, feature: str, is_protected: bool, clock: Clock) -> TableTransaction:
    """Return the staged removal of `feature`. Raises OperationNotAllowed if concurrent commits used the feature."""
    metadata, domains = _turned_off(snapshot, feature)
    _require_unused(snapshot, feature, metadata)
    if is_protected and metadata != snapshot.metadata:
        raise OperationNotAllowed(
            f"{snapshot.store.root_url}: another writer enabled {feature} again during DROP FEATURE. Retry"
        )
    protocol = snapshot.protocol
    if is_protected:
        protocol = with_features(protocol, [checkpoint_protection.FEATURE])
    transaction = begin(snapshot, clock=clock)
    transaction.set_protocol(without_feature(protocol, feature))
    if is_protected or metadata != snapshot.metadata:
        transaction.set_metadata(metadata)
    transaction.staged.protects_history = is_protected
    for domain in domains:
        transaction.set_domain(domain)
    return transaction


def _turned_off(snapshot: Snapshot, feature: str) -> tuple[Metadata, tuple[DomainMetadata, ...]]:
    """Return the metadata without the properties of the feature, and the tombstones of the feature's domains."""
    known = known_feature(feature)
    keys = {*_PROPERTIES.get(feature, ()), *([known.enabled_by] if known and known.enabled_by else ())}
    folded = {key.lower() for key in keys}
    configuration = {k: v for k, v in snapshot.metadata.configuration.items() if k.lower() not in folded}
    text = snapshot.metadata.schema_string
    if feature == "typeWidening" and widened_columns(snapshot.schema):
        text = schema_to_json(without_type_changes(snapshot.schema))
    domain = snapshot.domain_metadata.get(_DOMAINS.get(feature, ""))
    tombstones = () if domain is None else (replace(domain, removed=True),)
    return replace(snapshot.metadata, configuration=configuration, schema_string=text), tombstones


def _require_unused(snapshot: Snapshot, feature: str, metadata: Metadata) -> None:
    where = snapshot.store.root_url
    if feature == "columnMapping" and snapshot.column_mapping_mode != NONE:
        raise OperationNotAllowed(
            f"{where}: the data files of a table with column mapping have other column names than the table. Write "
            "its rows to a table without column mapping instead",
            error_class="DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE",
        )
    if feature in required_features(snapshot.configuration.changed(metadata=metadata)):
        raise OperationNotAllowed(
            f"{where}: the schema or the constraints of the table still use {feature}. Change the columns or drop the "
            "constraints first",
            error_class="DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE" if feature == "checkConstraints" else None,
        )
    if feature == "allowColumnDefaults" and any("CURRENT_DEFAULT" in c.metadata for c in snapshot.schema):
        raise OperationNotAllowed(f"{where}: columns still have default values. Remove them first")
    if feature == "deletionVectors" and pc.count(snapshot.live_files(["deletionVector"])["deletionVector"]).as_py():
        raise OperationNotAllowed(f"{where}: files still have deletion vectors. Rewrite them first (REORG … PURGE)")
    users = sorted(d for d in snapshot.domain_metadata if not d.startswith("delta."))
    if feature == "domainMetadata" and snapshot.domain_metadata:
        named = users or sorted(snapshot.domain_metadata)
        raise OperationNotAllowed(f"{where}: the table still has the metadata domain {named[0]}. Remove it first")


def _with_current_types(snapshot: Snapshot, rewrite: Rewrite | None) -> Snapshot:
    """Return a version whose files have the current types, after a call of `rewrite` for the other files.

    Files that concurrent transactions add during the rewrite are checked too.
    """
    checked = pa.array([], pa.string())
    for _ in range(_REWRITES):
        files = snapshot.live_files(ADD_SCHEMA.names)
        unchecked = files.filter(pc.invert(pc.is_in(files["path"], value_set=checked)))
        earlier = with_earlier_types(snapshot.table, snapshot.configuration, unchecked)
        if not earlier.num_rows:
            return snapshot
        if rewrite is None:
            raise OperationNotAllowed(
                f"{snapshot.store.root_url}: {earlier.num_rows} files still hold values of earlier types, of column "
                f"{format_column_path(widened_columns(snapshot.schema)[0])} for example. Only Spark rewrites these "
                "files: use ALTER TABLE … DROP FEATURE there, or overwrite the table with all of its rows"
            )
        # The rewrite removes the other files.
        is_earlier = pc.is_in(files["path"], value_set=earlier["path"].combine_chunks())
        checked = files["path"].filter(pc.invert(is_earlier)).combine_chunks()
        snapshot = rewrite(earlier)
    raise OperationNotAllowed(
        f"{snapshot.store.root_url}: other writers added files of earlier types during each of {_REWRITES} rewrites. "
        "Retry"
    )


def _forget_history(snapshot: Snapshot, feature: str, now_ms: int) -> Snapshot:
    """Delete the versions before `snapshot`, so that the log starts at its checkpoint. Return the same version.

    Raises OperationNotAllowed before the retention period has passed.
    """
    if snapshot.version == 0:
        return snapshot
    ripe_ms = snapshot.timestamp_ms + history_retention_ms(snapshot)
    if now_ms < ripe_ms:
        raise OperationNotAllowed(
            f"{snapshot.store.root_url}: versions before {snapshot.version} may hold traces of {feature}. They can be "
            f"removed from {format_ms(ripe_ms)} on ({DROP_FEATURE_RETENTION})",
            error_class="DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD",
        )
    write_last_checkpoint(snapshot.store, write_checkpoint(snapshot, now_ms))
    delete_versions_before(snapshot.store, snapshot.version)
    # `snapshot` may read an earlier checkpoint, which is deleted now.
    return Snapshot.open(snapshot.table, snapshot.version)
