"""Keys that the kernel keeps for a uid: let go, and nobody else's."""

import ctypes
import errno
import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering import keys
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering.journal import Journal, Renumbering

pytestmark = pytest.mark.root
MINJI, NEW, KIM = 31201, 31205, 33201
ADD_KEY = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
SEARCH = 10
PLAN = Journal((Renumbering("minji", MINJI, NEW, MINJI),))


def as_user(uid: int, *, add: bool) -> bool:
    """Have somebody put a key into each of their keyrings, or say whether they find one."""
    child = os.fork()
    if child == 0:
        found = False
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            rings = (keys._USER, keys._USER_SESSION, keys._keyctl(keys._GET_PERSISTENT, uid, keys._PROCESS))
            libc = ctypes.CDLL(None, use_errno=True)
            for ring in rings:
                if add:
                    found = libc.syscall(ADD_KEY, b"user", b"ticket", b"secret", 6, ring) > 0
                else:
                    found = found or libc.syscall(keys._KEYCTL, SEARCH, ring, b"user", b"ticket", 0) > 0
        finally:
            os._exit(not found)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.holds("keys of a uid are not another's after a renumbering")
def test_keys_of_now_and_of_who_had_the_uid_before_are_let_go() -> None:
    for uid in (MINJI, NEW, KIM):
        assert as_user(uid, add=True)
    assert keys.let_go(PLAN) == [MINJI, NEW]
    assert [as_user(uid, add=False) for uid in (MINJI, NEW, KIM)] == [False, False, True]
    keys._empty([KIM])


def test_keys_that_stay_stop_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key-users").write_text(
        f"    0:    73 72/72 67/1000000 1446/25000000\n{MINJI}:     2 2/2 2/200 30/20000\n"
    )
    monkeypatch.setattr(keys, "_emptied", lambda _: errno.EDQUOT)
    with pytest.raises(NodeError, match=f"keys of uid {MINJI} in the kernel stay: Disk quota exceeded; reboot"):
        keys.let_go(PLAN, str(tmp_path))
    assert keys.let_go(PLAN, str(tmp_path / "none")) == []
