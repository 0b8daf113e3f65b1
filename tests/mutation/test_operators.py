"""What a mutation run changes in a module, and what it leaves alone."""

from __future__ import annotations

import pytest

from tests.mutation.operators import mutants, mutated


def _made(text: str) -> list[str]:
    """The new lines of every mutant."""
    changes = [mutated(text, mutant)[1] for mutant in mutants(text)]
    return [" / ".join(line[1:].strip() for line in change.splitlines() if line[0] == "+") for change in changes]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a < b", ["a <= b"]),
        ("a is None", ["a is not None"]),
        ("a and b", ["a or b", "b", "a"]),
        ("not a", ["a"]),
        ("x = a + 1", ["x = a - 1", "x = a + 2"]),
        ("x = 30000", ["x = 60000"]),
        ("x = -1", ["x = 1", "x = -2"]),
        ("x = True", ["x = False"]),
        ("x = min(a)", ["x = max(a)"]),
        ("x = a if b else c", ["x = c if b else a"]),
        ("x = a if b < d else c", ["x = c if b < d else a", "x = a if b <= d else c"]),
        ("x = a if b is None else c", ["x = a if b is not None else c"]),
        ("x = a if not b else c", ["x = a if b else c"]),
        ("x = [a for a in b if c]", ["x = [a for a in b]"]),
        ("x = 'stats'", ["x = 'statsx'"]),
        ("f(a)", ["pass"]),
        ("a.b = c", ["pass"]),
        ("while a:\n    break", ["while not a:", "continue"]),
        ("def f():\n    return a", ["return None"]),
        ("def f():\n    return True", ["return False"]),
        ("def f():\n    return False", ["return True"]),
        ("_LEASE_S = 30", ["_LEASE_S = 31"]),
        ("x = write(a, durable=True)", ["x = write(a, durable=False)"]),
        ("raise ValueError", ["pass"]),
    ],
)
def test_each_rule_of_a_module_is_changed(text: str, made: list[str]) -> None:
    assert _made(text) == made


@pytest.mark.parametrize(
    "text",
    [
        '"""What it says: 1."""',
        "def f(a: int | None = None) -> 'str':\n    '''Says 1.'''",
        "@dataclass(frozen=True)\nclass A(B, metaclass=C):\n    pass",
        "__all__ = ['a']",
        "x = f'{a + 1} of {b}'",
        "def __repr__(self):\n    return a + 1",
        "raise AssertionError('unreachable')",
        "x = Thread(name='slackwater-backfill')",
        "x = zip(a, b, strict=True)",
        "x = field(repr=False)",
        "x = write(a, durable=False)",
        "_NAMED_GAPS = 5",
        "_LONGEST_WAIT_S = 0.05",
        "_FOOTERS_AT_ONCE = 8",
        "_BATCH_ROWS = 1 << 16",
        "if TYPE_CHECKING:\n    f(1)",
        "log.warning('1', 2)",
        "os.kill(1, 2)",
        "import a.b",
        "x = 'a text that people read'",
        "return_ = None",
    ],
)
def test_what_is_said_and_signals_stay(text: str) -> None:
    assert _made(text) == []


def test_of_an_error_only_the_raising_is_changed() -> None:
    assert _made("if a == 1:\n    raise ValueError('b' + f(2))") == ["if a != 1:", "if a == 2:", "pass"]


def test_a_mutant_says_which_lines_must_run() -> None:
    assert [mutant.lines for mutant in mutants("x = 1\nf(\n    a\n)\n")] == [(1,), (2, 3, 4)]
