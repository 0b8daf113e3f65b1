"""Error classes: names from delta-spark's catalogue of errors, with their SQLSTATE.

If delta-spark raises a named error for the same failure, the Slackwater error has the same name. Existing programs and
runbooks can then recognize it. Names and states are facts of the catalogue. The messages are Slackwater's own, and
contain the remedy. Source: delta-spark 4.4.0, `delta-error-classes.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNSEEN = "in a way that Slackwater does not see"
"""Text of the error for a statement that reached Spark's catalog before Slackwater saw it."""


@dataclass(frozen=True)
class StatementPlace:
    """Position of an error in the text of a statement, with the methods of PySpark's `QueryContext`.

    text: the whole statement. start, stop: indices of the first and the last wrong character, from 0; both are the
    length of the text if the error is at its end. `contextType` exists after `pyspark.errors` is imported.
    """

    text: str
    start: int
    stop: int

    def objectType(self) -> str:  # noqa: N802  (the name PySpark has)
        """Return the empty string, because the error is in the statement itself, not in a view (PySpark API)."""
        return ""

    def objectName(self) -> str:  # noqa: N802  (the name PySpark has)
        """Return the empty string, because the error is in the statement itself, not in a view (PySpark API)."""
        return ""

    def startIndex(self) -> int:  # noqa: N802  (the name PySpark has)
        """Return the index of the first character (PySpark API)."""
        return self.start

    def stopIndex(self) -> int:  # noqa: N802  (the name PySpark has)
        """Return the index of the last character (PySpark API)."""
        return self.stop

    def fragment(self) -> str:
        """Return the wrong part of the statement verbatim (PySpark API)."""
        return self.text[self.start : self.stop + 1]

    def callSite(self) -> str:  # noqa: N802  (the name PySpark has)
        """Return the empty string, because a text has no call site (PySpark API)."""
        return ""

    def summary(self) -> str:
        """Return the line of the statement with the wrong part marked (PySpark API)."""
        whole, before = self.text.split("\n")[self.line - 1], self.column - 1
        marks = "^" * max(1, min(self.stop + 1 - self.start, len(whole) - before))
        return f"== SQL (line {self.line}, position {self.column}) ==\n{whole}\n{' ' * before}{marks}\n"

    @property
    def line(self) -> int:
        """Line number, from 1."""
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """Position of the character in its line, from 1."""
        return self.start - self.text.rfind("\n", 0, self.start)


class ClassifiedError(Exception):
    """An error with an optional error class, with the methods of PySpark's errors.

    `error_class`: a name from the catalogue, such as "DELTA_TABLE_NOT_FOUND", or from Spark; None if neither has a
    name. The default is the error class of the Python class. `sqlstate`: required for names missing from `SQLSTATES`.
    `place`: the position in the text of a statement, if known. The text of the error is only the message.
    """

    error_class: str | None = None
    _sqlstate: str | None = None
    place: StatementPlace | None = None

    def __init__(
        self,
        *args: object,
        error_class: str | None = None,
        sqlstate: str | None = None,
        place: StatementPlace | None = None,
    ) -> None:
        # By name, not by super(): the next class may be PySpark's, which formats another message from the arguments.
        Exception.__init__(self, *args)
        if error_class is not None:
            self.error_class, self._sqlstate = error_class, sqlstate
        if place is not None:
            self.place = place

    def __str__(self) -> str:
        return Exception.__str__(self)

    @property
    def sqlstate(self) -> str | None:
        """SQLSTATE of the error class, None if there is none."""
        return self._sqlstate or SQLSTATES.get(self.error_class or "")

    def getCondition(self) -> str | None:  # noqa: N802  (the name PySpark has)
        """Return the error class (PySpark API)."""
        return self.error_class

    def getErrorClass(self) -> str | None:  # noqa: N802  (the name PySpark has)
        """Return the error class, by the older name (PySpark API)."""
        return self.error_class

    def getSqlState(self) -> str | None:  # noqa: N802  (the name PySpark has)
        """Return the SQLSTATE (PySpark API)."""
        return self.sqlstate

    def getMessage(self) -> str:  # noqa: N802  (the name PySpark has)
        """Return the message with its error class in front and its SQLSTATE at the end, if known (PySpark API)."""
        text = str(self) if self.error_class is None else f"[{self.error_class}] {self}"
        return text if self.sqlstate is None else f"{text} SQLSTATE: {self.sqlstate}"

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802  (the name PySpark has)
        """Return an empty dict, because messages have no template (PySpark API)."""
        return {}

    def getQueryContext(self) -> list[Any]:  # noqa: N802  (the name PySpark has)
        """Return the position in the statement, empty if unknown (PySpark API)."""
        return [] if self.place is None else [self.place]

    def getBreakingChangeInfo(self) -> None:  # noqa: N802  (the name PySpark has)
        """Return None (PySpark API)."""


