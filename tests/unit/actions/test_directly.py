"""Asking one host over ssh without a playbook: what it says, what is wrong with it, and when a playbook has to ask."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuadmin.actions.shared import directly
from gpuadmin.ansible.admin_keys import AdminKeys
from gpuadmin.ansible.connections import directory
from gpuadmin.config.load import load_site
from tests.support.fake_ansible import Ansible, Cli, ansible
from tests.support.queue_verb import JOB, NODES, queue, says

__all__ = ["ansible", "queue"]
Ssh = Callable[[str], Path]


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ssh:
    """Makes a script of the shell the ssh of this machine; it notes what it was called with."""

    def make(script: str) -> Path:
        program, called = tmp_path / "ssh", tmp_path / "called"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {called}\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setattr(directly, "require_ssh", lambda: str(program))
        return called

    return make


def printed(document: object) -> str:
    return f"echo '{json.dumps(document)}'"


REPORT = {"jobs": [JOB], "nodes": NODES}


def test_a_host_is_asked_without_a_playbook(queue: Ansible, cli: Cli, ssh: Ssh) -> None:
    called = ssh(f"echo 'a login says hello'; {printed({'queue': REPORT})}")
    code, out, _ = cli("queue", "--json")
    assert (code, json.loads(out)["result"]["hosts"]) == (0, {"storage1": REPORT})
    assert (queue.asked, json.loads(out)["run"]) == ([], None)
    words = called.read_text().splitlines()
    assert words[-4:] == ["/usr/bin/python3", "-IB", "/var/lib/gpuadmin/lib/gpuadmin_node/cli.py", "queue-shown"]
    assert "StrictHostKeyChecking=yes" in words


def control_path(called: Path) -> Path:
    (path,) = [word for word in called.read_text().splitlines() if word.startswith("ControlPath=")]
    called.unlink()
    return Path(path.partition("=")[2])


def test_the_connection_is_kept_where_those_of_runs_are(queue: Ansible, cli: Cli, ssh: Ssh) -> None:
    """Also where another host has a key of its own: each would have the other's connections end."""
    called = ssh(printed({"queue": REPORT}))
    assert queue.site is not None
    settings = queue.site / "gpuadmin.yml"
    settings.write_text(settings.read_text().replace("  user: gpuadmin\n", "  user: gpuadmin\n  ssh_key: /key\n"))
    (queue.site / "inventory/own.yml").write_text("gpu: {hosts: {node1: {ansible_ssh_private_key_file: /own}}}\n")
    cli("queue")
    site = load_site(None)
    keys = AdminKeys.of(site.inventory.hosts, site.settings.admin.ssh_key, None).files
    assert {str(key) for key in keys} == {"/key", "/own"}
    assert control_path(called).parent == directory(site.known_hosts, keys)


@pytest.mark.holds("a connection serves nobody who would log in otherwise")
@pytest.mark.parametrize("otherwise", ["ansible_host: 10.0.0.7", "ansible_port: 2222", "ansible_user: me"])
def test_a_connection_serves_the_login_that_it_is_of(queue: Ansible, cli: Cli, ssh: Ssh, otherwise: str) -> None:
    """Another host would answer in this one's place."""
    called = ssh(printed({"queue": REPORT}))
    assert queue.site is not None
    found = []
    for variables in ("", "", otherwise):
        (queue.site / "inventory/queue.yml").write_text(f"slurm: {{hosts: {{storage1: {{{variables}}}}}}}\n")
        assert cli("queue")[0] == 0
        assert {"ControlMaster=auto", "ControlPersist=300s"} <= set(called.read_text().splitlines())
        found.append(control_path(called))
    first, again, other = found
    assert (first == again, other.parent == first.parent, other.name == first.name) == (True, True, False)


def test_what_it_says_is_wrong_is_its_failure(queue: Ansible, cli: Cli, ssh: Ssh) -> None:
    ssh(printed({"problem": "slurmctld does not answer"}))
    code, out, err = cli("queue")
    assert (code, queue.asked) == (3, [])
    assert ("slurmctld does not answer" in out + err, "nobody is waiting" in out) == (True, False)


@pytest.mark.holds("what a host says is wrong is as long as a playbook's at most")
def test_what_it_says_is_wrong_has_an_end(queue: Ansible, ssh: Ssh) -> None:
    assert queue.site is not None
    ssh(printed({"problem": "x" * 100_000}))
    found = directly.answer(load_site(str(queue.site)), "storage1", "queue", "queue-shown")
    assert found is not None
    assert len(found.bad["storage1"]) == 600


@pytest.mark.parametrize(
    ("complaint", "said"),
    [
        ("ssh: connect to host storage1 port 22: Connection refused", "nothing answers on its ssh port"),
        ("No ED25519 host key is known for storage1 and you have requested strict checking.", "not known yet"),
    ],
)
def test_a_host_that_is_away_is_not_asked_again(
    queue: Ansible, cli: Cli, ssh: Ssh, complaint: str, said: str
) -> None:  # fmt: skip
    ssh(f"echo '{complaint}' >&2; exit 255")
    code, out, err = cli("queue")
    assert (code, said in out + err, queue.asked) == (4, True, [])


