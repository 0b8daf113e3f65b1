"""Every error Slackwater raises, in one tree.

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

`CommitError` and its children say by their attributes what the caller may do: `retryable` (the same work may be
tried again on a fresh snapshot) and `conflict` (another writer was there first). No caller needs a message's text:
every error says by `error_class` and `sqlstate` what delta-spark calls it, where that has a name for it.
"""

from __future__ import annotations

from slackwater.error_classes import ClassifiedError


class SlackwaterError(ClassifiedError):
    """Root of every error that this package raises on purpose.

    In a process with PySpark it is a PySparkException, and its children are of the classes that delta-spark raises in
    their place, as AnalysisException: see docs/errors.md.
    """


class TableNotFound(SlackwaterError):
    """There is no Delta table at the path: no `_delta_log` directory, or none with a commit."""

    error_class = "DELTA_TABLE_NOT_FOUND"


class VersionNotFound(SlackwaterError):
    """The asked version is newer than the table, or older than what its log still holds."""

    error_class = "DELTA_VERSION_NOT_FOUND"


class TimestampOutOfRange(SlackwaterError):
    """No version of the table answers for the asked time."""


class ChangeFeedNotEnabled(SlackwaterError):
    """A version in the asked range was committed while the change data feed was not enabled."""

    error_class = "DELTA_MISSING_CHANGE_DATA"


class CorruptTable(SlackwaterError):
    """The files of the table contradict the protocol."""


class CorruptLog(CorruptTable):
    """A commit file is truncated, is not line-delimited JSON, or holds what a commit must not hold."""


class MissingCommit(CorruptLog):
    """A version between two known ones, or the first one that a snapshot needs, is not in the log."""

    error_class = "DELTA_VERSIONS_NOT_CONTIGUOUS"


class UnratifiedCommit(CorruptLog):
    """The log of a managed table holds a version that its commit owner did not ratify, or another one than it did."""


class CorruptCheckpoint(CorruptTable):
    """A checkpoint cannot be read, or lacks an action or a sidecar that it must have."""


class CorruptDeletionVector(CorruptTable):
    """A deletion vector has a wrong magic number, size, checksum or cardinality."""


class InvalidSchema(CorruptTable):
    """A `schemaString` is no schema, or names a type that is not one."""


class DataFileNotFound(CorruptTable):
    """The log names a data, change or deletion vector file that does not exist."""

    error_class = "FAILED_READ_FILE.FILE_NOT_EXIST"


class UnsupportedFeature(SlackwaterError):
    """The table requires a protocol version or table feature that this version of Slackwater does not honour."""


class PathNotAllowed(SlackwaterError):
    """A path in the log points outside the table's root, and the caller has not allowed that."""


class InvalidArgument(SlackwaterError, ValueError):
    """An option, a predicate, a name or a combination of them that cannot be honoured."""


class WrongArgumentType(InvalidArgument, TypeError):
    """An argument of a call has a Python type that it cannot have. It is a TypeError too, as delta-spark raises."""


class SqlSyntaxError(InvalidArgument):
    """A text that is no SQL: a condition, an expression, a data type."""

    error_class = "PARSE_SYNTAX_ERROR"


class TransactionEnded(InvalidArgument):
    """A transaction is used after it was committed or rolled back."""


class RecoveryUndecided(InvalidArgument):
    """A lake is to be recovered, and what is left of it does not tell which commits counted: nothing was changed."""


class TableAlreadyExists(InvalidArgument):
    """A table is to be created where there is one."""

    error_class = "DELTA_TABLE_ALREADY_EXISTS"


class MergeCardinalityViolation(InvalidArgument):
    """Several source rows of a merge match and modify the same row of the target, so what it becomes is not defined."""

    error_class = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"


class OperationNotAllowed(SlackwaterError):
    """A property of the table, or the protocol's protection of what it keeps for itself, forbids the operation."""


class CommitOwnerRequired(OperationNotAllowed):
    """The table's commits are ratified by a commit owner that this process does not know, or that is another one."""


class NotAuthorized(OperationNotAllowed):
    """A served commit owner does not let the caller do this: no token, a wrong one, or one without the scope."""


class InvariantViolationException(SlackwaterError):
    """A row to be written breaks NOT NULL, a CHECK constraint, an invariant, or a generated or identity column."""


class ValueDoesNotFit(SlackwaterError):
    """A value to be written is none that its column can hold: a number too large, a text that is no date."""


class CommitOwnerUnavailable(SlackwaterError):
    """The commit owner or its database could not be reached; what was asked changed nothing, or may be asked again.

    `changed_nothing`: it certainly did not.
    """

    changed_nothing: bool = False


class StorageError(SlackwaterError):
    """The object store refused the request or failed while it ran."""


class ObjectNotFound(StorageError):
    """Nothing is stored under the path."""


class ObjectExists(StorageError):
    """Something is stored under the path already; it was not overwritten."""


class StorageRefused(StorageError):
    """The store refused the request before it had any effect: permissions, a read-only or a full disk.

    `knows_no_condition`: it puts, but not only where nothing is there yet.
    """

    knows_no_condition: bool = False


class CommitError(SlackwaterError):
    """A commit did not go through.

    `retryable`: the same work may be tried again on a fresh snapshot. `conflict`: another writer was there first.
    """

    retryable: bool = False
    conflict: bool = False


class DeltaConcurrentModificationException(CommitError):
    """Another writer committed what this commit cannot be moved behind; nothing of this commit is visible."""

    retryable = True
    conflict = True


class ConcurrentAppendException(DeltaConcurrentModificationException):
    """Another writer added files that may hold rows which this transaction should have read."""

    error_class = "DELTA_CONCURRENT_APPEND"


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """Another writer removed files that this transaction read."""

    error_class = "DELTA_CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """Another writer removed files that this transaction removes as well."""

    error_class = "DELTA_CONCURRENT_DELETE_DELETE"


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """Another writer moved an application's transaction identifier or a metadata domain that this one moves too."""

    error_class = "DELTA_CONCURRENT_TRANSACTION"


class ConcurrentWriteException(DeltaConcurrentModificationException):
    """Other writers were faster at every attempt."""

    error_class = "DELTA_CONCURRENT_WRITE"


class TimestampConflict(DeltaConcurrentModificationException):
    """The transaction was told what time it is, and for what others did since it cannot commit as of then."""


class LockTimeout(DeltaConcurrentModificationException):
    """Another transaction holds what this one wants to lock, or a lock of this one ended because it was not kept."""


class DeadlockDetected(DeltaConcurrentModificationException):
    """Transactions wait for each other in a circle, and this one was chosen to give way."""


class MetadataChangedException(DeltaConcurrentModificationException):
    """Another writer changed the table's metadata in a way that this transaction's files may not fit."""

    error_class = "DELTA_METADATA_CHANGED"


class ProtocolChangedException(DeltaConcurrentModificationException):
    """Another writer changed the table's protocol, or created the table that this transaction was to create."""

    error_class = "DELTA_PROTOCOL_CHANGED"


class CommitFailed(CommitError):
    """The commit certainly did not land; the cause is the store, not another writer."""

    retryable = True


class CommitOwnerBusy(CommitFailed):
    """The commit owner has as many commits waiting as it takes; nothing of this one is visible."""


class CommitUnknown(CommitError):
    """The commit may or may not have landed; its files must stay until the log has been read back."""


class CheckpointFallbackWarning(UserWarning):
    """A checkpoint could not be read, and the table was read without it: slower, with the same result."""


class SettingIgnoredWarning(UserWarning):
    """A session sets what delta-spark knows and Slackwater does not: the setting has no effect."""
