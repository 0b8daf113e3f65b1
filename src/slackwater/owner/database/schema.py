"""SQL schema of the owner's state for queries. The migrations in `migrations/` create the tables.

Times are ms since the epoch, on the owner's clock. Source: docs/commit-owner.md, docs/transactions.md.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, MetaData, String, Table, Text, text

metadata = MetaData()
# A file name, with its directory for catalogManaged. SQLite does not limit the length of texts.
_FILE_NAME = String(64).with_variant(String(96), "postgresql")

owner = Table(
    "owner",
    metadata,
    # This table has one row.
    Column("owner_id", String(36), primary_key=True),
    Column("created_ms", BigInteger, nullable=False),
    # The greatest timestamp allocated outside the active tables. LAST is the maximum of this and of all tables.
    Column("last_ms", BigInteger, nullable=False),
    # The greatest instant of a time slice. No commit gets a timestamp up to it.
    Column("served_ms", BigInteger, nullable=False, server_default="0"),
    # Number of slots of the read timestamp table, and lower bound of every slot.
    Column("read_slots", Integer, nullable=False, server_default="0"),
    Column("read_floor_ms", BigInteger, nullable=False, server_default="0"),
    # Recovered former owners, comma-separated, and the time of recovery. Earlier staged files are retained.
    Column("former_ids", Text, nullable=False, server_default=""),
    Column("recovered_ms", BigInteger, nullable=False, server_default="0"),
    # The lake's root, and marks that differ for copies of the root and of the database; '' if unknown.
    Column("root_url", Text, nullable=False, server_default=""),
    Column("root_mark", String(128), nullable=False, server_default=""),
    Column("database_mark", String(128), nullable=False, server_default=""),
)

tables = Table(
    "tables",
    metadata,
    Column("table_id", String(36), primary_key=True),
    Column("name", String(255), nullable=False),
    # Relative to the lake's root if below it, so that a lake can be moved; else a URL.
    Column("location", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    # Newest allocated, ratified and backfilled version; -1 for none.
    Column("allocated_version", BigInteger, nullable=False),
    Column("ratified_version", BigInteger, nullable=False),
    Column("backfilled_version", BigInteger, nullable=False),
    # Timestamps of the newest allocated and of the newest ratified version.
    Column("allocated_ms", BigInteger, nullable=False),
    Column("ratified_ms", BigInteger, nullable=False),
    # Row id high-water marks after these versions; null without row tracking.
    Column("allocated_mark", BigInteger),
    Column("ratified_mark", BigInteger),
    # Newest versions with a change of metadata or protocol. A blind append cannot move past them.
    Column("allocated_change", BigInteger, nullable=False),
    Column("ratified_change", BigInteger, nullable=False),
    # Rows of `commits` are deleted up to this version.
    Column("purged_version", BigInteger, nullable=False),
    # The adopting or releasing commit of a transfer in progress.
    Column("transfer_version", BigInteger),
    Column("transfer_file", _FILE_NAME),
    Column("transfer_commit_id", String(36)),
    Column("backfill_holder", String(255)),
    Column("backfill_until_ms", BigInteger),
    # Priority reservation after repeated version conflicts, and its end; 0 after one conflict.
    Column("turn_of", String(36)),
    Column("turn_until_ms", BigInteger, nullable=False, server_default="0"),
    Column("problem", Text, nullable=False, server_default=""),
    # Pinned properties in JSON; null for a table adopted before they were recorded.
    Column("kept", Text),
)
# Names and locations are unique among tables not released.
_TAKEN = text("state <> 'released'")
for _column in (tables.c.name, tables.c.location):
    Index(f"tables_by_{_column.name}", _column, unique=True, sqlite_where=_TAKEN, postgresql_where=_TAKEN)

Index("tables_by_time", tables.c.allocated_ms)

commits = Table(
    "commits",
    metadata,
    Column("table_id", String(36), ForeignKey("tables.table_id", ondelete="CASCADE"), primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("commit_id", String(36), nullable=False),
    Column("file_name", _FILE_NAME, nullable=False),
    Column("state", String(12), nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("mark", BigInteger),
    Column("is_change", Boolean, nullable=False),
    # The staging process, and the end of its lease.
    Column("holder", String(255), nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    # The transaction with the deciding row; null for a single-table commit.
    Column("txn_id", String(36)),
)
Index("commits_by_id", commits.c.table_id, commits.c.commit_id, unique=True)

Index("commits_by_transaction", commits.c.txn_id)

# Timestamp table (paper §4.2): one row decides for all commits of a transaction, until the last is backfilled.
transactions = Table(
    "transactions",
    metadata,
    Column("txn_id", String(36), primary_key=True),
    # open: has requested the time, or has locks; afterwards the state of its commits.
    Column("state", String(12), nullable=False),
    Column("timestamp_ms", BigInteger),
    # Number of unbackfilled commits.
    Column("pending", Integer, nullable=False),
    Column("holder", String(255), nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    # Timestamp range of an open transaction.
    Column("low_ms", BigInteger),
    Column("high_ms", BigInteger),
)

# Read timestamp table (paper §4.1): the latest read of the items in a slot.
read_timestamps = Table(
    "read_timestamps",
    metadata,
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("timestamp_ms", BigInteger, nullable=False),
)

# Two-phase locking (paper §3.1): locks and lock requests of active transactions.
locks = Table(
    "locks",
    metadata,
    Column("table_id", String(36), primary_key=True),
    # '' for the whole table.
    Column("granule", String(512), primary_key=True),
    Column("txn_id", String(36), primary_key=True),
    # IS, IX, S, SIX, X: the lock held, '' for none yet; and the lock waited for, '' for none.
    Column("held", String(3), nullable=False),
    Column("wanted", String(3), nullable=False),
    # Position in the queue of waiting transactions.
    Column("place", BigInteger, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    # Lease of the transaction, in its rows of whole tables only.
    Column("holder", String(255), nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)
Index("locks_by_transaction", locks.c.txn_id, locks.c.granule)
_WAITS = text("wanted <> ''")
Index("locks_waiting", locks.c.txn_id, sqlite_where=_WAITS, postgresql_where=_WAITS)

# Timestamp reservations in the tables declared for writing.
promises = Table(
    "promises",
    metadata,
    Column("table_id", String(36), primary_key=True),
    Column("txn_id", String(36), primary_key=True),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("holder", String(255), nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)
Index("promises_by_transaction", promises.c.txn_id)

# Two-phase commit (paper §3.2.2): votes of this owner, with everything needed to commit.
prepared = Table(
    "prepared",
    metadata,
    Column("txn_id", String(36), primary_key=True),
    Column("coordinator_id", String(36), nullable=False),
    Column("low_ms", BigInteger, nullable=False),
    Column("high_ms", BigInteger, nullable=False),
    Column("voted_ms", BigInteger, nullable=False),
    Column("request", Text, nullable=False),
)

# Decisions of this owner in the coordinator role; an abort has no timestamp.
decisions = Table(
    "decisions",
    metadata,
    Column("txn_id", String(36), primary_key=True),
    Column("timestamp_ms", BigInteger),
    Column("decided_ms", BigInteger, nullable=False),
    # Ids of owners before acknowledgement, comma-separated.
    Column("participants", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    # SHA-256 of a token of 256 random bits. The token itself is never stored.
    Column("token_hash", String(64), primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    # Comma-separated: read, commit, admin.
    Column("scopes", String(64), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger),
    # Separated by spaces, like 'sales.*:commit stock:read'; null for access to all tables.
    Column("grants", Text),
)

# The token that opened a transaction. Requests with another token are rejected.
openers = Table(
    "openers",
    metadata,
    Column("txn_id", String(36), primary_key=True),
    Column("token_name", String(255), nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
)
Index("openers_by_time", openers.c.seen_ms)
