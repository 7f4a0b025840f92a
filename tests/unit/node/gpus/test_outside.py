"""Who runs where no gate is."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import outside

NAMES = {20000: "minji", 20001: "jiho", 1000: "admin", 61500: "a-service", 999: "daemon", 0: "root"}


@pytest.mark.holds(
    "a process's name that is not a text stops nothing",
    "nobody is taken for root by what they call their process",
    "what somebody calls a cgroup of theirs stops nothing",
)
def test_only_people_outside_of_all_slices_and_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "name_of", NAMES.get)
    cgroups = {
        11: (20000, "/user.slice/user-20000.slice/session-1.scope"),
        12: (20001, "/user.slice/user-20000.slice/session-1.scope"),  # by su: closed as minji is
        13: (20000, "/system.slice/cron.service"),
        14: (20000, "/system.slice/system-ssh.slice/ssh@1.service/x"),
        15: (1000, "/system.slice/a.service"),
        16: (61500, "/system.slice/b.service"),
        17: (999, "/system.slice/c.service"),
        18: (524288, "/machine.slice/x.service"),  # nobody's name
        19: (20000, "/system.slice/hub.service"),
        20: (20001, "/system.slice/hub.service"),
        21: (20001, "/"),
    }
    for pid, (uid, cgroup) in cgroups.items():
        own = tmp_path / str(pid)
        own.mkdir()
        (own / "status").write_text(f"Name:\tx\\nUid:\t0\nUid:\t{uid}\t0\t0\t0\n")
        (own / "cgroup").write_text(f"0::{cgroup}\n")
    (tmp_path / "22").mkdir()  # it has just ended
    # people name their processes and cgroups as they like
    odd = tmp_path / "23"
    odd.mkdir()
    (odd / "status").write_bytes(b"Name:\t\xff\rUid:\t0\nUid:\t20001\t0\t0\t0\n")
    (odd / "cgroup").write_bytes("0::/odd/ñ\n".encode())
    found = outside.of_people(["cron.service", "ssh@1.service"], [0, 1000], str(tmp_path))
    assert set(found) == {"/system.slice/hub.service", "/", "/odd/\ufffd\ufffd"}
    assert found["/system.slice/hub.service"] in (20000, 20001)
