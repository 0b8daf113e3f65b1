"""`spark.sql` on Delta tables. This package runs statements with Delta tables, Spark runs the others."""
