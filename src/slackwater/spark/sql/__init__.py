"""`spark.sql` on Delta tables: statements that name one are carried out by this package, others are Spark's."""
