"""Faults that are really made, one at a time, and the first line that `diagnose` prints of each: docs/diagnose.md.

`GPUADMIN_WRITE_TABLE=1 pytest tests/unit/diagnosis/test_faults.py` writes the table.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest

from tests.support.broken_host import NAME, NODE, SLICE, UID, Broken, one
from tests.support.diagnosis_page import BEGIN, END, PAGE, row
from tests.support.sites import public_key

pytestmark = pytest.mark.root
KEYS = f"var/lib/gpuadmin/keys/{NAME}"
LACKS = "error while loading shared libraries: libncursesw.so.6: cannot open shared object file"
NO_SESSION = {"steps": {}, "done": False, "late": False, "processes": None}
AMOUNT = {"bytes": 200 * 10**9, "most": 200 * 10**9, "held": True, "when": None, "partial": False}


@pytest.fixture
def broken() -> Iterator[Broken]:
    # a socket's path is short (unix(7)), and pytest's own directories are not
    with tempfile.TemporaryDirectory(prefix="gd") as name, one(Path(name)) as found:
        yield found


def have_keys_in_an_open_home(broken: Broken) -> None:
    broken.user_is(keys=[])
    broken.write(KEYS, "")
    path = broken.write(f"home/{NAME}/.ssh/authorized_keys", public_key(NAME) + "\n", 0o600)
    for mine in (path, path.parent):
        os.chown(mine, UID, UID)
    (broken.root / "home" / NAME).chmod(0o777)


def mask_docker(broken: Broken) -> None:
    units = broken.root / "home" / NAME / ".config/systemd/user"
    units.mkdir(parents=True)
    for name in ("docker.service", "docker.socket"):
        (units / name).symlink_to("/dev/null")
    for path in (units, units.parent, units.parent.parent):
        os.chown(path, UID, UID)


#: A fault in words, and the steps that make it on a sound node. docs/diagnose.md has a row of each, in this order.
FAULTS: dict[str, list[Callable[[Broken], object]]] = {
    "nobody registered that name": [lambda b: b.set(user=None)],
    "the account was removed at the end of a term":
        [lambda b: b.set(user=None, retired=[{"name": NAME, "uid": UID, "removed": date(2026, 2, 1)}])],
    "`gpuadmin lock-user`, and somebody forgot": [lambda b: b.user_is(locked=True)],
    "the account has expired": [lambda b: b.user_is(expires=date(2026, 11, 20))],
    "the node was down when the account was made": [
        lambda b: b.edit("etc/passwd", f"{NAME}:x:{UID}:{UID}::/home/{NAME}:/bin/bash\n", ""),
        lambda b: b.edit("etc/shadow", f"{NAME}:*:1:0:99999:7:::\n", ""),
    ],
    "`useradd` by hand gave another uid": [lambda b: b.edit("etc/passwd", f"{NAME}:x:{UID}", f"{NAME}:x:1007")],
    "`usermod -L` by hand": [lambda b: b.edit("etc/shadow", f"{NAME}:*", f"{NAME}:!*")],
    "the new day was not brought to the node": [
        lambda b: b.user_is(expires=date(2099, 12, 31)),
        lambda b: b.edit("etc/shadow", "99999:7:::", "99999:7::20000:"),
    ],
    "/etc/nologin was left behind": [lambda b: b.write("etc/nologin", "maintenance until Monday\n")],
    "the same, where gpuadmin does not log in as root":
        [lambda b: b.set(silent={NODE: "the ssh connection was cut; the host said: maintenance until Monday"})],
    "a shutdown is planned, and /run/nologin is there": [
        lambda b: b.write(
            "run/nologin", "System is going down. Unprivileged users are not permitted to log in anymore.\n"
        ),
    ],
    "`chage -M 90`, and the password is older": [
        lambda b: b.part("pam_account", {"refused": True, "aged": True, "words": "the token is no longer valid"}),
        lambda b: b.set(manager="failed"),
    ],
    "a rule of /etc/security/access.conf":
        [lambda b: b.part("pam_account", {"refused": True, "aged": False, "words": "Permission denied"})],
    "somebody's login shell is nologin":
        [lambda b: b.edit("etc/passwd", f"/home/{NAME}:/bin/bash", f"/home/{NAME}:/usr/sbin/nologin")],
    "the login shell is not installed":
        [lambda b: b.edit("etc/passwd", f"/home/{NAME}:/bin/bash", f"/home/{NAME}:/usr/bin/zsh")],
    "the login shell is broken: a library of it is gone": [
        lambda b: b.edit("etc/passwd", f"/home/{NAME}:/bin/bash", f"/home/{NAME}:/usr/bin/zsh"),
        lambda b: b.write("usr/bin/zsh", f"#!/bin/sh\necho 'zsh: {LACKS}' >&2; exit 127\n", 0o755),
    ],
    "`exit 1` in ~/.bashrc": [lambda b: b.own(f"home/{NAME}/.bashrc", "exit 1\n")],
    "the same, and only where there is a terminal":
        [lambda b: b.own(f"home/{NAME}/.bash_profile", "case $- in *i*) exec no-such-shell;; esac\n")],
    "~/.bashrc prints text: scp and rsync fail": [lambda b: b.own(f"home/{NAME}/.bashrc", "echo Welcome to conda\n")],
    "~/.bashrc waits for something": [lambda b: b.own(f"home/{NAME}/.bashrc", "sleep 60\n")],
    "a module of PAM's is missing": [
        lambda b: b.write("etc/pam.d/common-session", "session required pam_ldap.so\n-session optional pam_no.so\n"),
    ],
    "PAM lets nobody begin a session":
        [lambda b: b.part("trial", {**NO_SESSION, "pam": "PAM failed: Module is unknown"})],
    "no key in users.yml, and others may write the home: sshd's StrictModes": [have_keys_in_an_open_home],
    "the only key was cut by copy and paste":
        [lambda b: b.user_is(keys=[]), lambda b: b.write(KEYS, " ".join(public_key(NAME).split()[:2])[:-8] + "\n")],
    "somebody gave their private key":
        [lambda b: b.user_is(keys=[]), lambda b: b.write(KEYS, "-----BEGIN OPENSSH PRIVATE KEY-----\n")],
    "the homes are not mounted": [lambda b: b.set(mounted="1 0 0:1 / / rw - btrfs /dev/vda2 rw\n")],
    "the storage host is off, and its mount is hard": [
        lambda b: b.set(seconds=4.0),
        lambda b: b.set(parts=dict.fromkeys(("homes", "home"), lambda _: time.sleep(60))),  # a server that is away
    ],
    "the home is missing": [lambda b: (b.root / "home" / NAME).rmdir()],
    "the home is somebody else's": [lambda b: os.chown(b.root / "home" / NAME, 20001, 20001)],
    "`chmod 0` on their own home": [lambda b: (b.root / "home" / NAME).chmod(0)],
    "the home in passwd is /nonexistent": [lambda b: b.edit("etc/passwd", f":/home/{NAME}:", ":/nonexistent:")],
    "~/.ssh belongs to somebody else": [
        lambda b: (b.root / "home" / NAME / ".ssh").mkdir(),
        lambda b: os.chown(b.root / "home" / NAME / ".ssh", 20001, 20001),
    ],
    "`sudo` made ~/.cache root's": [lambda b: (b.root / "home" / NAME / ".cache").mkdir()],
    "the quota of the home is used up": [lambda b: b.quota()],
    "the disk of the homes is full":
        [lambda b: b.fill("home", "size=4m"), lambda b: (b.root / "home/checkpoint").write_bytes(b"x" * (3 << 20))],
    "the disk of the homes has no inode left": [
        lambda b: b.fill("home", "size=64m,nr_inodes=8"),
        lambda b: [b.write(f"home/{number}", "") for number in range(6)],
    ],
    "the user manager failed": [lambda b: b.set(manager="failed")],
    "as many processes as the limit allows":
        [lambda b: b.write(f"{SLICE}/pids.current", "4096\n"), lambda b: b.write(f"{SLICE}/pids.max", "4096\n")],
    "a limit of processes was reached, and is not now": [
        lambda b: b.write(f"{SLICE}/pids.current", "12\n"),
        lambda b: b.write(f"{SLICE}/pids.max", "4096\n"),
        lambda b: b.write(f"{SLICE}/pids.events", "max 57\n"),
    ],
    "a limit of memory was reached": [
        lambda b: b.write(f"{SLICE}/memory.max", "68719476736\n"),
        lambda b: b.write(f"{SLICE}/memory.events", "low 0\noom 2\noom_kill 2\n"),
    ],
    "a home of more than `limits.home`": [lambda b: b.tell_amount(512, held=False)],
    "a home has all of `limits.home`, and the kernel refuses more": [lambda b: b.tell_amount(498, held=True)],
    # tests/unit/node/limits/test_place_amounts.py has the real one
    "Docker's data has all of `limits.docker`": [lambda b: b.part("amounts", {"docker": AMOUNT})],
    "`nproc 3` in limits.conf: `exec request failed`":
        [lambda b: b.write("etc/security/limits.d/90-people.conf", "* - nproc 4096\nminji hard nproc 3\n")],
    "/tmp has mode 755": [lambda b: (b.root / "tmp").chmod(0o755)],
    "newuidmap has lost its setuid bit": [lambda b: (b.root / "usr/bin/newuidmap").chmod(0o755)],
    "somebody masked their own docker.service and docker.socket": [mask_docker],
    "no subordinate ids": [lambda b: b.write("etc/subuid", "")],
    "Docker's data belongs to somebody else": [lambda b: os.chown(b.root / "local/.docker" / NAME, 20001, 20001)],
    "the disk of Docker's data is full": [
        lambda b: b.fill("local/.docker", "size=4m"),
        lambda b: (b.root / "local/.docker/layer").write_bytes(b"x" * (3 << 20)),
    ],
    "the Docker socket is gone": [lambda b: (b.root / f"run/user/{UID}/docker.sock").unlink()],
    "the Docker daemon hangs": [lambda b: b.daemon(None)],
    "a container was killed because memory ran out": [lambda b: b.container(ExitCode=137, OOMKilled=True)],
    # as Docker has it: `exec /arm: exec format error` is in the container's log, and nowhere else
    "an image of another processor":
        [lambda b: b.container("arm64" if os.uname().machine == "x86_64" else "amd64", ExitCode=1, Error="")],
    "a program that the image does not have":
        [lambda b: b.container(ExitCode=127, Error='exec: "no-such-thing": executable file not found in $PATH')],
    "an upgrade replaced the GPU driver's libraries under a running module":
        [lambda b: b.gpus(libraries="560.35.03")],
    "a new kernel, and no GPU driver built for it": [lambda b: b.gpu(driver=None)],
    "an upgrade brought a kernel for which no GPU driver was built":
        [lambda b: b.gpus(), lambda b: (b.root / "usr/lib/modules/6.12.99/kernel").mkdir(parents=True)],
    "nouveau took the GPU": [lambda b: b.gpu(driver="nouveau")],
    "the GPU driver hangs": [lambda b: b.gpus(("fault.nvmlDeviceGetCount", "hang"))],
    "a GPU has fallen off the bus": [lambda b: b.gpus(("lost", "yes"), gpu=1)],
    "a GPU has memory errors that ECC could not correct": [lambda b: b.gpus(("ecc_uncorrected", "3"), gpu=0)],
    "no names of GPUs for containers (CDI)":
        [lambda b: b.gpus(), lambda b: (b.root / "run/cdi/nvidia.yaml").unlink()],
    "people may not open a GPU's device file": [lambda b: b.gpus(), lambda b: (b.root / "dev/nvidia1").chmod(0o660)],
    "a container asked for a GPU that has no name": [
        lambda b: b.container(
            ExitCode=128, Error="CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9"
        ),
    ],
    "the node's clock is wrong":
        [lambda b: b.set(ahead=-400.0), lambda b: b.write("usr/lib/systemd/system/chrony.service", "")],
    "the node's memory is used up":
        [lambda b: b.edit("proc/meminfo", "MemAvailable: 50000 kB", "MemAvailable: 900 kB")],
    "the storage host's name is not found": [lambda b: b.set(servers=("storage1.invalid",))],
    "no name server answers": [lambda b: b.write("etc/resolv.conf", "nameserver 127.9.9.9\n")],
    "the node is down": [lambda b: b.set(silent={NODE: "does not answer (timed out)"})],
}  # fmt: skip


def test_of_a_sound_node_nothing_is_said(broken: Broken) -> None:
    line = f"these 25 things were checked on {NODE} and are fine; {NAME} gets a session on {NODE}"
    assert broken.says()[0] == line


@pytest.mark.parametrize(
    "words", [pytest.param(one, marks=pytest.mark.btrfs) if "quota" in one else one for one in FAULTS]
)
def test_the_first_line_names_the_cause(broken: Broken, words: str) -> None:
    for step in FAULTS[words]:
        step(broken)
    line, todo = (text.replace("`", "'").replace(os.uname().release, "KERNEL") for text in broken.says())
    assert todo
    if os.environ.get("GPUADMIN_WRITE_TABLE"):
        write(words, line, todo)
    assert row(words) == [line, todo]


def write(words: str, line: str, todo: str) -> None:
    """Put a row into the page's table; rows of faults that are no more go."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table, _, tail = rest.partition(END)
    rows = {entry.split(" | ")[0].removeprefix("| "): entry for entry in table.strip().splitlines()[2:]}
    rows[words] = f"| {words} | `{line}` | `{todo}` |"
    lines = [
        "| fault | first line | what to do |",
        "| --- | --- | --- |",
        *(rows[one] for one in FAULTS if one in rows),
    ]
    PAGE.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{tail}", encoding="utf-8")


def test_the_page_has_every_fault_and_no_other() -> None:
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]
    assert [entry.split(" | ")[0].removeprefix("| ") for entry in table] == list(FAULTS)
    assert len(FAULTS) >= 20
