"""Making and verifying a backup of all homes: what is odd about one is that home's problem, and a cut loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, making
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.unit.node.storage import FIRST, MINJI, Storage


@pytest.mark.btrfs
def test_a_backup_has_a_name_of_its_own_beside_the_homes(storage: Storage) -> None:
    storage.home(*MINJI)
    for change, words in (
        ({"name": "../20261221T010203Z-x"}, "not a name for a backup"),
        ({"directory": f"{storage.root}/backups"}, "is inside of the homes"),
        ({"root": f"{storage.point}/nothing"}, "there is no"),
    ):
        with pytest.raises(NodeError, match=words):
            making.create(replace(storage.request(), **change))
    assert storage.names == ["minji"]


Results = Iterator[tuple[object, object]]


@pytest.mark.btrfs
def test_a_verification_takes_back_nothing_that_others_record(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads for hours, without a lock: a second copy may be ready meanwhile."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    results = making.each

    def meanwhile(*given: Any) -> Results:
        backup_set.copied(backup, "other", "2026-12-22T01:02:03Z")
        yield from results(*given)

    monkeypatch.setattr(making, "each", meanwhile)
    found = making.verify(backup, ["minji"])
    assert found.homes["minji"].verified
    assert backup_set.load(str(storage.directory), FIRST) == found
    assert dict(found.copies) == {"other": "2026-12-22T01:02:03Z"}


@pytest.mark.btrfs
def test_a_set_that_is_deleted_while_it_is_verified_is_none_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever deletes a set first takes away what makes it one; its snapshots take longer."""
    storage.home(*MINJI)
    backup = storage.backup(verify=[])
    results = making.each

    def meanwhile(*given: Any) -> Results:
        for one in results(*given):
            (Path(backup.path) / "backup.json").unlink()
            yield one

    monkeypatch.setattr(making, "each", meanwhile)
    with pytest.raises(NodeError, match="was deleted while it was read"):
        making.verify(backup, ["minji"])
    assert backup_set.complete(str(storage.directory)) == []
