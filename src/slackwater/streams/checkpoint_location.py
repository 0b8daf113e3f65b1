"""Where Spark keeps what it knows of a query's source: in its checkpoint, which is found from a place below that.

Spark tells a source of Python nothing of its checkpoint. delta-spark goes on with a log of schemas only where the log
names its own source's place.
Source: Spark's MicroBatchExecution (`sources/N`, in the order of the plan); delta-spark's PersistedMetadata.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from slackwater.errors import SlackwaterError
from slackwater.storage.store import ObjectStore

_METADATA, _FIRST = "metadata", "sources/0"


def source_place(store: ObjectStore, location: str) -> str:
    """The place of the first source of the query in whose checkpoint the root of `store` is, as Spark writes it.

    `location` is that root as it was named. '' where it is in no checkpoint. Of a query with several sources this is
    one of them: which one is meant is not known.
    """
    for url, place in zip(_parents(store.root_url), _parents(_as_hadoop(store, location)), strict=False):
        try:
            holder, path = store.at(f"{url}/{_METADATA}")
            if _is_query(holder.read(path)):
                return f"{place}/{_FIRST}"
        except SlackwaterError:
            # Nothing of that name is there, or it may not be read.
            continue
    return ""


def _parents(place: str) -> Iterator[str]:
    """The directories above, the nearest first, down to what has a name."""
    scheme, separator, path = place.partition(":")
    root = len(scheme) + len(separator) + (2 if path.startswith("//") else 0)
    while place.rfind("/") > root:
        place = place[: place.rfind("/")]
        yield place


def _as_hadoop(store: ObjectStore, location: str) -> str:
    """The place as Hadoop's Path has it: of a local file system with one slash, and nothing percent-encoded."""
    if store.local_root is not None:
        return f"file:{store.local_root}"
    return location.rstrip("/")


def _is_query(metadata: bytes) -> bool:
    """Whether a file of that name is that of a checkpoint: it has the id of a query."""
    try:
        found = orjson.loads(metadata)
    except ValueError:
        return False
    return isinstance(found, dict) and "id" in found
