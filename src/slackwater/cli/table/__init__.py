"""Commands on one table: log contents and maintenance."""
