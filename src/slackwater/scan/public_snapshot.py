"""The snapshot that users hold: what of a version of a table they can rely on, and nothing of how it is read."""

from __future__ import annotations

import datetime as dt
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import Self

from slackwater.log.file_actions import ADD_SCHEMA
from slackwater.predicate.predicate import Predicate
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.properties.properties import TableProperties
from slackwater.protocol.schema.schema import StructType
from slackwater.protocol.table_configuration import TableConfiguration
from slackwater.scan.dataframe_conversion import duckdb_relation, pandas_frame, polars_frame

if TYPE_CHECKING:
    import duckdb
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl
    import pyarrow as pa

    from slackwater.log.files.version_checksum import VersionChecksum
    from slackwater.log.history import CommitHistory
    from slackwater.scan.file_pruning import PruneReport


class Snapshot(ABC):
    """One version of a table, without Spark: `Snapshot.load(path, version=None, timestamp=None)`.

    Immutable: `update` gives the snapshot of the newest version and shares what has been read.

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
        # The one class of what is loaded, which builds upon this module.
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
    ) -> Snapshot:
        """The table at `path` (a directory or URL): the newest version, or that of `version` or `timestamp`.

        A `timestamp` without a zone is UTC, an int is ms since the epoch. `storage_options`: credentials and settings
        of the store by object_store's keys (`aws_region`, `timeout` …), before those of the environment. Raises
        TableNotFound, VersionNotFound, TimestampOutOfRange, UnsupportedFeature, CorruptTable and its kinds, and
        InvalidArgument for both a version and a timestamp. A timestamp after the last commit is out of range; with
        `allow_after_last_commit`, or with `strict` False (None: not said), it gives the latest version. Without
        `allow_paths_outside_root` a file outside the table's directory, such as those of a shallow clone, raises
        PathNotAllowed.

        >>> slackwater.Snapshot.load(flights).version, slackwater.Snapshot.load(flights, version=0).version
        (1, 0)
        """
        return cls._made_as.load(
            path, version, timestamp, storage_options, strict, allow_after_last_commit, allow_paths_outside_root
        )

    @abstractmethod
    def update(self) -> Self:
        """The snapshot of the newest version; `self` where there is none newer. Only unseen commits are read.

        Raises as `load` does.

        >>> first = slackwater.Snapshot.load(flights, version=0)
        >>> first.update().version, first.version
        (1, 0)
        """

    @property
    @abstractmethod
    def version(self) -> int:
        """The version of the table that this is."""

    @property
    @abstractmethod
    def timestamp_ms(self) -> int:
        """When this version was committed, in ms since the epoch: in-commit timestamp or file time."""

    @property
    @abstractmethod
    def protocol(self) -> Protocol:
        """What a client must implement to read and write this version."""

    @property
    @abstractmethod
    def metadata(self) -> Metadata:
        """Schema, partitioning and configuration."""

    @property
    @abstractmethod
    def configuration(self) -> TableConfiguration:
        """Protocol and metadata as one value: what the table supports, and what is active."""

    @property
    @abstractmethod
    def schema(self) -> StructType:
        """The schema by display names. Raises InvalidSchema."""

    @property
    @abstractmethod
    def properties(self) -> TableProperties:
        """The table properties; keys are found in any case."""

    @property
    @abstractmethod
    def transactions(self) -> Mapping[str, SetTransaction]:
        """The newest transaction identifier of every application, by its id."""

    @property
    @abstractmethod
    def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """The metadata domains that are not removed, by name."""

    @abstractmethod
    def files(
        self,
        where: str | Predicate | None = None,
        columns: Sequence[str] = tuple(ADD_SCHEMA.names),
        zone: str = "UTC",
    ) -> pa.Table:
        """The live files, one row each; with `where` (SQL text or a predicate) those that may hold a match.

        `columns` are by default those of ADD_SCHEMA: paths URI-encoded as in the log, sizes in bytes, times in ms since
        the epoch, `stats` as JSON. A file is left out only if its partition values or statistics prove that it holds no
        match. `zone` is taken for times in `where` and partition values that name none. Raises InvalidArgument for text
        that is no condition on this table, CorruptCheckpoint.

        >>> slackwater.Snapshot.load(flights).files(where="month = 3", columns=["path"]).to_pydict()
        {'path': ['month=3/part-1.parquet']}
        """

    @abstractmethod
    def report(self, where: str | Predicate, zone: str = "UTC") -> PruneReport:
        """Count the files that `where` leaves out, by partition values and by statistics; `zone` as in `files`.

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
    ) -> pa.Table:
        """The rows, without Spark: `columns` of the top level (all where None), only rows for which `where` is true.

        `where` is SQL text or a predicate: columns compared with literals, IN, BETWEEN, IS NULL, LIKE 'prefix%', AND,
        OR, NOT; NULL is not true. Files, row groups and columns that it makes needless are not read. Rows come in the
        order of `files`, the first `limit` of them; instants are in UTC. `zone` as in `files`. Memory O(result).

        Raises InvalidArgument for unknown columns, for text that is no condition on this table and for one that rows
        cannot be filtered by here; DataFileNotFound, CorruptTable and its kinds, UnsupportedFeature, StorageError.

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
    ) -> pa.RecordBatchReader:
        """The rows as `to_arrow` gives them, batch by batch, read on demand: few are in memory at a time.

        Raises as that does; what is wrong with a file is raised when the reader comes to it.

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
    ) -> pl.DataFrame:
        """The rows as `to_arrow` gives them, as a Polars DataFrame.

        Raises as that does, and InvalidArgument where Polars is not installed.

        >>> slackwater.Snapshot.load(flights).to_polars(where="month > 3").rows()
        [(4, 'AA')]
        """
        return polars_frame(self.to_arrow(columns, where, limit=limit, zone=zone))

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        limit: int | None = None,
        zone: str = "UTC",
    ) -> pd.DataFrame:
        """The rows as `to_arrow` gives them, as a pandas DataFrame.

        Raises as that does, and InvalidArgument where pandas is not installed.

        >>> slackwater.Snapshot.load(flights).to_pandas(["month"])["month"].tolist()
        [3, 4]
        """
        return pandas_frame(self.to_arrow(columns, where, limit=limit, zone=zone))

    def to_duckdb(
        self,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        *,
        limit: int | None = None,
        zone: str = "UTC",
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """The rows as `to_arrow` gives them, as a relation of `connection`, or of DuckDB's default one, to ask SQL of.

        The rows are in memory: what `columns` and `where` leave out is not. Raises as `to_arrow`, and InvalidArgument
        where DuckDB is not installed.

        >>> months = slackwater.Snapshot.load(flights).to_duckdb(["month"])
        >>> months.filter("month > 3").fetchall()
        [(4,)]
        """
        return duckdb_relation(self.to_arrow(columns, where, limit=limit, zone=zone), connection)

    @abstractmethod
    def tombstones(self) -> pa.Table:
        """The removed files that are not forgotten yet: columns of REMOVE_SCHEMA, times in ms.

        A damaged checkpoint is dealt with as in `files`. Raises CorruptCheckpoint.

        >>> tx = slackwater.Transaction(flights)
        >>> tx.remove("month=3/part-1.parquet")
        >>> tx.commit("DELETE").version
        2
        >>> slackwater.Snapshot.load(flights).tombstones()["path"].to_pylist()
        ['month=3/part-1.parquet']
        """

    @abstractmethod
    def history(self) -> CommitHistory:
        """The commits that the log holds now, with their times. Raises StorageError, CorruptTable and its kinds.

        >>> history = slackwater.Snapshot.load(flights).history()
        >>> history.versions, history.timestamp_ms(0) <= history.timestamp_ms(1)
        ([0, 1], True)
        """

    @abstractmethod
    def checksum(self) -> VersionChecksum | None:
        """The version's checksum as its file has it; None where there is none (yet) that can be used.

        Raises StorageError.

        >>> slackwater.Snapshot.load(flights).checksum().num_files
        2
        """

    def __dir__(self) -> Iterable[str]:
        # What a notebook offers; how it is read is the package's own.
        return dir(Snapshot)
