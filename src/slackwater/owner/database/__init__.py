"""Database of the owner: connections, tables, migrations, and the queue of writers."""
