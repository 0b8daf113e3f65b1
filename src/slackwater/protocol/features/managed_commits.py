"""Managed tables: protocol and metadata of tables with a commit owner, and their validation.

A table is managed in one of two forms: `managedCommit`, or its successor `catalogManaged`. Source: managed-commits.md
"Managed Commit Enablement", "Writer Requirements for Managed Commits"; PROTOCOL.md "Catalog-managed Table Enablement".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from slackwater.errors import CorruptTable, InvalidArgument, OperationNotAllowed
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.actions.file_names import COMMITS_DIRECTORY, STAGED_COMMITS_DIRECTORY
from slackwater.protocol.features.in_commit_timestamps import is_enabled as has_in_commit_timestamps
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.table_features import MULTI_TABLE, canonical_feature, supported_features
from slackwater.protocol.properties.properties import (
    CATALOG_OWNER,
    CATALOG_OWNER_CONF,
    CATALOG_TABLE_ID,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
    MANAGED_COMMIT_OWNER,
    MANAGED_COMMIT_OWNER_CONF,
    TableProperties,
    find_property,
)

_TIME_FEATURE = "inCommitTimestamp"
OWNER_NAME = "slackwater"
"""The value of the owner's property for owners of this package. The settings identify the owner."""
UNNAMED = ""
"""The name of an owner that the table does not name: the catalog of another product."""


@dataclass(frozen=True, slots=True)
class ManagedForm:
    """A form of managed commits: its `feature`, properties and directory of staged commits.

    `owner_property` names the owner, `conf_property` has the settings for the owner's client. `is_reader_feature` is
    True if readers must ask the owner too. `companions` are features added together with it.
    `id_property` has the id of the table, for clients of other catalogs.
    """

    feature: str
    owner_property: str
    conf_property: str
    directory: str
    is_reader_feature: bool
    companions: tuple[str, ...] = (_TIME_FEATURE,)
    id_property: str | None = None

    @property
    def properties(self) -> tuple[str, ...]:
        """The properties that name the owner and the table."""
        named = (self.owner_property, self.conf_property)
        return named if self.id_property is None else (*named, self.id_property)


MANAGED_COMMIT = ManagedForm(
    "managedCommit", MANAGED_COMMIT_OWNER, MANAGED_COMMIT_OWNER_CONF, COMMITS_DIRECTORY, is_reader_feature=False
)
# The accepted feature leaves the name of the catalog to each catalog, so the properties are not Delta's.
CATALOG_MANAGED = ManagedForm(
    "catalogManaged",
    CATALOG_OWNER,
    CATALOG_OWNER_CONF,
    STAGED_COMMITS_DIRECTORY,
    is_reader_feature=True,
    # delta-spark refuses a table without it, although the protocol does not demand it.
    companions=(_TIME_FEATURE, "vacuumProtocolCheck"),
    id_property=CATALOG_TABLE_ID,
)
FORMS = (MANAGED_COMMIT, CATALOG_MANAGED)
FEATURES = frozenset(form.feature for form in FORMS)
"""The features of managed tables. Only a commit owner adds and removes them."""

_OWNER_ID, _TABLE_ID, _ENDPOINT, _NAME = "ownerId", "tableId", "endpoint", "name"
_OWN_PROPERTIES = tuple(key for form in FORMS for key in form.properties)
_FOLDED = frozenset(key.lower() for key in _OWN_PROPERTIES)
_FOLDED_TIME = frozenset((ENABLE_IN_COMMIT_TIMESTAMPS.lower(),))
_KEPT = frozenset((ICT_ENABLEMENT_VERSION.lower(), ICT_ENABLEMENT_TIMESTAMP.lower()))
_KEPT_PREFIXES = ("delta.managedcommit", "delta.coordinatedcommits", "slackwater.commitowner", CATALOG_TABLE_ID.lower())
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
        if self.name == UNNAMED:
            return "the catalog of the table, which its metadata does not name"
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
                f"settings of a commit owner must not contain a secret, but {key!r} looks like one. Every reader of "
                "the table can see it. Pass secrets to the client instead"
            )


