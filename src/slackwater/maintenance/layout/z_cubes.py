"""Which files of a clustered table are clustered next: what came since, and cubes that are not full yet.

A cube is the files of one clustering. One that is full stays unchanged, so that the work goes by what is new.
Source: delta-protocol.md "Writer Requirements for Clustered Table"; delta-spark's tags of files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from slackwater.maintenance.layout.bin_packing import GIBIBYTE, Bin, in_order
from slackwater.protocol.features import clustering
from slackwater.protocol.schema.schema import ColumnPath
from slackwater.scan.snapshot import Snapshot

PROVIDER = "liquid"
CUBE_ID, CUBE_COLUMNS, CUBE_CURVE = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"
HILBERT = "hilbert"


@dataclass(frozen=True, slots=True)
class CubeRules:
    """The display names of the clustering columns; a cube of `min_bytes` is full, and new ones get `target_bytes`.

    With `takes_all`, full cubes and those by other columns are clustered again.
    """

    columns: Sequence[str]
    min_bytes: int = 100 * GIBIBYTE
    target_bytes: int = 150 * GIBIBYTE
    takes_all: bool = False


@dataclass(frozen=True)
class CubeWork:
    """Files (columns of ADD_SCHEMA) that become a cube each, and what there was before.

    `cubes` are the sizes in bytes of the files of each old cube that goes on in them, `others` those of other files.
    """

    bins: list[Bin] = field(default_factory=list)
    cubes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    others: Sequence[int] = ()


def clustering_paths(snapshot: Snapshot) -> list[ColumnPath]:
    """The display names of the clustering columns; none where the table is not clustered. Raises CorruptTable."""
    domain = snapshot.domain_metadata.get(clustering.DOMAIN)
    physical = clustering.physical_columns(domain, snapshot.store.root_url)
    display = {found: path for path, found in snapshot.physical_paths.items()}
    return [display.get(path, path) for path in physical]


def tags_of(cube_id: str, columns: Sequence[str]) -> dict[str, str]:
    """The tags of the files of a cube."""
    return {CUBE_ID: cube_id, CUBE_COLUMNS: orjson.dumps(list(columns)).decode(), CUBE_CURVE: HILBERT}


def to_cluster(files: pa.Table, rules: CubeRules) -> CubeWork:
    """What of `files` (columns of ADD_SCHEMA), all live ones of a table, is to be clustered; nothing where all is well.

    What another implementation clustered stays unchanged, as the protocol says.
    """
    files = in_order(files)
    wanted = orjson.dumps(list(rules.columns)).decode()
    rows = files.select(["size", "tags", "clusteringProvider"]).to_pylist()
    cubes: dict[str, list[int]] = {}
    others: list[int] = []
    for at, row in enumerate(rows):
        if row["clusteringProvider"] not in (None, PROVIDER):
            continue
        cube = _cube(row)
        if cube is None:
            others.append(at)
        elif rules.takes_all or cube[1] == wanted:
            cubes.setdefault(cube[0], []).append(at)
    sizes = files["size"].to_pylist()
    if not rules.takes_all:
        cubes = {name: of for name, of in cubes.items() if sum(sizes[at] for at in of) < rules.min_bytes}
        if not others and len(cubes) < 2:
            return CubeWork()
    chosen = [*others, *(at for name in sorted(cubes) for at in cubes[name])]
    packed = _packed(chosen, sizes, max(rules.target_bytes, rules.min_bytes))
    bins = [Bin({}, files.take(pa.array(sorted(of), pa.int64())), sum(sizes[at] for at in of)) for of in packed]
    return CubeWork(bins, {name: [sizes[at] for at in of] for name, of in cubes.items()}, [sizes[at] for at in others])


def _cube(row: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """The id of the cube that the file is of, and the columns that it is clustered by."""
    tags = dict(row["tags"] or ())
    name = tags.get(CUBE_ID)
    return None if row["clusteringProvider"] is None or name is None else (name, tags.get(CUBE_COLUMNS))


def _packed(chosen: Sequence[int], sizes: Sequence[int], target: int) -> list[list[int]]:
    """The files in groups that are each as large as `target` as soon as they can be."""
    groups: list[list[int]] = []
    full = target
    for at in chosen:
        if full >= target:
            groups.append([])
            full = 0
        groups[-1].append(at)
        full += sizes[at]
    return groups
