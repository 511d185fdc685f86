"""The rules of the house, each checked on the whole tree and shown to be able to fail."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "quiver"
SOURCES = sorted(HOUSE.rglob("*.py"))
EVERYTHING = [*SOURCES, *(p for d in ("tests", "bench", "fuzz") for p in (ROOT / d).rglob("*.py"))]

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
LINE_LENGTH_MAX = 100
POSITIONAL_MAX = 3

STATIONS = {"wal", "segment", "subscriber", "acks", "retention", "upstream", "ledger", "progress"}
STATIONS |= {"timeline"}
SURFACES = {"aio", "spark", "chain", "observe", "export"}
FLOORS = {"disk", "casts", "engine", "scan", "consumer", "sink", "source", "checkpoint"}
FLOORS |= {"ship", "upsert", "otel", "cursors"}
ROOMS = {"cli", "testing"} | FLOORS | STATIONS | SURFACES
ENGINE_MAY_USE = {"os.getpid", "os.PathLike"}
NO_IMPORTER_NEEDED = ("quiver.cli", "quiver.testing", "quiver.spark.discovery", "quiver.__main__")

Rule = Callable[[str, str], Iterator[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=1)
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Parse a module, once for all rules that look at it in turn; the module itself is first."""
    return tuple(ast.walk(ast.parse(text)))


def functions(text: str) -> Iterator[tuple[Function, bool]]:
    """Go through all functions of a module, each with whether it has self or cls in front."""
    classes = [node for node in nodes(text) if isinstance(node, ast.ClassDef)]
    methods = {id(child) for node in classes for child in node.body if isinstance(child, Function)}
    for node in nodes(text):
        if isinstance(node, Function):
            static = any(ast.unparse(d) == "staticmethod" for d in node.decorator_list)
            yield node, id(node) in methods and not static


def calls(text: str, *names: str) -> Iterator[int]:
    """Give the lines in which one of these is called."""
    for node in nodes(text):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            last = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if any(name.endswith(last) for name in names) and ast.unparse(node.func) in names:
                yield node.lineno


def imports(text: str) -> Iterator[str]:
    """Give the dotted names a module imports, ``from a import b`` as both ``a`` and ``a.b``."""
    for node in nodes(text):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_imported(text: str) -> set[str]:
    names = (name.split(".") for name in imports(text))
    return {name[1] for name in names if name[0] == "quiver" and len(name) > 1}


def short_files(path: str, text: str) -> Iterator[str]:
    if (count := len(text.splitlines())) > FILE_LINES_MAX:
        yield f"{path}: {count} lines"


def short_lines(path: str, text: str) -> Iterator[str]:
    for number, whole in enumerate(text.splitlines(), 1):
        line = re.sub(r"  # (noqa|type: ignore).*$", "", whole)
        if len(line) > LINE_LENGTH_MAX:
            yield f"{path}:{number}: {len(line)} characters"


def short_functions(path: str, text: str) -> Iterator[str]:
    for function, _ in functions(text):
        first = function.body[0]
        lines = function.end_lineno - function.lineno + 1
        if ast.get_docstring(function, clean=False) is not None:
            lines -= first.end_lineno - first.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"{path}:{function.lineno}: {function.name} has {lines} lines"


def few_positional_parameters(path: str, text: str) -> Iterator[str]:
    for function, is_method in functions(text):
        count = len(function.args.posonlyargs) + len(function.args.args) - is_method
        if count > POSITIONAL_MAX:
            yield f"{path}:{function.lineno}: {function.name} takes {count} positional parameters"


def no_print(path: str, text: str) -> Iterator[str]:
    if path.startswith("quiver/cli/"):
        return
    yield from (f"{path}:{line}: print" for line in calls(text, "print", "pprint.pprint"))


