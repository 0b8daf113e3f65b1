"""Managed tables: protocol and metadata of tables with a commit owner, and their validation.

Source: managed-commits.md "Managed Commit Enablement", "Writer Requirements for Managed Commits".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from slackwater.errors import CorruptTable, InvalidArgument, OperationNotAllowed
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.in_commit_timestamps import is_enabled as has_in_commit_timestamps
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.table_features import canonical_feature, supported_features
from slackwater.protocol.properties.properties import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
    MANAGED_COMMIT_OWNER,
    MANAGED_COMMIT_OWNER_CONF,
    TableProperties,
    find_property,
)

FEATURE = "managedCommit"
_TIME_FEATURE = "inCommitTimestamp"
OWNER_NAME = "slackwater"
"""The value of `delta.managedCommit.commitOwner` for owners of this package. The settings identify the owner."""

_OWNER_ID, _TABLE_ID, _ENDPOINT, _NAME = "ownerId", "tableId", "endpoint", "name"
_OWN_PROPERTIES = (MANAGED_COMMIT_OWNER, MANAGED_COMMIT_OWNER_CONF)
_FOLDED = frozenset(key.lower() for key in _OWN_PROPERTIES)
_FOLDED_TIME = frozenset((ENABLE_IN_COMMIT_TIMESTAMPS.lower(),))
_KEPT = frozenset((ICT_ENABLEMENT_VERSION.lower(), ICT_ENABLEMENT_TIMESTAMP.lower()))
_KEPT_PREFIXES = ("delta.managedcommit", "delta.coordinatedcommits")
_SECRET_WORDS = ("password", "passwd", "secret", "token", "credential", "apikey", "api_key", "privatekey", "accesskey")


@dataclass(frozen=True, slots=True)
class CommitOwnerConfig:
    """The commit owner in a table's metadata: `name`, and the settings for the owner's client."""

    name: str
    conf: Mapping[str, str]

    @property
    def owner_id(self) -> str | None:
        """The id of an owner of this package."""
        return self.conf.get(_OWNER_ID)

    @property
    def table_id(self) -> str | None:
        """The id of the table at an owner of this package."""
        return self.conf.get(_TABLE_ID)

    @property
    def table_name(self) -> str | None:
        """The name of the table at an owner of this package: the only record if the owner's state is lost."""
        return self.conf.get(_NAME)

    @property
    def endpoint(self) -> str | None:
        """The address of the served owner, as information for users. No client connects to it automatically."""
        return self.conf.get(_ENDPOINT)

    @property
    def description(self) -> str:
        """The description of the owner for messages."""
        where = f" at {self.endpoint}" if self.endpoint else ""
        return f"the commit owner {self.name!r}" + (f" ({self.owner_id})" if self.owner_id else "") + where


def own_conf(owner_id: str, table_id: str, endpoint: str | None, name: str) -> dict[str, str]:
    """Return the settings of a table with an owner of this package. Raises InvalidArgument if a setting is a secret."""
    conf = {_OWNER_ID: owner_id, _TABLE_ID: table_id, _NAME: name} | ({_ENDPOINT: endpoint} if endpoint else {})
    validate_no_secrets(conf)
    return conf


def validate_no_secrets(conf: Mapping[str, str]) -> None:
    """Raise InvalidArgument for a key that names a secret, or a URL that may contain one, because all readers see it.

    URLs with a user, a password, a query or a fragment are rejected, because these may contain secrets.
    """
    for key, value in conf.items():
        plain = key.replace("-", "").lower()
        if any(word in plain for word in _SECRET_WORDS) or _may_hold_a_secret(value):
            raise InvalidArgument(
                f"{MANAGED_COMMIT_OWNER_CONF} must not contain a secret, but {key!r} looks like one. Every reader of "
                "the table can see it. Pass secrets to the client instead"
            )


def _may_hold_a_secret(value: str) -> bool:
    address = value.partition("://")[2] if "://" in value else value
    return "@" in address or ("://" in value and any(mark in address for mark in "?#"))


