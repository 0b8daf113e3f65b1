"""`slackwater.Transaction`: commits without Spark, for data files written by other programs.

Source: delta-protocol.md "Actions", "Requirements for Writers".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidArgument, OperationNotAllowed, TableAlreadyExists
from slackwater.html.components import badge, card, card_or_reason, facts
from slackwater.html.element import Markup
from slackwater.html.number_format import counted, number, visible
from slackwater.html.redaction import without_secrets
from slackwater.log.table import Table
from slackwater.predicate.predicate import Predicate
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.actions.actions import DomainMetadata
from slackwater.protocol.actions.files import AddFile, RemoveFile
from slackwater.protocol.actions.paths import canonical_path, canonical_paths
from slackwater.protocol.features import clustering
from slackwater.protocol.features.protocol_upgrade import with_features
from slackwater.protocol.features.write_expressions import row_rules
from slackwater.protocol.schema.schema import StructType
from slackwater.scan.public_snapshot import Snapshot as PublicSnapshot
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin, begin_table
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.definition import TableDefinition, define_table
from slackwater.transaction.rows.file_action_rows import REMOVE_COLUMNS, as_removes
from slackwater.transaction.table.alteration import validate_user_domain


class Transaction:
    """A transaction on `table`, a path, a URL or a base snapshot. A transaction commits once.

    >>> from slackwater.protocol.schema.schema import LONG, StructField, StructType
    >>> schema = StructType((StructField("id", LONG),))
    >>> slackwater.Transaction.create(path, schema).commit("CREATE TABLE").version
    0
    >>> tx = slackwater.Transaction(path)
    >>> tx.add(slackwater.AddFile("part-1.parquet", {}, size=450, modification_time=0, stats='{"numRecords":10}'))
    >>> tx.set_transaction("my-loader", 17)
    >>> tx.commit("WRITE").version
    1

    If other writers commit during the transaction, the commit is rebased onto the winning commits. A winning commit
    that touches rows or files read or changed here is a conflict. `storage_options` are the options of `Snapshot.load`,
    for a path or URL. `clock` supplies time, randomness and new ids for tests; None uses this machine's clock. Raises
    TableNotFound and the errors of reading a table, and UnsupportedFeature if the table needs a feature that this
    package cannot write.
    """

    def __init__(
        self,
        table: str | os.PathLike[str] | PublicSnapshot | TableTransaction,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if isinstance(table, TableTransaction):
            self._inner = table
            return
        if not isinstance(table, PublicSnapshot):
            table = Snapshot.load(table, storage_options=storage_options)
        snapshot = cast("Snapshot", table)
        self._inner = begin(snapshot, clock=clock)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema: StructType | str,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> Transaction:
        """Begin the first version of a new table at `path`, a path or URL.

        `schema` is a schema or its `schemaString`. `partition_by` lists top-level columns. `cluster_by` lists at most
        four columns by dotted paths. A table cannot have both. `properties` maps keys to texts. `description` is None
        for none. `storage_options` and `clock` are the parameters of the class. Nothing is written before `commit`.

        Raises:
            TableAlreadyExists: If `path` is a Delta table already.
            InvalidArgument: If a table cannot have these names, types, properties or columns.
            UnsupportedFeature: If the table needs a feature that this package cannot write.

        >>> from slackwater.protocol.schema.schema import LONG, StructField, StructType
        >>> tx = slackwater.Transaction.create(path, StructType((StructField("id", LONG),)))
        >>> tx.commit("CREATE TABLE").version
        0
        """
        table = Table.at(path, storage_options, follows_outside=True)
        if table.list_log().latest_version is not None:
            raise TableAlreadyExists(
                f"{table.root_url} is a Delta table already. Append to it, or write elsewhere",
                error_class="DELTA_PATH_EXISTS",
            )
        clock = clock or Clock()
        definition = TableDefinition.of(schema, partition_by, cluster_by or None, properties, description)
        return cls(begin_table(table, define_table(definition, clock.now_ms(), clock.new_id), clock=clock))

    def __repr__(self) -> str:
        staged = ", ".join(f"{count:,} {what}" for what, count in self._staged().items()) or "nothing staged"
        return f"<{type(self).__name__} on {self._told_place()}: {staged}>"

    def _repr_html_(self) -> str:
        return card_or_reason(type(self).__name__, self._inner.table.location, self._card)

    def _card(self) -> Markup:
        before = self._inner.read_snapshot
        reads = self._inner.reads
        read = "all rows" if reads.reads_all else counted(len(reads.readings), "condition") if reads.readings else None
        return card(
            type(self).__name__,
            without_secrets(self._inner.table.location),
            facts(
                {
                    "based on version": "none: it creates the table" if before is None else before.version,
                    **{what: number(count) for what, count in self._staged().items()},
                    "read": read,
                }
            ),
            badges=[badge("ended" if self._inner.is_done else "not committed", "warn")],
            note=None if self._inner.is_done else "commit() makes what is staged the next version.",
        )

    def _told_place(self) -> str:
        before = self._inner.read_snapshot
        version = "a new table" if before is None else f"version {before.version}"
        return f"{visible(without_secrets(self._inner.table.location))}, {version}"

    def _staged(self) -> dict[str, int]:
        """Return the number of staged items by kind, without zeros."""
        staged = self._inner.staged
        counts = {
            "files added": len(staged.adds) + (staged.exchange.adds.num_rows if staged.exchange else 0),
            "files removed": staged.num_removed_files,
            "change files": len(staged.change_files),
            "progress of applications": len(staged.transactions),
            "domains": len(staged.domains),
            "definition": int(staged.metadata is not None) + int(staged.protocol is not None),
        }
        return {what: count for what, count in counts.items() if count}

    @property
    def snapshot(self) -> PublicSnapshot | None:
        """The base version of the transaction, None if the transaction creates the table."""
        return self._inner.read_snapshot

    def read(self, where: str | Predicate | None = None) -> None:
        """Declare that the work depends on rows that satisfy `where` (SQL text or a predicate), or on all rows.

        A concurrent commit that adds or removes such rows is then a conflict. Raises InvalidArgument.

        >>> tx = slackwater.Transaction(flights)
        >>> tx.read("month = 3")
        >>> other = slackwater.Transaction(flights)
        >>> other.remove("month=3/part-1.parquet")
        >>> other.commit("DELETE").version
        2
        >>> tx.remove("month=4/part-1.parquet")
        >>> tx.commit("DELETE")  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        slackwater.errors.ConcurrentDeleteReadException: ...
        """
        if where is None:
            self._inner.read_whole_table()
        elif isinstance(where, str):
            self._inner.read_where(parse_predicate(where, self._based_on().schema))
        else:
            self._inner.read_where(where)

    def application_version(self, app_id: str) -> int | None:
        """Return the version of the newest `txn` action of the application `app_id`, None if it never committed.

        If the application commits elsewhere before this commit, `commit` raises ConcurrentTransactionException.

        >>> tx = slackwater.Transaction(flights)
        >>> if (tx.application_version("my-loader") or 0) < 17:
        ...     tx.set_transaction("my-loader", 17)
        ...     tx.commit("WRITE").version
        2
        >>> slackwater.Transaction(flights).application_version("my-loader")
        17
        """
        return self._inner.application_version(app_id)

    def add(self, *files: AddFile, rows_checked: bool = False, fresh: bool = False) -> None:
        """Stage existing `files`. Paths are URI-encoded, relative to the table's root or absolute.

        `fresh` promises that the file names are new to the log, like names with a UUID. The commit then skips the
        comparison with files of concurrent commits, and a commit owner can rebase an append itself.

        Partition values and statistics use physical column names. If the table has row rules (NOT NULL, CHECK
        constraints, invariants, generated or identity columns), `rows_checked` must confirm that the rows satisfy the
        rules. On a clustered table the statistics must include the clustering columns. Raises OperationNotAllowed if
        the rows are not confirmed, InvalidArgument if statistics are missing or an argument is not an AddFile.

        >>> tx = slackwater.Transaction(flights)
        >>> tx.add(slackwater.AddFile("month=5/part-1.parquet", {"month": "5"}, size=450, modification_time=0))
        >>> tx.commit("WRITE").version
        2
        """
        _require_each(files, (AddFile,), "add")
        if not rows_checked and any(f.data_change for f in files):
            self._require_no_row_rules()
        columns = self._clustering_columns()
        for file in files:
            clustering.validate_file_stats(file, columns)
        self._inner.add(files, fresh)

    def remove(self, *files: RemoveFile | str, data_change: bool = True) -> None:
        """Stage `files` to remove.

        A path means the live file at that path. Raises InvalidArgument if no live file is there.

        `data_change` applies to files passed as paths: False if the commit only rearranges rows.

        >>> tx = slackwater.Transaction(flights)
        >>> tx.remove("month=3/part-1.parquet")
        >>> tx.commit("DELETE").version, slackwater.Snapshot.load(flights).to_arrow()["month"].to_pylist()
        (2, [4])
        """
        _require_each(files, (RemoveFile, str), "remove")
        self._inner.remove(f for f in files if isinstance(f, RemoveFile))
        paths = [f for f in files if isinstance(f, str)]
        if paths:
            self._inner.remove(self._live(paths, data_change))

    def set_transaction(self, app_id: str, version: int) -> None:
        """Record `version` as the progress of the application `app_id`. The application numbers its versions.

        If the application commits elsewhere before this commit, `commit` raises ConcurrentTransactionException.

        >>> tx = slackwater.Transaction(flights)
        >>> tx.set_transaction("my-loader", 17)
        >>> tx.commit("WRITE").version, slackwater.Snapshot.load(flights).transactions["my-loader"].version
        (2, 17)
        """
        self._inner.application_version(app_id)
        self._inner.set_transaction(app_id, version)

    def set_domain_metadata(self, domain: str, configuration: str) -> None:
        """Set the user's metadata domain `domain` to the text `configuration`.

        Raises OperationNotAllowed if the protocol reserves the domain: the name starts with `delta.`.

        >>> tx = slackwater.Transaction(flights)
        >>> tx.set_domain_metadata("team", '{"owner": "sales"}')
        >>> tx.commit("SET DOMAIN METADATA").version
        2
        >>> slackwater.Snapshot.load(flights).domain_metadata["team"].configuration
        '{"owner": "sales"}'
        """
        validate_user_domain(domain)
        self._support_domains()
        self._inner.set_domain(DomainMetadata(domain, configuration))

    def remove_domain_metadata(self, domain: str) -> None:
        """Remove the user's metadata domain `domain`. Raises InvalidArgument if the table does not have the domain.

        >>> tx = slackwater.Transaction(flights)
        >>> tx.set_domain_metadata("team", "{}")
        >>> tx.commit("SET DOMAIN METADATA").version
        2
        >>> tx = slackwater.Transaction(flights)
        >>> tx.remove_domain_metadata("team")
        >>> tx.commit("REMOVE DOMAIN METADATA").version, list(slackwater.Snapshot.load(flights).domain_metadata)
        (3, [])
        """
        validate_user_domain(domain)
        found = self._based_on().domain_metadata.get(domain)
        if found is None:
            raise InvalidArgument(f"{self._inner.store.root_url} has no metadata domain {domain!r}")
        self._inner.set_domain(DomainMetadata(domain, found.configuration, removed=True))

    def commit(
        self,
        operation: str = "WRITE",
        parameters: Mapping[str, str] | None = None,
        metrics: Mapping[str, str] | None = None,
        user_metadata: str | None = None,
        user_name: str | None = None,
    ) -> CommitResult:
        """Commit the staged actions as the next version of the table, once. Return the version and its time.

        The history records `operation`, the texts in `parameters` and `metrics` by name (None for none), the text
        `user_metadata` and `user_name`. The default of `user_name` is the user of this process.

        Raises:
            DeltaConcurrentModificationException: If a concurrent commit conflicts. The subclass names the conflict.
            CommitFailed: If the store rejected the commit.
            CommitUnknown: If the outcome is unknown. After any other error the commit failed without effect.
            UnsupportedFeature: If this package cannot write the table, before the first attempt.
            OperationNotAllowed: If the table does not permit a staged action, before the first attempt.
            InvalidArgument: If staged actions are invalid, before the first attempt.

        >>> tx = slackwater.Transaction(flights)
        >>> tx.remove("month=3/part-1.parquet")
        >>> done = tx.commit("DELETE", {"predicate": "month = 3"}, user_metadata="the airline asked for it")
        >>> done.version, done.attempts
        (2, 1)
        """
        return self._inner.commit(operation, parameters, metrics, user_metadata, user_name=user_name)

    def _based_on(self) -> Snapshot:
        if self._inner.read_snapshot is None:
            raise InvalidArgument("a table that is being created has nothing to read or remove")
        return self._inner.read_snapshot

    def _require_no_row_rules(self) -> None:
        staged, read = self._inner.staged, self._inner.read_snapshot
        rules = row_rules(staged.table_after(None if read is None else read.configuration))
        if rules.not_null or rules.checks or rules.invariants or rules.generated or rules.identity:
            raise OperationNotAllowed(
                f"{self._inner.store.root_url}: the table has constraints, NOT NULL, generated or identity columns, "
                "but the rows of these files are unchecked. Check them and pass rows_checked=True, or write them with "
                "slackwater.write or Spark"
            )

    def _clustering_columns(self) -> list[clustering.ColumnName]:
        staged, read = self._inner.staged, self._inner.read_snapshot
        domain = staged.domains.get(clustering.DOMAIN)
        # Without the feature there is no domain, and the log need not be read.
        if domain is None and read is not None and read.configuration.supports("domainMetadata"):
            domain = read.domain_metadata.get(clustering.DOMAIN)
        return clustering.physical_columns(domain, self._inner.store.root_url)

    def _support_domains(self) -> None:
        staged, read = self._inner.staged, self._inner.read_snapshot
        protocol = staged.protocol or (read.protocol if read else None)
        if protocol is not None:
            supporting = with_features(protocol, ["domainMetadata"])
            if supporting != protocol:
                self._inner.set_protocol(supporting)

    def _live(self, paths: Sequence[str], data_change: bool) -> list[RemoveFile]:
        snapshot = self._based_on()
        wanted = {canonical_path(path) for path in paths}
        files = snapshot.live_files(REMOVE_COLUMNS)
        found = files.filter(pc.is_in(canonical_paths(files["path"]), value_set=_texts(sorted(wanted))))
        missing = wanted - {canonical_path(path) for path in found["path"].to_pylist()}
        if missing:
            raise InvalidArgument(
                f"{snapshot.store.root_url}: {min(missing)} is not a file of version {snapshot.version}"
            )
        return as_removes(found, self._inner.clock.now_ms(), data_change)


def _require_each(files: Sequence[object], kinds: tuple[type, ...], method: str) -> None:
    for file in files:
        if not isinstance(file, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            hint = f". For several files call {method}(*files)" if isinstance(file, Iterable) else ""
            raise InvalidArgument(f"{method} takes each file as {names}, found {type(file).__name__}{hint}")


def _texts(values: Sequence[str]) -> pa.Array:
    return pa.array(values, pa.string())