def no_postponed_work(path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b", line):
            yield f"{path}:{number}: {line.strip()}"


def documented_and_listed(path: str, text: str) -> Iterator[str]:
    tree = nodes(text)[0]
    assert isinstance(tree, ast.Module)
    if ast.get_docstring(tree) is None:
        yield f"{path}: no docstring"
    named = {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if is_name(t)}
    named |= {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and is_name(n.target)}
    if "__all__" not in named and not path.endswith("__main__.py"):
        yield f"{path}: no __all__"


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def stations_apart(path: str, text: str) -> Iterator[str]:
    room = path.split("/")[1]
    if room in STATIONS:
        for other in sorted(rooms_imported(text) & (STATIONS | SURFACES | {"engine"}) - {room}):
            yield f"{path}: imports quiver.{other}"


def kit_is_a_leaf(path: str, text: str) -> Iterator[str]:
    its_own = path.startswith("quiver/testing/") or path == "quiver/cli/crashtest.py"
    if not its_own and "testing" in rooms_imported(text):
        yield f"{path}: imports quiver.testing"


def engine_and_os(path: str, text: str) -> Iterator[str]:
    if not path.startswith("quiver/engine/"):
        return
    for node in nodes(text):
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (f"{path}: from os import {a.name}" for a in node.names)
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name.startswith("os.") and name not in ENGINE_MAY_USE:
                yield f"{path}:{node.lineno}: {name}"


def no_sleep(path: str, text: str) -> Iterator[str]:
    yield from (f"{path}:{line}: sleeps" for line in calls(text, "time.sleep", "sleep"))


def spark_apart(path: str, text: str) -> Iterator[str]:
    """Only one folder is searched for tests of Spark."""
    if not path.startswith("tests/spark/") and re.search(r"pytest\.mark\.spark\b", text):
        yield f"{path}: marked with spark outside of tests/spark: nothing runs it"


WIDE_RULES: list[Rule] = [short_files, short_lines, short_functions, no_postponed_work]
HOUSE_RULES: list[Rule] = [
    few_positional_parameters,
    no_print,
    documented_and_listed,
    stations_apart,
    kit_is_a_leaf,
    engine_and_os,
]
TEST_RULES: list[Rule] = [no_sleep, spark_apart]
EVERY_RULE = [*WIDE_RULES, *HOUSE_RULES, *TEST_RULES]


def rules_of(file: Path) -> list[Rule]:
    """Say which rules a file has to keep."""
    house = HOUSE_RULES if file.is_relative_to(HOUSE) else []
    tests = TEST_RULES if file.is_relative_to(ROOT / "tests") else []
    return [*WIDE_RULES, *house, *tests]


def rule_name(rule: Rule) -> str:
    return rule.__name__


def test_every_file_keeps_every_rule() -> None:
    """One test for all: to parse a file is most of the work, and each process would do it."""
    complaints: list[str] = []
    for file in EVERYTHING:
        path, text = str(file.relative_to(ROOT)), file.read_text()
        for rule in rules_of(file):
            complaints += rule(path, text)
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("rule", EVERY_RULE, ids=rule_name)
def test_the_rule_is_one_of_many_files(rule: Rule) -> None:
    least = 50 if rule in WIDE_RULES else 30
    assert sum(rule in rules_of(file) for file in EVERYTHING) > least


LONG_DOC = '"""' + "word\n" * 70 + '"""'


@pytest.mark.parametrize(
    "rule, path, bad, good",
    [
        (short_files, "quiver/a.py", "\n" * 401, "\n" * 400),
        (short_lines, "quiver/a.py", "x" * 101, "x" * 100),
        (
            short_functions,
            "quiver/a.py",
            "def f():\n" + "    x = 1\n" * 60,
            f"def f():\n    {LONG_DOC}\n" + "    x = 1\n" * 59,
        ),
        (
            few_positional_parameters,
            "quiver/a.py",
            "class A:\n    def f(self, a, b, c, d): ...",
            "class A:\n    def f(self, a, b, c, *, d): ...\ndef g(a, b, c): ...",
        ),
        (
            few_positional_parameters,
            "quiver/a.py",
            "class A:\n    @staticmethod\n    def f(a, b, c, d): ...",
            "class A:\n    @classmethod\n    def f(cls, a, b, c): ...",
        ),
        (no_print, "quiver/a.py", "print(1)", "log(1)"),
        (no_postponed_work, "quiver/a.py", "# TO" + "DO later", "# done"),
        (documented_and_listed, "quiver/a.py", '"""Doc."""', '"""Doc."""\n__all__ = []'),
        (documented_and_listed, "quiver/a.py", "__all__ = []", '"""Doc."""\n__all__ = []'),
        (
            stations_apart,
            "quiver/wal/a.py",
            "from quiver.segment.reader import SegmentReader",
            "from quiver.disk import Disk\nfrom quiver.wal import format",
        ),
        (stations_apart, "quiver/acks/a.py", "from quiver import engine", "import quiver.errors"),
        (kit_is_a_leaf, "quiver/a.py", "from quiver.testing import MemoryDisk", "import quiver"),
        (engine_and_os, "quiver/engine/a.py", "import os\nos.unlink('x')", "os.getpid()"),
        (engine_and_os, "quiver/engine/a.py", "from os import unlink", "import os"),
        (no_sleep, "tests/a.py", "time.sleep(1)", "clock.step(1)"),
        (spark_apart, "tests/a/b.py", "@pytest.mark." + "spark", "@pytest.mark.sparkling"),
    ],
)
def test_the_rule_tells_bad_from_good(rule: Rule, path: str, bad: str, good: str) -> None:
    assert list(rule(path, bad))
    assert not list(rule(path, good))


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def unused_modules(texts: dict[str, str]) -> set[str]:
    """Find modules that no other imports; a module named in a string counts as imported."""
    used: set[str] = set()
    for name, text in texts.items():
        found = {*imports(text)} | {
            node.value
            for node in nodes(text)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        used |= found - {name}
    return {name for name in texts if name not in used and not name.startswith(NO_IMPORTER_NEEDED)}


def test_every_module_is_imported_by_another() -> None:
    modules = {module_name(file): file.read_text() for file in SOURCES}
    packages = {".".join(name.split(".")[:-1]) for name in modules}
    assert unused_modules(modules) - packages - {"quiver"} == set()
    lonely = {"quiver.a": "import quiver.b", "quiver.b": "", "quiver.c": "import quiver.c"}
    assert unused_modules(lonely) == {"quiver.a", "quiver.c"}


def missing_furniture(formats: list[Path], root: Path) -> list[str]:
    """Say what a format lacks of its page, its golden file, its fuzz target."""
    found = []
    fuzzed = list((root / "fuzz").glob("fuzz_*.py"))
    golden = [path.name for path in (root / "tests" / "golden" / "v1").rglob("*")]
    for file in formats:
        room = file.parent.name
        if not (file.parent / "FORMAT.md").exists():
            found.append(f"{file.parent.relative_to(root)}/FORMAT.md")
        if not any(name.startswith(room) for name in golden):
            found.append(f"tests/golden/v1/{room}*")
        if fuzzed and not (root / "fuzz" / f"fuzz_{room}.py").exists():
            found.append(f"fuzz/fuzz_{room}.py")
    return found


def test_every_format_has_its_page_golden_file_and_fuzz_target(tmp_path: Path) -> None:
    formats = sorted(HOUSE.rglob("format.py"))
    assert formats
    assert missing_furniture(formats, ROOT) == []
    (tmp_path / "fuzz").mkdir()
    (tmp_path / "fuzz" / "fuzz_other.py").touch()
    lacking = missing_furniture([tmp_path / "wal" / "format.py"], tmp_path)
    assert lacking == ["wal/FORMAT.md", "tests/golden/v1/wal*", "fuzz/fuzz_wal.py"]


def test_no_room_is_unlisted_and_every_room_is_a_package() -> None:
    folders = {path.parent for path in SOURCES if path.parent.parent == HOUSE}
    assert {folder.name for folder in folders} <= ROOMS
    assert all((folder / "__init__.py").exists() for folder in folders)


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE"])
def test_the_page_exists_and_says_something(page: str) -> None:
    assert (ROOT / page).stat().st_size > 200


HEAVY = "sorted({'pyarrow', 'numpy', 'pyspark', 'duckdb', 'blake3'} & set(sys.modules))"


@pytest.mark.parametrize(
    "start",
    [
        "import quiver",
        pytest.param(
            "sys.argv[1:] = ['--help']\nimport quiver.cli.main\n"
            "try:\n    quiver.cli.main.main()\nexcept SystemExit:\n    pass",
            marks=pytest.mark.skipif(
                not (HOUSE / "cli" / "main.py").exists(), reason="there is no command line"
            ),
        ),
    ],
    ids=["import quiver", "quiver --help"],
)
def test_starting_up_imports_nothing_heavy(start: str) -> None:
    code = f"import sys\n{start}\nprint('heavy:', {HEAVY})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_the_check_for_heavy_imports_sees_one() -> None:
    code = f"import sys\nimport quiver\nquiver.open\nprint({HEAVY})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pyarrow" in done.stdout
