"""Indexes that find the locks of a transaction on whole tables, and waiting lock requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Go to this revision."""
    op.drop_index("locks_by_transaction", "locks")
    op.create_index("locks_by_transaction", "locks", ["txn_id", "granule"])
    waits = sa.text("wanted <> ''")
    op.create_index("locks_waiting", "locks", ["txn_id"], sqlite_where=waits, postgresql_where=waits)


def downgrade() -> None:
    """Go back to the revision before."""
    op.drop_index("locks_waiting", "locks")
    op.drop_index("locks_by_transaction", "locks")
    op.create_index("locks_by_transaction", "locks", ["txn_id"])
