"""Operation metrics of DELETE, UPDATE and MERGE, under the names of delta-spark."""

from __future__ import annotations

from collections.abc import Mapping

from slackwater.protocol.actions.paths import canonical_path
from slackwater.spark.dml.dml_command import DmlCommand


def known(name: str, value: int | None) -> dict[str, int]:
    """Return the metric as a mapping, empty if `value` is None."""
    return {} if value is None else {name: value}


def file_metrics(change: DmlCommand, target: str = "") -> Mapping[str, int]:
    """Return the numbers of files and bytes added and removed by the change.

    Sizes are in bytes. The metric names of MERGE contain `target`.
    """
    staged, vectors = change.transaction.staged, change.vectors
    removed_paths = {canonical_path(remove.path) for remove in staged.removes}
    # A file with a replaced deletion vector is neither removed nor added.
    removes = len(staged.removes) - vectors.vectors_added - vectors.vectors_updated
    adds = [add for add in staged.adds if canonical_path(add.path) not in removed_paths]
    added_paths = {canonical_path(add.path) for add in staged.adds}
    whole = [remove for remove in staged.removes if canonical_path(remove.path) not in added_paths]
    removed_bytes = sum(remove.size or 0 for remove in whole)
    vectors_removed = sum(remove.deletion_vector is not None for remove in whole)
    if target:
        names = ("numTargetFilesAdded", "numTargetFilesRemoved", "numTargetBytesAdded", "numTargetBytesRemoved")
        prefix = "numTarget"
    else:
        names = ("numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes")
        prefix = "num"
    values = (len(adds), removes, sum(add.size for add in adds), removed_bytes)
    changes = "numTargetChangeFilesAdded" if target else "numAddedChangeFiles"
    return {
        **dict(zip(names, values, strict=True)),
        changes: len(staged.change_files),
        f"{prefix}DeletionVectorsAdded": vectors.vectors_added + vectors.vectors_updated,
        f"{prefix}DeletionVectorsUpdated": vectors.vectors_updated,
        f"{prefix}DeletionVectorsRemoved": vectors_removed + vectors.vectors_updated,
    }
