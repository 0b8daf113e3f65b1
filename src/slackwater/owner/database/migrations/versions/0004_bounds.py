"""The token that opened a transaction, by name, and the table properties pinned by the owner."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Go to this revision."""
    op.create_table(
        "openers",
        sa.Column("txn_id", sa.String(36), primary_key=True),
        sa.Column("token_name", sa.String(255), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
    )
    op.create_index("openers_by_time", "openers", ["seen_ms"])
    op.add_column("tables", sa.Column("kept", sa.Text()))


def downgrade() -> None:
    """Go back to the revision before."""
    op.drop_column("tables", "kept")
    op.drop_table("openers")
