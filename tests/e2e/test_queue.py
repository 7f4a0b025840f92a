"""GPUs by Slurm's queue: two people, two nodes, ssh open."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpuadmin.actions.shared.queue import make_mark
from tests.support.gated_cluster import NODE, PROBE, kept, opened
from tests.support.lab_cluster import MAKE_IMAGE, Cluster
from tests.support.queued_cluster import CONTROLLER, SLURM, queued

pytestmark = [pytest.mark.lab, pytest.mark.root]  # light hosts, which have GPUs
ASK = (
    'import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect("/run/gpuadmin-queue.sock"); '
    's.sendall(sys.argv[1].encode() + bytes([10])); print(s.recv(99).decode(), end="")'
)
CLI = "python3 -IB /var/lib/gpuadmin/lib/gpuadmin_node/cli.py"
EXCEPTION = ("--hours", "9", "--reason", "paper", "--yes")  # longer than anybody may ask for


@pytest.fixture
def queue(with_queue: Cluster) -> Iterator[Cluster]:
    with queued(with_queue) as found:
        yield found


def _until(cluster: Cluster, name: str, can: str) -> None:
    cluster.wait(lambda: cluster.ssh(name, NODE, f'[ "$({PROBE})" = "{can}" ] && echo so'))


def _until_closed(cluster: Cluster) -> None:
    for node in ("node1", "node2"):
        none = "! sudo grep -rq slurm /run/gpuadmin-grants && echo so"
        cluster.wait(lambda node=node, none=none: cluster.ssh("admin", node, none))


def _granted(cluster: Cluster) -> list[str]:
    hosts = cluster.gpuadmin("grants")["result"]["hosts"]
    return [f"{one['user']} {host} {' '.join(one['gpus'])}" for host, seen in hosts.items() for one in seen["grants"]]


def _jobs(cluster: Cluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["jobs"]
    return found


def test_a_person_waits_for_their_turn_and_gets_exactly_that(queue: Cluster) -> None:
    assert [opened(queue, name) for name in ("minji", "jiho")] == ["", ""]
    queue.person("minji", NODE, MAKE_IMAGE)
    queue.person("minji", NODE, "docker run -d --name before --device /dev/nvidia0 tiny /bin/sleep 600")
    inside = f'docker exec before /bin/sh -c "{PROBE.replace("$", chr(92) + "$")}"'
    with kept(queue, "minji") as shell:
        assert (shell.ask(PROBE), queue.person("minji", NODE, inside).strip()) == ("", "")
        assert "1 GPU on node1" in queue.person("minji", NODE, f"gpu get 1 --type h100 --node {NODE}")
        assert shell.ask(PROBE) == "0"
        assert queue.person("minji", NODE, inside).strip() == "0"
        # a neighbour's job over both nodes gets the other one
        job = queue.person("jiho", NODE, "sbatch --parsable -N2 --gres=gpu:1 -D / -o /dev/null --wrap 'srun sleep 600'")
        _until(queue, "jiho", "1")
        assert sorted(_granted(queue)) == ["jiho node1 1", "jiho node2 0", "minji node1 0"]
        # who comes now waits, and sees their place and why
        queue.person("minji", NODE, f"gpu get 2 --no-wait --node {NODE}")
        assert "place 1" in queue.person("jiho", NODE, "gpu list")
        (waiting,) = [one for one in _jobs(queue) if one["place"]]
        assert (waiting["user"], waiting["gpus"]) == ("minji", 2)
        # at log-in, and in gpuadmin-me: from files of the node, and from the queue itself
        queue.admin(NODE, "systemctl start gpuadmin-queue.service")
        read = queue.person("minji", NODE, "bash -lic : 2>/dev/null").splitlines()
        assert [line.split(",")[0][:29] for line in read[:2]] == [
            "You have 1 GPU of node1 until",
            "You are waiting for 2 GPUs. Y",
        ]
        assert "You have 1 GPU of node1 until" in queue.person("minji", NODE, "gpuadmin-me")
        queue.admin(CONTROLLER, f"{CLI} queue-measured")
        measured = queue.admin(CONTROLLER, "cat /run/gpuadmin-metrics/queue/queue.prom")
        assert 'gpuadmin_queue_allocated_gpus{user="jiho",account="people",project=""} 2' in measured
        # more time for one's own, up to the longest; by the kernel's word whose it is
        assert "yours until" in queue.person("minji", NODE, "gpu extend --hours 2")
        assert "4 h: yours can last until" in queue.ssh("minji", NODE, "gpu extend --hours 2").stderr
        mine = queue.person("minji", NODE, "squeue --me --noheader --states=R --format=%i").strip()
        assert queue.person("minji", NODE, f"squeue --noheader --jobs={mine} --format=%l").strip() == "3:00:00"
        assert queue.person("jiho", NODE, f"python3 -c '{ASK}' 'extend {mine} 1'") == f"1 not-running {mine}\n"
        assert "× h100-pcie (0 free)" in queue.person("jiho", NODE, "gpu list")
        assert "h100-pcie" in queue.ssh("jiho", NODE, "gpu get --type a100").stderr
        # asking for more than there is, or for longer than anybody may, is refused at once
        for asked, said in (("get 9", "No node has that"), ("get --hours 5", "You may have GPUs for 4 h each time")):
            refused = queue.ssh("jiho", NODE, f"gpu {asked}")
            assert refused.returncode == 1
            assert said in refused.stderr
        # jobs are no hole in the gate
        queue.admin(NODE, "systemctl start gpuadmin-gpu-gate.service")
        # an admin's exception takes nothing from anybody, and never waits
        assert "there: " in str(queue.gpuadmin("grant", "jiho", NODE, *EXCEPTION, code=3))
        assert [one["place"] for one in _jobs(queue) if one["place"]] == [1], "what did not start does not wait"
        # a node that is drained takes no further job; what runs there goes on
        queue.gpuadmin("drain", "node2", "--reason", "new image", "--yes")
        hosts = queue.gpuadmin("status")["result"]["hosts"]
        assert (hosts["node2"]["closed"], hosts[NODE]["gpu_gate"]) == ("new image", [])
        assert "node2 takes no jobs now: new image" in queue.person("jiho", NODE, "gpu list")
        queue.gpuadmin("resume", "node2", "--yes")
        assert "new image" not in queue.person("jiho", NODE, "gpu list")
        # the controller is killed: what runs goes on, and whoever asks hears so soon
        queue.admin(CONTROLLER, "systemctl kill -s KILL slurmctld; systemctl stop slurmctld")
        queue.admin(NODE, "systemctl start gpuadmin-queue.service")
        read = queue.person("minji", NODE, "bash -lic : 2>/dev/null")
        assert ("You have 1 GPU of node1" in read, "does not answer now" in read) == (True, True), read
        began = time.monotonic()
        refused = queue.ssh("minji", NODE, "gpu get")
        assert (refused.returncode, "does not answer" in refused.stderr) == (1, True)
        assert time.monotonic() - began < 6, "squeue waits for nine seconds"
        assert [opened(queue, name) for name in ("minji", "jiho")] == ["0", "1"]
        queue.admin(CONTROLLER, "systemctl start slurmctld")
        # given back: closed everywhere, and the neighbour's goes on
        queue.wait(lambda: queue.ssh("minji", NODE, "gpu release && echo given back"))
        _until(queue, "minji", "")
        assert shell.ask(PROBE) == ""
        assert queue.person("minji", NODE, inside).strip() == ""
    assert opened(queue, "jiho") == "1"
    # whoever is locked loses what they have, and asks for nothing
    queue.gpuadmin("lock-user", "jiho", "--yes")
    _until_closed(queue)
    queue.wait(
        lambda: queue.ssh("admin", CONTROLLER, f"! squeue --noheader --format=%i | grep -w {job.strip()} && echo gone")
    )
    assert "|0" in queue.admin(CONTROLLER, "sacctmgr -nP show assoc user=jiho format=user,maxsubmitjobs")
    # taken away again, nothing is left that starts or opens a GPU
    with queue.settings(lambda text: text.replace(SLURM, "")):
        queue.gpuadmin("provision", "--yes")
        queue.gpuadmin("lock-user", "minji", "--yes")  # its programs are there, and find no queue
    for host, units in ((NODE, ["slurmd"]), (CONTROLLER, ["slurmctld", "slurmdbd"])):
        for unit in units:
            state = queue.admin(host, f"systemctl show --property=ActiveState,UnitFileState {unit}")
            assert state.split() == ["ActiveState=inactive", "UnitFileState=disabled"], unit
    left = "/var/lib/gpuadmin/slurm /usr/local/bin/gpu /etc/profile.d/gpuadmin-queue.sh /run/gpuadmin-queue"
    assert queue.admin(NODE, f"find {left} -type f 2>/dev/null || true") == ""


@pytest.mark.slow
def test_an_exception_has_no_limits_and_is_an_admin_s_alone(queue: Cluster) -> None:
    queue.gpuadmin("grant", "minji", "node2", "--gpus", "2", *EXCEPTION)
    (made,) = [one for one in _jobs(queue) if one["exception"]]
    assert (made["user"], made["nodes"], made["exception"]["reason"]) == ("minji", "node2", "paper")
    assert "minji node2 0 1" in _granted(queue)
    (given,) = queue.gpuadmin("grants", "--limit", "node2")["result"]["hosts"]["node2"]["grants"]
    assert (given["reason"], given["who"] != "Slurm") == ("paper", True), (
        "as `grants --past` knows it, by its measurement"
    )
    said = queue.person("minji", NODE, "gpu limits")
    assert ("4 h each time" in said, "is an exception: an admin" in said, "paper" in said) == (True, True, True), said
    assert "paper" not in queue.person("jiho", NODE, "gpu limits --language ko")
    assert "Invalid qos" in queue.ssh("minji", NODE, "sbatch --qos=exception -D / --wrap true").stderr
    assert queue.ssh("minji", NODE, f"scontrol update JobId={made['id']} AdminComment=x").returncode != 0
    queue.gpuadmin("revoke", f"slurm-{made['id']}", "--yes")
    queue.wait(lambda: queue.ssh("admin", "node2", "! sudo grep -rq slurm /run/gpuadmin-grants && echo so"))
    _a_project(queue)


def _a_project(queue: Cluster) -> None:
    """Whoever is in it names it, nobody else; it is counted, and Slurm's shares and limits are as they were."""
    shares = "sacctmgr -nP show assoc format=account,user,fairshare,qos"
    before = queue.admin(CONTROLLER, shares)
    queue.gpuadmin("change-user", "minji", "--project", "nlp", "--project", "bio", "--yes")
    queue.person("minji", NODE, f"gpu get --project nlp --node {NODE}")
    for name, asked in (
        ("jiho", "get --project nlp"),
        ("minji", "get --project else"),
        ("jiho", "get --project '*nlp'"),
    ):
        refused = queue.ssh(name, NODE, f"gpu {asked}")
        assert (refused.returncode != 0, "is not a project of yours" in refused.stderr) == (True, True), refused
    assert "Invalid wckey" in queue.ssh("jiho", NODE, "sbatch --wckey=bio -D / --wrap true").stderr
    queue.person("jiho", NODE, f"gpu get --node {NODE}")
    queue.admin(CONTROLLER, f"{CLI} queue-measured")
    measured = queue.admin(CONTROLLER, "cat /run/gpuadmin-metrics/queue/queue.prom")
    for own in ('user="minji",account="people",project="nlp"', 'user="jiho",account="people",project=""'):
        assert f"gpuadmin_queue_allocated_gpus{{{own}}} 1" in measured
    queue.gpuadmin("change-user", "minji", "--project", "bio", "--yes")
    assert queue.person("minji", NODE, "gpu list").count("minji") == 1, "what runs goes on"
    queue.person("minji", NODE, "gpu release")
    assert "is not a project of yours" in queue.ssh("minji", NODE, "gpu get --project nlp").stderr
    queue.person("minji", NODE, f"gpu get --no-wait --node {NODE}")
    queue.admin(CONTROLLER, f"{CLI} queue-measured")
    measured = queue.admin(CONTROLLER, "cat /run/gpuadmin-metrics/queue/queue.prom")
    assert 'user="minji",account="people",project="nlp"' not in measured, "nobody has named one"
    assert queue.admin(CONTROLLER, shares) == before