SQLSTATES = {
    "CAST_INVALID_INPUT": "22018",
    "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN": "42K09",
    "DELTA_ADDING_COLUMN_WITH_INTERNAL_NAME_FAILED": "42000",
    "DELTA_ADDING_DELETION_VECTORS_DISALLOWED": "0A000",
    "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT": "42KD3",
    "DELTA_ADD_CONSTRAINTS": "0A000",
    "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE": "0AKDE",
    "DELTA_CANNOT_MODIFY_APPEND_ONLY": "42809",
    "DELTA_CANNOT_MODIFY_TABLE_PROPERTY": "42939",
    "DELTA_CANNOT_REPLACE_MISSING_TABLE": "42P01",
    "DELTA_CANNOT_RESTORE_TABLE_VERSION": "22003",
    "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER": "22003",
    "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION": "428FT",
    "DELTA_CANNOT_VACUUM_LITE": "55000",
    "DELTA_CANNOT_WRITE_EMPTY_SCHEMA": "428GU",
    "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE": "22003",
    "DELTA_CDC_START_VERSION_AFTER_LATEST": "22003",
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE": "0AKDC",
    "DELTA_CLONE_UNSUPPORTED_SOURCE": "0AKDC",
    "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED": "0A000",
    "DELTA_CLUSTERING_COLUMNS_MISMATCH": "42P10",
    "DELTA_CLUSTERING_COLUMN_MISSING_STATS": "22000",
    "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE": "0A000",
    "DELTA_CLUSTERING_WITH_ZORDER_BY": "42613",
    "DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS": "54000",
    "DELTA_CLUSTER_BY_WITH_PARTITIONED_BY": "42613",
    "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN": "0AKDC",
    "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE": "0AKDC",
    "DELTA_COLUMN_NOT_FOUND": "42703",
    "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA": "42703",
    "DELTA_COLUMN_PATH_NOT_NESTED": "42704",
    "DELTA_CONCURRENT_APPEND": "2D521",
    "DELTA_CONCURRENT_DELETE_DELETE": "2D521",
    "DELTA_CONCURRENT_DELETE_READ": "2D521",
    "DELTA_CONCURRENT_TRANSACTION": "2D521",
    "DELTA_CONCURRENT_WRITE": "2D521",
    "DELTA_CONFLICT_SET_COLUMN": "42701",
    "DELTA_CONSTRAINT_ALREADY_EXISTS": "42710",
    "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE": "42K09",
    "DELTA_CONSTRAINT_DOES_NOT_EXIST": "42704",
    "DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING": "0AKDC",
    "DELTA_CONVERT_NON_PARQUET_TABLE": "0AKDC",
    "DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION": "42601",
    "DELTA_CREATE_TABLE_SCHEME_MISMATCH": "42KD7",
    "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION": "42601",
    "DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH": "XXKDS",
    "DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH": "XXKDS",
    "DELTA_DELETION_VECTOR_SIZE_MISMATCH": "XXKDS",
    "DELTA_DOMAIN_METADATA_NOT_SUPPORTED": "0A000",
    "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA": "0AKDC",
    "DELTA_DUPLICATE_ACTIONS_FOUND": "2D521",
    "DELTA_DUPLICATE_COLUMNS_FOUND": "42711",
    "DELTA_DUPLICATE_COLUMNS_ON_INSERT": "42701",
    "DELTA_DUPLICATE_COLUMNS_ON_UPDATE_TABLE": "42701",
    "DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING": "42613",
    "DELTA_EMPTY_DATA": "428GU",
    "DELTA_EMPTY_DIRECTORY": "42K03",
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT": "22001",
    "DELTA_FAILED_CAST_PARTITION_VALUE": "22018",
    "DELTA_FAILED_MERGE_SCHEMA_FILE": "42KDA",
    "DELTA_FAILED_TO_MERGE_FIELDS": "22005",
    "DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH": "KD004",
    "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION": "55000",
    "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD": "22KD0",
    "DELTA_FEATURE_DROP_DEPENDENT_FEATURE": "55000",
    "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT": "55000",
    "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED": "42000",
    "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE": "0AKDC",
    "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE": "0AKDC",
    "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD": "22KD0",
    "DELTA_FILE_NOT_FOUND": "42K03",
    "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE": "42K09",
    "DELTA_ICEBERG_COMPAT_VIOLATION": "KD00E",
    "DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN": "429BQ",
    "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED": "42808",
    "DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP": "42611",
    "DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED": "42601",
    "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE": "428H2",
    "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED": "42808",
    "DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION": "42613",
    "DELTA_ILLEGAL_OPTION": "42616",
    "DELTA_ILLEGAL_USAGE": "42601",
    "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS": "42613",
    "DELTA_INSERT_COLUMN_ARITY_MISMATCH": "42802",
    "DELTA_INVALID_CDC_RANGE": "22003",
    "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES": "42K05",
    "DELTA_INVALID_CHECK_CONSTRAINT_REFERENCES": "42621",
    "DELTA_INVALID_CLONE_PATH": "22KD1",
    "DELTA_INVALID_CONSTRAINT_NAME": "42939",
    "DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION": "XXKDS",
    "DELTA_INVALID_GENERATED_COLUMN_REFERENCES": "42621",
    "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS": "42616",
    "DELTA_INVALID_INTERVAL": "22006",
    "DELTA_INVALID_INVENTORY_SCHEMA": "42000",
    "DELTA_INVALID_ISOLATION_LEVEL": "25000",
    "DELTA_INVALID_PARTITIONING_SCHEMA": "XXKDS",
    "DELTA_INVALID_PARTITION_COLUMN_TYPE": "42996",
    "DELTA_INVALID_PARTITION_PATH": "22KD1",
    "DELTA_INVALID_PROTOCOL_VERSION": "KD004",
    "DELTA_INVALID_SOURCE_OFFSET_FORMAT": "XXKDS",
    "DELTA_INVALID_TIMESTAMP_FORMAT": "22007",
    "DELTA_MERGE_MISSING_WHEN": "42601",
    "DELTA_MERGE_UNRESOLVED_EXPRESSION": "42601",
    "DELTA_METADATA_ABSENT": "XXKDS",
    "DELTA_METADATA_CHANGED": "2D521",
    "DELTA_METADATA_MISMATCH": "42KDG",
    "DELTA_MISSING_CHANGE_DATA": "KD002",
    "DELTA_MISSING_COMMIT_TIMESTAMP": "KD004",
    "DELTA_MISSING_DELTA_TABLE": "42P01",
    "DELTA_MISSING_FILES_UNEXPECTED_VERSION": "42K03",
    "DELTA_MISSING_NOT_NULL_COLUMN_VALUE": "23502",
    "DELTA_MISSING_PARTITION_COLUMN": "42KD6",
    "DELTA_MISSING_PART_FILES": "42KD6",
    "DELTA_MODE_NOT_SUPPORTED": "0AKDC",
    "DELTA_MULTIPLE_CDC_BOUNDARY": "42614",
    "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE": "21506",
    "DELTA_NESTED_NOT_NULL_CONSTRAINT": "0AKDC",
    "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION": "23512",
    "DELTA_NEW_NOT_NULL_VIOLATION": "23512",
    "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT": "42621",
    "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION": "42601",
    "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION": "42601",
    "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION": "42601",
    "DELTA_NON_PARTITION_COLUMN_REFERENCE": "42P10",
    "DELTA_NON_PARTITION_COLUMN_SPECIFIED": "42P10",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED": "23502",
    "DELTA_NO_COMMITS_FOUND": "KD006",
    "DELTA_NO_START_FOR_CDC_READ": "42601",
    "DELTA_NULL_SCHEMA_IN_STREAMING_WRITE": "42P18",
    "DELTA_ONEOF_IN_TIMETRAVEL": "42601",
    "DELTA_OPERATION_NOT_ALLOWED": "0AKDC",
    "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED": "42601",
    "DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING": "42613",
    "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE": "42613",
    "DELTA_PARTITION_COLUMN_CAST_FAILED": "22525",
    "DELTA_PARTITION_COLUMN_NOT_FOUND": "42703",
    "DELTA_PATH_DOES_NOT_EXIST": "42K03",
    "DELTA_PATH_EXISTS": "42K04",
    "DELTA_PROTOCOL_CHANGED": "2D521",
    "DELTA_PROTOCOL_PROPERTY_NOT_INT": "42K06",
    "DELTA_READ_FEATURE_PROTOCOL_REQUIRES_WRITE": "KD004",
    "DELTA_REGEX_OPT_SYNTAX_ERROR": "2201B",
    "DELTA_REPLACE_WHERE_MISMATCH": "44000",
    "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE": "42613",
    "DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS": "22000",
    "DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION": "55000",
    "DELTA_SCHEMA_CHANGED_WITH_VERSION": "KD007",
    "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE": "42809",
    "DELTA_SOURCE_IGNORE_DELETE": "0A000",
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES": "0A000",
    "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET": "42613",
    "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION": "KD002",
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG": "42KD4",
    "DELTA_STREAMING_METADATA_EVOLUTION": "22000",
    "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT": "22000",
    "DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED": "22000",
    "DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID": "22000",
    "DELTA_STREAMING_TRAILING_COMMIT_MISSING": "42K03",
    "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS": "42711",
    "DELTA_TABLE_ALREADY_EXISTS": "42P07",
    "DELTA_TABLE_FOR_PATH_UNSUPPORTED_HADOOP_CONF": "0AKDC",
    "DELTA_TABLE_NOT_FOUND": "42P01",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION": "42816",
    "DELTA_TIMESTAMP_GREATER_THAN_COMMIT": "42816",
    "DELTA_TIMESTAMP_INVALID": "42816",
    "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE": "42604",
    "DELTA_TRUNCATED_TRANSACTION_LOG": "42K03",
    "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED": "0AKDC",
    "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME": "KD009",
    "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME": "KD009",
    "DELTA_UNKNOWN_CONFIGURATION": "F0000",
    "DELTA_UNSET_NON_EXISTENT_PROPERTY": "42616",
    "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP": "0AKDC",
    "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP": "0AKDC",
    "DELTA_UNSUPPORTED_CLONE_REPLACE_SAME_TABLE": "0AKDC",
    "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE": "0AKDC",
    "DELTA_UNSUPPORTED_DATA_TYPES": "0AKDC",
    "DELTA_UNSUPPORTED_DATA_TYPE_IN_GENERATED_COLUMN": "42621",
    "DELTA_UNSUPPORTED_DEEP_CLONE": "0A000",
    "DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN": "0AKDC",
    "DELTA_UNSUPPORTED_DROP_COLUMN": "0AKDC",
    "DELTA_UNSUPPORTED_DROP_NESTED_COLUMN_FROM_NON_STRUCT_TYPE": "0AKDC",
    "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN": "0AKDC",
    "DELTA_UNSUPPORTED_FEATURES_FOR_READ": "56038",
    "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE": "56038",
    "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG": "56038",
    "DELTA_UNSUPPORTED_FEATURE_STATUS": "0AKDE",
    "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT": "0AKDC",
    "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS": "0A000",
    "DELTA_UNSUPPORTED_INVARIANT_NON_STRUCT": "0AKDC",
    "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING": "0AKDC",
    "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION": "0AKDC",
    "DELTA_UNSUPPORTED_OUTPUT_MODE": "0AKDC",
    "DELTA_UNSUPPORTED_RENAME_COLUMN": "0AKDC",
    "DELTA_UNSUPPORTED_SCHEMA_DURING_READ": "0AKDC",
    "DELTA_UNSUPPORTED_SUBQUERY": "0AKDC",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS": "42613",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS": "0AKDC",
    "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION": "42846",
    "DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE": "22003",
    "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT": "22003",
    "DELTA_VERSIONS_NOT_CONTIGUOUS": "KD00C",
    "DELTA_VERSION_INVALID": "42815",
    "DELTA_VERSION_NOT_FOUND": "22003",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES": "23001",
    "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS": "KD00D",
    "DELTA_ZORDERING_ON_PARTITION_COLUMN": "42P10",
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE": "55019",
    "FAILED_READ_FILE.FILE_NOT_EXIST": "KD001",
    "PARSE_SYNTAX_ERROR": "42601",
    "UNRESOLVED_INSERT_REPLACE_USING_COLUMN": "42703",
    "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED": "0AKDC",
    "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED": "0AKDE",
}
