"""A real gpuadmin on the lab's monitor host, with a clone of the site, as docs/timers.md has an admin make them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.lab_cluster import OPEN, REPOSITORY, Cluster
from tests.support.notebook_wheels import INDEX, bring

HOST = "storage1"
HOME = "/var/lib/gpuadmin-timers"
AS = "sudo -u gpuadmin-timers -H"
#: The site's repository, that admins push to. It is in the account's home, since git reads none of another account.
ORIGIN = f"{HOME}/origin"
#: What is pushed of any site.
FILES = ("gpuadmin.yml", "users.yml", "known_hosts", "inventory", ".gitignore")
#: Settings that declare the account.
DECLARED = "admins: [{{name: timers, uid: 901, keys: ['{key}']}}]\n"

#: The timer has its calendar alone, without delay, and was due long ago.
OVERDUE = """set -e
calendar=$(systemctl cat {unit}.timer | grep ^OnCalendar= | sort -u)
mkdir -p /run/systemd/system/{unit}.timer.d
printf '[Timer]\nOnBootSec=\nRandomizedDelaySec=0\n%s\n' "$calendar" >/run/systemd/system/{unit}.timer.d/own.conf
systemctl daemon-reload
systemctl stop {unit}.timer {unit}.service
systemctl reset-failed {unit}.service
touch -d '32 days ago' /var/lib/systemd/timers/stamp-{unit}.timer
systemctl start {unit}.timer
"""
#: Its time does not come; its unit is started.
BY_HAND = """set -e
systemctl stop {unit}.timer {unit}.service
systemctl start --no-block {unit}.service
"""


def set_up(cluster: Cluster, directory: Path, *files: str) -> None:
    """All that docs/timers.md has an admin do on a monitor host that is provisioned. `files`: what the site pushes."""
    install(cluster, directory)
    give_key(cluster)
    push(cluster, *files)
    cluster.admin(HOST, f"{AS} git clone -q {ORIGIN} {HOME}/site")
    gpuadmin(cluster, "bootstrap", "storage1", "node1", "node2", "--as", "timers", "--yes")


def fire(cluster: Cluster, timer: str, begin: str = OVERDUE) -> str:
    """Have a timer's time come, or start its unit. Returns how that ended, in systemd's words."""
    unit = f"gpuadmin-timer-{timer}"
    look = f"systemctl show {unit}.service --value -p"
    over = f"{look} ExecMainExitTimestampMonotonic"
    before = cluster.admin(HOST, over)
    cluster.admin(HOST, begin.format(unit=unit))
    cluster.wait(lambda: cluster.ssh("admin", HOST, over), differs=before, seconds=600)
    cluster.wait(lambda: cluster.ssh("admin", HOST, f"{look} SubState | grep -E 'dead|failed|auto-restart'"))
    return cluster.admin(HOST, f"{look} ExecMainStatus").strip()


def log(cluster: Cluster, timer: str) -> str:
    return cluster.admin(HOST, f"journalctl -u gpuadmin-timer-{timer} --no-pager --output=cat -n 200")


def install(cluster: Cluster, directory: Path) -> None:
    """Install the checkout's wheel with all that it needs from files: light hosts reach no package index."""
    build = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", str(directory)]
    subprocess.run([*build, str(REPOSITORY)], check=True)
    (wheel,) = directory.glob("gpuadmin-*.whl")
    text = (REPOSITORY / "pyproject.toml").read_text()
    needs = re.findall(r'"([^"]+)"', text[text.index("\ndependencies") : text.index("\n[project.optional")])
    bring(cluster, [one for one in needs if ";" not in one], HOST)
    _send(cluster, directory, "/var/lib/wheels", wheel.name)
    cluster.admin(HOST, OPEN)
    cluster.admin(HOST, "DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends git python3-venv")
    cluster.admin(HOST, "python3 -m venv /opt/gpuadmin")
    cluster.admin(HOST, f"/opt/gpuadmin/bin/pip install -q --index-url {INDEX} /var/lib/wheels/{wheel.name}")
    cluster.admin(HOST, OPEN.replace("false", "true"))


def make_key(cluster: Cluster) -> str:
    """The key of the timers' account, which is told before the account is there; its public half."""
    return cluster.key("gpuadmin-timers")


def give_key(cluster: Cluster) -> None:
    """Have the key where it would have been made."""
    cluster.admin(HOST, f"install -d -o gpuadmin-timers -m 700 {HOME} && {AS} install -d -m 700 {HOME}/.ssh")
    private = (cluster.keys / "gpuadmin-timers").read_text()
    keep(cluster, ".ssh/id_ed25519", private)
    keep(cluster, ".ssh/id_ed25519.pub", make_key(cluster))


def keep(cluster: Cluster, name: str, text: str) -> None:
    """Have a file that the timers' account alone can read."""
    cluster.admin(HOST, f'echo "{text}" | install -o gpuadmin-timers -m 600 /dev/stdin {HOME}/{name}')


def push(cluster: Cluster, *files: str) -> None:
    """Commit these files of the site. Hosts have the addresses there by which they reach each other."""
    cluster.admin(HOST, f"{AS} sh -c 'test -d {ORIGIN} || git init -q -b main {ORIGIN}'")
    _send(cluster, cluster.site, ORIGIN, *files)
    cluster.admin(
        HOST,
        f"chown -R gpuadmin-timers: {ORIGIN}; cd {ORIGIN} && sed -i /ansible_port/d inventory/hosts.yml && "
        r'sed -i -E "/^ *ansible_host:/d; s/^( *)gpuadmin_address: (.*)/&\n\1ansible_host: \2/" inventory/hosts.yml && '
        f'sed -i "/ssh_key:/d" gpuadmin.yml && {AS} git add -A && '
        f'{AS} git -c user.name=kim -c user.email=kim@example.org commit -qm "As it is" || true',
    )


def gpuadmin(cluster: Cluster, *words: str) -> str:
    """What the timers' account is answered."""
    return cluster.admin(HOST, f"{AS} /opt/gpuadmin/bin/gpuadmin {' '.join(words)} --site {HOME}/site")


def _send(cluster: Cluster, directory: Path, place: str, *files: Sequence[str] | str) -> None:
    packed = subprocess.Popen(["tar", "-C", str(directory), "-cf", "-", *map(str, files)], stdout=subprocess.PIPE)
    unpack = f"sudo tar -C {place} -xf - --no-same-owner"
    subprocess.run([*cluster.ssh_command("admin", HOST), unpack], stdin=packed.stdout, check=True, timeout=300)
    assert packed.wait() == 0
