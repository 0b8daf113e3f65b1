"""Errors of Slackwater, in one tree.

    SlackwaterError
    ├── TableNotFound                 no _delta_log there: check the path
    ├── VersionNotFound               the version is not, or no longer, in the log: pick one that is
    ├── TimestampOutOfRange           no version answers for that time: pick a time inside the history
    ├── ChangeFeedNotEnabled          a version recorded no change data feed: ask for versions that did
    ├── CorruptTable                  the table's own files contradict the protocol: repair or restore the table
    │   ├── CorruptLog                a commit that is not what a commit must be
    │   │   ├── MissingCommit         a version that must be in the log is not there
    │   │   └── UnratifiedCommit      a version that the table's commit owner never ratified: look who wrote it
    │   ├── CorruptCheckpoint         a checkpoint that cannot be read, or lacks what it must hold
    │   ├── CorruptDeletionVector     wrong magic number, checksum or cardinality
    │   ├── InvalidSchema             a schema string that is no schema
    │   └── DataFileNotFound          the log names a file that is gone
    ├── UnsupportedFeature            the table needs what this version cannot honour: upgrade
    ├── PathNotAllowed                a path leaves the table's root: allow it explicitly
    ├── InvalidArgument               an option, predicate or name that makes no sense: fix the input
    │   ├── WrongArgumentType         an argument of a type that it cannot have: pass another value; also a TypeError
    │   ├── SqlSyntaxError            a text that is no SQL: fix the text
    │   ├── TransactionEnded          the transaction was committed or rolled back before: begin another one
    │   ├── RecoveryUndecided         what counted cannot be known from what is left: say it by an option
    │   ├── TableAlreadyExists        there is a table where one was to be created: append to it, or write elsewhere
    │   └── MergeCardinalityViolation several source rows of a merge modify one target row: leave one of them
    ├── OperationNotAllowed           a setting of the table forbids it: change the setting first, if it may be changed
    │   ├── CommitOwnerRequired       a commit owner manages the table: write to it through its lake
    │   └── NotAuthorized             the token is missing, wrong, or not for this: use another one
    ├── InvariantViolationException   a row breaks a constraint of the table: fix the row
    ├── ValueDoesNotFit               a value is none that its column can hold: correct it, or cast it
    ├── CommitOwnerUnavailable        the commit owner, or its database, does not answer: nothing was changed, try again
    ├── StorageError                  the object store refused or failed
    │   ├── ObjectNotFound            nothing is stored under that path
    │   ├── ObjectExists              something is stored under that path already, and stays unchanged
    │   └── StorageRefused            the request had certainly no effect: permissions, a full disk
    └── CommitError                   a commit did not go through (see `retryable` and `conflict`)
        ├── DeltaConcurrentModificationException   another writer won; nothing of this commit is visible
        │   ├── ConcurrentAppendException          it added files that this transaction should have read
        │   ├── ConcurrentDeleteReadException      it removed files that this transaction read
        │   ├── ConcurrentDeleteDeleteException    it removed files that this transaction removes
        │   ├── ConcurrentTransactionException     it moved the same application id or metadata domain forward
        │   ├── ConcurrentWriteException           it won every version that was tried
        │   ├── TimestampConflict                  no timestamp is left that agrees with what others read and wrote
        │   ├── LockTimeout                        it holds a lock that was waited for too long, or not kept alive
        │   ├── DeadlockDetected                   each of several transactions waits for another: this one gave way
        │   ├── MetadataChangedException           it changed the table's schema or settings
        │   └── ProtocolChangedException           it changed the table's protocol, or created the table
        ├── CommitFailed              it certainly did not land, and no other writer is the cause
        │   └── CommitOwnerBusy       the commit owner takes no more just now: wait, then try again
        └── CommitUnknown             it may or may not have landed: read the log before trying again

Every error has the attribute `retryable`: the same work may be repeated, for a `CommitError` on a fresh snapshot. A
`CommitError` also has `conflict`: another writer committed first. Callers need not parse messages: `error_class` and
`sqlstate` of an error are the names used by delta-spark, if delta-spark has a name for it.
"""

