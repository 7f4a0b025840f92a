"""diagnose, from its command line to what people and programs see of it."""

import json
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.common.causes.judge import judge
from gpuadmin.common.records.diagnosis import RegisteredPerson as Person
from gpuadmin.diagnosis.looked import NEVER
from gpuadmin.results import DENIED, HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli, ansible

__all__ = ["ansible"]
FREE = {"bytes": 10**12, "free": 10**11, "inodes": 100, "inodes_free": 50, "milliseconds": 1.0}
MOUNT = {"point": "/home", "type": "nfs4", "source": "storage1:/srv", "network": True, "read_only": False}
KEY = {"line": 1, "kind": "ssh-ed25519", "fingerprint": "SHA256:x", "problem": None}


def node(**changes: Any) -> dict[str, Any]:
    """What a node says on which nothing is wrong."""
    passwd = {"uid": 20000, "gid": 20000, "shell": "/bin/bash", "shell_runs": True, "shell_lets_in": True}
    sound = {
        "node": True, "unknown": {}, "late": [], "clock": {"seconds": time.time(), "synchronized": True},
        "mount": MOUNT, "homes": {**FREE, "mount": MOUNT},
        "account": {"passwd": passwd, "shadow": {"locked": False, "expires": None}, "today": 20000, "nologin": None,
                    "others": [], "groups": ["gpuusers"]},
        "keys": {
            "site": {"path": "/k", "problem": None, "keys": [KEY], "read": True}, "elsewhere": [], "settings": {},
        },
    }  # fmt: skip
    facts = sound | changes
    who = None if changes.get("nobody") else Person("minji", 20000, keys=True)
    return {**facts, "causes": [cause.document() for cause in judge(facts, who)]}


def answer(**hosts: dict[str, Any]) -> RunResult:
    gone = HostResult("unreachable", message="does not answer (timed out)")
    known = {name: HostResult("ok", reports={"diagnosis": facts}) for name, facts in hosts.items()}
    return RunResult({name: known.get(name, gone) for name in ("storage1", "node1", "node2")})


def sound() -> dict[str, dict[str, Any]]:
    """All hosts, asked just now: their clocks are compared."""
    return {"storage1": node(node=False), "node1": node(), "node2": node()}


def test_one_look_in_check_mode(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answer(**sound())
    code, out, err = cli("diagnose", "minji")
    assert code == 0, err
    assert out.splitlines()[0] == "these 8 things were checked on node1, node2, storage1 and are fine"
    assert "a session of minji's is tried for at most 9 seconds" in err
    assert "Checked, and fine: users.yml, account, log-ins for all (nologin), login shell, sshd's settings" in " ".join(
        out.split()
    )
    assert out.splitlines()[-1] == f"  {NEVER[-1]}"
    (invocation,) = ansible.asked
    assert invocation.variables["gpuadmin_trial"] is True
    assert (invocation.playbook, invocation.check) == ("diagnose", True)
    assert invocation.variables["gpuadmin_person"] == {
        "name": "minji", "uid": 20000, "registered": True, "locked": False, "keys": True, "docker": True,
        "expires": "2097-02-28",
    }  # fmt: skip


def test_a_host_is_nobody_to_add(ansible: Ansible, cli: Cli) -> None:
    code, _, err = cli("diagnose", "node1")
    assert code == 2
    assert "node1 is a host; nobody of that name is in users.yml" in err
    assert "Hint: gpuadmin diagnose --host node1" in err
    assert not ansible.asked


def test_a_name_that_is_not_found_is_no_matter_of_power(ansible: Ansible, cli: Cli) -> None:
    lost = HostResult("unreachable", message="its name cannot be resolved: give ansible_host in inventory/")
    ansible.answer = RunResult({**answer(**sound()).hosts, "node2": lost})
    code, out, _ = cli("diagnose", "minji")
    assert code == 4
    assert "put its address there (ansible_host), or correct its name" in out
    assert "look at its power" not in out


@pytest.mark.parametrize(
    ("why", "remedy"),
    [
        (DENIED, "gpuadmin check tries the admin's key; one that a host lacks: gpuadmin bootstrap node2 --as USER"),
        ("nothing answers on its ssh port (connection refused)", "it runs, and its sshd does not"),
        ("does not answer (timed out)", "look at its power and its network"),
    ],
)
def test_what_to_do_about_a_host_that_does_not_answer(ansible: Ansible, cli: Cli, why: str, remedy: str) -> None:
    ansible.answer = RunResult({**answer(**sound()).hosts, "node2": HostResult("unreachable", message=why)})
    assert remedy in " ".join(cli("diagnose", "minji")[1].split())


@pytest.mark.holds("who is locked is not tried")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("minji", "--no-trial"), "a session of minji's: --no-trial"),
        (("minji", "--check"), "a session of minji's: --check starts none"),
        (("jiho",), "a session of jiho's: the account is locked"),
        (("nobody1",), "a session of nobody1's: users.yml does not have them"),
    ],
)
def test_where_no_session_is_tried_that_is_said(
    ansible: Ansible, cli: Cli, arguments: tuple[str, ...], why: str
) -> None:
    ansible.answer = answer(**sound())
    _, out, err = cli("diagnose", *arguments)
    assert why in out.split("Not checked:")[1]
    assert "is tried" not in err
    (invocation,) = ansible.asked
    assert invocation.variables["gpuadmin_trial"] is False


