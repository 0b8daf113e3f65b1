"""Storage layer: one `ObjectStore` interface to local disks, memory, S3, GCS, Azure, HDFS and web servers."""

from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectMeta, ObjectStore

__all__ = ["ObjectMeta", "ObjectStore", "open_store"]
