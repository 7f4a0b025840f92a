"""The table of docs/diagnose.md on a running host: each fault is made there, and mended again, and `diagnose` names it.

tests/unit/diagnosis/test_faults.py makes all of the table in a directory. Here are those that can be made on a light
host: with its ssh, PAM, systemd, mounts and Docker, over a connection, and with all that is right beside it. Its
cgroups bound neither memory nor processes, and its clock, memory and kernel are this machine's.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.support import fake_driver, fake_nvml
from tests.support.diagnosis_page import row
from tests.support.lab_cluster import OPEN, Cluster

pytestmark = [pytest.mark.lab, pytest.mark.slow]
NODE, UID = "node1", 20000
KEYS = "/var/lib/gpuadmin/keys/minji"
HOME = "/srv/storage/homes/minji"
DOCKER = "/local/.docker"
SOCKET = f"/run/user/{UID}/docker.sock"
#: What most faults are made in, kept aside while one is there.
FILES = "etc/passwd etc/shadow etc/subuid etc/hosts var/lib/gpuadmin/keys/minji"
KEEP = f"rm -rf /var/tmp/kept && mkdir /var/tmp/kept && tar -C / -cf /var/tmp/kept/all {FILES}"
PUT_BACK = f"tar -C / -xpf /var/tmp/kept/all {FILES}"


@dataclass(frozen=True)
class Fault:
    """What is done as root on a host, and how it is undone. `registry`: what users.yml has of minji meanwhile."""

    make: str = "true"
    mend: str = "true"
    host: str = NODE
    registry: Callable[[str], str] = str
    person: str = ""  # typed by minji before it
    after: str = ""  # and after it
    also: str = "true"  # done on the node where `host` is another


def without_keys(text: str) -> str:
    return re.sub(r"keys:\n(\s+- .*\n)+", "keys: []\n", text)


def at_home(name: str, text: str) -> Fault:
    """A file of minji's, written where the homes are."""
    path = f"{HOME}/{name}"
    make = f"test ! -e {path} || mv {path} {path}.kept; printf '%s\\n' '{text}' >{path} && chown {UID}:{UID} {path}"
    return Fault(make, f"rm -f {path}; test ! -e {path}.kept || mv {path}.kept {path}", host="storage1")


def valid_until(day: str) -> Callable[[str], str]:
    return lambda text: re.sub(r"( +)keys:", rf"\1expires: {day}\n\1keys:", text, count=1)


