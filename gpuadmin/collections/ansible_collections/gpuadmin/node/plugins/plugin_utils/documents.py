"""Fills in what a task leaves out: fields of an operation's document for which the role has a variable."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpuadmin.common import records

from ansible_collections.gpuadmin.node.plugins.module_utils import operation
from ansible_collections.gpuadmin.node.plugins.module_utils.operation import find_room


def filled(
    name: str, role: str, given: Mapping[str, Any], variables: Mapping[str, Any], render: Callable[[Any], Any]
) -> dict[str, Any]:
    """Given an operation, a role, and what the role's task says, return the whole document.

    If a task of the role `accounts` leaves `uid_first` out, an operation with `role="accounts"` takes it from
    `accounts_uid_first`. All other operations take only what the task says. `render`: evaluates templates.
    """
    whose, fields = declared(name.rpartition(".")[2])
    if role != whose:  # guard: an operation takes variables of its own role alone
        return dict(given)
    missing = [field for field in fields if field not in given and f"{role}_{field}" in variables]
    return {**{field: render(variables[f"{role}_{field}"]) for field in missing}, **given}


@cache
def declared(name: str) -> tuple[str | None, tuple[str, ...]]:
    """Given an operation, return its role and the fields of its document, as the source has them: each worker asks, and
    an import takes longer. A record that others take as well is in gpuadmin/common/records/.
    """
    room = find_room(name)
    module = None if room is None else find_spec(f"{room}.operations", operation.__package__)
    if module is None:
        raise ValueError(f"{name} is not an operation")
    text = Path(str(module.origin)).read_text(encoding="utf-8")
    record, role = _search(rf'@operation\("{name}", (\w+)(?:.*\brole="(\w+)")?', text).groups()
    return role, tuple(_list_fields(record, text))


def _list_fields(record: str, text: str) -> list[str]:
    """Given a record's class and the text of a module that has or imports it, return its fields and its base's."""
    if re.search(rf"\nclass {record}\b", text) is None:
        file = _search(rf"from gpuadmin\.common\.records\.(\w+) import .*\b{record}\b", text)[1]
        text = Path(records.__path__[0], f"{file}.py").read_text(encoding="utf-8")
    (found,) = ast.parse(_search(rf"class {record}\b.*:\n(?:(?: .*)?\n)*", text)[0]).body
    assert isinstance(found, ast.ClassDef)
    inherited = [field for base in found.bases for field in _list_fields(ast.unparse(base), text)]
    return inherited + [ast.unparse(one.target) for one in found.body if isinstance(one, ast.AnnAssign)]


def _search(pattern: str, text: str) -> re.Match[str]:
    found = re.search(rf"(?m)^{pattern}", text)
    assert found, pattern
    return found
