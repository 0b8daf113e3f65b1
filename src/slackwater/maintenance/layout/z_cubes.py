"""Selects the files of a clustered table for the next clustering: new files, and Z-cubes not yet full.

A Z-cube contains the files of one clustering. A full Z-cube stays unchanged, so the cost depends on the new data.
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
    """Clustering columns by display name, the size of a full Z-cube (`min_bytes`), and of new ones (`target_bytes`).

    With `takes_all`, full Z-cubes and Z-cubes of other columns are clustered again.
    """

    columns: Sequence[str]
    min_bytes: int = 100 * GIBIBYTE
    target_bytes: int = 150 * GIBIBYTE
    takes_all: bool = False


@dataclass(frozen=True)
class CubeWork:
    """Bins of files (columns of ADD_SCHEMA), each a future Z-cube, and the input before clustering.

    `cubes` lists the file sizes in bytes of each old Z-cube in the input. `others` lists the sizes of other input
    files.
    """

    bins: list[Bin] = field(default_factory=list)
    cubes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    others: Sequence[int] = ()


def clustering_paths(snapshot: Snapshot) -> list[ColumnPath]:
    """Return the display names of the clustering columns, empty without clustering. Raises CorruptTable."""
    domain = snapshot.domain_metadata.get(clustering.DOMAIN)
    physical = clustering.physical_columns(domain, snapshot.store.root_url)
    display = {found: path for path, found in snapshot.physical_paths.items()}
    return [display.get(path, path) for path in physical]


def tags_of(cube_id: str, columns: Sequence[str]) -> dict[str, str]:
    """Return the tags of the files of a Z-cube."""
    return {CUBE_ID: cube_id, CUBE_COLUMNS: orjson.dumps(list(columns)).decode(), CUBE_CURVE: HILBERT}


def to_cluster(files: pa.Table, rules: CubeRules) -> CubeWork:
    """Return the files to cluster, of all live `files` of a table (columns of ADD_SCHEMA). Empty if nothing is due.

    Files clustered by another implementation stay unchanged, because the protocol requires this.
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
    """Return the Z-cube id of a file and its clustering columns; None without a Z-cube."""
    tags = dict(row["tags"] or ())
    name = tags.get(CUBE_ID)
    return None if row["clusteringProvider"] is None or name is None else (name, tags.get(CUBE_COLUMNS))


def _packed(chosen: Sequence[int], sizes: Sequence[int], target: int) -> list[list[int]]:
    """Return the files in groups. Each group is closed once its size reaches `target`."""
    groups: list[list[int]] = []
    full = target
    for at in chosen:
        if full >= target:
            groups.append([])
            full = 0
        groups[-1].append(at)
        full += sizes[at]
    return groups
