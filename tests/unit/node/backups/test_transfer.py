"""Second copies: sent to the other host, and fetched from it."""

from __future__ import annotations

import os

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import transfer
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from tests.unit.node.storage import FIRST, MINJI, Storage


def there(script: str) -> transfer.Remote:
    """Another host that answers with a script of the shell; what is asked for is its $0."""
    return transfer.Remote("other", ("sh", "-c", script))


@pytest.mark.btrfs
@pytest.mark.parametrize("said", ["", "yes", "2026-12-22T01:02:03Z or so"])
def test_a_copy_counts_when_the_other_host_says_when_it_was_read(storage: Storage, said: str) -> None:
    storage.home(*MINJI)
    backup = storage.backup()
    other = there(f"case $0 in list) echo {FIRST};; verify*) echo '{said}';; esac")
    with pytest.raises(NodeError, match="did not say that it verified"):
        transfer.send(backup, other, [])


@pytest.mark.btrfs
def test_a_stream_that_breaks_here_is_no_copy(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other end may have taken what it got for all that there is."""
    storage.home(*MINJI)
    backup = storage.backup()
    monkeypatch.setattr(transfer, "send_command", lambda *_: ("sh", "-c", "echo half; exit 1"))
    taking = there("case $0 in list) ;; verify*) echo 2026-12-22T01:02:03Z;; *) cat >/dev/null;; esac")
    with pytest.raises(NodeError, match="was not copied"):
        transfer.send(backup, taking, [])


def test_a_stream_that_breaks_there_did_not_come_whole() -> None:
    with (
        pytest.raises(NodeError, match="did not come whole"),
        transfer._asked(there("echo half; exit 3"), ("send", FIRST, "homes"), "homes") as stream,
    ):
        assert os.read(stream, 100) == b"half\n"
