"""The attack table: ways to a GPU that nobody granted, each tried before a grant, with one, and after its end.

docs/gpus.md has the table as it is seen here.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import gated_cluster
from tests.support.gated_cluster import NODE, PROBE, TRY, Kept, kept, opened
from tests.support.lab_cluster import MAKE_IMAGE, Cluster

pytestmark = [pytest.mark.lab, pytest.mark.root]  # light hosts, which have GPUs
PAGE = Path(__file__).resolve().parents[2] / "docs/gpus.md"
TRIES = "/local/try-gpus"
#: One that root left lying about: GPUs under other names, and a program that runs as root for whoever starts it.
LEFT = (
    "set -e; for x in 0 1; do cp -a /dev/nvidia$x /local/own-$x; done;"
    "cp /usr/bin/head /local/as-root; chmod 4755 /local/as-root"
)
#: Services of these names run the same, as the real cron and at do, which are stopped for it.
STAND_IN = "[Service]\nType=oneshot\nUser=minji\nExecStart={tries}\nStandardOutput=truncate:/run/{name}.out\n"
IN_HER_SLICE = "grep -q user.slice /proc/self/cgroup"
DOCKER = "docker run --rm {option} tiny /bin/sh -c '{probe}'"
#: Where systemd reads units from: those that she could put a drop-in of her own slice into.
DROP_INS = (
    "for p in $(systemctl show --property=UnitPath --value); do while ! test -e $p; do p=${p%/*}; done;"
    " test -w ${p:-/} && echo $p; done; true"
)
DEVICES = "--device /dev/nvidia0 --device /dev/nvidia1"
LOOP = f"while :; do {TRIES} > ~/.before.new; mv ~/.before.new ~/.before; sleep 0.1; done"


@pytest.fixture
def gated(provisioned: Cluster) -> Iterator[Cluster]:
    with gated_cluster.gated(provisioned) as found:
        found.add("haru")
        script = f"#!/bin/sh\n{PROBE}\n"
        found.admin(NODE, f"cat > {TRIES} <<'E'\n{script}E\nchmod 755 {TRIES}; {LEFT}")
        yield found


def attempts(cluster: Cluster, before: Kept) -> Mapping[str, Callable[[], str]]:
    """What minji tries: in words → which GPUs it opened, as letters."""

    def hers(command: str) -> Callable[[], str]:
        # a logind that was started again counts from one: a number that is taken gives a login no session
        line = f"{IN_HER_SLICE} && {{ {command}; }}"
        return lambda: cluster.wait(lambda: cluster.ssh("minji", NODE, line), seconds=60).strip()

    def container(option: str) -> Callable[[], str]:
        def way() -> str:
            done = cluster.ssh("minji", NODE, DOCKER.format(option=option, probe=PROBE))
            if done.returncode and option != "--privileged":
                return f"does not start: {done.stderr}"
            return done.stdout.strip() if done.returncode == 0 else "does not start"

        return way

    def in_her_service() -> str:
        # what it was about to write when the first was taken away may be of before
        again = "rm -f ~/.before; until test -e ~/.before; do sleep 0.1; done"
        return cluster.person("minji", NODE, f"{again}; {again}; cat ~/.before").strip()

    def at_a_service(name: str) -> Callable[[], str]:
        return lambda: cluster.admin(NODE, f"systemctl start {name}; cat /run/{name}.out").strip()

    def without_logind() -> str:
        cluster.admin(NODE, "systemctl mask --runtime --now systemd-logind.service")
        try:
            where = cluster.person("minji", NODE, "cat /proc/self/cgroup")
            assert "ssh.service" in where, f"the session was to stay in sshd's own: {where}"
            return opened(cluster, "minji")
        finally:
            cluster.admin(NODE, "systemctl unmask --runtime systemd-logind.service; systemctl start systemd-logind")

    def other_cgroup() -> str:
        places = "/sys/fs/cgroup /sys/fs/cgroup/init.scope /sys/fs/cgroup/system.slice/ssh.service"
        return hers(f"for p in {places}; do echo $$ > $p/cgroup.procs; done 2>/dev/null; {PROBE}")()

    by_user = "systemd-run --user --quiet --wait --pipe"
    lifted = "-p DevicePolicy=auto -p 'DeviceAllow=/dev/nvidia0 rw' -p 'DeviceAllow=/dev/nvidia1 rw'"
    named = TRY.format("/local/own-")
    made = "for x in 0 1; do mknod /tmp/own-$x c $(stat -c %Hr /dev/nvidia$x) $x; done"
    as_root = "for x in 0 1; do /local/as-root -c 16 /dev/nvidia$x >/dev/null 2>&1 && printf $x; done; echo"
    return {
        "a new ssh session, also a second one beside it": hers(PROBE),
        "a shell that she had before": lambda: before.ask(PROBE),
        "a program that ran before, as a unit of hers": in_her_service,
        "`systemd-run --user`": hers(f"{by_user} {TRIES}"),
        "… with `DevicePolicy=auto` and `DeviceAllow=`": hers(f"{by_user} {lifted} {TRIES}"),
        "a device node that `mknod` makes, also in a user namespace": hers(
            f"({made}; unshare -Ur sh -c '{made}') 2>/dev/null; {TRY.format('/tmp/own-')}"
        ),
        "a device node under another name, left by root": hers(named),
        "a program of root's with the setuid bit": hers(as_root),
        "a user namespace (`unshare -Urm`)": hers(f"unshare -Urm sh -c '{PROBE}'"),
        "`/proc/self/root`": hers(TRY.format("/proc/self/root/dev/nvidia")),
        "moving her process into another cgroup": other_cgroup,
        "cron (a unit of its name)": at_a_service("cron.service"),
        "at (a unit of its name)": at_a_service("atd.service"),
        "a job of systemd-cron (a unit of such a name)": at_a_service("cron-minji-job.service"),
        "a container or virtual machine in `machine.slice` (a unit in it)": at_a_service("machine.service"),
        "rootless Docker, `--device`": container(DEVICES),
        "… `--privileged`": container("--privileged"),
        "… in a container that ran before": hers(f"docker exec before /bin/sh -c '{PROBE}'"),
        "ssh while logind is masked and stopped": without_logind,
    }


def test_what_is_tried_and_what_it_gets(gated: Cluster) -> None:
    for name in ("cron", "atd", "cron-minji-job", "machine"):
        unit = STAND_IN.format(tries=TRIES, name=f"{name}.service")
        unit += "Slice=machine.slice\n" if name == "machine" else ""
        gated.admin(NODE, f"cat > /run/systemd/system/{name}.service <<'E'\n{unit}E\n")
    gated.admin(NODE, "systemctl stop cron.service atd.service; systemctl daemon-reload")
    assert gated.person("minji", NODE, DROP_INS).strip() == ""
    gated.person("minji", NODE, MAKE_IMAGE)
    gated.person("minji", NODE, f"docker run -d --name before {DEVICES} tiny /bin/sleep 6000")
    gated.person("minji", NODE, f"systemd-run --user --quiet --unit before sh -c '{LOOP}'")
    with ExitStack() as stack:
        before = stack.enter_context(kept(gated, "minji"))
        ways = attempts(gated, before)
        without = {name: way() for name, way in ways.items()}
        gated.gpuadmin("grant", "minji", NODE, "--gpu", "0", "--hours", "1", "--yes")
        granted = {name: way() for name, way in ways.items()}
        assert before.ask("exec 3< /dev/nvidia0; head -c 16 <&3 | wc -c") == "16"
        print(gated.admin(NODE, "journalctl -n 300 --no-pager -o short-precise"))
        gated.gpuadmin("revoke", "minji", "--yes")
        after = {name: way() for name, way in ways.items()}
        again = before.ask("( : < /proc/self/fd/3 ) 2>/dev/null && printf 0")
        still = before.ask("head -c 16 <&3 | wc -c")
    rows = [(name, without[name], granted[name], after[name]) for name in ways]
    rows += [
        ("opening again what is open, by `/proc/self/fd`", "", "0", again),
        ("a file that was opened while it was granted", "", "0", "0" if still == "16" else ""),
        ("somebody who logs in for the first time", "", "", opened(gated, "haru")),
    ]
    table = ["| what she tries | without a grant | granted GPU 0 | after its end |", "| --- | --- | --- | --- |"]
    table += [f"| {name} | {' | '.join(one or '–' for one in cells)} |" for name, *cells in rows]
    print("\n" + "\n".join(table))
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(table) in page, "docs/gpus.md has another table than what was seen"
