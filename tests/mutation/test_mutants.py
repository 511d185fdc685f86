"""The mutator makes the changes that it says, one at a time, and no others."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
from mutants import mutants

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PURE = [
    "wal/format",
    "acks/format",
    "acks/states",
    "acks/checkpoint",
    "acks/inbox",
    "segment/format",
]


@pytest.mark.parametrize(
    "source, becomes",
    [
        ("a = b < c", ["a = b <= c", "a = b >= c"]),
        ("a = b == c != d", ["a = b != c != d", "a = b == c == d"]),
        ("a = b in c", ["a = b not in c"]),
        ("a = b + c * d", ["a = b - c * d", "a = b + c // d"]),
        ("a = b << c | d", ["a = b << c & d", "a = b >> c | d"]),
        ("a = -b", ["a = +b"]),
        ("a += b", ["a -= b"]),
        ("a = 7", ["a = 8", "a = 6"]),
        ("a = True", ["a = False"]),
        ("a = b'QV'", ["a = b'Q~'"]),
        ("a = b and c", ["a = b or c"]),
        ("a = not b", ["a = not not b"]),
        ("a = max(b, c)", ["a = min(b, c)"]),
        ("if a:\n    b = c", ["if not a:"]),
        ("a = b if c else d", ["a = b if not c else d"]),
        ("a = [b for b in c if d]", ["a = [b for b in c if not d]"]),
        (
            "a = struct.Struct('<H2s')",
            [f"a = struct.Struct('{layout}')" for layout in ("<h2s", ">H2s", "<H1s", "<H3s")]
            + ["a = struct.Struct('<I2s')", "a = struct.Struct('<H2x')"],
        ),
        ("def f():\n    return a", ["pass", "return None"]),
        ("def f():\n    a()\n    raise b", ["pass", "pass"]),
        ("def f():\n    for a in b:\n        break", ["pass"]),
    ],
)
def test_each_operator_gives_its_mutants(source: str, becomes: list[str]) -> None:
    assert sorted(mutant.becomes for mutant in mutants(source)) == sorted(becomes)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""\nimport a\nfrom b import c',
        "__all__ = ['a' + 'b']",
        "a: b | 7",
        "def f(a: b | c) -> d | e: ...",
        "def f():\n    'A docstring.'\n    return None",
        "def f():\n with a:\n  try:\n   return\n  except b:\n   return None",
        "a = 'text'",
        "a = f'{b:>{8}}'",
    ],
)
def test_what_decides_nothing_is_left_alone(source: str) -> None:
    assert list(mutants(source)) == []


@pytest.mark.parametrize("name", PURE)
def test_a_mutant_differs_in_one_place_and_can_be_compiled(name: str) -> None:
    source = (ROOT / "quiver" / f"{name}.py").read_text()
    whole = ast.parse(source)
    function = max((n for n in whole.body if isinstance(n, ast.FunctionDef)), key=_length)
    before = ast.unparse(ast.Module([function], [])).splitlines()
    found = list(mutants("\n".join(before)))
    assert len(found) > 20
    for mutant in found:
        assert mutant.owner.startswith(function.name)
        assert mutant.was != mutant.becomes
        compile(mutant.tree, name, "exec")


def _length(function: ast.FunctionDef) -> int:
    return (function.end_lineno or 0) - function.lineno


def test_every_mutant_called_equivalent_is_of_a_line_that_is_still_there() -> None:
    rows = tomllib.loads((HERE / "equivalent.toml").read_text())["mutant"]
    for row in rows:
        path = ROOT.joinpath(*row["module"].split(".")).with_suffix(".py")
        text = " ".join(ast.unparse(ast.parse(path.read_text())).split())
        assert " ".join(row["was"].split()) in text, row
        assert len(row["reason"]) > 20
