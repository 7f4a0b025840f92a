"""Which backups of a host go: those that the policy lets go and, where a plan was shown, that were in it."""

from collections.abc import Sequence

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, pruning, retention


@pytest.mark.parametrize(
    ("only", "goes"), [(None, ["a", "b", "c"]), (["a", "c", "new"], ["a", "c"]), ([], []), (["new"], [])]
)
def test_what_was_not_decided_on_stays(
    monkeypatch: pytest.MonkeyPatch, only: Sequence[str] | None, goes: list[str]
) -> None:
    """Between the plan and the work another backup may have become old enough; nothing is deleted that nobody saw."""
    removed: list[str] = []
    monkeypatch.setattr(backup_set, "complete", lambda _directory: [])
    monkeypatch.setattr(retention, "expired", lambda *_given, **_more: ["a", "b", "c"])
    monkeypatch.setattr(backup_set, "remove", lambda _directory, name: removed.append(name))
    assert pruning.expired("/x", 1, 1, only) == goes
    assert pruning.prune("/x", 1, 1, only) == goes
    assert removed == goes
