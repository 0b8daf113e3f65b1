"""PySpark calls that name a table: `table`, `saveAsTable`, `writeTo`, `mergeInto`, `catalog` of an enabled session."""