def _may_hold_a_secret(value: str) -> bool:
    address = value.partition("://")[2] if "://" in value else value
    return "@" in address or ("://" in value and any(mark in address for mark in "?#"))


def form_of(table: TableConfiguration) -> ManagedForm | None:
    """Return the form of a managed table, None for a file-system committed table. The later form wins."""
    return next((form for form in reversed(FORMS) if table.supports(form.feature)), None)


def form_in(configuration: Mapping[str, str]) -> ManagedForm | None:
    """Return the form in which these table properties name an owner of this package, None for no such owner."""
    return next((form for form in reversed(FORMS) if configuration.get(form.owner_property) == OWNER_NAME), None)


def known_form(feature: str) -> ManagedForm:
    """Return the form with the feature of this name. Raises InvalidArgument for any other name."""
    for form in FORMS:
        if form.feature.lower() == feature.lower():
            return form
    raise InvalidArgument(
        f"a table is managed by one of the features {', '.join(form.feature for form in FORMS)}, found {feature!r}"
    )


def needs_owner_to_read(table: TableConfiguration) -> bool:
    """Return whether readers must ask the owner of the table for its latest version."""
    form = form_of(table)
    return form is not None and form.is_reader_feature


def ownership(table: TableConfiguration, where: str) -> CommitOwnerConfig | None:
    """Return the commit owner of the table, None for a file-system committed table.

    `where` is the table. Raises CorruptTable for the feature managedCommit without an owner, or an owner without the
    feature. A table with catalogManaged and the catalog of another product has the owner UNNAMED. Raises CorruptTable
    for an owner without in-commit timestamps, or settings that are not a JSON object of texts.
    """
    form = form_of(table)
    for other in FORMS:
        name = table.properties.get(other.owner_property)
        if other is not form and name is not None:
            raise CorruptTable(
                f"{where} names the commit owner {name!r}, but does not support the feature {other.feature}. Set the "
                f"feature, or unset {other.owner_property}, with the engine that created the table"
            )
    if form is None:
        return None
    name = table.properties.get(form.owner_property)
    if name is None and not form.is_reader_feature:
        raise CorruptTable(
            f"{where} supports the feature {form.feature}, but {form.owner_property} names no owner, so the committed "
            "versions are unknown. Set the owner, or drop the feature, with the engine that created the table"
        )
    if not has_in_commit_timestamps(table):
        raise CorruptTable(
            f"{where} has a commit owner, but no in-commit timestamps, which {form.feature} requires. Set "
            f"{ENABLE_IN_COMMIT_TIMESTAMPS} to true with the engine that created the table"
        )
    conf = _parse_conf(table.properties.get(form.conf_property), form, where)
    table_id = None if form.id_property is None else table.properties.get(form.id_property)
    if name is None and table_id is not None:
        conf = {**conf, _TABLE_ID: table_id}
    return CommitOwnerConfig(name or UNNAMED, conf)


def with_owner(
    table: TableConfiguration, conf: Mapping[str, str], form: ManagedForm = MANAGED_COMMIT
) -> TableConfiguration:
    """Return the table with an owner of this package: features, owner and in-commit timestamps set.

    Raises InvalidArgument if a setting is a secret.
    """
    validate_no_secrets(conf)
    own = {
        ENABLE_IN_COMMIT_TIMESTAMPS: "true",
        form.owner_property: OWNER_NAME,
        form.conf_property: orjson.dumps(dict(conf)).decode(),
    }
    if form.id_property is not None:
        own[form.id_property] = conf[_TABLE_ID]
    folded = {key.lower() for key in own} | _FOLDED
    others = {key: value for key, value in table.metadata.configuration.items() if key.lower() not in folded}
    # Imported here, because only writers upgrade a protocol.
    from slackwater.protocol.features.protocol_upgrade import with_features

    supporting = with_features(table.protocol, [*form.companions, form.feature])
    return table.changed(supporting, replace(table.metadata, configuration={**others, **own}))