def test_the_exit_code_is_that_of_the_finding(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answer(**sound())
    assert cli("diagnose", "minji")[0] == 0
    ansible.answer = answer(**sound() | {"node1": node(units=["x.service"])})
    assert cli("diagnose", "minji")[0] == 0
    down = node()["account"] | {"nologin": {"file": "/etc/nologin", "words": "down"}}
    ansible.answer = answer(**sound() | {"node1": node(account=down)})
    code, out, _ = cli("diagnose", "minji", "--json")
    assert (code, json.loads(out)["status"]) == (6, "differs")


def test_the_cause_and_the_remedy_are_the_first_two_lines(ansible: Ansible, cli: Cli) -> None:
    bad = node(account=node()["account"] | {"nologin": {"file": "/etc/nologin", "words": "down"}})
    ansible.answer = answer(**sound() | {"node1": bad, "node2": bad})
    out = cli("diagnose", "minji")[1].splitlines()
    assert out[0] == "node1, node2: nobody but root may log in: down"
    assert out[1] == "  do: gpuadmin run node1,node2 -- rm -f /etc/nologin"
    document = json.loads(cli("diagnose", "minji", "--json")[1])["result"]
    assert (document["verdict"], document["findings"][0]["code"]) == (out[0], "nologin")


def test_who_is_locked_in_the_registry_is_told_so_first(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answer()
    code, out, _ = cli("diagnose", "jiho")
    assert (code, out.splitlines()[0]) == (4, "jiho's account is locked in users.yml")
    assert "node1, storage1: it cannot be asked" in out or "it cannot be asked: does not answer" in out


def test_what_is_not_known_is_not_taken_for_nothing(ansible: Ansible, cli: Cli) -> None:
    facts = node(unknown={"docker": "died"})
    ansible.answer = answer(**sound() | {"node1": facts})
    out = cli("diagnose", "minji")[1]
    assert out.splitlines()[0].endswith("and are fine; 1 part could not be looked at")
    assert "unknown: node1: docker: not known, died" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name somebody, or a host"),
        (("--host", "node1", "--limit", "node2"), "say the same"),
        (("a;b",), "is not a login name"),
        (("--host", "node1", "--restart-docker"), "needs NAME"),
    ],
)
def test_what_cannot_be_asked(ansible: Ansible, cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    code, _, err = cli("diagnose", *arguments)
    assert code != 0
    assert words in err
    assert ansible.asked == []


DOCKER = {
    "place": "/local/.docker", "data": {"path": "/local/.docker/minji", "directory": True, "uid": 20000},
    "subids": {"subuid": 65536, "subgid": 65536}, "socket": "missing", "daemon": True, "words": [], "installed": True,
    "mappers": [], "free": 10**12, "bytes": 10**13, "inodes_free": None,
}  # fmt: skip
SESSIONS = {"manager": "active", "words": [], "slice": {}}
RUNNING = {"asked": True, "ended": [], "running": 1}


def test_docker_is_restarted_where_it_is_and_as_confirmed(ansible: Ansible, cli: Cli) -> None:
    broken = node(docker=DOCKER, sessions=SESSIONS, containers=RUNNING)
    ansible.answer = answer(**sound() | {"node1": broken})
    code, out, err = cli("diagnose", "minji", "--restart-docker")
    assert (code != 0, "no terminal" in err, ansible.asked) == (True, True, [])
    code, out, err = cli("diagnose", "minji", "--restart-docker", "--yes")
    assert "node1: minji's Docker socket is missing" in out
    assert "restart minji's Docker daemon: 1 running container ends" in out
    looked, done = ansible.asked
    assert looked.playbook == "diagnose"
    assert (done.playbook, done.limit, done.check) == ("restart-docker", "node1", False)


def test_a_refusal_restarts_nothing(ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = node(docker=DOCKER, sessions=SESSIONS, containers=RUNNING)
    ansible.answer = answer(**sound() | {"node1": broken})
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"gpuadmin.session.sys.{stream}.isatty", lambda: True)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: False)
    code, _, err = cli("diagnose", "minji", "--restart-docker")
    assert (code != 0, "nothing was changed" in err) == (True, True)
    assert [one.check for one in ansible.asked] == [True]


