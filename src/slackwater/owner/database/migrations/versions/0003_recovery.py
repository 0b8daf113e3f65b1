"""Recovery: which owners this one follows, since when, and of which root and database the state is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Go to this revision."""
    for column in (
        sa.Column("former_ids", sa.Text(), nullable=False, server_default=""),
        sa.Column("recovered_ms", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("root_url", sa.Text(), nullable=False, server_default=""),
        sa.Column("root_mark", sa.String(128), nullable=False, server_default=""),
        sa.Column("database_mark", sa.String(128), nullable=False, server_default=""),
    ):
        op.add_column("owner", column)


def downgrade() -> None:
    """Go back to the revision before."""
    for name in ("database_mark", "root_mark", "root_url", "recovered_ms", "former_ids"):
        op.drop_column("owner", name)