@pytest.mark.slow
def test_what_somebody_has_booked_is_theirs_alone(with_queue: Cluster) -> None:
    with queued(with_queue, "slurm: {constrain: [], hours: 4, gpus: 4, book: {gpus: 2, hours: 2, lead: 0}}") as queue:
        at = queue.person("minji", NODE, "date -d '+90 seconds' '+%F %H:%M'").strip()
        assert f"{NODE} with its GPUs (2) is yours" in queue.person(
            "minji", NODE, f"gpu book --at '{at}' --node {NODE}"
        )
        for name, asked, why in (
            ("minji", "23:59", "You may have 1 at a time"), ("jiho", "23:59 --hours 3", "2 h at most"),
            ("jiho", f"'{at}'", "More than 50 % of all GPUs"), ("jiho", "2030-01-01T10:00", "within 7 days"),
        ):  # fmt: skip
            refused = queue.ssh(name, "node2", f"gpu book --at {asked}")
            assert (refused.returncode, why in refused.stderr) == (1, True), refused
        assert queue.person("jiho", NODE, f"python3 -c '{ASK}' 'cancel 1'") == "1 not-booked 1\n"
        assert f"minji: {NODE} from {at}" in queue.person("jiho", NODE, "gpu list")
        (booked,) = queue.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["reservations"]
        assert (booked["users"], booked["nodes"]) == (["minji"], [NODE])
        # nobody's job may be there when it begins
        queue.person("jiho", NODE, f"gpu get 1 --node {NODE} --no-wait")
        queue.wait(lambda: queue.ssh("jiho", NODE, "gpu why | grep 'A booking of the node begins'"))
        queue.wait(
            lambda: queue.ssh("admin", NODE, f"[ $(date +%s) -gt {booked['begin']:.0f} ] && echo so"), seconds=150
        )
        assert "of what you have booked" in queue.person("minji", "node2", "gpu get 2")
        assert [opened(queue, name) for name in ("minji", "jiho")] == ["01", ""]
        denied = queue.ssh("jiho", NODE, f"sbatch --reservation={booked['name']} -D / --wrap true")
        assert "Access denied to requested reservation" in denied.stderr
        assert "You have booked it until" in queue.ssh("minji", NODE, "gpu extend --hours 2").stderr
        assert "gpu release` first" in queue.ssh("minji", NODE, "gpu book --cancel 1").stderr
        queue.person("minji", NODE, "gpu release")
        queue.wait(lambda: queue.ssh("minji", NODE, "gpu book --cancel 1"))
        # it is the next one's now; and whoever is locked keeps nothing that they have booked
        _until(queue, "jiho", "0")
        queue.person("jiho", NODE, "gpu book --at 23:59 --node node2")
        queue.gpuadmin("lock-user", "jiho", "--yes")
        assert queue.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["reservations"] == []