def with_catalog(
    table: TableConfiguration, features: Iterable[str], properties: Mapping[str, str]
) -> TableConfiguration:
    """Return a new table managed by the catalog of another product, with the features and properties it requires."""
    from slackwater.protocol.features.protocol_upgrade import with_features

    named = [CATALOG_MANAGED.feature, *CATALOG_MANAGED.companions, *features]
    configuration = {**table.metadata.configuration, ENABLE_IN_COMMIT_TIMESTAMPS: "true", **properties}
    return table.changed(with_features(table.protocol, named), replace(table.metadata, configuration=configuration))


def validate_not_by_hand(features: Iterable[str]) -> None:
    """Raise OperationNotAllowed if a user requests the feature explicitly. Only an owner adds it."""
    found = next((name for name in map(canonical_feature, features) if name in FEATURES), None)
    if found is not None:
        raise OperationNotAllowed(
            f"the feature {found} needs a commit owner. Create the table in a lake with Lake.create_table, or add an "
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
    protocol = table.protocol
    return table.changed(
        replace(
            protocol,
            reader_features=_unmanaged(protocol.reader_features),
            writer_features=_unmanaged(protocol.writer_features),
        ),
        replace(table.metadata, configuration=configuration),
    )


def _unmanaged(features: Sequence[str] | None) -> tuple[str, ...] | None:
    # Multi-table transactions need a catalog.
    lost = FEATURES | {MULTI_TABLE}
    return None if features is None else tuple(name for name in features if canonical_feature(name) not in lost)


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
    form = form_in(kept if kept is not None else {} if metadata is None else metadata.configuration) or MANAGED_COMMIT
    if protocol is not None:
        missing = {form.feature, _TIME_FEATURE} - supported_features(protocol)
        if missing:
            raise _not_by_a_commit(where, f"removes the feature {', '.join(sorted(missing))}")
    if metadata is None:
        return
    properties = TableProperties(metadata.configuration)
    for key in (*form.properties, ENABLE_IN_COMMIT_TIMESTAMPS):
        known = find_property(key)
        spellings = {key.lower()} | ({alias.lower() for alias in known.aliases} if known else set())
        if sum(name.lower() in spellings for name in properties) != 1:
            raise _not_by_a_commit(where, f"removes {key}, or sets it more than once")
    if not properties.flag(ENABLE_IN_COMMIT_TIMESTAMPS):
        raise _not_by_a_commit(where, f"turns off {ENABLE_IN_COMMIT_TIMESTAMPS}")
    conf = _parse_conf(properties.get(form.conf_property), form, where)
    if (
        properties.get(form.owner_property) != OWNER_NAME
        or conf.get(_TABLE_ID) != table_id
        or conf.get(_OWNER_ID, owner_id) != owner_id
    ):
        raise _not_by_a_commit(where, f"changes {form.owner_property} or {form.conf_property}")
    if kept is not None:
        changed = _changed(kept, kept_properties(metadata.configuration))
        if changed:
            raise _not_by_a_commit(where, f"changes {_named(changed, kept, conf, form, where)}")


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _named(
    changed: Sequence[str], kept: Mapping[str, str], conf: Mapping[str, str], form: ManagedForm, where: str
) -> str:
    """Return the names of the changed properties, with the changed settings of the owner."""
    settings = _changed(_parse_conf(kept.get(form.conf_property), form, where), conf)
    inside = f" ({', '.join(settings)})" if settings else ""
    return ", ".join(f"{key}{inside}" if key == form.conf_property else key for key in changed)


def _not_by_a_commit(where: str, what: str) -> OperationNotAllowed:
    return OperationNotAllowed(
        f"{where} {what}. Only Lake.create_table, Lake.adopt and Lake.release may change the commit owner of a table"
    )


def _parse_conf(text: str | None, form: ManagedForm, where: str) -> Mapping[str, str]:
    if text is None:
        return {}
    try:
        conf = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CorruptTable(f"{where}: {form.conf_property} is not JSON: {error}") from error
    if not isinstance(conf, dict) or not all(isinstance(value, str) for value in conf.values()):
        raise CorruptTable(f"{where}: {form.conf_property} must be a JSON object of texts, found {text[:80]!r}")
    return conf
