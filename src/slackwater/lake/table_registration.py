"""Table membership of a lake: create, adopt, release, drop and rename tables.

Source: managed-commits.md "Creating a new managed-commit table", "Converting an existing filesystem based table to
managed-commit table", "Converting a managed-commit table to filesystem table".
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from slackwater.errors import (
    DeltaConcurrentModificationException,
    InvalidArgument,
    OperationNotAllowed,
    SlackwaterError,
    TableAlreadyExists,
    TableNotFound,
    UnsupportedFeature,
)
from slackwater.lake.tables import LakeTables
from slackwater.log.files.segment import list_log
from slackwater.log.table import Table
from slackwater.maintenance.clone import cloned_table, require_empty
from slackwater.maintenance.delete_table import delete_all
from slackwater.owner.api.catalog import Catalog
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.protocol.features.managed_commits import (
    CATALOG_MANAGED,
    FEATURES,
    MANAGED_COMMIT,
    ManagedForm,
    form_of,
    known_form,
    own_conf,
    ownership,
    with_catalog,
    with_owner,
    without_owner,
)
from slackwater.protocol.features.protocol_upgrade import with_features
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.table_features import MULTI_TABLE
from slackwater.protocol.properties.properties import FEATURE_PREFIX
from slackwater.protocol.schema.schema import StructType
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.location import parse_location
from slackwater.storage.store import ObjectStore
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.committer import Committer
from slackwater.transaction.committers.managed import AdoptingCommitter, ReleasingCommitter
from slackwater.transaction.definition import TableActions, TableDefinition, define_table

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,254}")
_MOST_ATTEMPTS = 10
_MULTI_TABLE_KEYS = {f"{FEATURE_PREFIX}{name}".lower() for name in (MULTI_TABLE, f"{MULTI_TABLE}-dev")}


class LakeMembership(LakeTables):
    """The tables of one commit owner, with operations to add and remove tables."""

    def _create_log(
        self,
        name: str,
        schema: StructType | str,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
        location: str | os.PathLike[str] | None = None,
        user_metadata: str | None = None,
        user_name: str | None = None,
        managed: str | None = None,
    ) -> CommitResult:
        """Create the empty table `name`. `schema` is a `StructType` or its `schemaString`.

        `partition_by`: columns of the top level. `cluster_by`: at most four columns, by dotted paths; excludes
        `partition_by`. `properties`: texts by their keys. `description`: None for none. `location`: default is `name`
        below the lake's root. `user_metadata`: a text for the history. `user_name`: the user in the history, by default
        the user of this process. `managed`: the feature of the table's commits, `managedCommit` (the default) or
        `catalogManaged`. Raises TableAlreadyExists if the name or location is taken, InvalidArgument or
        UnsupportedFeature if the definition is invalid.
        """
        definition = TableDefinition.of(schema, partition_by, cluster_by or None, properties, description)
        transaction = self._begin_create(name, definition, location, managed)
        return transaction.commit("CREATE TABLE", user_metadata=user_metadata, user_name=user_name)

    def _begin_create(
        self,
        name: str,
        definition: TableDefinition,
        location: str | os.PathLike[str] | None = None,
        managed: str | None = None,
    ) -> TableTransaction:
        """Return a transaction for the creation of the table `name`, with the files added to the transaction.

        `definition` defines the table. `location`: default is `name` below the lake's root. `managed` as in
        `_create_log`; the property `delta.feature.catalogManaged` has the same effect. Raises as `_create_log`.
        """
        form, features, properties = _chosen_form(managed, definition.properties)
        owner = self.owner
        if isinstance(owner, Catalog):
            if location is not None:
                raise InvalidArgument(f"the catalog chooses the location of {name!r}. Create it without a location")
            if features or (managed is not None and known_form(managed) is not CATALOG_MANAGED):
                raise UnsupportedFeature(
                    f"the catalog of {name!r} manages tables by catalogManaged only, without transactions over several "
                    "tables. Create it without another feature"
                )
            return self._creating_in(owner, name, replace(definition, properties=properties))
        table = self._new_place(name, location)
        definition = replace(definition, properties=properties)
        defined = define_table(definition, self.clock.now_ms(), self.clock.new_id)
        return self._taking(table, None, self._newly_owned(), name, defined, form, features)

    def _creating_in(self, catalog: Catalog, name: str, definition: TableDefinition) -> TableTransaction:
        """Return the transaction for the creation of a table in a place that `catalog` chooses."""
        self._require_name(name)
        self._require_free(name)
        staged = catalog.stage_table(name)
        named = {key: value for key, value in staged.properties.items() if key.startswith("delta.")}
        definition = replace(definition, properties={**definition.properties, **named})
        defined = define_table(definition, self.clock.now_ms(), self.clock.new_id)
        others = {key: value for key, value in staged.properties.items() if key not in named}
        managed = replace(defined, configuration=with_catalog(defined.configuration, staged.features, others))
        table = self._table_at(staged.location)
        return _transfer(
            table,
            None,
            AdoptingCommitter(table.store, OwnedTable(self.owner, staged.table_id), name),
            managed,
            self.clock,
        )

    def _begin_clone(
        self,
        name: str,
        source: Snapshot,
        properties: Mapping[str, str] | None = None,
        location: str | os.PathLike[str] | None = None,
    ) -> TableTransaction:
        """Return a transaction for `maintenance.clone.commit_clone`, which makes `name` a shallow clone of `source`.

        `properties` override the properties of the source. `location` as in `_begin_create`. Raises as `_begin_create`,
        and InvalidArgument if the location contains other files.
        """
        table = self._new_place(name, location)
        require_empty(table)
        form, features, others = _chosen_form(None, properties or {})
        return self._taking_clone(name, table, source, others, form, features)

    def _taking_clone(
        self,
        name: str,
        table: Table,
        source: Snapshot,
        properties: Mapping[str, str],
        form: ManagedForm = MANAGED_COMMIT,
        features: Sequence[str] = (),
    ) -> TableTransaction:
        """Return the transaction of `_begin_clone` for the empty location of `table`."""
        defined = cloned_table(source, properties, self.clock)
        return self._taking(table, None, self._newly_owned(), name, defined, form, features)

    def _new_place(self, name: str, location: str | os.PathLike[str] | None) -> Table:
        """Return the table handle for a new table. Raises TableAlreadyExists if the name or location is taken."""
        table = self._place(name, location)
        self._require_free(name)
        if list_log(table.store).latest_version is not None:
            raise TableAlreadyExists(
                f"{table.root_url} is already a Delta table. Call adopt for it, or choose another location"
            )
        return table

    def adopt(self, name: str, location: str | os.PathLike[str], managed: str | None = None) -> None:
        """Take ownership of the table at `location` as `name`. Writers must use the lake from then on.

        `managed` is the feature of the table's commits. With `managedCommit`, the default, readers continue unchanged.
        With `catalogManaged`, readers must use the lake too. Concurrent file-system commits are not lost: they precede
        the adoption, or they fail. Raises TableNotFound, TableAlreadyExists if the name is taken or the table has an
        owner, InvalidArgument for another feature, and the errors of every commit.

        >>> spark.range(3).write.format("delta").save(path)
        >>> lake.adopt("numbers", path)
        >>> lake.table("numbers").toDF().count()
        3
        """
        self._adopt(name, location, MANAGED_COMMIT if managed is None else known_form(managed))

    def _adopt(
        self, name: str, location: str | os.PathLike[str], form: ManagedForm, features: Sequence[str] = ()
    ) -> None:
        table = self._place(name, location)
        self._require_free(name)

        def adoption() -> TableTransaction:
            snapshot = Snapshot.open(table)
            found = ownership(snapshot.configuration, table.root_url)
            if found is not None:
                raise TableAlreadyExists(
                    f"{table.root_url} already belongs to {found.description}. Open the lake of that owner. If its "
                    "state is lost, run `slackwater lake recover` to recreate it"
                )
            defined = TableActions(snapshot.configuration)
            return self._taking(table, snapshot, self._newly_owned(), name, defined, form, features)

        _commit("ADOPT TABLE", name, adoption)

    def release(self, name: str) -> None:
        """Release the table `name` to the file system. The owner backfills all commits; any writer may commit there.

        Raises TableNotFound, OperationNotAllowed if the owner refuses the release, and the errors of every commit.

        >>> lake.release("orders")
        >>> [table.name for table in lake.tables()]
        ['stock']
        """
        known = self.owner.table(name)
        table, owned = self._table_of(known), OwnedTable(self.owner, known.table_id)

        def hand_back() -> TableTransaction:
            # Backfill first, because a short release leaves other writers little time to commit before it.
            self.owner.backfill_to_version(known.table_id)
            snapshot = Snapshot.open(table)
            changed = TableActions(without_owner(snapshot.configuration))
            return _transfer(table, snapshot, ReleasingCommitter(table.store, owned), changed, self.clock)

        _commit("RELEASE TABLE", name, hand_back)

    def drop_table(self, name: str, keep_files: bool | None = None) -> bool:
        """Remove the table `name` from the lake permanently. Return whether its files were deleted.

        A table of a catalog leaves the catalog, which decides about its files. The result is then False. In a lake, the
        files are deleted by default if the location is `<root>/<name>`. A table created or adopted at another
        `location` retains its log and files, and the file system owns the table from then on. `keep_files` overrides
        this default. Deleted files are lost for all versions and instants, and shallow clones lose the files shared
        with the table.

        Raises TableNotFound, OperationNotAllowed if the owner refuses the release, and the errors of every commit;
        these errors change nothing. Raises StorageError if files cannot be deleted: the table has then left the lake,
        and the remaining files are still in its directory.

        >>> lake.drop_table("orders"), [table.name for table in lake.tables()]
        (True, ['stock'])
        """
        owner = self.owner
        location = owner.table(name).location
        if isinstance(owner, Catalog):
            if keep_files is not None:
                raise InvalidArgument(f"the catalog decides about the files of {name!r}. Drop it without keep_files")
            owner.drop(name)
            return False
        keeps = self._root is None or parse_location(f"{self._root}/{name}") != parse_location(location)
        if keep_files is not None:
            keeps = keep_files
        self.release(name)
        if not keeps:
            delete_all(self._table_at(location).store)
        return not keeps

    def migrate(self, name: str, managed: str = CATALOG_MANAGED.feature) -> bool:
        """Change the feature of the commits of table `name`, by default to `catalogManaged`. Return whether it changed.

        The operation is a release and an adoption under the same name, like `rename_table`: two commits, with
        file-system ownership in between.

        Raises:
            TableNotFound: If the lake has no such table.
            InvalidArgument: If `managed` is not a known feature.
            OperationNotAllowed: If the owner refuses the release. The errors of every commit are also possible.

        >>> lake.migrate("stock"), lake.migrate("stock")
        (True, False)
        """
        form = known_form(managed)
        known = self.owner.table(name)
        if (form_of(Snapshot.open(self._table_of(known)).configuration) or MANAGED_COMMIT) is form:
            return False
        self.release(name)
        self._adopt_again(name, name, known.location, form)
        return True

    def rename_table(self, name: str, to: str) -> None:
        """Rename the table `name` to `to`. Files and versions stay in their directory.

        The operation is a release and an adoption: two commits, with file-system ownership in between. Slices before
        the rename contain the table under both names.

        Raises:
            TableNotFound: If the lake has no such table.
            TableAlreadyExists: If the new name is taken.
            InvalidArgument: If `to` is not a valid name.
            OperationNotAllowed: If the owner refuses the release. The errors of every commit are also possible.

        >>> lake.rename_table("stock", "goods")
        >>> lake.snapshot("goods").to_arrow().num_rows
        1
        """
        owner = self.owner
        if isinstance(owner, Catalog):
            self._require_name(to)
            owner.rename(name, to)
            return
        known = owner.table(name)
        self._place(to, known.location)
        self._require_free(to)
        before = Snapshot.open(self._table_of(known)).configuration
        form = form_of(before) or MANAGED_COMMIT
        self.release(name)
        self._adopt_again(name, to, known.location, form, features_with_owner(before))

    def _adopt_again(self, name: str, to: str, location: str, form: ManagedForm, features: Sequence[str] = ()) -> None:
        """Adopt the table at `location` as `to`, with `features`, after its release under `name`. Raises as `adopt`."""
        try:
            self._adopt(to, location, form, features)
        except SlackwaterError as error:
            raise type(error)(
                f"the table {name!r} was released, but not adopted as {to!r}: {error}. It is complete at "
                f"{location}. Adopt it there"
            ) from error

    def _take_anew(self, name: str, store: ObjectStore, table_id: str) -> None:
        """Adopt a table with lost owner state. This owner has no record of the table yet.

        Raises DeltaConcurrentModificationException if another owner committed first.
        """
        table = Table(store, published_only=True)
        snapshot, owned = Snapshot.open(table), OwnedTable(self.owner, table_id)
        form = form_of(snapshot.configuration) or MANAGED_COMMIT
        transaction = self._taking(table, snapshot, owned, name, TableActions(snapshot.configuration), form)
        transaction.commit("RECOVER TABLE", {"name": name})

    def _newly_owned(self) -> OwnedTable:
        return OwnedTable(self.owner, str(uuid.uuid4()))

    def _taking(
        self,
        table: Table,
        before: Snapshot | None,
        owned: OwnedTable,
        name: str,
        defined: TableActions,
        form: ManagedForm,
        features: Sequence[str] = (),
    ) -> TableTransaction:
        """Return the transaction for the owner's adoption of the table in `defined`, with `features`."""
        taken = with_owner(defined.configuration, self._conf(owned, name), form)
        changed = replace(defined, configuration=taken.changed(with_features(taken.protocol, features)))
        return _transfer(table, before, AdoptingCommitter(table.store, owned, name), changed, self.clock)

    def _require_name(self, name: str) -> None:
        if _NAME.fullmatch(name) is None:
            raise InvalidArgument(
                "a table name must consist of letters, digits, '_', '-' and '.', and must not start with '.' or "
                f"'-', found {name!r}"
            )

    def _place(self, name: str, location: str | os.PathLike[str] | None) -> Table:
        self._require_name(name)
        if location is not None:
            return self._table_at(location)
        if self._root is None:
            if isinstance(self.owner, Catalog):
                raise OperationNotAllowed(
                    f"the catalog of {name!r} has no clones and adopts no tables. Create an empty one, and insert rows"
                )
            raise InvalidArgument(
                f"the served owner of the table {name!r} has no root here. Pass the location of the table"
            )
        return self._table_at(f"{self._root}/{name}")

    def _require_free(self, name: str) -> None:
        try:
            table = self.owner.table(name)
        except TableNotFound:
            return
        raise TableAlreadyExists(f"a table named {name!r} already exists at {table.location}")

    def _conf(self, owned: OwnedTable, name: str) -> dict[str, str]:
        return own_conf(self.owner.owner_id, owned.table_id, self.owner.endpoint, name)


