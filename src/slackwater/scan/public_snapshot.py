"""The public snapshot class: the stable interface to a version of a table, without its implementation."""

from __future__ import annotations

import datetime as dt
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import pyarrow as pa
from typing_extensions import Self

from slackwater.errors import InvalidArgument
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import TableProperties
from slackwater.protocol.schema.schema import StructType

VariantFormat: TypeAlias = Literal["binary", "json"]
"""The form of variants in rows: their two binaries, or JSON text."""

if TYPE_CHECKING:
    import duckdb
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl

    from slackwater.log.files.version_checksum import VersionChecksum
    from slackwater.log.history import CommitHistory
    from slackwater.predicate.predicate import Predicate
    from slackwater.scan.pruning.file_pruning import PruneReport


class Snapshot(ABC):
    """A version of a table, without Spark: `Snapshot.load(path, version=None, timestamp=None)`.

    Immutable: `update` returns the snapshot of the newest version and shares the data already read.

    >>> snapshot = slackwater.Snapshot.load(flights)
    >>> snapshot.version, snapshot.schema.names, snapshot.metadata.partition_columns
    (1, ('month', 'carrier'), ('month',))
    >>> snapshot.files(where="month = 3")["path"].to_pylist()
    ['month=3/part-1.parquet']
    >>> snapshot.to_arrow(["carrier"], where="month = 3").to_pylist()
    [{'carrier': 'AA'}]
    """

    _made_as: ClassVar[type[Snapshot]]

    def __init_subclass__(cls) -> None:
        # `load` builds instances of the single implementation class, which imports this module.
        Snapshot._made_as = cls

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        version: int | None = None,
        timestamp: dt.datetime | dt.date | str | int | None = None,
        storage_options: Mapping[str, str] | None = None,
        strict: bool | None = None,
        allow_after_last_commit: bool = False,
        allow_paths_outside_root: bool = True,
        published_only: bool = False,
    ) -> Snapshot:
        """Return the snapshot of the table at `path` (a directory or URL).

        The version is `version`, the version at `timestamp`, or by default the newest. A `timestamp` without a time
        zone is in UTC, an int is in ms since the epoch. `storage_options` are credentials and settings of the store by
        object_store's keys (`aws_region`, `timeout` …). They take precedence over the environment. A timestamp after
        the last commit is out of range. With `allow_after_last_commit`, or with `strict` False (None: not specified),
        such a timestamp gives the latest version. Without `allow_paths_outside_root`, reads of a file outside the
        table's directory, for example in a shallow clone, raise PathNotAllowed. With `published_only`, a table with the
        feature catalogManaged is read without its catalog, up to the newest version published in its log.

        Raises:
            TableNotFound: If `path` has no Delta table.
            VersionNotFound: If the version does not exist or was cleaned up.
            TimestampOutOfRange: If no version belongs to the timestamp.
            UnsupportedFeature: If the table requires an unsupported reader feature.
            CommitOwnerRequired: If the table has the feature catalogManaged, and its lake is not open in this process.
            CorruptTable: If the log is corrupt; also its subclasses.
            InvalidArgument: If both a version and a timestamp are passed.

        >>> slackwater.Snapshot.load(flights).version, slackwater.Snapshot.load(flights, version=0).version
        (1, 0)
        """
        return cls._made_as.load(
            path,
            version,
            timestamp,
            storage_options,
            strict,
            allow_after_last_commit,
            allow_paths_outside_root,
            published_only,
        )

    @abstractmethod
    def update(self) -> Self:
        """Return the snapshot of the newest version, `self` if already the newest. Reads only new commits.

        Raises as `load` does.

        >>> first = slackwater.Snapshot.load(flights, version=0)
        >>> first.update().version, first.version
        (1, 0)
        """

    @property
    @abstractmethod
    def version(self) -> int:
        """The version number."""

    @property
    @abstractmethod
    def timestamp_ms(self) -> int:
        """Commit time of this version in ms since the epoch: in-commit timestamp or file time."""

    @property
    @abstractmethod
    def timestamp(self) -> dt.datetime:
        """Commit time of this version, in UTC with whole milliseconds.

        >>> snapshot = slackwater.Snapshot.load(flights)
        >>> slackwater.Snapshot.load(flights, timestamp=snapshot.timestamp).version == snapshot.version
        True
        """

    @abstractmethod
    def count(self, where: str | Predicate | None = None) -> int:
        """Return the number of rows, or of the rows for which `where` is true.

        Statistics give the rows of each file (`numRecords`), and deletion vectors the deleted rows. If a file has no
        `numRecords`, all data files are opened, and their footers give the rows. `where` opens the files that can have
        matching rows, and reads its columns. Raises as `to_arrow`.

        >>> slackwater.Snapshot.load(flights).count(), slackwater.Snapshot.load(flights).count("month = 3")
        (2, 1)
        """

    @property
    @abstractmethod
    def protocol(self) -> Protocol:
        """The reader and writer requirements of this version."""

    @property
    @abstractmethod
    def metadata(self) -> Metadata:
        """Schema, partitioning and configuration."""

    @property
    @abstractmethod
    def configuration(self) -> TableConfiguration:
        """Protocol and metadata in one object, with the supported and the active table features."""

    @property
    @abstractmethod
    def schema(self) -> StructType:
        """The schema by display names. Raises InvalidSchema."""

    @property
    @abstractmethod
    def properties(self) -> TableProperties:
        """The table properties, with case-insensitive keys."""

    @property
    @abstractmethod
    def transactions(self) -> Mapping[str, SetTransaction]:
        """The newest transaction identifier of each application, by application id."""

    @property
    @abstractmethod
    def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """The metadata domains not removed, by name."""

    @abstractmethod
    def files(
        self,
        where: str | Predicate | None = None,
        columns: Sequence[str] = tuple(ADD_SCHEMA.names),
        zone: str = "UTC",
    ) -> pa.Table:
        """Return the live files, one row each; with `where` (SQL text or a predicate), the possible matches.

        `columns` default to the columns of ADD_SCHEMA: paths URI-encoded as in the log, sizes in bytes, times in ms
        since the epoch, `stats` in JSON. A file is pruned only if its partition values or statistics prove the absence
        of a match. `zone` is the time zone of times in `where` and of partition values without one. Raises
        InvalidArgument for text not valid as a condition on this table, CorruptCheckpoint.

        >>> slackwater.Snapshot.load(flights).files(where="month = 3", columns=["path"]).to_pydict()
        {'path': ['month=3/part-1.parquet']}
        """

    @abstractmethod
    def report(self, where: str | Predicate, zone: str = "UTC") -> PruneReport:
        """Count the files pruned by `where`, by partition values and by statistics; see `files` for `zone`.

        Raises as `files`.

        >>> slackwater.Snapshot.load(flights).report("month = 3")
        PruneReport(total_files=2, pruned_by_partition=1, pruned_by_stats=0)
        """

    @abstractmethod
    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        limit: int | None = None,
        zone: str = "UTC",
        variant_format: VariantFormat = "binary",
    ) -> pa.Table:
        """Return the rows, without Spark: top-level `columns` (all if None), only rows for which `where` is true.

        `where` is SQL text or a predicate: columns compared with literals, IN, BETWEEN, IS NULL, LIKE 'prefix%', AND,
        OR, NOT. NULL is not true. Files, row groups and columns not needed are not read. Rows have the order of
        `files`, limited to the first `limit` rows. Instants are in UTC. See `files` for `zone`. Memory O(result).

        Variants are structs of `value` and `metadata`, marked as Arrow's extension type `arrow.parquet.variant`. With
        `variant_format` "json" they are JSON text. Shapes are WKB, marked as `geoarrow.wkb`.

        Raises:
            InvalidArgument: If a column is unknown, or `where` is not valid on this table or cannot filter rows.
            DataFileNotFound: If a data file is missing.
            CorruptTable: If the log or a file is corrupt; also its subclasses.
            UnsupportedFeature: If the table requires an unsupported reader feature.
            StorageError: If the store fails.

        >>> slackwater.Snapshot.load(flights).to_arrow(["month"], where="carrier = 'AA'", limit=1).to_pylist()
        [{'month': 3}]
        """

    @abstractmethod
    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        limit: int | None = None,
        zone: str = "UTC",
        variant_format: VariantFormat = "binary",
    ) -> pa.RecordBatchReader:
        """Return the rows as `to_arrow` does, but in batches read on demand, with few batches in memory at a time.

        Raises as `to_arrow` does. Errors in a file are raised when the reader reaches the file.

        >>> sum(batch.num_rows for batch in slackwater.Snapshot.load(flights).to_batches(["carrier"]))
        2
        """

    def to_polars(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        limit: int | None = None,
        zone: str = "UTC",
        variant_format: VariantFormat = "binary",
    ) -> pl.DataFrame:
        """Return the rows as `to_arrow` does, in a Polars DataFrame.

        Raises as `to_arrow` does, and InvalidArgument if Polars is not installed.

        >>> slackwater.Snapshot.load(flights).to_polars(where="month > 3").rows()
        [(4, 'AA')]
        """
        return polars_frame(self.to_arrow(columns, where, limit=limit, zone=zone, variant_format=variant_format))

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        limit: int | None = None,
        zone: str = "UTC",
        variant_format: VariantFormat = "binary",
    ) -> pd.DataFrame:
        """Return the rows as `to_arrow` does, in a pandas DataFrame.

        Raises as `to_arrow` does, and InvalidArgument if pandas is not installed.

        >>> slackwater.Snapshot.load(flights).to_pandas(["month"])["month"].tolist()
        [3, 4]
        """
        return pandas_frame(self.to_arrow(columns, where, limit=limit, zone=zone, variant_format=variant_format))

    def to_duckdb(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        limit: int | None = None,
        zone: str = "UTC",
        variant_format: VariantFormat = "binary",
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Return the rows as `to_arrow` does, in a DuckDB relation for SQL queries.

        The relation belongs to `connection`, or to DuckDB's default connection if None. Only rows and columns selected
        by `columns` and `where` are in memory. Raises as `to_arrow` does, and InvalidArgument if DuckDB is not
        installed.

        >>> months = slackwater.Snapshot.load(flights).to_duckdb(["month"])
        >>> months.filter("month > 3").fetchall()
        [(4,)]
        """
        return duckdb_relation(
            self.to_arrow(columns, where, limit=limit, zone=zone, variant_format=variant_format), connection
        )

    @abstractmethod
    def tombstones(self) -> pa.Table:
        """Return the retained tombstones: columns of REMOVE_SCHEMA, times in ms.

        For a damaged checkpoint, falls back like `files`. Raises CorruptCheckpoint.

        >>> tx = slackwater.Transaction(flights)
        >>> tx.remove("month=3/part-1.parquet")
        >>> tx.commit("DELETE").version
        2
        >>> slackwater.Snapshot.load(flights).tombstones()["path"].to_pylist()
        ['month=3/part-1.parquet']
        """

    @abstractmethod
    def history(self) -> CommitHistory:
        """Return the commits currently in the log, with their times. Raises StorageError, CorruptTable and its kinds.

        >>> history = slackwater.Snapshot.load(flights).history()
        >>> history.versions, history.timestamp_ms(0) <= history.timestamp_ms(1)
        ([0, 1], True)
        """

    @abstractmethod
    def checksum(self) -> VersionChecksum | None:
        """Return the checksum of the version from its file. None if absent (maybe not written yet) or unusable.

        Raises StorageError.

        >>> slackwater.Snapshot.load(flights).checksum().num_files
        2
        """

    def __dir__(self) -> Iterable[str]:
        # Completion in notebooks lists only the public interface.
        return dir(Snapshot)


def polars_frame(rows: pa.Table) -> pl.DataFrame:
    """Return the rows in a Polars DataFrame. Raises InvalidArgument if Polars is not installed."""
    return _imported("polars").from_arrow(rows)  # type: ignore[no-any-return]


def pandas_frame(rows: pa.Table) -> pd.DataFrame:
    """Return the rows in a pandas DataFrame. Raises InvalidArgument if pandas is not installed."""
    _imported("pandas")
    return rows.to_pandas()


def duckdb_relation(rows: pa.Table, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """Return the rows in a relation of `connection`, or of DuckDB's default connection if None.

    Raises InvalidArgument if DuckDB is not installed.
    """
    maker = _imported("duckdb") if connection is None else connection
    return maker.from_arrow(rows)


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InvalidArgument(f"{name} is not installed: pip install {name}") from error
