"""The lists tests/mutants/*.yml: which check is taken out where, and which tests go red then."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "tests" / "mutants"
PLUGINS = "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins"
FIELDS = {"name", "file", "find", "replace", "tests"}


class ListError(Exception):
    """A list, or an entry of it, is wrong; the text says which and why."""


@dataclass(frozen=True)
class Mutant:
    """One check taken out: ``find`` becomes ``replace`` in ``file`` (from the repository's root), ``tests`` go red."""

    subject: str
    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.subject}: {self.name}"


def located(file: str) -> str:
    """Given an entry's ``file``, return its path from the repository's root."""
    return f"{PLUGINS}/{file}" if file.startswith(("module_utils/", "modules/")) else file


def read_list(path: Path) -> list[Mutant]:
    """Given a list, return its mutants. Raises ListError for what is no entry."""
    entries = yaml.safe_load(path.read_text()) or []
    if not isinstance(entries, list):
        raise ListError(f"{path.name}: not a list")
    found = []
    for entry in entries:
        if not isinstance(entry, dict) or set(entry) != FIELDS or not isinstance(entry["tests"], list):
            raise ListError(f"{path.name}: an entry has {', '.join(sorted(FIELDS))} and nothing else: {entry}")
        texts = [str(entry[key]) for key in ("name", "file", "find", "replace")]
        name, file, find, replace = texts
        found.append(Mutant(path.stem, name, located(file), find, replace, tuple(map(str, entry["tests"]))))
    return found


def read_lists(directory: Path = LISTS) -> list[Mutant]:
    """All mutants of all lists, by subject."""
    return [mutant for path in sorted(directory.glob("*.yml")) for mutant in read_list(path)]


def problems(mutant: Mutant, root: Path = ROOT) -> list[str]:
    """What is wrong with an entry: nothing is run for it."""
    found = []
    source = root / mutant.file
    if not source.is_file():
        found.append(f"there is no {mutant.file}")
    else:
        count = source.read_text().count(mutant.find)
        if count != 1:
            found.append(f"`find` occurs {count} times in {mutant.file}")
        elif mutant.file.endswith(".py"):
            try:
                compile(mutated(mutant, source.read_text()), mutant.file, "exec")
            except SyntaxError as error:
                found.append(f"`replace` is no Python there: {error}")
    if mutant.find == mutant.replace:
        found.append("`replace` is `find`")
    if not mutant.tests:
        found.append("no tests are named")
    for test in mutant.tests:
        file, _, name = test.partition("::")
        if not (root / file).exists():
            found.append(f"there is no {file}")
        elif name and f"def {name.rpartition('::')[2].partition('[')[0]}(" not in (root / file).read_text():
            found.append(f"there is no {name} in {file}")
    return found


def mutated(mutant: Mutant, text: str) -> str:
    """Given the file's text, return it without the check."""
    return text.replace(mutant.find, mutant.replace, 1)
