"""Marks beside guards in the code, `# guard: NAME`: what each one marks, and the code without it.

docs/decisions/0006-checks-have-mutants.md says which part of the code a mark stands for.
"""

from __future__ import annotations

import ast
import copy
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

MARK = re.compile(r"# guard: (?P<name>.+?)(?: -> (?P<instead>.+))?$")
#: What may stand before the part of an expression that a mark is about.
BEFORE = {"(", "and", "or", "if", "else", "|", "&", "+", "-", "*", "**", "@"}


class MarkError(Exception):
    """A mark that marks nothing which can be taken out; the text says why."""


@dataclass(frozen=True)
class Mark:
    """A mark in a file: ``line`` is the line of code that it is about, ``instead`` what is there without it."""

    name: str
    line: int
    instead: str | None


def marks(text: str) -> list[Mark]:
    """Given Python source, return its marks. A mark alone on its line is about the next line of code."""
    found, waiting = [], []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (match := MARK.fullmatch(token.string)):
            if token.line[: token.start[1]].strip():
                found.append(Mark(match["name"], token.start[0], match["instead"]))
            else:
                waiting.append(match)
        elif token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            found += [Mark(match["name"], token.start[0], match["instead"]) for match in waiting]
            waiting = []
    return sorted(found, key=lambda mark: mark.line)


@dataclass(frozen=True)
class Part:
    """A part of the code that can be marked: ``parent.field`` is ``node``, or has it at ``index``."""

    parent: ast.AST
    field: str
    index: int | None
    node: Any


#: Fields whose parts can be marked: what is in them can go, and its parent still says something.
PARTS = {
    ast.BoolOp: ("values",), ast.BinOp: ("left", "right"), ast.IfExp: ("test", "body", "orelse"),
    ast.Call: ("args", "keywords"), ast.List: ("elts",), ast.Set: ("elts",), ast.Tuple: ("elts",),
    ast.Dict: ("keys",), ast.comprehension: ("ifs",),
    ast.FunctionDef: ("decorator_list",), ast.AsyncFunctionDef: ("decorator_list",), ast.ClassDef: ("decorator_list",),
}  # fmt: skip
#: Of a part over several lines what begins it is meant, not the part itself.
CHAINS = (ast.BoolOp, ast.BinOp, ast.IfExp)


def _parts(tree: ast.AST, line: int) -> Iterator[Part]:
    """All parts that may begin on a line, the outer ones first; places in f-strings are not to be relied on before
    Python 3.12."""
    pending = [tree]
    for parent in pending:
        if isinstance(parent, ast.JoinedStr):
            continue
        pending += (node for node in ast.iter_child_nodes(parent) if _is_on(node, line))
        for field, value in ast.iter_fields(parent):
            named = field in PARTS.get(type(parent), ())
            if isinstance(value, list):
                for index, node in enumerate(value):
                    if isinstance(parent, ast.Dict) and named:
                        yield Part(parent, field, index, node or parent.values[index])
                    elif named or isinstance(node, (ast.stmt, ast.ExceptHandler)):
                        yield Part(parent, field, index, node)
            elif named:
                yield Part(parent, field, None, value)


def _is_on(node: Any, line: int) -> bool:
    """Whether a line is among those of a node, or may be: some kinds have no place of their own."""
    last = getattr(node, "end_lineno", None)
    return last is None or _first_line(node) <= line <= last


def _first_line(node: Any) -> int:
    """The first line of a statement or an expression; a decorator is a part of what it stands above."""
    return min(one.lineno for one in (node, *getattr(node, "decorator_list", ())))


def _marked(tree: ast.AST, text: str, line: int) -> Part:
    """The largest part that begins where a line of code does."""
    source = text.splitlines(keepends=True)
    starts: dict[int, list[Part]] = {}
    for part in _parts(tree, line):
        chain = isinstance(part.node, CHAINS) and part.node.end_lineno != part.node.lineno
        if part.node.lineno == line and not chain:
            starts.setdefault(part.node.col_offset, []).append(part)
    for match in re.finditer(r"\*\*|\w+|\S", source[line - 1]):
        if found := starts.get(len(source[line - 1][: match.start()].encode())):
            return found[0]
        if match[0] not in BEFORE:
            break
    raise MarkError("nothing that can be taken out begins there")