def features_with_owner(configuration: TableConfiguration) -> Sequence[str]:
    """Return the features that a release or a clone of the table drops, because they need an owner."""
    return [MULTI_TABLE] if configuration.supports(MULTI_TABLE) else []


def _chosen_form(
    managed: str | None, properties: Mapping[str, str]
) -> tuple[ManagedForm, Sequence[str], Mapping[str, str]]:
    """Return the form of a new table, the features that need an owner, and the other properties.

    Raises InvalidArgument for two forms, or an unknown form.
    """
    keys = {f"{FEATURE_PREFIX}{feature}".lower(): feature for feature in FEATURES}
    chosen = {keys[key.lower()] for key in properties if key.lower() in keys} | ({managed} if managed else set())
    forms = {known_form(feature) for feature in chosen}
    if len(forms) > 1:
        raise InvalidArgument(f"a table is managed by one of the features {', '.join(sorted(FEATURES))}, found several")
    others = {key: value for key, value in properties.items() if key.lower() not in {*keys, *_MULTI_TABLE_KEYS}}
    is_multi_table = any(key.lower() in _MULTI_TABLE_KEYS for key in properties)
    features = [MULTI_TABLE] if is_multi_table else []
    return forms.pop() if forms else CATALOG_MANAGED if is_multi_table else MANAGED_COMMIT, features, others


def _transfer(
    table: Table, before: Snapshot | None, committer: Committer, defined: TableActions, clock: Clock
) -> TableTransaction:
    """Return the transaction for adding or removing the owner of a table."""
    transaction = TableTransaction(table, committer, before, clock)
    transaction.staged.changes_owner = True
    transaction.define(defined)
    return transaction


def _commit(operation: str, name: str, begin: Callable[[], TableTransaction]) -> None:
    """Commit the transaction returned by `begin`. Begin and commit again after a conflict."""
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        transaction = begin()
        try:
            transaction.commit(operation, {"name": name})
        except DeltaConcurrentModificationException:
            if attempt == _MOST_ATTEMPTS:
                raise
        else:
            return
