"""A bucket on a server of this machine, and the ways to reach it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.storage import open_store
from tests.contract.s3_server import BUCKET, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Bucket:
    """A bucket; `options` are the storage options of its server, as obstore and deltalake take them."""

    options: dict[str, str]

    def url(self, name: str, scheme: str = "s3a") -> str:
        """Where the table `name` is."""
        return f"{scheme}://{BUCKET}/{name}"

    def upload(self, root: Path, name: str) -> None:
        """Have all files of the table at `root` in the bucket, data files before the log."""
        store = open_store(self.url(name), self.options)
        files = sorted((file for file in root.rglob("*") if file.is_file()), key=lambda file: "_delta_log" in str(file))
        for file in files:
            store.put_file(file.relative_to(root).as_posix(), file)

    def fetch(self, name: str) -> int:
        """The bytes of the data files of the table `name`, all of which are fetched, one after the other."""
        store = open_store(self.url(name), self.options)
        paths = [file.path for file in store.list_from("") if file.path.endswith(".parquet")]
        return sum(len(store.read(path)) for path in paths)

    def empty(self, name: str) -> None:
        """Delete the table `name`."""
        store = open_store(self.url(name), self.options)
        store.delete([file.path for file in store.list_from("", recursive=True)])


@contextmanager
def bucket(spark: SparkSession) -> Iterator[Bucket]:
    """A bucket, until the block ends, that the session reaches by Hadoop's connector too, where it has that."""
    with s3_server() as found:
        options = {key.lower(): value for key, value in found.items()}
        settings = {
            "fs.s3a.endpoint": options["aws_endpoint_url"],
            "fs.s3a.endpoint.region": options["aws_region"],
            "fs.s3a.access.key": options["aws_access_key_id"],
            "fs.s3a.secret.key": options["aws_secret_access_key"],
            "fs.s3a.path.style.access": "true",
        }
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            yield Bucket(options)
        finally:
            for key in settings:
                spark.conf.unset(key)
