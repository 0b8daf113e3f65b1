"""Migrations of the owner's database to `schema`, a sequence of Alembic revisions."""