def test_a_check_restarts_nothing(ansible: Ansible, cli: Cli) -> None:
    broken = node(docker=DOCKER, sessions=SESSIONS, containers=RUNNING)
    ansible.answer = answer(**sound() | {"node1": broken})
    cli("diagnose", "minji", "--restart-docker", "--check")
    assert [one.check for one in ansible.asked] == [True, True]


def test_nothing_to_restart(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answer(**sound())
    code, out, _ = cli("diagnose", "minji", "--restart-docker", "--yes")
    assert (code, "Nothing to do." in out, len(ansible.asked)) == (0, True, 1)


def test_hosts_alone(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = RunResult(
        {"node1": HostResult("ok", reports={"diagnosis": node(units=["x.service"], nobody=True)})}
    )
    out = cli("diagnose", "--host", "node1")[1]
    assert out.splitlines()[0] == "these 7 things were checked on node1 and are fine; 1 note below"
    assert "note: node1: 1 unit of the system failed: x.service" in out
    (invocation,) = ansible.asked
    assert (invocation.limit, invocation.variables["gpuadmin_person"]) == ("node1", {})


def test_a_bundle_is_listed_asked_for_and_replaces_nothing(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    ansible.answer = answer(**sound())
    path = tmp_path / "bundle.tar.gz"
    code, out, err = cli("diagnose", "minji", "--bundle", str(path))
    assert (code != 0, path.exists(), "not confirmed" in err) == (True, False, True)
    assert "hosts/node1.json" in out
    assert cli("diagnose", "minji", "--bundle", str(path), "--check")[0] == 0
    assert not path.exists()
    assert cli("diagnose", "minji", "--bundle", str(path), "--yes")[0] == 0
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as tar:
        assert "diagnosis/findings.json" in tar.getnames()
    code, _, err = cli("diagnose", "minji", "--bundle", str(path), "--yes")
    assert (code != 0, "is there already" in err) == (True, True)


def test_what_sshd_wrote_is_said(ansible: Ansible, cli: Cli) -> None:
    line = "2026-11-23T01:00:00+0000 node1 sshd[1]: User minji from 10.0.0.1 not allowed because account is locked"
    ansible.answer = answer(**sound() | {"node1": node(sshd={"lines": [line, "Accepted publickey for minji"]})})
    out = cli("diagnose", "minji")[1]
    assert f"note: node1: sshd refused minji lately: {line}" in out
    assert "  node1: sshd: Accepted publickey for minji" in out
