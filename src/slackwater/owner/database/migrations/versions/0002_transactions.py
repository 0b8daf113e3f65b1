"""Transactions over many tables: time slices, ranges of timestamps, locks with intentions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Go to this revision."""
    for column in (
        sa.Column("served_ms", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("read_slots", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("read_floor_ms", sa.BigInteger(), nullable=False, server_default="0"),
    ):
        op.add_column("owner", column)
    for name in ("low_ms", "high_ms"):
        op.add_column("transactions", sa.Column(name, sa.BigInteger()))
    op.create_index("commits_by_transaction", "commits", ["txn_id"])
    op.drop_table("locks")
    op.create_table(
        "locks",
        sa.Column("table_id", sa.String(36), primary_key=True),
        sa.Column("granule", sa.String(512), primary_key=True),
        sa.Column("txn_id", sa.String(36), primary_key=True),
        sa.Column("held", sa.String(3), nullable=False),
        sa.Column("wanted", sa.String(3), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
    )
    op.create_index("locks_by_transaction", "locks", ["txn_id"])
    op.create_table(
        "promises",
        sa.Column("table_id", sa.String(36), primary_key=True),
        sa.Column("txn_id", sa.String(36), primary_key=True),
        sa.Column("timestamp_ms", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
    )
    op.create_index("promises_by_transaction", "promises", ["txn_id"])
    op.create_table(
        "prepared",
        sa.Column("txn_id", sa.String(36), primary_key=True),
        sa.Column("coordinator_id", sa.String(36), nullable=False),
        sa.Column("low_ms", sa.BigInteger(), nullable=False),
        sa.Column("high_ms", sa.BigInteger(), nullable=False),
        sa.Column("voted_ms", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("txn_id", sa.String(36), primary_key=True),
        sa.Column("timestamp_ms", sa.BigInteger()),
        sa.Column("decided_ms", sa.BigInteger(), nullable=False),
        sa.Column("participants", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    """Go back to the revision before."""
    for table in ("decisions", "prepared", "promises"):
        op.drop_table(table)
    op.drop_table("locks")
    op.create_table(
        "locks",
        sa.Column("item", sa.String(512), primary_key=True),
        sa.Column("txn_id", sa.String(36), primary_key=True),
        sa.Column("is_exclusive", sa.Boolean(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
    )
    op.drop_index("commits_by_transaction", "commits")
    for name in ("high_ms", "low_ms"):
        op.drop_column("transactions", name)
    for name in ("read_floor_ms", "read_slots", "served_ms"):
        op.drop_column("owner", name)
