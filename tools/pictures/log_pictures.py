"""The pictures of docs/understand/log.md: what small tables' directories hold, and what readers and writers find."""

from __future__ import annotations

from tools.pictures.gallery import Gallery
from tools.pictures.lifetime_drawing import FileDays, RowsShown, VersionShown, rows_svg, vacuum_svg
from tools.pictures.log_drawing import CommitShown, WriterStep, commits_svg, race_svg
from tools.pictures.segment_drawing import LogRow, Reader, segment_svg
from tools.pictures.small_table import DAY_MS, SmallTable, TellingStore, letter_of, short_name, small_table

from slackwater.errors import DeltaConcurrentModificationException
from slackwater.log.table import Table
from slackwater.protocol.actions.file_names import LOG
from slackwater.protocol.properties.properties import DELETED_FILE_RETENTION
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.open import open_store
from slackwater.transaction.table.public_transaction import Transaction

COMMITS, CHECKPOINTS = "commits", "checkpoints"
VACUUM_DAY = 12.0
Event = tuple[str, str, str, str]


def commits() -> tuple[list[CommitShown], list[str]]:
    """What each commit of a table says, the files of each version, and those that lie in its directory at the end."""
    with small_table() as table:
        table.commit("WRITE", add="ab")
        table.commit("WRITE", add="c")
        table.commit("UPDATE", add="d", remove="b")
        table.commit("DELETE", remove="a")
        return [_commit(table, version) for version in range(table.latest + 1)], table.present()


def _commit(table: SmallTable, version: int) -> CommitShown:
    actions = table.actions(version)
    added, removed = (
        [letter_of(action[kind]["path"]) for action in actions if kind in action] for kind in ("add", "remove")
    )
    return CommitShown(version, table.operation(version), added, removed, table.letters(version))


def segments() -> tuple[list[LogRow], list[Reader]]:
    """The files of a log with a checkpoint, and which of them are read for several versions."""
    with small_table(checkpointInterval="4") as table:
        for letter in "abcdefg":
            table.commit("WRITE", add=letter)
        names = sorted(short_name(path.name) for path in (table.root / LOG).iterdir())
        found = {
            COMMITS: [(int(name.partition(".")[0]), name) for name in names if name.endswith(".json")],
            CHECKPOINTS: [(int(name.partition(".")[0]), name) for name in names if ".checkpoint." in name],
        }
        rows = [
            LogRow(CHECKPOINTS, found[CHECKPOINTS], "accent"),
            LogRow(COMMITS, found[COMMITS]),
        ]
        readers = [
            _reader(
                "reader of the newest" if version is None else f"reader of version {version}", table.snapshot(version)
            )
            for version in (2, 5, None)
        ]
    return rows, readers


def _reader(who: str, snapshot: Snapshot) -> Reader:
    segment = snapshot.segment
    read = [(CHECKPOINTS, segment.checkpoint.version)] if segment.checkpoint else []
    read += [(COMMITS, commit.version) for commit in segment.commits]
    files = sorted(letter_of(path) for path in snapshot.live_files(["path"])["path"].to_pylist())
    return Reader(who, read, ", ".join(files))


def race(others: str, own: str) -> list[WriterStep]:
    """Two writers of one table that begin at once: B commits first.

    B removes the file `others`; A removes `own`, or adds a file where it is ''.
    """
    with small_table() as table:
        table.commit("WRITE", add="ab")
        events: list[Event] = []
        stores = {who: TellingStore(open_store(table.root), who, events) for who in ("A", "B")}
        begun = {who: Transaction(Snapshot.open(Table(store)), clock=table.clock) for who, store in stores.items()}
        events.clear()
        steps = [
            WriterStep(who, ["reads", f"version {begun[who].snapshot.version}"], kind="muted")  # type: ignore[union-attr]
            for who in ("A", "B")
        ]
        begun["B"].remove(f"{others}.parquet")
        begun["B"].commit("DELETE")
        if own:
            begun["A"].remove(f"{own}.parquet")
        else:
            begun["A"].add(table.write("c"))
        error = None
        try:
            begun["A"].commit("DELETE" if own else "WRITE")
        except DeltaConcurrentModificationException as found:
            error = found
    wanted = {"A": f"remove {own}" if own else "add c", "B": f"remove {others}"}
    for who, operation, file, outcome in dict.fromkeys(events):
        if operation == "put":
            lands = outcome == "lands"
            words = [f"puts {file}:", wanted[who], outcome]
            steps.append(WriterStep(who, words, file, "good" if lands else "warn", lands))
        else:
            steps.append(WriterStep(who, [f"reads {file}:", outcome], file))
    if error is not None:
        steps.append(WriterStep("A", ["is told:", *_name(error)], kind="bad"))
    return steps


