"""Every small change of a module that its tests should notice, one at a time.

=============  ==================================================================
what           becomes
=============  ==================================================================
comparison     its neighbour (``<`` ``<=``) and its contrary (``==`` ``!=``)
arithmetic     ``+`` ``-``, ``*`` ``//``, shifts and bits the other way round
number         one more, one less; True and False swap; bytes end differently
layout         of a struct: a code of another sign or size, a count, the byte order
logic          ``and`` ``or`` swap, ``not`` goes, a condition is turned round
``min``        ``max``, and back; ``any`` and ``all`` likewise
``return``     None
statement      nothing: raise, return, call, assignment, break, continue
=============  ==================================================================

Texts are left alone, so are annotations, imports, docstrings and ``__all__``.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Edit = Callable[[ast.AST], None]

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
CALCULATED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.USub: ast.UAdd,
}
CHOSEN = {"min": "max", "max": "min", "any": "all", "all": "any"}
CODES = {"B": "bH", "H": "hI", "I": "iQ", "Q": "qI", "q": "Qi", "<": ">", "s": "x", "x": "s"}
REMOVED = (
    ast.Expr,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Raise,
    ast.Return,
    ast.Break,
    ast.Continue,
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed module: ``was`` and ``becomes`` are the lines that differ, inside ``owner``."""

    line: int
    owner: str
    was: str
    becomes: str
    tree: ast.Module


def mutants(source: str) -> Iterator[Mutant]:
    """Go through all mutants of a module, from its first line to its last."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            _mark_last(node.body)
    before = ast.unparse(tree).splitlines()
    seen = {ast.unparse(tree)}
    for place, (node, owner) in enumerate(_walk(tree, "")):
        for edit in (*_expression_edits(node), *_statement_edits(node, owner)):
            changed = copy.deepcopy(tree)
            twin = next(n for at, (n, _) in enumerate(_walk(changed, "")) if at == place)
            edit(twin)
            ast.fix_missing_locations(changed)
            after = ast.unparse(changed)
            if after not in seen:
                seen.add(after)
                was, becomes = _difference(before, after.splitlines())
                yield Mutant(_line(node, edit), owner, was, becomes, changed)


def _difference(before: list[str], after: list[str]) -> tuple[str, str]:
    sides: dict[str, list[str]] = {"-": [], "+": []}
    for line in [*difflib.unified_diff(before, after, lineterm="", n=0)][2:]:
        if line[0] in sides:
            sides[line[0]].append(line[1:].strip())
    return " ".join(sides["-"]), " ".join(sides["+"])


def _line(node: ast.AST, edit: Edit) -> int:
    return getattr(edit, "line", 0) or getattr(node, "lineno", 0)


def _walk(node: ast.AST, owner: str) -> Iterator[tuple[ast.AST, str]]:
    """Go through the nodes that may change, each with the function or class around it."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        owner = f"{owner}.{node.name}".lstrip(".")
    yield node, owner
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "format_spec"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_furniture(child):
                yield from _walk(child, owner)


def _is_furniture(node: ast.AST) -> bool:
    """Whether a node is not worth a change, or one would change nothing."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Return(value=None | ast.Constant(value=None)):
            return hasattr(node, "is_last")
    return False


def _mark_last(statements: list[ast.stmt]) -> None:
    """Mark the statements behind which a function ends, whatever way was taken through it."""
    last = statements[-1]
    last.is_last = True  # type: ignore[attr-defined]
    match last:
        case ast.If(body=body, orelse=orelse):
            ways = [body, orelse]
        case ast.Try(body=body, handlers=handlers, orelse=orelse):
            ways = [orelse or body, *(handler.body for handler in handlers)]
        case ast.With(body=body):
            ways = [body]
        case _:
            ways = []
    for way in filter(None, ways):
        _mark_last(way)


def _set(field: str, value: object) -> Edit:
    return lambda node: setattr(node, field, value)


def _set_item(field: str, at: int, value: object) -> Edit:
    def edit(node: ast.AST) -> None:
        getattr(node, field)[at] = value

    return edit


def _expression_edits(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Compare(ops=ops):
            pairs = ((at, new) for at, op in enumerate(ops) for new in COMPARED[type(op)])
            yield from (_set_item("ops", at, new()) for at, new in pairs)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _set("operand", _turned(operand))
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp() | ast.UnaryOp():
            if type(node.op) in CALCULATED:
                yield _set("op", CALCULATED[type(node.op)]())
        case ast.Constant(value=value):
            yield from (_set("value", other) for other in _other_values(value))
        case ast.Call(func=ast.Name(id=name)) if name in CHOSEN:
            yield _set("func", ast.Name(CHOSEN[name], ast.Load()))
        case ast.Call(func=ast.Attribute(attr="Struct"), args=[ast.Constant(value=str(layout))]):
            layouts = _other_layouts(layout)
            yield from (_set_item("args", 0, ast.Constant(other)) for other in layouts)


def _other_values(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        yield value - 1
    elif isinstance(value, bytes):
        yield value[:-1] + b"~"


def _other_layouts(layout: str) -> Iterator[str]:
    for at, code in enumerate(layout):
        if code.isdigit():
            others = [str(int(code) + step) for step in (1, -1) if code > "0"]
        else:
            others = [*CODES[code]]
        for other in others:
            yield layout[:at] + other + layout[at + 1 :]


def _turned(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _statement_edits(node: ast.AST, owner: str) -> Iterator[Edit]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield _set("test", _turned(test))
        case ast.comprehension(ifs=tests):
            for at, test in enumerate(tests):
                yield _set_item("ifs", at, _turned(test))
        case ast.Return(value=ast.expr()):
            yield _set("value", ast.Constant(None))
    if not owner or isinstance(node, ast.ClassDef):
        return
    for field in ("body", "orelse", "finalbody"):
        statements = getattr(node, field, None)
        for at, child in enumerate(statements if isinstance(statements, list) else ()):
            if isinstance(child, REMOVED) and not _is_furniture(child):
                edit = _set_item(field, at, ast.Pass())
                edit.line = child.lineno  # type: ignore[attr-defined]
                yield edit
