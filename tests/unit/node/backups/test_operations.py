"""The queue's accounting from a backup: a check changes nothing, and a run that was asked twice restores once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import accounting_restoring
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.backup_set import Backup, Home
from ansible_collections.gpuadmin.node.plugins.module_utils.backups.operations import (
    AccountingRestore,
    Wanted,
    restore_accounting,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

NAME = "20261221T010203Z-daily"
HOME = Home(0, 1, 1, "x", None, 256)
SET = Backup(NAME, "2026-12-21T01:02:03Z", {"_slurm": HOME}, {}, {}, "/backups/x", "/homes", ".")
DOCUMENT = AccountingRestore("/backups", Wanted(NAME))


@pytest.fixture
def performed(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []

    def perform(name: str, function: object, arguments: Mapping[str, Any], *, start: str) -> dict[str, object]:
        found.append(arguments)
        return {"target": "slurm_acct_db", "backup": arguments["backup"], "aside": "slurm_acct_db_before_x"}

    monkeypatch.setattr(background, "perform", perform)
    monkeypatch.setattr(background, "said", lambda job, run_id: None)
    monkeypatch.setattr(accounting_restoring, "chosen", lambda directory, name: SET)
    monkeypatch.setattr(accounting_restoring, "_there", lambda: "")
    return found


@pytest.mark.holds("check mode restores no accounting")
def test_a_check_restores_nothing_and_says_what_the_run_does(performed: list[Mapping[str, Any]]) -> None:
    predicted = restore_accounting(DOCUMENT, True).result()
    assert performed == []
    done = restore_accounting(DOCUMENT, False).result()
    assert performed == [{"directory": "/backups", "backup": NAME}]
    assert {**predicted, "report": 0} == {**done, "report": 0}


@pytest.mark.holds("an accounting that this run restored is not restored again")
def test_a_run_that_is_asked_twice_restores_once(
    performed: list[Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "said", lambda job, run_id: {"backup": NAME} if run_id == "run-1" else None)
    result = restore_accounting(replace(DOCUMENT, run_id="run-1"), False).result()
    assert (performed, NAME in str(result)) == ([], True)


def test_a_backup_without_it_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(NodeError, match="has the queue's accounting"):
        restore_accounting(AccountingRestore(str(tmp_path), Wanted(NAME)), True)
