"""Fills in what a task leaves out: fields of an operation's document for which the role has a variable."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import OPERATIONS, belongs_to_takeover


def filled(
    name: str, role: str, given: Mapping[str, Any], variables: Mapping[str, Any], render: Callable[[Any], Any]
) -> dict[str, Any]:
    """Given an operation, a role, and what the role's task says, return the whole document.

    If a task of the role `accounts` leaves `uid_first` out, an operation with `ROLE = "accounts"` takes it from
    `accounts_uid_first`. All other operations take only what the task says. `render`: evaluates templates.
    """
    whose, fields = declared(name.rpartition(".")[2])
    if role != whose:  # guard: an operation takes variables of its own role alone
        return dict(given)
    missing = [field for field in fields if field not in given and f"{role}_{field}" in variables]
    return {**{field: render(variables[f"{role}_{field}"]) for field in missing}, **given}


@cache
def declared(name: str) -> tuple[str | None, tuple[str, ...]]:
    """An operation's `ROLE` and the fields of its `Document`, from its source, which is quicker than an import."""
    role: str | None = None
    fields: tuple[str, ...] = ()
    file = OPERATIONS[belongs_to_takeover(name)] / f"{name}.py"
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROLE":
            role = ast.literal_eval(node.value)
        if isinstance(node, ast.ClassDef) and node.name == "Document":
            fields = tuple(ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign))
    return role, fields
