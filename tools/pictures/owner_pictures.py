"""The pictures of docs/understand/owner.md: what small lakes' owners, directories and readers say in mid-commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.pictures.gallery import Gallery
from tools.pictures.killed_writer import kill_at
from tools.pictures.moments_drawing import Cell, Row, moments_svg
from tools.pictures.segment_drawing import LogRow, Reader, segment_svg
from tools.pictures.small_lake import NAMES, SmallLake, TableSeen, small_lake
from tools.pictures.small_table import letter_of

from slackwater.errors import CommitOwnerRequired, UnratifiedCommit
from slackwater.log.files.segment import load_segment
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.actions.files import AddFile
from slackwater.storage.open import open_store
from slackwater.transaction.table.public_transaction import Transaction

BEFORE, STAGED, RATIFIED, COPIED = "before", "staged", "ratified", "backfilled"
LOG, COMMITS = "_delta_log/", "_commits/"
COUNTS = f"{COMMITS} ratified"
KILLS = {
    ("one of two", "is staged"): ("staged", 1),
    ("both are", "staged"): ("staged", 2),
    ("both are", "ratified"): ("copies", 1),
    ("orders is", "backfilled"): ("copied", 1),
}
Seen = Mapping[str, TableSeen]


@dataclass(frozen=True)
class Killed:
    """What a killed writer left, what is found then, what a repair says, and the version of the next commit."""

    left: Seen
    said: Sequence[str]
    mended: Seen
    next_version: int


@dataclass(frozen=True)
class Refused:
    """What a writer is told, what is in the log then, and what the owner and its reader say."""

    told: str
    log: Sequence[int]
    ratified: int
    read: str


@cache
def moments(*names: str) -> list[tuple[str, Seen]]:
    """One commit of all these tables, from step to step."""
    found: list[tuple[str, Seen]] = []
    with small_lake(*names) as root:

        def step(what: str) -> None:
            if what != "copies":
                found.append(({"staged": STAGED, "copied": COPIED}[what], {name: lake.seen(name) for name in names}))

        with SmallLake.at(root, step) as lake:
            found.append((BEFORE, {name: lake.seen(name) for name in names}))
            lake.write(*names)
            found.append((RATIFIED, {name: lake.seen(name) for name in names}))
            for name in names:
                lake.backfill(name)
    return found


def one_commit() -> str:
    """Version 2 of one table on its way."""
    shown = [(title, seen["orders"]) for title, seen in moments("orders")]
    rows = [
        Row(["the owner", "says what counts"], [_owner_says(seen) for _, seen in shown]),
        Row([COMMITS, "in _delta_log/"], [_staged(seen) for _, seen in shown]),
        Row([LOG, "for everybody"], [_log(seen) for _, seen in shown]),
        Row(["a reader", "who asks the owner"], [[_version(seen.by_owner)] for _, seen in shown]),
        Row(["a reader", "of the log alone"], [[_version(seen.by_log)] for _, seen in shown]),
    ]
    return moments_svg(
        "A commit is staged, then ratified, then backfilled",
        [[title] for title, _ in shown],
        rows,
        ["It counts from one moment on: when the owner ratifies it, in one transaction of its database."],
    )


def two_tables() -> str:
    """One transaction over two tables."""
    found = moments(*NAMES)
    # Of the two that are staged one after the other the second.
    shown = [(title, seen) for number, (title, seen) in enumerate(found) if title != STAGED or number == 2]
    columns = [[title] for title, _ in shown]
    columns[-2:] = [["orders is", COPIED], ["both are", COPIED]]
    columns[1:3] = [["both are", STAGED], ["both are", RATIFIED]]
    rows = [
        Row(["the owner", "says what counts"], [_counts(seen) for _, seen in shown]),
        *[Row([LOG, f"of {name}"], [_log(seen[name]) for _, seen in shown]) for name in NAMES],
        Row(["a reader", "who asks the owner"], [_read({n: s.by_owner for n, s in seen.items()}) for _, seen in shown]),
        Row(["a reader", "of the logs alone"], [_read({n: s.by_log for n, s in seen.items()}) for _, seen in shown]),
    ]
    return moments_svg(
        "Two tables, one step",
        columns,
        rows,
        ["Who asks the owner finds both versions 1 or both versions 2. The logs come after, one by one."],
    )


def _owner_says(seen: TableSeen) -> list[Cell]:
    cells = [Cell(f"{seen.ratified} counts", "says-accent" if seen.ratified > 1 else "")]
    if seen.given > seen.ratified:
        cells.append(Cell(f"{seen.given} is given out", "says-warn"))
    return cells


def _counts(seen: Seen) -> list[Cell]:
    versions = {name: table.ratified for name, table in seen.items()}
    return [Cell(f"{name} {version}", "says-accent" if version > 1 else "") for name, version in versions.items()]


def _staged(seen: TableSeen) -> list[Cell]:
    """Staged files: of what is in the log, of what counts, of what does not."""
    kinds = {version: "gone" if version in seen.log else "accent" for version in seen.staged}
    return [Cell(f"{v}.id.json", kind if v <= seen.ratified else "warn") for v, kind in kinds.items()]


def _log(seen: TableSeen) -> list[Cell]:
    return [Cell(f"{version}.json", "accent" if version > 1 else "plain") for version in seen.log if version]


def _version(version: int) -> Cell:
    return Cell(f"version {version}", "says-good" if version > 1 else "")


def _read(versions: Mapping[str, int]) -> list[Cell]:
    kind = "says-bad" if len(set(versions.values())) > 1 else "says-good" if min(versions.values()) > 1 else ""
    return [Cell(f"{name} {version}", kind) for name, version in versions.items()]


@cache
def readers() -> tuple[list[LogRow], list[Reader]]:
    """A table with commits that are backfilled, some that only count, and one that does not; and who reads what."""
    with small_lake(*NAMES) as root:
        with SmallLake.at(root) as lake:
            lake.write("orders")
            lake.backfill("orders")
            for _ in range(2):
                lake.write("orders")
        kill_at(root, "staged", 1)
        with SmallLake.at(root) as lake:
            seen = lake.seen("orders")
            asks = lake.snapshot("orders").segment
        alone = load_segment(open_store(root / "orders"))
    read = {
        who: [(COUNTS if commit.is_staged else LOG, commit.version) for commit in segment.commits]
        for who, segment in (("who asks the owner", asks), ("who reads the log alone", alone))
    }
    rows = [
        LogRow(LOG, [(version, f"{version}.json") for version in seen.log]),
        LogRow(COUNTS, [(v, f"{v}.id.json") for v in seen.staged if v <= seen.ratified], "accent"),
        LogRow(f"{COMMITS} staged", [(v, f"{v}.id.json") for v in seen.staged if v > seen.ratified], "warn"),
    ]
    return rows, [Reader(who, files, f"version {files[-1][1]}") for who, files in read.items()]


@cache
def killed() -> dict[tuple[str, str], Killed]:
    """A writer of both tables that is killed at each step, and who comes next."""
    found = {}
    for when, (step, number) in KILLS.items():
        with small_lake(*NAMES) as root:
            kill_at(root, step, number)
            with SmallLake.at(root) as lake:
                left = {name: lake.seen(name) for name in NAMES}
                said = lake.repair()
                mended = {name: lake.seen(name) for name in NAMES}
                lake.write(*NAMES)
                found[when] = Killed(left, said, mended, lake.seen("orders").ratified)
    return found


def killed_svg() -> str:
    """A column for each step at which the writer is killed."""
    cases = killed()
    rows = [
        *[Row([COMMITS, f"of {name}"], [_newly_staged(case.left[name]) for case in cases.values()]) for name in NAMES],
        *[Row([LOG, f"of {name}"], [_log(case.left[name]) for case in cases.values()]) for name in NAMES],
        Row(
            ["a reader", "who asks the owner"],
            [_read({n: s.by_owner for n, s in case.left.items()}) for case in cases.values()],
        ),
        Row(["who comes next"], [[Cell(words) for words in _done(case.said)] for case in cases.values()]),
        Row(
            ["then both logs", "end with"],
            [[Cell(f"{max(s.log)}.json", "accent" if max(s.log) > 1 else "plain")] for s in _ends(cases)],
        ),
        Row(["the next commit is"], [[Cell(f"version {case.next_version}")] for case in cases.values()]),
    ]
    return moments_svg(
        "A writer is killed, and nobody has to know how far it came",
        [list(when) for when in cases],
        rows,
        ["Before it is ratified all of it is as if it had never been; from then on all of it counts."],
        "killed when",
    )


def _ends(cases: Mapping[tuple[str, str], Killed]) -> list[TableSeen]:
    """One of the tables that were mended, of each case: their logs are alike."""
    return [next(iter(case.mended.values())) for case in cases.values()]


def _newly_staged(seen: TableSeen) -> list[Cell]:
    return [cell for cell in _staged(seen) if not cell.words.startswith(("0", "1"))] or [Cell("nothing of it")]


def _done(said: Sequence[str]) -> list[str]:
    """What a repair says, in short."""
    words = []
    for line in said:
        name, _, what = line.partition(": ")
        if "were released" in what:
            words.append("gives version 2 back")
        elif what == "versions 2 to 2 were backfilled":
            words.append(f"backfills {name}")
        else:
            raise ValueError(f"there is no short word for {line!r}")
    return words


@cache
def refused() -> list[Refused]:
    """Three writers of a table that belongs to an owner: by the lake, by the path, and past the owner."""
    found = []
    for work in (_by_the_lake, _by_the_path, _past_the_owner):
        with small_lake("orders") as root:
            told = work(root)
            with SmallLake.at(root) as lake:
                try:
                    read = f"version {lake.snapshot('orders').version}"
                except UnratifiedCommit as error:
                    read = type(error).__name__
                log = sorted(int(letter_of(file.name)) for file in (root / "orders" / LOG).glob("*.json"))
                found.append(Refused(told, log, lake.owner.table("orders").ratified_version, read))
    return found


def _by_the_lake(root: Path) -> str:
    with SmallLake.at(root) as lake:
        lake.write("orders")
        lake.backfill("orders")
        return f"version {lake.snapshot('orders').version}"


def _by_the_path(root: Path) -> str:
    try:
        transaction = Transaction(root / "orders")
        transaction.add(AddFile("mine.parquet", {}, 1, 0))
        return f"version {transaction.commit('WRITE').version}"
    except CommitOwnerRequired as error:
        return type(error).__name__


def _past_the_owner(root: Path) -> str:
    store = open_store(root / "orders")
    store.put_if_absent(commit_path(2), store.read(commit_path(1)))
    return "nothing, it is put"


def refused_svg() -> str:
    """A column for each writer."""
    cases = refused()
    rows = [
        Row(["what it is told"], [[_told(case.told)] for case in cases]),
        Row(
            [LOG, "afterwards"],
            [[Cell(f"{v}.json", _of_whom(v, case.ratified)) for v in case.log if v] for case in cases],
        ),
        Row(["the owner", "says what counts"], [[Cell(f"{case.ratified} counts")] for case in cases]),
        Row(["a reader", "who asks the owner"], [[_told(case.read)] for case in cases]),
        Row(["a reader", "of the log alone"], [[_alone(case)] for case in cases]),
    ]
    columns = [
        ["writes", "by the lake"],
        ["writes by the path,", "the lake is not open"],
        ["puts 2.json itself,", "past the owner"],
    ]
    return moments_svg(
        "Who does not ask the owner is refused, or found out",
        columns,
        rows,
        ["What the owner did not ratify does not count, and all who ask it are told which file that is."],
        "a writer",
    )


def _alone(case: Refused) -> Cell:
    """What the log alone says; it is bad where that does not count."""
    newest = case.log[-1]
    return Cell(f"version {newest}", "says-bad") if newest > case.ratified else _version(newest)


def _told(words: str) -> Cell:
    """An answer; the name of an error is bad."""
    return Cell(words, "says-good" if words == "version 2" else "says-bad" if words[0].isupper() else "")


def _of_whom(version: int, ratified: int) -> str:
    """The look of a file of the log."""
    return "plain" if version <= 1 else "accent" if version <= ratified else "bad"


GALLERY = Gallery(
    "understand/owner.md",
    "images/owner",
    {
        "commit.svg": one_commit,
        "two-tables.svg": two_tables,
        "readers.svg": lambda: segment_svg(
            "Who asks the owner reads what is ratified and not yet in the log",
            *readers(),
            ["Staged files lie there whether they count or not, and some time after their backfill. The owner knows."],
        ),
        "killed.svg": killed_svg,
        "refused.svg": refused_svg,
    },
)