IMPORT = "docker image inspect box >/dev/null 2>&1 || tar c /bin/busybox | docker import - box >/dev/null"
#: The first bytes of a program for arm64 (elf(5)), which a node of another processor cannot run.
ARM64 = (
    r"printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\267\0\1\0\0\0' >arm && head -c 400 /dev/zero >>arm && chmod 755 arm"
)
ENDED = "docker rm -f train >/dev/null"
FAULTS = {
    "the account has expired": Fault(registry=valid_until("2026-11-20")),
    "`useradd` by hand gave another uid": Fault(f"sed -i s/^minji:x:{UID}/minji:x:1007/ /etc/passwd"),
    "`usermod -L` by hand": Fault("usermod -L minji"),
    "the new day was not brought to the node": Fault("chage -E 2024-10-03 minji", registry=valid_until("2099-12-31")),
    "somebody's login shell is nologin": Fault("usermod -s /usr/sbin/nologin minji"),
    "the login shell is not installed": Fault("usermod -s /usr/bin/zsh minji"),
    "no key in users.yml, and others may write the home: sshd's StrictModes": Fault(
        f"install -d -o {UID} -g {UID} {HOME}/.ssh && echo {{key}} >{HOME}/.ssh/authorized_keys && "
        f"chown {UID}:{UID} {HOME}/.ssh/authorized_keys && chmod 600 {HOME}/.ssh/authorized_keys && chmod 777 {HOME}",
        f"rm -r {HOME}/.ssh; chmod 700 {HOME}", host="storage1", registry=without_keys, also=f"echo -n >{KEYS}",
    ),
    "the only key was cut by copy and paste": Fault(f"truncate -s 60 {KEYS}; echo >>{KEYS}", registry=without_keys),
    "somebody gave their private key": Fault(
        f"echo -----BEGIN OPENSSH PRIVATE KEY----- >{KEYS}", registry=without_keys
    ),
    "the storage host is off, and its mount is hard": Fault("ls /home; pkill -STOP mergerfs", "pkill -CONT mergerfs"),
    "the home is missing": Fault(f"mv {HOME} {HOME}.away", f"mv {HOME}.away {HOME}", host="storage1"),
    "the home is somebody else's": Fault(f"chown 20001:20001 {HOME}", f"chown {UID}:{UID} {HOME}", host="storage1"),
    "`chmod 0` on their own home": Fault(f"chmod 0 {HOME}", f"chmod 700 {HOME}", host="storage1"),
    "no subordinate ids": Fault("sed -i /minji/d /etc/subuid"),
    "Docker's data belongs to somebody else": Fault(
        f"chown 20001:20001 {DOCKER}/minji", f"chown {UID}:{UID} {DOCKER}/minji"
    ),
    "the disk of Docker's data is full": Fault(
        f"mount -t tmpfs -o size=4m tmpfs {DOCKER} && install -d -m 700 -o {UID} -g {UID} {DOCKER}/minji && "
        f"head -c 3145728 /dev/zero >{DOCKER}/layer",
        f"umount {DOCKER}",
    ),
    "the Docker socket is gone": Fault(
        person=f"docker info >/dev/null; rm {SOCKET}", after="systemctl --user restart docker.socket"
    ),
    "the Docker daemon hangs": Fault(
        f"pkill -STOP -U {UID} -x dockerd", f"pkill -CONT -U {UID} -x dockerd", person="docker info >/dev/null"
    ),
    "an image of another processor": Fault(
        person=f"{ARM64}; tar c arm | docker import --platform linux/arm64 - arm >/dev/null; "
        "! docker run --platform linux/arm64 --name train arm /arm",
        after=ENDED,
    ),
    "a program that the image does not have": Fault(
        person=f"{IMPORT}; ! docker run --name train box /bin/no-such-thing", after=ENDED
    ),
    "a container asked for a GPU that has no name": Fault(
        person=f"{IMPORT}; ! docker run --name train --device nvidia.com/gpu=9 box /bin/busybox true", after=ENDED
    ),
    "the login shell is broken: a library of it is gone": Fault(
        "echo '#!/bin/sh' >/usr/bin/zsh; echo \"echo 'zsh: error while loading shared libraries: libncursesw.so.6: "
        "cannot open shared object file' >&2; exit 127\" >>/usr/bin/zsh; chmod 755 /usr/bin/zsh; "
        "usermod -s /usr/bin/zsh minji",
        "rm /usr/bin/zsh",
    ),
    "`exit 1` in ~/.bashrc": at_home(".bashrc", "exit 1"),
    "the same, and only where there is a terminal": at_home(
        ".bash_profile", "case $- in *i*) exec no-such-shell;; esac"
    ),
    "~/.bashrc prints text: scp and rsync fail": at_home(".bashrc", "echo Welcome to conda"),
    "~/.bashrc waits for something": at_home(".bashrc", "sleep 60"),
    "the home in passwd is /nonexistent": Fault("sed -i s,:/home/minji:,:/nonexistent:, /etc/passwd"),
    "~/.ssh belongs to somebody else": Fault(
        f"install -d -o 20001 -g 20001 {HOME}/.ssh", f"rmdir {HOME}/.ssh", host="storage1"
    ),
    "`sudo` made ~/.cache root's": Fault(f"mkdir {HOME}/.cache", f"rmdir {HOME}/.cache", host="storage1"),
    "`nproc 3` in limits.conf: `exec request failed`": Fault(
        "echo minji hard nproc 3 >/etc/security/limits.d/90-people.conf", "rm /etc/security/limits.d/90-people.conf"
    ),
    "/tmp has mode 755": Fault("chmod 755 /tmp", "chmod 1777 /tmp"),
    "newuidmap has lost its setuid bit": Fault("chmod u-s /usr/bin/newuidmap", "chmod u+s /usr/bin/newuidmap"),
    "somebody masked their own docker.service and docker.socket": Fault(
        person="systemctl --user mask docker.service docker.socket",
        after="systemctl --user unmask docker.service docker.socket",
    ),
    "no name server answers": Fault("echo nameserver 127.9.9.9 >/etc/resolv.conf", ": >/etc/resolv.conf"),
    "the user manager failed": Fault(
        f"loginctl terminate-user minji; D=/run/systemd/system/user@{UID}.service.d; mkdir -p $D && "
        "printf '[Service]\\nExecStart=\\nExecStart=/bin/false\\n' >$D/test.conf && systemctl daemon-reload && "
        f"! systemctl start user@{UID}.service",
        f"rm -r /run/systemd/system/user@{UID}.service.d; systemctl daemon-reload; "
        f"systemctl reset-failed user@{UID}.service",
    ),
}  # fmt: skip