from __future__ import annotations

from slackwater.error_classes import ClassifiedError


class SlackwaterError(ClassifiedError):
    """Root of all errors raised deliberately by this package.

    In a process with PySpark it is a PySparkException, and its children are also instances of the classes raised by
    delta-spark, such as AnalysisException: see docs/errors.md.

    `retryable`: the same call may succeed if it is repeated, without a change of arguments, table or server.
    """

    retryable: bool = False


class TableNotFound(SlackwaterError):
    """The path contains no Delta table: no `_delta_log` directory, or no commit in it."""

    error_class = "DELTA_TABLE_NOT_FOUND"


class VersionNotFound(SlackwaterError):
    """The requested version is newer than the table, or older than the versions still in its log."""

    error_class = "DELTA_VERSION_NOT_FOUND"


class TimestampOutOfRange(SlackwaterError):
    """The requested time is outside the table's history, so no version corresponds to it."""


class ChangeFeedNotEnabled(SlackwaterError):
    """The requested range contains a version committed while the change data feed was disabled."""

    error_class = "DELTA_MISSING_CHANGE_DATA"


class CorruptTable(SlackwaterError):
    """The files of the table contradict the protocol."""


class CorruptLog(CorruptTable):
    """A commit file is truncated, is not line-delimited JSON, or has invalid content."""


class MissingCommit(CorruptLog):
    """A version between two known ones, or the first one required by a snapshot, is missing from the log."""

    error_class = "DELTA_VERSIONS_NOT_CONTIGUOUS"


class UnratifiedCommit(CorruptLog):
    """The log of a managed table contains a commit not ratified by its commit owner, or not the ratified one."""


class CorruptCheckpoint(CorruptTable):
    """A checkpoint is not readable, or lacks a required action or sidecar."""


class CorruptDeletionVector(CorruptTable):
    """A deletion vector has a wrong magic number, size, checksum or cardinality."""


class InvalidSchema(CorruptTable):
    """A `schemaString` is not a valid schema, or names an invalid type."""


class DataFileNotFound(CorruptTable):
    """A data, change or deletion vector file named by the log does not exist."""

    error_class = "FAILED_READ_FILE.FILE_NOT_EXIST"


class UnsupportedFeature(SlackwaterError):
    """The table requires a protocol version or table feature not supported by this version of Slackwater."""


class PathNotAllowed(SlackwaterError):
    """A path in the log points outside the table's root, and the caller has not allowed this."""


class InvalidArgument(SlackwaterError, ValueError):
    """An option, a predicate, a name or a combination of them is not valid."""


class WrongArgumentType(InvalidArgument, TypeError):
    """An argument has an invalid Python type. Also a TypeError, like the error of delta-spark."""


class SqlSyntaxError(InvalidArgument):
    """A text is not valid SQL: a condition, an expression, a data type."""

    error_class = "PARSE_SYNTAX_ERROR"


class TransactionEnded(InvalidArgument):
    """A transaction is used after its commit or rollback."""


class RecoveryUndecided(InvalidArgument):
    """The remains of a lake do not show which commits were ratified, so it is not recovered. Nothing was changed."""


class TableAlreadyExists(InvalidArgument):
    """A table exists at the location of a new table."""

    error_class = "DELTA_TABLE_ALREADY_EXISTS"


class MergeCardinalityViolation(InvalidArgument):
    """Several source rows of a merge match and modify the same target row, so its result is undefined."""

    error_class = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"


class OperationNotAllowed(SlackwaterError):
    """A property of the table, or the protection of reserved parts by the protocol, forbids the operation."""


class CommitOwnerRequired(OperationNotAllowed):
    """The table's commits are ratified by a commit owner unknown to this process, or by another commit owner."""


