"""`gpuadmin diagnose` on broken hosts: the first line names the cause, and nothing is changed."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.support.lab_cluster import OPEN, Cluster

pytestmark = pytest.mark.lab
#: What it must not touch: accounts, homes, units, and who runs what.
STATE = (
    "cat /etc/passwd /etc/shadow /etc/subuid; ls /run/user /var/lib/systemd/linger; "
    "ls -la --time-style=+ /local/.docker; "  # without times: the session's file has come and gone
    "runuser -u minji -- ls -la --time-style=+ /home/minji"  # root of a node sees no home of an NFS server
)


def diagnose(cluster: Cluster, *arguments: str, code: int = 0) -> tuple[str, list[str]]:
    """The first line, and the codes of all findings."""
    result = cluster.gpuadmin("diagnose", *arguments, code=code)["result"]
    return result["verdict"], [one["code"] for one in result["findings"]]


@pytest.mark.story("diagnose")
def test_the_cause_comes_first_and_nothing_is_changed(minji: Cluster) -> None:
    line, codes = diagnose(minji, "minji")
    assert "were checked on node1, node2, storage1 and are fine; minji gets a session on node1, node2" in line, codes
    minji.admin("node1", f"{OPEN}; usermod -L minji")
    before = minji.admin("node1", STATE)
    line, codes = diagnose(minji, "minji", code=6)
    assert line == "node1: minji's account is locked there, and not in users.yml"
    assert codes[0] == "locked-here"
    assert minji.admin("node1", STATE) == before
    assert diagnose(minji, "minji", "--host", "node2")[0].startswith("these ")
    assert diagnose(minji, "--host", "node1")[0].startswith("these ")


#: What is done to node1, and what the first line then has.
FAULTS = {
    "sshd lets others in": (
        "echo AllowUsers gpuadmin jiho >/etc/ssh/sshd_config.d/50-test.conf && systemctl reload ssh",
        "sshd does not let minji in (AllowUsers)",
    ),
    "the key did not arrive": ("rm /var/lib/gpuadmin/keys/minji", "minji's keys of users.yml are not there"),
    "the user manager fails": (
        "D=/run/systemd/system/user@20000.service.d; mkdir -p $D && "
        "printf '[Service]\\nExecStart=\\nExecStart=/bin/false\\n' >$D/test.conf && "
        "systemctl daemon-reload && ! systemctl start user@20000.service",
        "minji's user manager failed",
    ),
    "subordinate ids are gone": ("sed -i /minji/d /etc/subuid", "minji has too few subordinate ids: /etc/subuid"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_a_host(minji: Cluster, name: str) -> None:
    command, words = FAULTS[name]
    minji.admin("node1", f"{OPEN}; {command}")
    try:
        line, codes = diagnose(minji, "minji", code=6)
        assert line.startswith("node1: "), codes
        assert words in line
    finally:
        minji.admin("node1", "rm -f /etc/ssh/sshd_config.d/50-test.conf; systemctl reload ssh")


@pytest.fixture
def stopped(minji: Cluster) -> Iterator[Cluster]:
    """Homes of node1 that do not answer: what serves them there is stopped."""
    assert minji.nfs == "fuse.mergerfs"
    minji.admin("node1", "ls /home; pkill -STOP mergerfs")
    yield minji
    minji.admin("node1", "pkill -CONT mergerfs")


@pytest.mark.slow
def test_homes_that_do_not_answer(stopped: Cluster) -> None:
    line, codes = diagnose(stopped, "minji", code=6)
    assert line.startswith("node1: the homes do not answer"), codes


@pytest.mark.slow
def test_a_daemon_is_asked_where_it_runs_and_not_started(minji: Cluster) -> None:
    minji.person("minji", "node1", "true")
    diagnose(minji, "minji")
    running = "systemctl --user is-active docker.service"
    assert minji.ssh("minji", "node1", running).stdout.strip() == "inactive"
    minji.person("minji", "node1", "docker info >/dev/null")
    minji.person("minji", "node1", "tar c /bin/busybox | docker import - box >/dev/null")
    done: subprocess.CompletedProcess[str] = minji.ssh(
        "minji", "node1", "docker run --name typo box /bin/no-such-thing"
    )
    assert done.returncode == 127, done.stderr
    line, codes = diagnose(minji, "minji", code=6)
    assert "minji's container typo lacks the program" in line, codes


@pytest.mark.slow
def test_people_ask_for_themselves_and_docker_is_restarted(minji: Cluster) -> None:
    shown = minji.person("minji", "node1", "gpuadmin-me")
    assert shown.startswith("minji@node1\n")
    assert "node2 (10.77.0.12)" in shown
    assert "home: /home/minji: " in shown
    assert "account: no last day of its own" in shown
    assert minji.person("minji", "node1", "gpuadmin-me check").startswith("node1: ")
    # a socket that is gone: systemd holds it, and nobody reaches it any more
    done = minji.ssh("minji", "node1", "docker info >/dev/null; rm $XDG_RUNTIME_DIR/docker.sock; gpuadmin-me check")
    assert done.stdout.startswith("* systemctl --user restart docker.socket\n"), done.stdout + done.stderr
    assert done.returncode == 1
    korean = minji.ssh("minji", "node1", "LANG=ko_KR.UTF-8 gpuadmin-me check")
    assert "이유: Docker 소켓이 없습니다" in korean.stdout
    assert diagnose(minji, "minji", code=6)[0] == "node1: minji's Docker socket is missing"
    predicted = minji.gpuadmin("diagnose", "minji", "--restart-docker", "--check")["result"]
    assert predicted["restarted"] == ["node1"]
    assert diagnose(minji, "minji", code=6)[0] == "node1: minji's Docker socket is missing"
    after = minji.gpuadmin("diagnose", "minji", "--restart-docker", "--yes")["result"]["after"]
    assert after["verdict"].startswith("these "), after["findings"]
    minji.person("minji", "node1", "docker info >/dev/null")