@dataclass(frozen=True)
class Edit:
    """``text`` instead of what stands between two positions: (line, byte in it), lines from 1."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def _over(node: Any, text: str) -> Edit:
    return Edit((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), text)


def _expression(node: Any, text: str) -> Edit:
    return _over(node, text if re.fullmatch(r"\w+", text) else f"({text})")


def _of_statement(node: Any, instead: str | None) -> Edit:  # noqa: PLR0911 - one line for each kind
    """The code without a statement, a condition or a handler of exceptions."""
    if isinstance(node, (ast.If, ast.While)):
        return _expression(node.test, instead or "False")
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return _expression(node.iter, instead or "()")
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        return _expression(node.type, instead or "()")
    if isinstance(node, (ast.With, ast.AsyncWith)):
        if instead:
            return _expression(node.items[0].context_expr, instead)
        inside = node.body[0]
        indented = "if True:\n" + " " * inside.col_offset
        return Edit((node.lineno, node.col_offset), (inside.lineno, inside.col_offset), indented)
    if instead and getattr(node, "value", None) is not None:
        return _expression(node.value, instead)
    if instead or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try, ast.ExceptHandler)):
        raise MarkError("a statement of this kind cannot be marked")
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        bound = {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        if not bound <= {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}:
            raise MarkError("a name would have no value: say after `->` which one it has without the guard")
    return _over(node, "pass")


def _of_part(part: Part, instead: str | None) -> Edit:  # noqa: PLR0911 - one line for each kind
    """The code without a part of an expression, or without a decorator."""
    parent, node = part.parent, part.node
    if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if instead:
            return _over(node, instead)
        return Edit((node.lineno, node.col_offset - 1), (node.end_lineno, node.end_col_offset), "")
    if isinstance(parent, ast.IfExp) and part.field == "test":
        return _expression(node, instead or "False")
    if instead and isinstance(parent, ast.Dict) and part.index is not None:
        return _expression(parent.values[part.index], instead)
    if instead:
        return _expression(node.value if isinstance(node, ast.keyword) else node, instead)
    if isinstance(parent, ast.BinOp):
        return _expression(parent, ast.unparse(parent.right if part.field == "left" else parent.left))
    if isinstance(parent, ast.IfExp):
        return _expression(parent, ast.unparse(parent.orelse if part.field == "body" else parent.body))
    left: Any = copy.deepcopy(parent)
    del getattr(left, part.field)[part.index]
    if isinstance(parent, ast.Dict):
        del left.values[part.index]
    if isinstance(parent, ast.comprehension):
        # it has no place of its own: its condition becomes one that always holds
        return _expression(node, "True")
    if isinstance(parent, ast.BoolOp) and len(left.values) == 1:
        left = left.values[0]
    return _expression(parent, ast.unparse(left))


def without(text: str, mark: Mark) -> str:
    """Given Python source and a mark in it, return the source without what it marks. Raises MarkError."""
    raw = text.encode().splitlines(keepends=True)
    first, last = _around(text, mark.line)  # no more is parsed again: a file has dozens of marks
    left = _without(b"".join(raw[first - 1 : last]).decode(), replace(mark, line=mark.line - first + 1))
    return b"".join([*raw[: first - 1], left.encode(), *raw[last:]]).decode()


@lru_cache(maxsize=1)
def _spans(text: str) -> list[tuple[int, int]]:
    """The first and the last line of each statement that is not in another."""
    return [(_first_line(node), node.end_lineno or 0) for node in ast.parse(text).body]


def _around(text: str, line: int) -> tuple[int, int]:
    """The lines of the statement that a line is in, with whatever else is on them."""
    found = [(first, last) for first, last in _spans(text) if first <= line <= last]
    if not found:
        raise MarkError("nothing that can be taken out begins there")
    return found[0][0], found[-1][1]


def _same(one: Any, other: Any) -> bool:
    """Whether two trees say the same, as `ast.dump` would tell, which writes down all of both."""
    if isinstance(one, ast.AST):
        return type(one) is type(other) and all(
            _same(getattr(one, field, None), getattr(other, field, None)) for field in one._fields
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


def _without(text: str, mark: Mark) -> str:
    tree = ast.parse(text)
    part = _marked(tree, text, mark.line)
    whole = isinstance(part.node, (ast.stmt, ast.ExceptHandler))
    edit = _of_statement(part.node, mark.instead) if whole else _of_part(part, mark.instead)
    lines = text.encode().splitlines(keepends=True)
    begin = sum(map(len, lines[: edit.start[0] - 1])) + edit.start[1]
    end = sum(map(len, lines[: edit.end[0] - 1])) + edit.end[1]
    raw = text.encode()
    changed = (raw[:begin] + edit.text.encode() + raw[end:]).decode()
    try:
        if _same(ast.parse(changed), tree):
            raise MarkError("nothing would be different without it")
    except SyntaxError as error:
        raise MarkError(f"what is left is not Python: {error}") from error
    return changed
