"""Whatever is printed goes through `gpuadmin.console`: it escapes what is not printable, and takes no markup."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.offenders import each_of

PACKAGE = Path(__file__).resolve().parents[2] / "gpuadmin"
#: The console itself, and what runs as a program of its own on a host or for ssh.
EXEMPT = ("console.py", "terminal.py", "collections/", "libexec/", "collector/", "dashboard/", "takeover/node/")
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if not str(path.relative_to(PACKAGE)).startswith(EXEMPT)]
PRINTS = {"click.echo", "click.secho", "click.style", "click.prompt", "click.confirm", "click.echo_via_pager", "print",
          "sys.stdout.write", "sys.stderr.write", "Text.from_markup", "Text.from_ansi"}  # fmt: skip
LAST_WORDS = {name.rpartition(".")[2] for name in PRINTS}


def violations(tree: ast.AST) -> Iterator[str]:
    """Given Python source as a tree, name what prints, or takes markup, past the console."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            last = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if last in LAST_WORDS and ast.unparse(node.func) in PRINTS:  # most calls need not be written down
                yield f"{node.lineno}: {ast.unparse(node.func)}"
            for keyword in node.keywords:
                if keyword.arg == "markup" and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                ):
                    yield f"{node.lineno}: markup="
        elif isinstance(node, ast.ImportFrom) and node.module in ("rich", "rich.console", "rich.markup", "click"):
            for name in node.names:
                if name.name in ("print", "Console", "escape", "echo", "secho", "confirm", "prompt", "render"):
                    yield f"{node.lineno}: {node.module}.{name.name}"


@each_of(FILES)
def test_nothing_is_printed_past_the_console(path: Path) -> None:
    tree = ast.parse(path.read_text())
    # a name for a type is no console that prints
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    assert list(violations(tree)) == []


def test_the_rule_sees_what_it_is_for() -> None:
    source = "print(1)\nclick.echo(x)\nfrom rich.markup import escape\nc.print(x, markup=True)"
    assert len(list(violations(ast.parse(source)))) == 4
    for name in PRINTS:
        assert list(violations(ast.parse(f"{name}(x)"))) == [f"1: {name}"]