def ownership(table: TableConfiguration, where: str) -> CommitOwnerConfig | None:
    """Return the commit owner of the table, None for a file-system committed table.

    `where` is the table. Raises CorruptTable for the feature without an owner, or an owner without the feature. Raises
    CorruptTable for an owner without in-commit timestamps, or settings that are not a JSON object of texts.
    """
    name = table.properties.get(MANAGED_COMMIT_OWNER)
    is_supported = table.supports(FEATURE)
    if name is None and not is_supported:
        return None
    if name is None:
        raise CorruptTable(
            f"{where} supports the feature {FEATURE}, but {MANAGED_COMMIT_OWNER} names no owner, so the committed "
            "versions are unknown. Set the owner, or drop the feature, with the engine that created the table"
        )
    if not is_supported:
        raise CorruptTable(
            f"{where} names the commit owner {name!r}, but does not support the feature {FEATURE}. Set the feature, or "
            f"unset {MANAGED_COMMIT_OWNER}, with the engine that created the table"
        )
    if not has_in_commit_timestamps(table):
        raise CorruptTable(
            f"{where} has a commit owner, but no in-commit timestamps, which {FEATURE} requires. Set "
            f"{ENABLE_IN_COMMIT_TIMESTAMPS} to true with the engine that created the table"
        )
    return CommitOwnerConfig(name, _parse_conf(table.properties.get(MANAGED_COMMIT_OWNER_CONF), where))


def with_owner(table: TableConfiguration, conf: Mapping[str, str]) -> TableConfiguration:
    """Return the table with an owner of this package: features, owner and in-commit timestamps set.

    Raises InvalidArgument if a setting is a secret.
    """
    validate_no_secrets(conf)
    own = {
        ENABLE_IN_COMMIT_TIMESTAMPS: "true",
        MANAGED_COMMIT_OWNER: OWNER_NAME,
        MANAGED_COMMIT_OWNER_CONF: orjson.dumps(dict(conf)).decode(),
    }
    folded = {key.lower() for key in own}
    others = {key: value for key, value in table.metadata.configuration.items() if key.lower() not in folded}
    # Imported here, because only writers upgrade a protocol.
    from slackwater.protocol.features.protocol_upgrade import with_features

    supporting = with_features(table.protocol, [_TIME_FEATURE, FEATURE])
    return table.changed(supporting, replace(table.metadata, configuration={**others, **own}))


def validate_not_by_hand(features: Iterable[str]) -> None:
    """Raise OperationNotAllowed if a user requests the feature explicitly. Only an owner adds it."""
    if any(canonical_feature(name) == FEATURE for name in features):
        raise OperationNotAllowed(
            f"the feature {FEATURE} needs a commit owner. Create the table in a lake with Lake.create_table, or add an "
            "existing table with Lake.adopt"
        )


def with_same_owner(before: Metadata, after: Metadata) -> Metadata:
    """Return `after`, the replacement of `before`, with the owner of the table."""
    kept = {key: value for key, value in before.configuration.items() if key.lower() in _FOLDED}
    if not kept:
        return after
    own = {key: value for key, value in before.configuration.items() if key.lower() in _FOLDED_TIME}
    folded = {key.lower() for key in (*kept, *own)}
    others = {key: value for key, value in after.configuration.items() if key.lower() not in folded}
    return replace(after, configuration={**others, **own, **kept})


def without_owner(table: TableConfiguration) -> TableConfiguration:
    """Return the table released to the file system; in-commit timestamps stay enabled."""
    configuration = {key: value for key, value in table.metadata.configuration.items() if key.lower() not in _FOLDED}
    features = tuple(name for name in table.protocol.writer_features or () if canonical_feature(name) != FEATURE)
    return table.changed(
        replace(table.protocol, writer_features=features), replace(table.metadata, configuration=configuration)
    )