@pytest.mark.slow
def test_a_verb_takes_a_node_away_and_lets_it_take_jobs_again(queue: Cluster) -> None:
    queue.person("minji", NODE, f"gpu get 1 --node {NODE}")
    _a_full_node(queue)
    reboot = queue.start("reboot", NODE, "--when-idle", "--yes")
    mine = '[ "$(sinfo --noheader --nodes={} --format=%E)" {} "none" ] && echo so'
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, mine.format(NODE, "!=")))
    assert f"{NODE} takes no jobs now: {make_mark('reboot', queue.site)} by" in queue.person("jiho", NODE, "gpu list")
    # called off, it lets it take jobs again
    reboot.send_signal(signal.SIGINT)
    reboot.communicate()
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, mine.format(NODE, "=")))
    # what one that was cut off has left is its own; what an admin has drained is not
    left = f"Reason='{make_mark('reboot', queue.site)} by root@elsewhere'"
    queue.admin(CONTROLLER, f'scontrol update NodeName={NODE} State=DRAIN "{left}"'.replace("'", ""))
    queue.person("minji", NODE, "gpu release")
    queue.gpuadmin("drain", "node2", "--reason", "fan is loud", "--yes")
    queue.admin("node2", "umount /local")
    before = queue.admin(NODE, "cat /proc/sys/kernel/random/boot_id")
    queue.gpuadmin("reboot", "gpu", "--when-idle", "--yes")
    assert queue.admin(NODE, "cat /proc/sys/kernel/random/boot_id") != before
    nodes = queue.gpuadmin("queue")["result"]["hosts"][CONTROLLER]["nodes"]
    assert {one["name"]: one["reason"] for one in nodes} == {NODE: "", "node2": "fan is loud"}
    queue.wait(lambda: queue.ssh("jiho", NODE, f"gpu get 1 --node {NODE}"))
    assert "in use by jiho (job" in str(queue.gpuadmin("reboot", NODE, "--yes", code=5))
    # a queue with jobs is not taken away
    with queue.settings(lambda text: text.replace(SLURM, "")):
        assert "it has jobs of jiho" in str(queue.gpuadmin("provision", "--limit", CONTROLLER, "--yes", code=3))
    # whoever leaves keeps nothing in the queue, though its host has no account of theirs any more
    queue.person("jiho", NODE, "gpu get 1 --node node2 --no-wait")
    queue.gpuadmin("remove-user", "jiho", "--yes")
    queue.wait(lambda: queue.ssh("admin", CONTROLLER, '[ -z "$(squeue --noheader)" ] && echo so'))


