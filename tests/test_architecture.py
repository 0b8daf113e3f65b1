"""The house's rules that no linter knows: who may import whom, how long a module may be, and the tree of errors."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import slackwater
from slackwater import errors
from slackwater.protocol.features.table_features import FEATURES

ROOT = Path(slackwater.__file__).parent
LAYERS = (
    "error_classes",
    "errors",
    "version",
    "optional_dependencies",
    "html",
    "waiting",
    "protocol",
    "storage",
    "predicate",
    "sql",
    "stats",
    "data_files",
    "owner.api",
    "log",
    "scan",
    "streams",
    "transaction",
    "maintenance",
    "rows",
    "owner",
    "lake",
    "visualization",
    "spark",
    "cli",
)
# The public surface gathers from every layer, and none of them imports it.
SURFACE = "slackwater"
MOST_LINES = 600
MOST_MODULES = 15
VERSIONS = ROOT / "owner" / "database" / "migrations" / "versions"
DOCUMENTS = Path(__file__).parents[1]
MODULES = sorted(ROOT.rglob("*.py"))


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _layer(module: str) -> str:
    parts = module.split(".")
    if parts[1:] == ["__main__"]:
        return "cli"
    if ".".join(parts[1:3]) in LAYERS:
        return ".".join(parts[1:3])
    return parts[1] if len(parts) > 1 and (parts[1] in LAYERS or _is_module(".".join(parts[:2]))) else SURFACE


def _is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


@cache
def _imports(path: Path) -> list[tuple[int, str]]:
    return list(_imported(path))


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import in the file, also those inside functions and for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = _name(path) if path.name == "__init__.py" else _name(path).rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            source = ".".join(part for part in (base, node.module) if part)
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def _breaches(path: Path) -> list[str]:
    own = _layer(_name(path))
    if own == SURFACE:
        return []
    allowed = LAYERS[: LAYERS.index(own) + 1]
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for line, name in _imports(path)
        if name.split(".")[0] == SURFACE and _layer(name) not in allowed
    ]


def test_every_module_belongs_to_a_layer() -> None:
    strays = [_name(path) for path in MODULES if _layer(_name(path)) not in (*LAYERS, SURFACE)]
    assert strays == [], f"give these a place in one of {LAYERS}"


def test_no_layer_imports_from_a_later_one() -> None:
    breaches = [breach for path in MODULES for breach in _breaches(path)]
    assert breaches == [], "\n".join(breaches)


def _modules_imported(path: Path, names: Collection[str]) -> set[str]:
    found = set()
    for _, imported in _imports(path):
        name = imported if imported in names else imported.rpartition(".")[0]
        if name in names:
            found.add(name)
    return found - {_name(path)}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for type checkers only count as well."""
    graph = {_name(path): _modules_imported(path, _names()) for path in MODULES if path.name != "__init__.py"}
    circles = [" → ".join(circle) for circle in _circles(graph)]
    assert circles == [], "\n".join(circles)


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"c"}, "e": {"a"}}
    assert sorted(map(sorted, map(set, _circles(graph)))) == [["a", "b", "c"], ["c", "d"]]


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One circle after the other, each cut before the next is looked for."""
    found = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = error.args[1]
            found.append(circle)
            graph = {name: imports - {circle[0]} if name == circle[1] else imports for name, imports in graph.items()}
        else:
            return found


def test_no_folder_is_crowded() -> None:
    folders = Counter(path.parent.relative_to(ROOT) for path in MODULES)
    crowded = [f"{folder}: {count}" for folder, count in folders.items() if count > MOST_MODULES]
    assert crowded == [], "split these by noun"


def test_only_the_spark_layer_imports_spark() -> None:
    breaches = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in MODULES
        if _layer(_name(path)) != "spark"
        for line, name in _imports(path)
        if name.split(".")[0] in ("pyspark", "py4j")
    ]
    assert breaches == [], "\n".join(breaches)


@pytest.mark.parametrize(
    ("module", "text", "found"),
    [
        ("log/x.py", "from slackwater.scan.plan import prune", ["scan"]),
        ("log/x.py", "def f():\n    import slackwater.spark.read.load", ["spark"]),
        ("log/x.py", "from slackwater import scan", ["scan"]),
        ("log/x.py", "from slackwater import DeltaTable", ["slackwater"]),
        ("log/x.py", "import slackwater", ["slackwater"]),
        ("log/x.py", "from ..scan import plan", ["scan"]),
        ("log/x.py", "from . import segment\nfrom .segment import LOG\nfrom ..protocol import schema", []),
        ("log/__init__.py", "from .segment import LOG\nfrom ..cli import main", ["cli"]),
        ("cli/x.py", "from slackwater.errors import SlackwaterError\nimport pyarrow", []),
    ],
)
def test_the_walk_sees_every_kind_of_import(
    module: str, text: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "slackwater"
    (root / module).parent.mkdir(parents=True)
    (root / module).write_text(text)
    monkeypatch.setitem(globals(), "ROOT", root)
    assert [_layer(breach.rpartition(" ")[2]) for breach in _breaches(root / module)] == found


def _rooms() -> list[tuple[str, str]]:
    """The folders with what their docstrings say, in the layers' order."""
    folders = [path.parent for path in MODULES if path.name == "__init__.py" and path.parent not in (ROOT, VERSIONS)]
    folders.sort(key=lambda folder: (LAYERS.index(_layer(_name(folder / "__init__.py"))), folder))
    return [(f"{folder.relative_to(ROOT)}/", _first_sentence(folder)) for folder in folders]


