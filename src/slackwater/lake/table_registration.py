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
    SlackwaterError,
    TableAlreadyExists,
    TableNotFound,
)
from slackwater.lake.tables import LakeTables
from slackwater.log.files.segment import list_log
from slackwater.log.table import Table
from slackwater.maintenance.clone import cloned_table, require_empty
from slackwater.maintenance.delete_table import delete_all
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.protocol.features.managed_commits import own_conf, ownership, with_owner, without_owner
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


class LakeMembership(LakeTables):
    """The tables of one commit owner, with operations to add and remove tables."""

    def create_log(
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
    ) -> CommitResult:
        """Create the empty table `name`. `schema` is a `StructType` or its `schemaString`.

        `partition_by`: columns of the top level. `cluster_by`: at most four columns, by dotted paths; excludes
        `partition_by`. `properties`: texts by their keys. `description`: None for none. `location`: default is `name`
        below the lake's root. `user_metadata`: a text for the history. `user_name`: the user in the history, by default
        the user of this process. Raises TableAlreadyExists if the name or location is taken, InvalidArgument or
        UnsupportedFeature if the definition is invalid.

        >>> from slackwater.protocol.schema.schema import DATE, StructField, StructType
        >>> lake.create_log("days", StructType((StructField("day", DATE),)), description="holidays").version
        0
        """
        definition = TableDefinition.of(schema, partition_by, cluster_by or None, properties, description)
        transaction = self.begin_create(name, definition, location)
        return transaction.commit("CREATE TABLE", user_metadata=user_metadata, user_name=user_name)

    def begin_create(
        self, name: str, definition: TableDefinition, location: str | os.PathLike[str] | None = None
    ) -> TableTransaction:
        """Return a transaction for the creation of the table `name`, with the files added to the transaction.

        `definition` defines the table. `location`: default is `name` below the lake's root. Raises as `create_log`.

        >>> from slackwater.protocol.schema.schema import DATE, StructField, StructType
        >>> from slackwater.transaction.definition import TableDefinition
        >>> days = TableDefinition(StructType((StructField("day", DATE),)))
        >>> lake.begin_create("days", days).commit("CREATE TABLE").version
        0
        """
        table = self._new_place(name, location)
        defined = define_table(definition, self.clock.now_ms(), self.clock.new_id)
        return self._taking(table, None, self._newly_owned(), name, defined)

    def begin_clone(
        self,
        name: str,
        source: Snapshot,
        properties: Mapping[str, str] | None = None,
        location: str | os.PathLike[str] | None = None,
    ) -> TableTransaction:
        """Return a transaction for `maintenance.clone.commit_clone`, which makes `name` a shallow clone of `source`.

        `properties` override the properties of the source. `location` as in `begin_create`. Raises as `begin_create`,
        and InvalidArgument if the location contains other files.

        >>> from slackwater.maintenance.clone import commit_clone
        >>> source = lake.snapshot("stock")
        >>> commit_clone(lake.begin_clone("trial", source), source).source_num_of_files
        1
        """
        table = self._new_place(name, location)
        require_empty(table)
        return self._taking_clone(name, table, source, properties or {})

    def _taking_clone(
        self, name: str, table: Table, source: Snapshot, properties: Mapping[str, str]
    ) -> TableTransaction:
        """Return the transaction of `begin_clone` for the empty location of `table`."""
        defined = cloned_table(source, properties, self.clock)
        return self._taking(table, None, self._newly_owned(), name, defined)

    def _new_place(self, name: str, location: str | os.PathLike[str] | None) -> Table:
        """Return the table handle for a new table. Raises TableAlreadyExists if the name or location is taken."""
        table = self._place(name, location)
        self._require_free(name)
        if list_log(table.store).latest_version is not None:
            raise TableAlreadyExists(
                f"{table.root_url} is already a Delta table. Call adopt for it, or choose another location"
            )
        return table

    def adopt(self, name: str, location: str | os.PathLike[str]) -> None:
        """Take ownership of the table at `location` as `name`. Readers continue unchanged; writers must use the lake.

        Concurrent file-system commits are not lost: they precede the adoption, or they fail. Raises TableNotFound,
        TableAlreadyExists if the name is taken or the table has an owner, and the errors of every commit.

        >>> spark.range(3).write.format("delta").save(path)
        >>> lake.adopt("numbers", path)
        >>> lake.table("numbers").toDF().count()
        3
        """
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
            return self._taking(table, snapshot, self._newly_owned(), name, TableActions(snapshot.configuration))

        _commit("ADOPT TABLE", name, adoption)

    def release(self, name: str) -> None:
        """Release the table `name` to the file system. The owner backfills all commits; any writer may commit there.

        Raises TableNotFound, OperationNotAllowed if the owner refuses the release, and the errors of every commit.

        >>> lake.release("orders")
        >>> [table.name for table in lake.tables()]
        ['stock']
        """
        known = self.owner.table(name)
        table, owned = self.table_of(known), OwnedTable(self.owner, known.table_id)

        def hand_back() -> TableTransaction:
            # Backfill first, because a short release leaves other writers little time to commit before it.
            self.owner.backfill_to_version(known.table_id)
            snapshot = Snapshot.open(table)
            changed = TableActions(without_owner(snapshot.configuration))
            return _transfer(table, snapshot, ReleasingCommitter(table.store, owned), changed, self.clock)

        _commit("RELEASE TABLE", name, hand_back)

    def drop_table(self, name: str, keep_files: bool | None = None) -> bool:
        """Remove the table `name` from the lake permanently. Return whether its files were deleted.

        By default the files are deleted if the location is `<root>/<name>`. A table created or adopted at another
        `location` retains its log and files, and the file system owns the table from then on. `keep_files` overrides
        this default. Deleted files are lost for all versions and instants, and shallow clones lose the files shared
        with the table.

        Raises TableNotFound, OperationNotAllowed if the owner refuses the release, and the errors of every commit;
        these errors change nothing. Raises StorageError if files cannot be deleted: the table has then left the lake,
        and the remaining files are still in its directory.

        >>> lake.drop_table("orders"), [table.name for table in lake.tables()]
        (True, ['stock'])
        """
        location = self.owner.table(name).location
        keeps = self._root is None or parse_location(f"{self._root}/{name}") != parse_location(location)
        if keep_files is not None:
            keeps = keep_files
        self.release(name)
        if not keeps:
            delete_all(self.table_at(location).store)
        return not keeps

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
        location = self.owner.table(name).location
        self._place(to, location)
        self._require_free(to)
        self.release(name)
        try:
            self.adopt(to, location)
        except SlackwaterError as error:
            raise type(error)(
                f"the table {name!r} was released, but not adopted as {to!r}: {error}. It is complete at "
                f"{location}. Adopt it there"
            ) from error

    def _take_anew(self, name: str, store: ObjectStore, table_id: str) -> None:
        """Adopt a table with lost owner state. This owner has no record of the table yet.

        Raises DeltaConcurrentModificationException if another owner committed first.
        """
        table = Table(store)
        snapshot, owned = Snapshot.open(table), OwnedTable(self.owner, table_id)
        transaction = self._taking(table, snapshot, owned, name, TableActions(snapshot.configuration))
        transaction.commit("RECOVER TABLE", {"name": name})

    def _newly_owned(self) -> OwnedTable:
        return OwnedTable(self.owner, str(uuid.uuid4()))

    def _taking(
        self, table: Table, before: Snapshot | None, owned: OwnedTable, name: str, defined: TableActions
    ) -> TableTransaction:
        """Return the transaction for the owner's adoption of the table in `defined`."""
        changed = replace(defined, configuration=with_owner(defined.configuration, self._conf(owned, name)))
        return _transfer(table, before, AdoptingCommitter(table.store, owned, name), changed, self.clock)

    def _place(self, name: str, location: str | os.PathLike[str] | None) -> Table:
        if _NAME.fullmatch(name) is None:
            raise InvalidArgument(
                "a table name must consist of letters, digits, '_', '-' and '.', and must not start with '.' or "
                f"'-', found {name!r}"
            )
        if location is not None:
            return self.table_at(location)
        if self._root is None:
            raise InvalidArgument(
                f"the served owner of the table {name!r} has no root here. Pass the location of the table"
            )
        return self.table_at(f"{self._root}/{name}")

    def _require_free(self, name: str) -> None:
        try:
            table = self.owner.table(name)
        except TableNotFound:
            return
        raise TableAlreadyExists(f"a table named {name!r} already exists at {table.location}")

    def _conf(self, owned: OwnedTable, name: str) -> dict[str, str]:
        return own_conf(self.owner.owner_id, owned.table_id, self.owner.endpoint, name)


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
