"""Names of staged files with their directory, for tables with the feature catalogManaged."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_COLUMNS = (("tables", "transfer_file", True), ("commits", "file_name", False))


def upgrade() -> None:
    """Go to this revision."""
    _resize(64, 96)


def downgrade() -> None:
    """Go back to the revision before."""
    _resize(96, 64)


def _resize(before: int, after: int) -> None:
    # SQLite does not limit the length of texts.
    if op.get_bind().dialect.name == "sqlite":
        return
    for table, column, nullable in _COLUMNS:
        op.alter_column(
            table, column, type_=sa.String(after), existing_type=sa.String(before), existing_nullable=nullable
        )