class NotAuthorized(OperationNotAllowed):
    """A served commit owner rejects the request: the token is missing, wrong, or without the scope."""


class InvariantViolationException(SlackwaterError):
    """A row to be written violates NOT NULL, a CHECK constraint, an invariant, or a generated or identity column."""


class ValueDoesNotFit(SlackwaterError):
    """A value does not fit its column: a number is too large, a text is not a date."""


class CommitOwnerUnavailable(SlackwaterError):
    """The commit owner or its database is not reachable. The request changed nothing, or may be repeated.

    `changed_nothing`: the request certainly changed nothing.
    """

    retryable = True
    changed_nothing: bool = False


class StorageError(SlackwaterError):
    """The object store rejected the request or failed during the request."""

    retryable = True


class ObjectNotFound(StorageError):
    """No object exists at the path."""

    retryable = False


class ObjectExists(StorageError):
    """An object exists at the path already, and was not overwritten."""

    retryable = False


class StorageRefused(StorageError):
    """The store rejected the request before any effect: permissions, a read-only or a full disk.

    `knows_no_condition`: the store supports puts, but no conditional puts.
    """

    retryable = False
    knows_no_condition: bool = False


class CommitError(SlackwaterError):
    """A commit failed, or its outcome is unknown.

    `retryable`: the same work may be retried on a fresh snapshot. `conflict`: another writer committed first.
    """

    conflict: bool = False


class DeltaConcurrentModificationException(CommitError):
    """This commit cannot be rebased onto the commit of another writer. Nothing of this commit is visible."""

    retryable = True
    conflict = True


class ConcurrentAppendException(DeltaConcurrentModificationException):
    """Another writer added files that may contain rows this transaction should have read."""

    error_class = "DELTA_CONCURRENT_APPEND"


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """Another writer removed files read by this transaction."""

    error_class = "DELTA_CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """Another writer removed files also removed by this transaction."""

    error_class = "DELTA_CONCURRENT_DELETE_DELETE"


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """Another writer changed a transaction identifier of an application or a metadata domain changed here too."""

    error_class = "DELTA_CONCURRENT_TRANSACTION"


class ConcurrentWriteException(DeltaConcurrentModificationException):
    """Other writers won every version at each attempt."""

    error_class = "DELTA_CONCURRENT_WRITE"


class TimestampConflict(DeltaConcurrentModificationException):
    """The timestamp range of the transaction is empty, so it cannot commit.

    The transaction requested the time, and other transactions since then forbid a commit as of this time.
    """


class LockTimeout(DeltaConcurrentModificationException):
    """Another transaction holds a requested lock, or a lock of this one expired because its lease was not renewed."""


class DeadlockDetected(DeltaConcurrentModificationException):
    """Transactions wait for each other in a cycle, and this transaction is the deadlock victim."""


class MetadataChangedException(DeltaConcurrentModificationException):
    """Another writer changed the table's metadata, so this transaction's files may not match it."""

    error_class = "DELTA_METADATA_CHANGED"


class ProtocolChangedException(DeltaConcurrentModificationException):
    """Another writer changed the table's protocol, or created the table to be created by this transaction."""

    error_class = "DELTA_PROTOCOL_CHANGED"


class CommitFailed(CommitError):
    """The commit certainly had no effect. The cause is the store, not another writer."""

    retryable = True


class CommitOwnerBusy(CommitFailed):
    """The queue of the commit owner is full. Nothing of this commit is visible."""


class CommitUnknown(CommitError):
    """The outcome of the commit is unknown. Its files must remain until the log has been read."""


class CheckpointFallbackWarning(UserWarning):
    """A checkpoint was not readable, and the table was read without it: slower, with the same result."""


class SettingIgnoredWarning(UserWarning):
    """A session setting of delta-spark is not supported by Slackwater, and has no effect."""
