"""How the owner's database came to be as `database_schema` says, one Alembic revision after the other."""
