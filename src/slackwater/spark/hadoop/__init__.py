"""Stores on HDFS and other Hadoop file systems, by Spark's own JVM in classic mode."""
