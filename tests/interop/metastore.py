"""One Hive metastore, kept by Derby in a folder, for processes that follow each other."""

from __future__ import annotations


def settings(folder: str) -> dict[str, str]:
    """What a Spark session needs to have its catalog there."""
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.driver.memory": "1g",
    }