def alike(line: str) -> str:
    """A line without what differs between the page's node and this one: numbers, and what a file system is."""
    return re.sub(r"[\d.]+|\b[kMG]?B\b", "#", re.sub(r"\S+ \((nfs4|fuse\.mergerfs)\)", "HOMES", line))


@contextmanager
def there_is(cluster: Cluster, fault: Fault) -> Iterator[None]:
    """The fault is there for the block, and gone afterwards."""
    users = cluster.site / "users.yml"
    before = users.read_text()
    cluster.admin(NODE, KEEP)
    try:
        if fault.person:
            cluster.person("minji", NODE, fault.person)
        cluster.admin(NODE, fault.also)
        cluster.admin(fault.host, fault.make.replace("{key}", cluster.key("minji")))
        users.write_text(fault.registry(before))
        yield
    finally:
        users.write_text(before)
        cluster.admin(fault.host, fault.mend)
        cluster.admin(NODE, PUT_BACK)
        if fault.after:
            cluster.person("minji", NODE, fault.after)


@pytest.fixture(scope="module")
def minji(provisioned: Cluster) -> Cluster:
    provisioned.fresh()
    provisioned.add("minji")
    provisioned.admin(NODE, OPEN)
    return provisioned


def first_line(cluster: Cluster, code: int = 0) -> str:
    """`code`: 6 where something stops or hinders."""
    return str(cluster.gpuadmin("diagnose", "minji", "--host", NODE, code=code)["result"]["verdict"])


@pytest.mark.parametrize("words", FAULTS)
def test_the_first_line_on_a_host_is_that_of_the_page(minji: Cluster, words: str) -> None:
    page, _todo = row(words)
    with there_is(minji, FAULTS[words]):
        assert alike(first_line(minji, code=6)) == alike(page)
    assert first_line(minji).startswith("these ")


