"""Write the pages of docs/ that are made from code; with --check only say which are out of date."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from gpuadmin.cli import VERBS, cli
from gpuadmin.config.reference import reference_page
from gpuadmin.mail.examples import mails_page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT))

from tests import where  # noqa: E402  (the tests are not installed: they lie beside this)

WIDTH = 100


def commands(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    """Yield `(words that call it, help text)` of a command and of all below it."""
    context = click.Context(
        command, info_name=path.rpartition(" ")[2], parent=parent, terminal_width=WIDTH, max_content_width=WIDTH
    )
    context.help_option_names = ["-h", "--help"]
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}", context)


def cli_page() -> str:
    """The reference of the command line, as Markdown."""
    lines = ["# Reference of the command line", "", "Made from `--help`: `make docs`.", ""]
    for verb in VERBS:
        lines.append(f"- [gpuadmin {verb}](#gpuadmin-{verb}): {VERBS[verb]}")
    for path, text in commands(cli, "gpuadmin", None):
        level = "#" * min(2 + max(path.count(" ") - 1, 0), 4)
        body = "\n".join(line.rstrip() for line in text.splitlines())
        lines += ["", f"{level} {path}", "```", body, "```"]
    return "\n".join(lines) + "\n"


PLACES = {where.LIGHT: "light hosts", where.VIRTUAL: "virtual machines", where.BOTH: "both"}


def tests_page() -> str:
    """Where each test on the lab runs, and why, as Markdown."""
    lines = [
        "# Where the tests on the lab run",
        "",
        "Made from the tests' marks: `make docs`. Where one is root, on [light hosts](lab.md#light-hosts), unless they",
        "need more; otherwise, and with `GPUADMIN_TEST_VIRTUAL=1`, on virtual machines. A story of verbs runs on both:",
        "on virtual machines in `make test-all`. What is in `make test` has a dot.",
        "",
        "| test | runs on | why | `make test` |",
        "| --- | --- | --- | :---: |",
    ]
    for entry in where.everything():
        quick = "" if entry.slow else "•"
        lines.append(f"| {entry.name} | {PLACES[entry.where]} | {entry.why} | {quick} |")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def pages() -> dict[str, str]:
    """Every made page, by file name."""
    return {
        "mails.md": mails_page(),
        "reference-cli.md": cli_page(),
        "reference-site.md": reference_page(),
        "reference-tests.md": tests_page(),
    }


def outdated() -> list[str]:
    """The names of pages that are not what the code would make."""
    found = []
    for name, text in pages().items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            found.append(name)
    return found


def main() -> int:
    stale = outdated()
    if "--check" in sys.argv[1:]:
        print("\n".join(f"docs/{name} is out of date: make docs" for name in stale), end="\n" if stale else "")
        return int(bool(stale))
    for name in stale:
        (DOCS / name).write_text(pages()[name], encoding="utf-8")
        print(f"Wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