def _a_full_node(queue: Cluster) -> None:
    """It takes no job while it is full, and takes jobs again by itself; at the end it is full once more."""
    full = "gpu list | grep -F 'node2 takes no jobs now: gpuadmin full disk: /local'"
    queue.person("jiho", "node2", "gpu get 1 --node node2")
    queue.admin("node2", "mount -t tmpfs -o size=20m tmpfs /local && ! head -c 30M /dev/zero >/local/large")
    queue.wait(lambda: queue.ssh("jiho", NODE, full), seconds=90)
    assert opened(queue, "jiho", node="node2") != "", "what runs goes on"
    queue.person("jiho", "node2", "gpu get 1 --node node2 --no-wait")
    queue.wait(lambda: queue.ssh("jiho", NODE, full.replace("list", "why")), seconds=60)
    queue.admin("node2", "rm /local/large")
    queue.wait(lambda: queue.ssh("jiho", NODE, f"! {full} && echo so"), seconds=90)
    queue.wait(lambda: queue.ssh("jiho", NODE, "gpu list | grep -c 'jiho .* node2' | grep 2"), seconds=60)
    queue.person("jiho", "node2", "gpu release")
    queue.admin("node2", "! head -c 30M /dev/zero >/local/large")
    queue.wait(lambda: queue.ssh("jiho", NODE, full), seconds=90)