def validate_same_owner(before: TableConfiguration | None, after: TableConfiguration) -> None:
    """Raise InvalidArgument if a metadata change would change the owner. Only the owner itself may do so."""
    for key in _OWN_PROPERTIES:
        if (None if before is None else before.properties.get(key)) != after.properties.get(key):
            raise InvalidArgument(
                f"users cannot set {key}. Create the table in a lake with Lake.create_table, add an existing table "
                "with Lake.adopt, and release it with Lake.release",
                error_class="DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
            )


def kept_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that no commit may change while the table is owned, in the spelling of `configuration`.

    They record the owner, its settings, and the enablement of in-commit timestamps.
    """
    return {
        key: value
        for key, value in configuration.items()
        if key.lower() in _KEPT or key.lower().startswith(_KEPT_PREFIXES)
    }


def validate_kept(
    protocol: Protocol | None,
    metadata: Metadata | None,
    owner_id: str,
    table_id: str,
    where: str,
    kept: Mapping[str, str] | None = None,
) -> None:
    """Validate that a new protocol and metadata, if not None, keep the table with its owner.

    The owner is `owner_id`, of this package, with the table id `table_id`. The required features and in-commit
    timestamps must stay enabled. Each owner property must have a single spelling, so that all readers find the same
    value. `kept` are the table's `kept_properties`, None if unknown. Raises OperationNotAllowed for a forbidden change,
    CorruptTable for malformed properties.
    """
    if protocol is not None:
        missing = {FEATURE, _TIME_FEATURE} - supported_features(protocol)
        if missing:
            raise _not_by_a_commit(where, f"removes the feature {', '.join(sorted(missing))}")
    if metadata is None:
        return
    properties = TableProperties(metadata.configuration)
    for key in (*_OWN_PROPERTIES, ENABLE_IN_COMMIT_TIMESTAMPS):
        known = find_property(key)
        spellings = {key.lower()} | ({alias.lower() for alias in known.aliases} if known else set())
        if sum(name.lower() in spellings for name in properties) != 1:
            raise _not_by_a_commit(where, f"removes {key}, or sets it more than once")
    if not properties.flag(ENABLE_IN_COMMIT_TIMESTAMPS):
        raise _not_by_a_commit(where, f"turns off {ENABLE_IN_COMMIT_TIMESTAMPS}")
    conf = _parse_conf(properties.get(MANAGED_COMMIT_OWNER_CONF), where)
    if (
        properties.get(MANAGED_COMMIT_OWNER) != OWNER_NAME
        or conf.get(_TABLE_ID) != table_id
        or conf.get(_OWNER_ID, owner_id) != owner_id
    ):
        raise _not_by_a_commit(where, f"changes {MANAGED_COMMIT_OWNER} or {MANAGED_COMMIT_OWNER_CONF}")
    if kept is not None:
        changed = _changed(kept, kept_properties(metadata.configuration))
        if changed:
            raise _not_by_a_commit(where, f"changes {_named(changed, kept, conf, where)}")


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _named(changed: Sequence[str], kept: Mapping[str, str], conf: Mapping[str, str], where: str) -> str:
    """Return the names of the changed properties, with the changed settings of the owner."""
    settings = _changed(_parse_conf(kept.get(MANAGED_COMMIT_OWNER_CONF), where), conf)
    inside = f" ({', '.join(settings)})" if settings else ""
    return ", ".join(f"{key}{inside}" if key == MANAGED_COMMIT_OWNER_CONF else key for key in changed)


def _not_by_a_commit(where: str, what: str) -> OperationNotAllowed:
    return OperationNotAllowed(
        f"{where} {what}. Only Lake.create_table, Lake.adopt and Lake.release may change the commit owner of a table"
    )


def _parse_conf(text: str | None, where: str) -> Mapping[str, str]:
    if text is None:
        return {}
    try:
        conf = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CorruptTable(f"{where}: {MANAGED_COMMIT_OWNER_CONF} is not JSON: {error}") from error
    if not isinstance(conf, dict) or not all(isinstance(value, str) for value in conf.values()):
        raise CorruptTable(f"{where}: {MANAGED_COMMIT_OWNER_CONF} must be a JSON object of texts, found {text[:80]!r}")
    return conf
