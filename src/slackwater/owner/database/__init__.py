"""The owner's database: connections, tables, migrations, whose turn it is to write."""
