"""The owner's state in SQL: what each table holds. Migrations in `migrations/` make it; this is what queries name.

Times are ms since the epoch, on the owner's clock. Source: docs/commit-owner.md, docs/transactions.md.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, MetaData, String, Table, Text, text

metadata = MetaData()

owner = Table(
    "owner",
    metadata,
    # One row.
    Column("owner_id", String(36), primary_key=True),
    Column("created_ms", BigInteger, nullable=False),
    # The greatest timestamp that was given to what is no commit of an active table; LAST is that or a table's.
    Column("last_ms", BigInteger, nullable=False),
    # The greatest instant that a time slice was read at: no commit gets a timestamp up to it.
    Column("served_ms", BigInteger, nullable=False, server_default="0"),
    # How many slots the read timestamp table has, and what every slot is at least.
    Column("read_slots", Integer, nullable=False, server_default="0"),
    Column("read_floor_ms", BigInteger, nullable=False, server_default="0"),
    # The owners whose tables were recovered, comma-separated, and when that was: what was staged before is kept.
    Column("former_ids", Text, nullable=False, server_default=""),
    Column("recovered_ms", BigInteger, nullable=False, server_default="0"),
    # The lake's root, and what tells it and this database from copies of them; '' where that is not known.
    Column("root_url", Text, nullable=False, server_default=""),
    Column("root_mark", String(128), nullable=False, server_default=""),
    Column("database_mark", String(128), nullable=False, server_default=""),
)

tables = Table(
    "tables",
    metadata,
    Column("table_id", String(36), primary_key=True),
    Column("name", String(255), nullable=False),
    # Relative to the lake's root where it is below it, so that a lake can be moved; else a URL.
    Column("location", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    # Versions that are given out, that count, and that are in `_delta_log`; -1 for none.
    Column("allocated_version", BigInteger, nullable=False),
    Column("ratified_version", BigInteger, nullable=False),
    Column("backfilled_version", BigInteger, nullable=False),
    # Of the newest version given out, and of the newest that counts.
    Column("allocated_ms", BigInteger, nullable=False),
    Column("ratified_ms", BigInteger, nullable=False),
    # The row id high-water mark after these; null where it is not followed.
    Column("allocated_mark", BigInteger),
    Column("ratified_mark", BigInteger),
    # The newest version that set metadata or protocol: no blind append moves across it.
    Column("allocated_change", BigInteger, nullable=False),
    Column("ratified_change", BigInteger, nullable=False),
    # Up to here no rows of `commits` are kept.
    Column("purged_version", BigInteger, nullable=False),
    # The commit that takes or hands back the table, while that is under way.
    Column("transfer_version", BigInteger),
    Column("transfer_file", String(64)),
    Column("transfer_commit_id", String(36)),
    Column("backfill_holder", String(255)),
    Column("backfill_until_ms", BigInteger),
    # Who lost its version again and again goes first until then; 0 for one that lost it once.
    Column("turn_of", String(36)),
    Column("turn_until_ms", BigInteger, nullable=False, server_default="0"),
    Column("problem", Text, nullable=False, server_default=""),
    # The properties that no commit changes, as JSON; null where the table was taken before that was written down.
    Column("kept", Text),
)
# A name and a place are taken until the table is handed back.
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
    Column("file_name", String(64), nullable=False),
    Column("state", String(12), nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("mark", BigInteger),
    Column("is_change", Boolean, nullable=False),
    # The process that stages it, and when its lease ends.
    Column("holder", String(255), nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    # The transaction whose row decides for all its commits; null for a commit that stands alone.
    Column("txn_id", String(36)),
)
Index("commits_by_id", commits.c.table_id, commits.c.commit_id, unique=True)

Index("commits_by_transaction", commits.c.txn_id)

# The timestamp table (paper §4.2): one row decides for all commits of a transaction, until the last is backfilled.
transactions = Table(
    "transactions",
    metadata,
    Column("txn_id", String(36), primary_key=True),
    # open: was told a time, or holds locks; then as its commits.
    Column("state", String(12), nullable=False),
    Column("timestamp_ms", BigInteger),
    # Commits that are not backfilled.
    Column("pending", Integer, nullable=False),
    Column("holder", String(255), nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    # What an open one was told of the time.
    Column("low_ms", BigInteger),
    Column("high_ms", BigInteger),
)

# The read timestamp table (paper §4.1): the latest read of whatever hashes to a slot.
read_timestamps = Table(
    "read_timestamps",
    metadata,
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("timestamp_ms", BigInteger, nullable=False),
)

# Two-phase locking (paper §3.1): what is held, and what is waited for, by transactions that go on.
locks = Table(
    "locks",
    metadata,
    Column("table_id", String(36), primary_key=True),
    # '' is the whole table.
    Column("granule", String(512), primary_key=True),
    Column("txn_id", String(36), primary_key=True),
    # IS, IX, S, SIX, X: what is held, '' for nothing yet; and what is waited for, '' for nothing.
    Column("held", String(3), nullable=False),
    Column("wanted", String(3), nullable=False),
    # The order of coming of those that wait.
    Column("place", BigInteger, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("holder", String(255), nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)
Index("locks_by_transaction", locks.c.txn_id)

# Times that were told, kept free in the tables that the transaction is going to write.
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

# Two-phase commit (paper §3.2.2): what this owner has voted for, with all that is needed to carry it out.
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

# What this owner has decided as coordinator; without a timestamp: that the transaction does not commit.
decisions = Table(
    "decisions",
    metadata,
    Column("txn_id", String(36), primary_key=True),
    Column("timestamp_ms", BigInteger),
    Column("decided_ms", BigInteger, nullable=False),
    # The owners that have not carried it out, by ids, comma-separated.
    Column("participants", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    # SHA-256 of a token of 256 random bits: the token itself is nowhere.
    Column("token_hash", String(64), primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    # Comma-separated: read, commit, admin.
    Column("scopes", String(64), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger),
)

# The token that opened a transaction: no other token may go on with it.
openers = Table(
    "openers",
    metadata,
    Column("txn_id", String(36), primary_key=True),
    Column("token_name", String(255), nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
)
Index("openers_by_time", openers.c.seen_ms)
