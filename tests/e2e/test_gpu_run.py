"""GPUs for as long as a command runs: with a queue, and on a site without one."""

import json
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.gated_cluster import NODE, PROBE, opened
from tests.support.lab_cluster import MAKE_IMAGE, Cluster
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root]  # light hosts, which have GPUs
SELF = "gpus: {access: granted, self_service: {gpus: 1, hours: 2}}"


@pytest.fixture
def queue(with_queue: Cluster) -> Iterator[Cluster]:
    with queued(with_queue) as found:
        yield found


@pytest.fixture
def shared(cluster: Cluster) -> Iterator[Cluster]:
    for name in ("minji", "jiho"):
        cluster.add(name)
    with cluster.settings(lambda text: f"{text}\n{SELF}\n"):
        cluster.gpuadmin("provision", "--limit", NODE, "--yes")
        yield cluster


def _terminal(cluster: Cluster, name: str, command: str) -> subprocess.Popen[str]:
    """A person's command with a terminal of its own; both what it prints and what it says are in its output."""
    login = cluster.ssh_command(name, NODE)
    return subprocess.Popen(
        [*login[:1], "-tt", *login[1:], f"bash -lc {shlex.quote(command)}"], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def _read(process: subprocess.Popen[str], until: str) -> str:
    assert process.stdout is not None
    found = ""
    for line in process.stdout:
        found += line
        if until in line:
            return found
    raise AssertionError(f"it has ended: {found}")


def _nobody_has(cluster: Cluster, name: str, seconds: float = 150) -> None:
    cluster.wait(lambda: cluster.ssh(name, NODE, f'[ -z "$({PROBE})" ] && echo so'), seconds=seconds)


def test_a_command_of_the_queue(queue: Cluster) -> None:
    # it runs here, with its own output, input, directory, environment and exit status
    queue.person("minji", NODE, "mkdir -p work")
    script = f"cd work && echo in | A=1 gpu run --node {NODE} --hours 2 -- sh -c '{PROBE}; cat; pwd; echo $A; exit 7'"
    done = queue.ssh("minji", NODE, script)
    assert (done.returncode, done.stdout) == (7, "0\nin\n/home/minji/work\n1\n"), done.stderr
    assert f"1 GPU on {NODE} until" in done.stderr
    assert "given back" in done.stderr
    _nobody_has(queue, "minji")

    # on another node, with a terminal there
    with _terminal(
        queue, "minji", "cd work && gpu run --node node2 -- sh -c 'hostname; tty; pwd; read x; exit $x'"
    ) as there:
        said = _read(there, "/home/minji/work")
        assert "node2" in said
        assert "/dev/pts/" in said
        assert there.stdin is not None
        there.stdin.write("5\n")
        there.stdin.flush()
        rest, _ = there.communicate(timeout=60)
        assert there.returncode == 5, rest
        assert "given back" in rest

    # containers of a daemon that ran before
    queue.person("minji", NODE, MAKE_IMAGE)
    inside = f"docker run --rm --device /dev/nvidia0 tiny /bin/sh -c '{PROBE}'"
    assert queue.person("minji", NODE, f"gpu run --node {NODE} {inside}") == "0\n"

    # jiho has both GPUs of the node; minji waits, and gives her place up by Ctrl-C
    with _terminal(queue, "jiho", f"gpu run --gpus 2 --node {NODE} -- sh -c '{PROBE}; sleep 600'") as holder:
        _read(holder, "01")
        with _terminal(queue, "minji", f"gpu run --node {NODE} -- true") as waits:
            _read(waits, "Your place in the queue: 1")
            assert waits.stdin is not None
            waits.stdin.write("\x03")
            waits.stdin.flush()
            rest, _ = waits.communicate(timeout=60)
            assert (waits.returncode, "given up" in rest) == (130, True), rest
        assert queue.person("minji", NODE, "squeue --me --noheader") == ""
        # the laptop is closed: ssh is gone, with whatever was said
        holder.send_signal(signal.SIGKILL)
    _nobody_has(queue, "jiho")

    # `gpu` itself is killed by force: its command is told, and the GPU goes back
    with _terminal(queue, "minji", f"gpu run --node {NODE} -- sh -c '{PROBE}; sleep 601'") as killed:
        _read(killed, "0")
        queue.admin(NODE, "pkill -KILL -u minji -f 'cli.py gpu run'")
        _nobody_has(queue, "minji", 60)
        queue.wait(lambda: queue.ssh("minji", NODE, "! pgrep -f 'sleep 60[1]' >/dev/null && echo so"))
        killed.kill()
    # one that does not listen keeps it as long as it runs
    with _terminal(queue, "minji", f"nohup gpu run --node {NODE} -- sh -c '{PROBE}; exec sleep 30' | cat") as deaf:
        _read(deaf, "0")
        queue.admin(NODE, "pkill -KILL -u minji -f 'cli.py gpu run'")
        assert opened(queue, "minji") == "0"
        _nobody_has(queue, "minji", 90)
        deaf.kill()

    # an admin ends its job: it is told, and asked to end
    with _terminal(queue, "minji", f"gpu run --node {NODE} -- sh -c '{PROBE}; exec sleep 600'") as ended:
        _read(ended, "0")
        queue.gpuadmin("revoke", "minji", "--yes")
        rest, _ = ended.communicate(timeout=120)
        assert (ended.returncode, "your command is asked to end" in rest) == (143, True), rest

    # without the terminal: a job that is the command itself
    said = queue.ssh(
        "minji",
        NODE,
        "cd work && B=2 gpu run --detach --node node2 --cpus 1 --memory 1 -- sh -c 'hostname; echo $B; exit 3'",
    ).stderr
    path = re.search(r"Its output: (\S+)\.", said)
    assert path is not None, said
    queue.wait(lambda: queue.ssh("minji", NODE, f"grep -q 2 {path[1]} && cat {path[1]}"))
    # and what became of them all, for their person alone
    done = queue.person("minji", NODE, "sleep 5; gpu jobs")
    jobs = json.loads(queue.person("minji", NODE, "gpu jobs --json"))
    assert jobs[0]["state"] == "FAILED"
    assert "failed: the command ended with 3" in done
    assert "given back" in done
    assert "ended by an admin (root)" in done
    assert queue.person("minji", NODE, "sacct -n -X -a --format=user%20").split() == ["minji"] * len(jobs)
    assert queue.person("jiho", NODE, f"sacct -n -X -j {jobs[0]['id']}") == ""
    queue.admin(CONTROLLER, "systemctl stop slurmdbd")
    refused = queue.ssh("minji", NODE, "gpu jobs")
    queue.admin(CONTROLLER, "systemctl start slurmdbd")
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_a_gpu_that_nobody_has(shared: Cluster) -> None:
    run = f"gpu run -- sh -c '{PROBE}; exit 6'"
    done = shared.ssh("minji", NODE, run)
    assert (done.returncode, done.stdout) == (6, "0\n"), done.stderr
    assert "GPU 0 of this node is yours until" in done.stderr
    assert "given back" in done.stderr
    assert opened(shared, "minji") == ""
    with _terminal(shared, "minji", f"gpu run -- sh -c '{PROBE}; sleep 603'") as holder:
        _read(holder, "0")
        assert "GPU 0: minji until" in shared.person("jiho", NODE, "gpu list")
        # the rule, and what is asked a thousand times
        refused = shared.ssh("minji", NODE, "gpu run -- true")
        assert (refused.returncode, "One person may take 1" in refused.stderr) == (1, True)
        refused = shared.ssh("jiho", NODE, "gpu run --hours 3 -- true")
        assert (refused.returncode, "for 2 h at most" in refused.stderr) == (1, True)
        flood = "for n in $(seq 100); do (gpu get >/dev/null 2>&1 &); done; sleep 20; gpu list"
        assert shared.person("jiho", NODE, flood).count("jiho until") == 1
        shared.person("jiho", NODE, "gpu release")
        # what an admin grants is nobody else's, and an admin sees and ends what people take
        shared.gpuadmin("grant", "jiho", NODE, "--gpu", "1", "--hours", "1", "--yes")
        shared.add("haneul")
        refused = shared.ssh("haneul", NODE, run)
        assert (refused.returncode, "granted to somebody: 2" in refused.stderr) == (1, True), refused.stderr
        granted = shared.gpuadmin("grants")["result"]["hosts"][NODE]["grants"]
        assert {one["user"]: one["who"] for one in granted}["minji"] == "gpu run"
        # the laptop is closed
        holder.send_signal(signal.SIGKILL)
    _nobody_has(shared, "minji")
    # `gpu` is killed by force: its command is told, and the node sees it within a minute
    with _terminal(shared, "minji", f"gpu run -- sh -c '{PROBE}; sleep 604'") as killed:
        _read(killed, "0")
        shared.admin(NODE, "pkill -KILL -u minji -f 'cli.py gpu run'")
        _nobody_has(shared, "minji", 90)
        shared.wait(lambda: shared.ssh("minji", NODE, "! pgrep -f 'sleep 60[4]' >/dev/null && echo so"))
        killed.kill()
    # an admin ends it
    with _terminal(shared, "minji", f"gpu run -- sh -c '{PROBE}; exec sleep 600'") as ended:
        _read(ended, "0")
        shared.gpuadmin("revoke", "minji", "--yes")
        rest, _ = ended.communicate(timeout=120)
        assert (ended.returncode, "your command is asked to end" in rest) == (143, True), rest
    # somebody's program still has what they gave back
    left = 'setsid sh -c "exec 8</dev/nvidia0; sleep 60" >/dev/null 2>&1 </dev/null &'
    shared.person("minji", NODE, f"gpu run -- sh -c '({left}); sleep 1'")
    refused = shared.ssh("haneul", NODE, run)
    assert (refused.returncode, "used by somebody's program: 1" in refused.stderr) == (1, True), refused.stderr