def _name(error: Exception) -> list[str]:
    """The name of a class, in lines that fit."""
    name = type(error).__name__
    parts = "".join(f" {letter}" if letter.isupper() else letter for letter in name).split()
    half = (len(parts) + 1) // 2
    return ["".join(parts[:half]), "".join(parts[half:])]


def race_that_follows() -> str:
    """A's commit goes behind B's."""
    return race_svg(
        "Two writers, one number: who comes second looks, and goes behind",
        race("a", ""),
        ["0.json", "1.json"],
        ["A commit is put only where none has its name. A had not read what B removed: so it takes the next number."],
    )


def race_that_is_lost() -> str:
    """A's commit is refused."""
    return race_svg(
        "Both remove the same file: the second is refused",
        race("a", "a"),
        ["0.json", "1.json"],
        ["Nothing of A is in the table. It reads version 2 and does its work again, or leaves it."],
    )


def marked_rows() -> list[RowsShown]:
    """A file whose rows are deleted in two commits, then written anew: what each version reads, and what is there."""
    with small_table(enableDeletionVectors="true") as table:
        transaction = Transaction(table.snapshot(), clock=table.clock)
        transaction.add(table.write("a", range(1, 7)))
        transaction.commit("WRITE")
        shown = [_rows(table)]
        table.delete_rows("a", 1, 4)
        shown.append(_rows(table))
        table.delete_rows("a", 2)
        shown.append(_rows(table))
        table.purge("a", "b")
        shown.append(_rows(table))
    return shown


def _rows(table: SmallTable) -> RowsShown:
    """The newest version."""
    present = table.present()
    said = []
    for action in table.actions(table.latest):
        for kind in ("remove", "add"):
            if kind in action:
                vector = table.vector_of(action[kind].get("deletionVector"))
                said.append((kind, letter_of(action[kind]["path"]) + (f", {vector}" if vector else "")))
    nodes = table.snapshot().files()["deletionVector"].to_pylist()
    needed = {*table.letters(), *map(table.vector_of, nodes)}
    live = table.ids()
    return RowsShown(
        table.latest,
        table.operation(table.latest),
        said,
        {letter: [(id_, id_ in live) for id_ in table.ids_in(letter)] for letter in table.letters()},
        [(name, name in needed) for name in present],
    )


def vacuumed() -> tuple[list[FileDays], list[VersionShown], float]:
    """The days of files and of versions of a table, what a VACUUM did with them, and how far back it keeps, in days."""
    days = {"a": 1.0, "b": 1.0, "w": 2.0, "c": 3.0, "d": 8.0, "x": 10.0}
    with small_table() as table:
        versions = [(table.latest, table.day)]

        def at(day: float, operation: str, add: str = "", remove: str = "") -> None:
            table.day = day
            versions.append((table.commit(operation, add, remove), day))

        at(1, "WRITE", add="ab")
        table.day = days["w"]
        table.write("w")
        at(3, "UPDATE", add="c", remove="a")
        at(8, "UPDATE", add="d", remove="b")
        table.day = days["x"]
        table.write("x")
        table.day = VACUUM_DAY
        retention_days = (table.snapshot().properties.duration_ms(DELETED_FILE_RETENTION) or 0) / DAY_MS
        needed = {version: table.letters(version) for version, _ in versions}
        deleted = table.vacuum()
        files = []
        for letter in sorted(days):
            within = [version for version, letters in needed.items() if letter in letters]
            ends = [day for version, day in versions if within and version > within[-1]]
            files.append(FileDays(letter, days[letter], ends[0] if ends else None, tuple(within), letter in deleted))
        shown = [VersionShown(version, day, table.is_readable(version)) for version, day in versions]
    return files, shown, retention_days


GALLERY = Gallery(
    "understand/log.md",
    "images/log",
    {
        "commits.svg": lambda: commits_svg(*commits()),
        "segment.svg": lambda: segment_svg(
            "A reader reads a checkpoint, and the commits after it",
            *segments(),
            ["A checkpoint says what all commits up to it say together. Who wants an older version begins earlier."],
        ),
        "race.svg": race_that_follows,
        "conflict.svg": race_that_is_lost,
        "rows.svg": lambda: rows_svg(marked_rows()),
        "vacuum.svg": lambda: vacuum_svg(*vacuumed(), VACUUM_DAY),
    },
)
