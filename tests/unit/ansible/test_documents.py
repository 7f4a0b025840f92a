"""What a task need not say: which fields of an operation come from its role's variables."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.plugin_utils.documents import declared, filled


def given(name: str, role: str, task: dict[str, Any], **variables: Any) -> dict[str, Any]:
    return filled(f"gpuadmin.node.{name}", role, task, variables, lambda value: f"rendered {value}")


def test_a_task_of_the_role_need_not_name_what_the_role_has() -> None:
    found = given("backup", "backups", {"action": "make"}, backups_days=3, backups_action="x", accounts_days=4)
    assert found == {"action": "make", "days": "rendered 3"}


@pytest.mark.holds("an operation takes variables of its own role alone")
@pytest.mark.parametrize(("name", "role"), [("backup", "semester"), ("backup", ""), ("wipe_homes", "semester")])
def test_no_other_task_gets_anything(name: str, role: str) -> None:
    """What many roles use, and what deletes, has no role: `files` would take the accounts to remove for files."""
    variables = {f"{role}_{field}": "x" for field in declared(name)[1]}
    assert given(name, role, {"users": []}, **variables) == {"users": []}


@pytest.mark.parametrize("name", ["files", "packages", "wipe_homes", "wipe_scratch", "leftovers", "sessions", "tell"])
def test_what_deletes_or_serves_many_roles_is_told_each_field(name: str) -> None:
    assert declared(name)[0] is None
