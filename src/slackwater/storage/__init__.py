"""The seam to files: one `ObjectStore`, over local disks, memory, S3 and its likes, GCS, Azure and web servers."""

from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectMeta, ObjectStore

__all__ = ["ObjectMeta", "ObjectStore", "open_store"]
