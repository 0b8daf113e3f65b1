"""Tables, commits, transactions, read timestamps, locks, tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Go to this revision."""
    op.create_table(
        "locks",
        sa.Column("item", sa.String(512), primary_key=True),
        sa.Column("txn_id", sa.String(36), primary_key=True),
        sa.Column("is_exclusive", sa.Boolean(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "owner",
        sa.Column("owner_id", sa.String(36), primary_key=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "read_timestamps",
        sa.Column("slot", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("timestamp_ms", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "tables",
        sa.Column("table_id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("allocated_version", sa.BigInteger(), nullable=False),
        sa.Column("ratified_version", sa.BigInteger(), nullable=False),
        sa.Column("backfilled_version", sa.BigInteger(), nullable=False),
        sa.Column("allocated_ms", sa.BigInteger(), nullable=False),
        sa.Column("ratified_ms", sa.BigInteger(), nullable=False),
        sa.Column("allocated_mark", sa.BigInteger()),
        sa.Column("ratified_mark", sa.BigInteger()),
        sa.Column("allocated_change", sa.BigInteger(), nullable=False),
        sa.Column("ratified_change", sa.BigInteger(), nullable=False),
        sa.Column("purged_version", sa.BigInteger(), nullable=False),
        sa.Column("transfer_version", sa.BigInteger()),
        sa.Column("transfer_file", sa.String(64)),
        sa.Column("transfer_commit_id", sa.String(36)),
        sa.Column("backfill_holder", sa.String(255)),
        sa.Column("backfill_until_ms", sa.BigInteger()),
        sa.Column("turn_of", sa.String(36)),
        sa.Column("turn_until_ms", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("problem", sa.Text(), nullable=False, server_default=""),
    )
    taken = sa.text("state <> 'released'")
    for column in ("name", "location"):
        op.create_index(
            f"tables_by_{column}", "tables", [column], unique=True, sqlite_where=taken, postgresql_where=taken
        )
    op.create_index("tables_by_time", "tables", ["allocated_ms"])
    op.create_table(
        "tokens",
        sa.Column("token_hash", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("scopes", sa.String(64), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger()),
    )
    op.create_table(
        "transactions",
        sa.Column("txn_id", sa.String(36), primary_key=True),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger()),
        sa.Column("pending", sa.Integer(), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "commits",
        sa.Column("table_id", sa.String(36), sa.ForeignKey("tables.table_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("version", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("commit_id", sa.String(36), nullable=False),
        sa.Column("file_name", sa.String(64), nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("mark", sa.BigInteger()),
        sa.Column("is_change", sa.Boolean(), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("txn_id", sa.String(36)),
    )
    op.create_index("commits_by_id", "commits", ["table_id", "commit_id"], unique=True)


def downgrade() -> None:
    """Go back to nothing."""
    op.drop_table("commits")
    op.drop_table("transactions")
    op.drop_table("tokens")
    op.drop_table("tables")
    op.drop_table("read_timestamps")
    op.drop_table("owner")
    op.drop_table("locks")