def _first_sentence(folder: Path) -> str:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def test_the_document_has_every_room_in_order() -> None:
    text = (DOCUMENTS / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z_/]+/)` \| (.+) \|$", text, re.MULTILINE) == _rooms()


def test_the_pictures_name_modules_that_exist() -> None:
    text = (DOCUMENTS / "docs" / "architecture.md").read_text(encoding="utf-8")
    layers = "|".join({layer.split(".")[0] for layer in LAYERS[1:]})
    named = re.findall(rf"\b((?:{layers})(?:/[a-z_]+)+)", text)
    assert len(named) > 40
    missing = [name for name in named if not ((ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file())]
    assert missing == []


def test_each_term_of_the_protocol_has_a_module_to_begin_in() -> None:
    text = (DOCUMENTS / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, section = text.partition("\n## Where a term of the protocol is\n")
    rows = re.findall(r"^\| ([^`|-][^|]*) \| (`[^|]+`) \|$", section.partition("\n## ")[0], re.MULTILINE)
    named = [module for _, modules in rows for module in re.findall(r"`([^`]+)`", modules)]
    assert [name for name in named if not (ROOT / f"{name}.py").is_file()] == []
    terms = [term for term, _ in rows]
    assert terms == sorted(terms, key=str.lower)
    features = {name for term in terms for name in re.findall(r"`(\w+)`", term)}
    assert features == {feature.name for feature in FEATURES}


def test_the_guide_for_contributors_names_the_layers() -> None:
    text = (DOCUMENTS / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"^- Layers: ([^.]+(?:\.api[^.]+)?)\. Each imports", text, re.MULTILINE)
    assert tuple(re.findall(r"`([a-z_.]+)`", sentence)) == LAYERS
    assert f"lines mostly, {MOST_LINES} at most" in text
    assert f"has at most {MOST_MODULES} modules" in " ".join(text.split())


def test_sources_point_to_documents_and_sections_that_exist() -> None:
    named = [
        (path.name, document, heading)
        for path in MODULES
        for document, heading in re.findall(r'docs/([\w-]+\.md)(?:\s+"([^"]+)")?', path.read_text())
    ]
    assert len(named) > 20
    lost = [
        each
        for each in named
        if not (DOCUMENTS / "docs" / each[1]).is_file()
        or (each[2] and f"# {' '.join(each[2].split())}\n" not in (DOCUMENTS / "docs" / each[1]).read_text())
    ]
    assert not lost


def test_nothing_cites_notes_that_are_not_in_the_repository() -> None:
    folders = ("benchmarks", "docs", "src", "tests")
    texts = [path for name in folders for kind in ("py", "md") for path in (DOCUMENTS / name).rglob(f"*.{kind}")]
    assert len(texts) > len(MODULES)
    notes = re.compile(r"\b(design|surface),? §\d")
    assert [path.name for path in texts if notes.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_is_short_and_says_what_it_is_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    assert lines <= MOST_LINES, f"{_name(path)} has {lines} lines: split it by noun"
    public = not any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(ROOT).parts)
    assert not public or ast.get_docstring(ast.parse(text)), f"{_name(path)} has no docstring"


def _drawn_tree() -> dict[str, str | None]:
    """Each error of the drawing with its parent, by the column where its name begins."""
    parents: dict[str, str | None] = {}
    open_at: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        bare = line.lstrip(" │├└─")
        name = bare.split(" ")[0]
        column = len(line) - len(bare)
        if not name or not (line.startswith(" ") and (name == "SlackwaterError" or set("├└") & set(line[:column]))):
            continue
        while open_at and open_at[-1][0] >= column:
            open_at.pop()
        parents[name] = open_at[-1][1] if open_at else None
        open_at.append((column, name))
    return parents


def test_the_drawing_of_the_error_tree_is_the_error_tree() -> None:
    defined = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.SlackwaterError) and kind.__module__ == errors.__name__
    }
    parents = {
        name: next((base.__name__ for base in kind.__bases__ if issubclass(base, errors.SlackwaterError)), None)
        for name, kind in defined.items()
    }
    assert _drawn_tree() == parents


def test_every_error_says_what_it_means() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, (Exception, Warning))]
    silent = [kind.__name__ for kind in kinds if not (kind.__doc__ or "").strip()]
    assert silent == []


def _rooms_imported(path: Path) -> Iterator[tuple[str, str]]:
    """(package of the module, package of the imported module), both within one layer; a layer itself is a package."""
    layer, own = _layer(_name(path)), path.parent.relative_to(ROOT)
    for name in _modules_imported(path, _names()):
        other = ROOT.parent.joinpath(*name.split("."))
        other_package = (other if other.is_dir() else other.parent).relative_to(ROOT)
        if _layer(name) == layer and other_package != own:
            yield _room(own, layer), _room(other_package, layer)


def _room(package: Path, layer: str) -> str:
    """The first package below the layer."""
    depth = len(layer.split("."))
    return "/".join(package.parts[: depth + 1])


@cache
def _names() -> frozenset[str]:
    return frozenset(_name(path) for path in MODULES)


def test_no_packages_of_a_layer_import_each_other() -> None:
    """Move what both need into the package that the other one may import; `docs/architecture.md` has their order."""
    arrows = {pair for path in MODULES if path.name != "__init__.py" for pair in _rooms_imported(path)}
    both = sorted(f"{own} ↔ {other}" for own, other in arrows if own < other and (other, own) in arrows)
    assert both == []