@pytest.mark.holds("what a host says without a playbook is parsed as well")
@pytest.mark.parametrize(
    "script",
    [
        "echo 'usage: cli.py' >&2; exit 2",  # its code is older
        "echo 'No such file' >&2; exit 127",
        "true",
        "echo 5",
        "echo '[1]'",
        "echo '{}'",
        'echo \'{"queue": {"jobs": 5}}\'',
        printed({"queue": {**REPORT, "jobs": [{**JOB, "end": 1e400}]}}),
        printed({"queue": {**REPORT, "jobs": [{**JOB, "user": 5}]}}),
        "printf '%100000s' | tr ' ' '['; echo",
    ],
)
def test_where_it_cannot_answer_a_playbook_asks(queue: Ansible, cli: Cli, ssh: Ssh, script: str) -> None:
    ssh(script)
    says(queue)
    code, out, _ = cli("queue", "--json")
    assert (code, json.loads(out)["result"]["hosts"]["storage1"]["jobs"]) == (0, [])
    assert [one.playbook for one in queue.asked] == ["queue"]


@pytest.mark.parametrize("option", ["-v", "--ask-pass", "--ask-become-pass"])
def test_passwords_and_output_are_ansible_s(
    queue: Ansible, cli: Cli, ssh: Ssh, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = ssh(printed({"queue": REPORT}))
    monkeypatch.setattr("gpuadmin.session.ask", lambda question, **_: "x")
    says(queue)
    assert cli("queue", option)[0] == 0
    assert (called.exists(), [one.playbook for one in queue.asked]) == (False, ["queue"])


def test_what_is_decided_is_asked_with_our_own_code(queue: Ansible, cli: Cli, ssh: Ssh) -> None:
    called = ssh(printed({"queue": REPORT}))
    says(queue)
    assert cli("drain", "node1", "--reason", "x", "--yes")[0] == 0
    assert (called.exists(), queue.asked[0].playbook) == (False, "queue")


@pytest.mark.holds("an answer without a playbook has an end")
def test_an_answer_ends(queue: Ansible, ssh: Ssh, monkeypatch: pytest.MonkeyPatch) -> None:
    assert queue.site is not None
    site = load_site(str(queue.site))
    monkeypatch.setattr(directly, "LARGEST", 1000)
    monkeypatch.setattr(directly, "SECONDS", 5.0)
    ssh("exec yes")
    assert directly.answer(site, "storage1", "queue", "queue-shown") is None
    monkeypatch.setattr(directly, "SECONDS", 0.1)
    ssh("exec sleep 100")
    found = directly.answer(site, "storage1", "queue", "queue-shown")
    assert found is not None
    assert found.bad == {"storage1": "does not answer (timed out)"}


@pytest.mark.holds("what a host complains about without end fills nothing")
def test_complaints_fill_nothing(queue: Ansible, ssh: Ssh, monkeypatch: pytest.MonkeyPatch) -> None:
    assert queue.site is not None
    monkeypatch.setattr(directly, "LAST", 1000)
    seen: list[int] = []
    monkeypatch.setattr(directly, "unreachable_message", lambda why: seen.append(len(why)) or why[-12:].strip())
    # a long banner, and a host that floods
    ssh("yes 'a banner' | head -c 3000000 >&2; echo 'Cut at last' >&2; exit 255")
    found = directly.answer(load_site(str(queue.site)), "storage1", "queue", "queue-shown")
    assert found is not None
    assert (found.bad, seen) == ({"storage1": "Cut at last"}, [1000])


def test_nobody_waits_for_what_it_leaves_behind(
    queue: Ansible, ssh: Ssh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert queue.site is not None
    monkeypatch.setattr(directly, "SECONDS", 2.0)
    left = tmp_path / "left"
    # as an ssh that others share, or a helper of ssh's, keeps both streams
    ssh(f"sleep 20 & echo $! > {left}; {printed({'queue': REPORT})}")
    begin = time.monotonic()
    found = directly.answer(load_site(str(queue.site)), "storage1", "queue", "queue-shown")
    os.kill(int(left.read_text()), signal.SIGKILL)
    assert found is not None
    assert (found.reported("queue"), time.monotonic() - begin < 10) == ({"storage1": REPORT}, True)
    ssh(f"sleep 20 & echo $! > {left}; wait")
    begin = time.monotonic()
    found = directly.answer(load_site(str(queue.site)), "storage1", "queue", "queue-shown")
    os.kill(int(left.read_text()), signal.SIGKILL)
    assert found is not None
    assert (found.bad, time.monotonic() - begin < 10) == ({"storage1": "does not answer (timed out)"}, True)


def test_this_machine_is_asked_without_ssh(
    queue: Ansible, ssh: Ssh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = ssh("exit 255")
    assert queue.site is not None
    (queue.site / "inventory/local.yml").write_text("slurm: {hosts: {storage1: {ansible_connection: local}}}\n")
    code = tmp_path / "code"
    code.write_text(f"#!/bin/sh\n{printed({'queue': REPORT})}\n")
    code.chmod(0o755)
    monkeypatch.setattr(directly, "NODE_CODE", (str(code),))
    found = directly.answer(load_site(str(queue.site)), "storage1", "queue", "queue-shown")
    assert found is not None
    assert (found.reported("queue"), called.exists()) == ({"storage1": REPORT}, False)
