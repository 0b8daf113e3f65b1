"""The graph of ww, wr and rw dependencies of a history, and the cycles in it, by name."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.histories.history import Append, Item
from tests.histories.integrity import ExternalRead
from tests.histories.recorded import RecordedHistory, shown
from tests.histories.violations import Kind, Violation


class Edge(NamedTuple):
    """`source` comes before `target` in every serial order; `kind` is ww, wr or rw.

    `is_absent` where a whole read missed the key that `target` then wrote.
    """

    source: int
    target: int
    kind: str
    item: Item
    is_absent: bool = False

    def said(self, recorded: RecordedHistory) -> str:
        """The edge in words."""
        source, target, place = recorded.name(self.source), recorded.name(self.target), shown(self.item)
        if self.kind == "ww":
            return f"{source} appended to {place} before {target} did"
        if self.kind == "wr":
            return f"{source} appended to {place} what {target} read"
        if self.is_absent:
            return f"{source} found no {place}, which {target} wrote"
        return f"{source} read {place} without what {target} appended"


def edges_of(recorded: RecordedHistory, reads: Mapping[int, Sequence[ExternalRead]]) -> list[Edge]:
    """Direct dependencies between the transactions that count, and from and to the readers of `reads`."""
    edges: list[Edge] = []
    orders: dict[Item, list[int]] = {}
    for item, values in recorded.final.items():
        writers = recorded.writers.get(item, {})
        # A value of nobody keeps its place: it belongs to no transaction, and the chain goes on over it.
        order = [writers.get(value, -1) for value in values]
        orders[item] = order
        chain = [writer for writer in order if writer >= 0]
        edges.extend(Edge(before, after, "ww", item) for before, after in itertools.pairwise(chain) if before != after)
    for reader, seen in reads.items():
        for item, length, is_absent in seen:
            order = orders.get(item, [])
            before, after = length - 1, length
            while before >= 0 and order[before] < 0:
                before -= 1
            while after < len(order) and order[after] < 0:
                after += 1
            if before >= 0 and order[before] != reader:
                edges.append(Edge(order[before], reader, "wr", item))
            if after < len(order) and order[after] != reader:
                edges.append(Edge(reader, order[after], "rw", item, is_absent))
    return edges


def topological_order(count: int, edges: Sequence[Edge]) -> list[int]:
    """Transactions in an order that all edges follow; those on a cycle, or after one, are missing."""
    open_edges = [0] * count
    targets: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        open_edges[edge.target] += 1
        targets[edge.source].append(edge.target)
    order = [number for number in range(count) if not open_edges[number]]
    for number in order:
        for target in targets[number]:
            open_edges[target] -= 1
            if not open_edges[target]:
                order.append(target)
    return order


def cycle_violations(
    recorded: RecordedHistory, edges: Sequence[Edge], reads: Mapping[int, Sequence[ExternalRead]]
) -> Iterator[Violation]:
    """For each knot of transactions that depend on each other, a shortest cycle of the plainest kind that is in it.

    Plainest first: G0, G1c, G-single, G2. Then every transaction that a reader on a knot saw in part.
    """
    ordered = set(topological_order(len(recorded.transactions), edges))
    left = [edge for edge in edges if edge.source not in ordered and edge.target not in ordered]
    for knot in _knots(left):
        inside = [edge for edge in left if edge.source in knot and edge.target in knot]
        cycle = _plainest_cycle(inside)
        said = "; ".join(edge.said(recorded) for edge in cycle)
        names = recorded.ids(edge.source for edge in cycle)
        message = f"No serial order has {' and '.join(names)}: {said}."
        yield Violation(_kind_of(cycle), names, message)
        yield from _seen_in_part(recorded, knot, reads)


def _knots(edges: Sequence[Edge]) -> list[set[int]]:
    """The strongly connected components of more than one transaction."""
    forward = _successors(edges)
    backward = _successors([edge._replace(source=edge.target, target=edge.source) for edge in edges])
    knots: list[set[int]] = []
    unassigned = set(forward)
    while unassigned:
        start = min(unassigned)
        knot = _reached(forward, start) & _reached(backward, start)
        unassigned -= knot
        unassigned.discard(start)
        if knot:
            knots.append(knot)
    return knots


def _successors(edges: Sequence[Edge]) -> dict[int, dict[int, list[Edge]]]:
    successors: dict[int, dict[int, list[Edge]]] = defaultdict(dict)
    for edge in edges:
        successors[edge.source].setdefault(edge.target, []).append(edge)
    return dict(successors)


def _reached(successors: Mapping[int, Mapping[int, object]], start: int) -> set[int]:
    """What a path of at least one edge leads to."""
    reached: set[int] = set()
    waiting = [start]
    while waiting:
        for target in successors.get(waiting.pop(), ()):
            if target not in reached:
                reached.add(target)
                waiting.append(target)
    return reached


def _plainest_cycle(edges: Sequence[Edge]) -> list[Edge]:
    writes = [edge for edge in edges if edge.kind == "ww"]
    told = [edge for edge in edges if edge.kind != "rw"]
    for allowed in (writes, told):
        found = _shortest_cycle(allowed, allowed)
        if found:
            return found
    unseen = sorted((edge for edge in edges if edge.kind == "rw"), key=lambda edge: edge.is_absent)
    return _shortest_cycle(unseen, told) or _shortest_cycle(unseen, edges)


def _shortest_cycle(firsts: Collection[Edge], others: Sequence[Edge]) -> list[Edge]:
    """A shortest cycle of one of `firsts` and then `others`, its edges on one item where such edges are; or nothing."""
    successors = _successors(others)
    best: list[list[Edge]] = []
    for first in firsts:
        path = _shortest_path(successors, first.target, first.source)
        if path is not None and (not best or len(path) + 1 < len(best)):
            best = [[first], *path]
        if len(best) == 2:
            break
    if not best:
        return []
    parallel = [hop if at else [edge for edge in firsts if edge[:2] == hop[0][:2]] for at, hop in enumerate(best)]
    shared = set.intersection(*({edge.item for edge in hop} for hop in parallel))
    return [min(hop, key=lambda edge: (edge.item not in shared, edge.is_absent, edge.kind != "ww")) for hop in parallel]


def _shortest_path(
    successors: Mapping[int, Mapping[int, list[Edge]]], source: int, target: int
) -> list[list[Edge]] | None:
    """The edges of each hop of a shortest path, or None."""
    came_by: dict[int, int] = {source: source}
    waiting = deque([source])
    while waiting:
        at = waiting.popleft()
        if at == target:
            hops: list[list[Edge]] = []
            while at != source:
                hops.append(successors[came_by[at]][at])
                at = came_by[at]
            return hops[::-1]
        for after in successors.get(at, ()):
            if after not in came_by:
                came_by[after] = at
                waiting.append(after)
    return None


def _kind_of(cycle: Sequence[Edge]) -> Kind:
    kinds = [edge.kind for edge in cycle]
    unseen = kinds.count("rw")
    if not unseen:
        return Kind.CIRCULAR_INFORMATION if "wr" in kinds else Kind.WRITE_CYCLE
    if any(edge.is_absent for edge in cycle):
        return Kind.PHANTOM
    if unseen > 1:
        return Kind.WRITE_SKEW
    is_update = "wr" not in kinds and len({edge.item for edge in cycle}) == 1
    return Kind.LOST_UPDATE if is_update else Kind.READ_SKEW


def _seen_in_part(
    recorded: RecordedHistory, knot: Collection[int], reads: Mapping[int, Sequence[ExternalRead]]
) -> Iterator[Violation]:
    """Transactions of which a reader saw some appends, and not others in lists that it read too."""
    for reader in sorted(knot):
        lengths = {item: length for item, length, _ in reads.get(reader, ())}
        for writer in sorted(knot):
            if writer == reader:
                continue
            appended = [
                (operation.item, recorded.places[operation.item].get(operation.value))
                for operation in recorded.transactions[writer].operations
                if type(operation) is Append and operation.item in lengths
            ]
            placed = [(item, place) for item, place in appended if place is not None]
            seen = [item for item, place in placed if place < lengths[item]]
            unseen = [item for item, place in placed if place >= lengths[item]]
            if seen and unseen:
                is_intermediate = set(seen) == set(unseen) and len(set(seen)) == 1
                message = (
                    f"{recorded.name(reader)} saw what {recorded.name(writer)} appended to {shown(seen[0])}, "
                    f"and not what it appended to {shown(unseen[0])}."
                )
                kind = Kind.INTERMEDIATE_READ if is_intermediate else Kind.PARTIAL_VISIBILITY
                yield Violation(kind, recorded.ids((reader, writer)), message)
