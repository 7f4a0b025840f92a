"""The verbs about backups, from their command line to what Ansible would be asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult

Cli = Callable[..., tuple[int, str, str]]
HOME = {"uid": 20000, "files": 2, "bytes": 3000, "checksum": "c", "verified": "2026-12-21T01:02:03Z", "inode": 1}
SET = {
    "name": "20261221T010203Z-manual", "created": "2026-12-21T01:02:03Z", "homes": {"minji": HOME}, "problems": {},
    "copies": {},
}  # fmt: skip


@pytest.fixture
def asked(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[Invocation]:
    """What Ansible was asked; the storage host answers with one backup."""
    found: list[Invocation] = []

    def run(invocation: Invocation, **_callbacks: object) -> RunResult:
        found.append(invocation)
        reports = {"facts": {"backups": [SET]}, "backup": SET, "restored": {"target": "/x"}}
        return RunResult({"storage1": HostResult("changed", reports=reports)})

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    (site / "users.yml").write_text("users:\n  - {name: minji, uid: 20000}\nretired: []\n")
    return found


RESTORE = {"user": "minji", "backup": "", "mode": "beside", "path": "", "target": None, "uid": 20000,
           "subids": [2147483648, 65536, 20000]}  # fmt: skip

CALLS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "verify": (["verify-backup"], {}),
    "verify one": (["verify-backup", "X", "--user", "minji"], {"name": "X", "users": ["minji"]}),
    "restore": (["restore-home", "minji"], {"restore": RESTORE}),
    "restore a part": (["restore-home", "minji", "--path", "a/b"], {"restore": {**RESTORE, "path": "a/b"}}),
    "restore in place": (["restore-home", "minji", "--in-place"], {"restore": {**RESTORE, "mode": "in-place"}}),
    "restore an older one": (["restore-home", "minji", "--from", "X"], {"restore": {**RESTORE, "backup": "X"}}),
    "restore elsewhere": (
        ["restore-home", "minji", "--to", "/srv/x"],
        {"restore": {**RESTORE, "mode": "directory", "target": "/srv/x"}},
    ),
    "restore of somebody who is gone": (
        ["restore-home", "junho"],
        {"restore": {**RESTORE, "user": "junho", "uid": None, "mode": "archive", "target": "/srv/storage/archive"}},
    ),
}


@pytest.mark.parametrize(("arguments", "wanted"), CALLS.values(), ids=CALLS.keys())
def test_what_ansible_is_asked(asked: list[Invocation], cli: Cli, arguments: list[str], wanted: dict[str, Any]) -> None:
    code, _out, err = cli(*arguments, "--yes")
    assert code == 0, err
    cli(*arguments, "--check")
    done, predicted = asked
    assert (done.playbook, done.check, predicted.check) == (arguments[0], False, True)
    assert done.variables["gpuadmin_backup"] == predicted.variables["gpuadmin_backup"] == wanted


def test_a_backup_has_a_name_of_its_own(asked: list[Invocation], cli: Cli) -> None:
    code, out, err = cli("backup", "--label", "before-move", "--no-verify", "--yes", "--json")
    assert code == 0, err
    wanted = asked[0].variables["gpuadmin_backup"]
    assert wanted["name"].endswith("Z-before-move")
    assert wanted["users"] == []
    assert json.loads(out)["result"]["backup"]["name"] == SET["name"]
    for label in ("daily", "../x", "Ä", ""):
        assert cli("backup", "--label", label, "--yes")[0] == 2


def test_list_backups(asked: list[Invocation], cli: Cli) -> None:
    code, out, _err = cli("list-backups", "--json")
    assert code == 0
    (row,) = json.loads(out)["result"]["backups"]
    assert (row["name"], row["until"], row["homes"]["minji"]["files"]) == (SET["name"], "2027-06-22", 2)
    assert "20261221T010203Z-manual" in cli("list-backups")[1]
    assert "No backup of junho" in cli("list-backups", "junho")[1]
    assert all(invocation.check for invocation in asked)


def test_two_places_at_once(asked: list[Invocation], cli: Cli) -> None:
    assert cli("restore-home", "minji", "--to", "/x", "--in-place")[0] == 2
    assert asked == []
