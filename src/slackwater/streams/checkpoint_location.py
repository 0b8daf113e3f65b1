"""Location of a source's metadata in Spark's query checkpoint, found from a path below the checkpoint.

Spark does not pass its checkpoint to a Python source. delta-spark continues with a log of schemas only if the log names
the location of its own source.
Source: Spark's MicroBatchExecution (`sources/N`, in the order of the plan); delta-spark's PersistedMetadata.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from slackwater.errors import SlackwaterError
from slackwater.storage.store import ObjectStore

_METADATA, _FIRST = "metadata", "sources/0"


def source_place(store: ObjectStore, location: str) -> str:
    """Return the location of the query's first source, in Spark's form, for a `store` inside the query's checkpoint.

    `location` is the root of `store` in the user's form. Returns '' if the root is in no checkpoint. For a query with
    several sources, the result may belong to a different source, because Spark does not identify the source.
    """
    for url, place in zip(_parents(store.root_url), _parents(_as_hadoop(store, location)), strict=False):
        try:
            holder, path = store.at(f"{url}/{_METADATA}")
            if _is_query(holder.read(path)):
                return f"{place}/{_FIRST}"
        except SlackwaterError:
            # The file does not exist, or cannot be read.
            continue
    return ""


def _parents(place: str) -> Iterator[str]:
    """Yield the parent directories, the nearest first, down to the last one with a name."""
    scheme, separator, path = place.partition(":")
    root = len(scheme) + len(separator) + (2 if path.startswith("//") else 0)
    while place.rfind("/") > root:
        place = place[: place.rfind("/")]
        yield place


def _as_hadoop(store: ObjectStore, location: str) -> str:
    """Return the location in the form of Hadoop's Path: one slash for a local file system, no percent-encoding."""
    if store.local_root is not None:
        return f"file:{store.local_root}"
    return location.rstrip("/")


def _is_query(metadata: bytes) -> bool:
    """Return whether a file named `metadata` belongs to a checkpoint: it contains the id of a query."""
    try:
        found = orjson.loads(metadata)
    except ValueError:
        return False
    return isinstance(found, dict) and "id" in found