#: What the driver's library answers, and what is done on the node.
GPUS: dict[str, tuple[str, str, str]] = {
    "a GPU has memory errors that ECC could not correct": (
        fake_nvml.described(("ecc_uncorrected", "3"), gpu=0), "true", "true",
    ),
    "no names of GPUs for containers (CDI)": (
        fake_nvml.TWO.read_text(), "rm /run/cdi/nvidia.yaml", "systemctl start gpuadmin-gpu-devices.service",
    ),
    "people may not open a GPU's device file": (
        fake_nvml.TWO.read_text(), "chmod 660 /dev/nvidia1", "chmod 666 /dev/nvidia1",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def driven(minji: Cluster) -> Cluster:
    """The node with two GPUs, as far as a library can say so, and their names for containers. Its kernel is another
    machine's, and has no module of the driver: there is none.
    """
    fake_driver.install(minji, NODE)
    minji.admin(NODE, f"{OPEN}; rm -r /usr/lib/modules")
    assert fake_driver.refreshed(minji, NODE)
    return minji


@pytest.mark.needs("cc")
@pytest.mark.parametrize("words", GPUS)
def test_the_first_line_of_a_gpu_s_fault(driven: Cluster, words: str) -> None:
    page, _todo = row(words)
    answers, make, mend = GPUS[words]
    fake_driver.describe(driven, NODE, answers)
    driven.admin(NODE, make)
    try:
        assert alike(first_line(driven, code=6)) == alike(page)
    finally:
        driven.admin(NODE, mend)
        fake_driver.describe(driven, NODE, fake_nvml.TWO.read_text())
    assert first_line(driven).startswith("these ")


def test_a_host_that_lets_only_root_in_says_why(minji: Cluster) -> None:
    """The lab's admin is not root, as bootstrap makes them: what PAM says to them is all that there is."""
    page, _todo = row("the same, where gpuadmin does not log in as root")
    later = "systemd-run --on-active=60 rm /etc/nologin"
    kept = "systemd-run --on-active=1 loginctl terminate-user gpuadmin"  # who has come in stays in
    minji.admin(NODE, f"{OPEN} && {later} && {kept} && echo maintenance until Monday >/etc/nologin")
    time.sleep(4)  # until it has ended the connection that gpuadmin keeps
    assert first_line(minji, code=4) == page
    minji.wait(lambda: minji.ssh("admin", NODE, "echo it lets in"))
    assert first_line(minji).startswith("these ")


def test_pam_that_lacks_a_module(minji: Cluster) -> None:
    """Nobody can come in while it is so: who has a connection already does, and the host mends itself."""
    page, _todo = row("a module of PAM's is missing")
    first_line(minji)  # gpuadmin keeps its connection
    file = "/etc/pam.d/common-session"
    back = f"cp -p {file} /root/kept && systemd-run --on-active=25 mv /root/kept {file}"
    minji.admin(NODE, f"{OPEN}; {back}; echo session required pam_ldap.so >>{file}")
    try:
        document = minji.gpuadmin("diagnose", "minji", "--host", NODE, code=6)["result"]
    finally:
        minji.wait(lambda: minji.ssh("admin", NODE, "echo it lets in"))
    assert alike(document["verdict"]) == alike(page)
    assert "session-pam" in [one["code"] for one in document["findings"]], "it is also tried"
    assert first_line(minji).startswith("these ")


#: What minji's shell reads, and what must be gone when the session has ended.
HOSTILE = {
    "leaves something running": "(setsid sleep 7777 >/dev/null 2>&1 &)",
    "is deaf": 'trap "" HUP TERM INT; (setsid sh -c "trap : TERM; sleep 7777" &); sleep 7777',
    "fills pipes": "yes | head -c 500000000; yes >/proc/$PPID/fd/1; sleep 7777",
    "kills what asks it": "kill -9 $PPID; sleep 7777",
    "breeds": "f() { f | f & }; f; sleep 7777",
}


#: What a log-in of minji's by ssh would add to, and what a unit may leave; sessions come and go with the admin.
TRACES = (
    "grep -ac minji /var/log/wtmp /var/log/lastlog /var/lib/lastlog/lastlog2.db 2>/dev/null; "
    "ls /run/systemd/system /run/systemd/transient | grep -v ^session; true"
)


@pytest.mark.parametrize("words", HOSTILE)
def test_whatever_somebody_s_shell_does_it_ends_soon_and_leaves_nothing(minji: Cluster, words: str) -> None:
    before = minji.admin(NODE, TRACES)
    with there_is(minji, at_home(".bashrc", HOSTILE[words])):
        begun = time.monotonic()
        minji.gpuadmin("diagnose", "minji", "--host", NODE, code=0 if words == "leaves something running" else 6)
        assert time.monotonic() - begun < 180, "the trial takes 9 s at most, and the machine the rest; not two hours"
        left = minji.admin(
            NODE, f"pgrep -u {UID} -x 'sleep|yes|sh|python3' -a || true; loginctl list-sessions --no-legend"
        )
        assert "sleep" not in left, left
        assert "background" not in left, left
    assert minji.admin(NODE, TRACES) == before
