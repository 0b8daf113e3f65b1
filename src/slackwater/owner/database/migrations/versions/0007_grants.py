"""Grants of tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Go to this revision."""
    op.add_column("tokens", sa.Column("grants", sa.Text))


def downgrade() -> None:
    """Go back to the revision before."""
    op.drop_column("tokens", "grants")
