"""How the owner's database came to be as `schema` says, one Alembic revision after the other."""
