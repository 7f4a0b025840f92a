"""Faults that are really made, one at a time, and the first line that `diagnose` prints of each: docs/diagnose.md.

`GPUADMIN_WRITE_TABLE=1 pytest tests/unit/diagnosis/test_faults.py` writes the table.
"""

import json
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
FAULTS: dict[str, Callable[[Broken], object]] = {}
Fault = Callable[[Broken], object]


@pytest.fixture
def broken() -> Iterator[Broken]:
    # a socket's path is short (unix(7)), and pytest's own directories are not
    with tempfile.TemporaryDirectory(prefix="gd") as name, one(Path(name)) as found:
        yield found


def fault(words: str) -> Callable[[Fault], Fault]:
    def named(make: Fault) -> Fault:
        FAULTS[words] = make
        return make

    return named


@fault("nobody registered that name")
def _(broken: Broken) -> None:
    broken.user = None


@fault("the account was removed at the end of a term")
def _(broken: Broken) -> None:
    broken.user, broken.retired = None, [{"name": NAME, "uid": UID, "removed": date(2026, 2, 1)}]


@fault("`gpuadmin lock-user`, and somebody forgot")
def _(broken: Broken) -> None:
    broken.user_is(locked=True)


@fault("the account has expired")
def _(broken: Broken) -> None:
    broken.user_is(expires=date(2026, 11, 20))


@fault("the node was down when the account was made")
def _(broken: Broken) -> None:
    broken.edit("etc/passwd", f"{NAME}:x:{UID}:{UID}::/home/{NAME}:/bin/bash\n", "")
    broken.edit("etc/shadow", f"{NAME}:*:1:0:99999:7:::\n", "")


@fault("`useradd` by hand gave another uid")
def _(broken: Broken) -> None:
    broken.edit("etc/passwd", f"{NAME}:x:{UID}", f"{NAME}:x:1007")


@fault("`usermod -L` by hand")
def _(broken: Broken) -> None:
    broken.edit("etc/shadow", f"{NAME}:*", f"{NAME}:!*")


@fault("the new day was not brought to the node")
def _(broken: Broken) -> None:
    broken.user_is(expires=date(2027, 2, 28))
    broken.edit("etc/shadow", "99999:7:::", "99999:7::20000:")


@fault("/etc/nologin was left behind")
def _(broken: Broken) -> None:
    broken.write("etc/nologin", "maintenance until Monday\n")


@fault("the same, where gpuadmin does not log in as root")
def _(broken: Broken) -> None:
    broken.silent = {NODE: "the ssh connection was cut; the host said: maintenance until Monday"}


@fault("a shutdown is planned, and /run/nologin is there")
def _(broken: Broken) -> None:
    broken.write("run/nologin", "System is going down. Unprivileged users are not permitted to log in anymore.\n")


@fault("`chage -M 90`, and the password is older")
def _(broken: Broken) -> None:
    words = "Authentication token is no longer valid; new one required"
    broken.parts["pam_account"] = lambda _: {"refused": True, "aged": True, "words": words}
    broken.manager = "failed"


@fault("a rule of /etc/security/access.conf")
def _(broken: Broken) -> None:
    broken.parts["pam_account"] = lambda _: {"refused": True, "aged": False, "words": "Permission denied"}


@fault("somebody's login shell is nologin")
def _(broken: Broken) -> None:
    broken.edit("etc/passwd", f"/home/{NAME}:/bin/bash", f"/home/{NAME}:/usr/sbin/nologin")


@fault("the login shell is not installed")
def _(broken: Broken) -> None:
    broken.edit("etc/passwd", f"/home/{NAME}:/bin/bash", f"/home/{NAME}:/usr/bin/zsh")


@fault("the login shell is broken: a library of it is gone")
def _(broken: Broken) -> None:
    broken.edit("etc/passwd", f"/home/{NAME}:/bin/bash", f"/home/{NAME}:/usr/bin/zsh")
    lacks = "error while loading shared libraries: libncursesw.so.6: cannot open shared object file"
    broken.write("usr/bin/zsh", f"#!/bin/sh\necho 'zsh: {lacks}' >&2; exit 127\n", 0o755)


@fault("`exit 1` in ~/.bashrc")
def _(broken: Broken) -> None:
    broken.own(f"home/{NAME}/.bashrc", "exit 1\n")


@fault("the same, and only where there is a terminal")
def _(broken: Broken) -> None:
    broken.own(f"home/{NAME}/.bash_profile", "case $- in *i*) exec no-such-shell;; esac\n")


@fault("~/.bashrc prints text: scp and rsync fail")
def _(broken: Broken) -> None:
    broken.own(f"home/{NAME}/.bashrc", "echo Welcome to conda\n")


@fault("~/.bashrc waits for something")
def _(broken: Broken) -> None:
    broken.own(f"home/{NAME}/.bashrc", "sleep 60\n")


@fault("a module of PAM's is missing")
def _(broken: Broken) -> None:
    broken.write("etc/pam.d/common-session", "session required pam_ldap.so\n-session optional pam_no.so\n")


@fault("PAM lets nobody begin a session")
def _(broken: Broken) -> None:
    refused = {"pam": "PAM failed: Module is unknown", "steps": {}, "done": False, "late": False, "processes": None}
    broken.parts = {"trial": lambda _: refused}


@fault("no key in users.yml, and others may write the home: sshd's StrictModes")
def _(broken: Broken) -> None:
    broken.user_is(keys=[])
    broken.write(f"var/lib/gpuadmin/keys/{NAME}", "")
    path = broken.write(f"home/{NAME}/.ssh/authorized_keys", public_key(NAME) + "\n", 0o600)
    for mine in (path, path.parent):
        os.chown(mine, UID, UID)
    (broken.root / "home" / NAME).chmod(0o777)


@fault("the only key was cut by copy and paste")
def _(broken: Broken) -> None:
    broken.user_is(keys=[])
    kind, text, _ = public_key(NAME).split()
    broken.write(f"var/lib/gpuadmin/keys/{NAME}", f"{kind} {text[:-8]}\n")


@fault("somebody gave their private key")
def _(broken: Broken) -> None:
    broken.user_is(keys=[])
    broken.write(f"var/lib/gpuadmin/keys/{NAME}", "-----BEGIN OPENSSH PRIVATE KEY-----\n")


@fault("the homes are not mounted")
def _(broken: Broken) -> None:
    broken.mounted = "1 0 0:1 / / rw - btrfs /dev/vda2 rw\n"


@fault("the storage host is off, and its mount is hard")
def _(broken: Broken) -> None:
    broken.parts = {"homes": lambda _: time.sleep(60), "home": lambda _: time.sleep(60)}  # a server that is away
    broken.seconds = 4.0


@fault("the home is missing")
def _(broken: Broken) -> None:
    (broken.root / "home" / NAME).rmdir()


@fault("the home is somebody else's")
def _(broken: Broken) -> None:
    os.chown(broken.root / "home" / NAME, 20001, 20001)


@fault("`chmod 0` on their own home")
def _(broken: Broken) -> None:
    (broken.root / "home" / NAME).chmod(0)


@fault("the home in passwd is /nonexistent")
def _(broken: Broken) -> None:
    broken.edit("etc/passwd", f":/home/{NAME}:", ":/nonexistent:")


@fault("~/.ssh belongs to somebody else")
def _(broken: Broken) -> None:
    (broken.root / "home" / NAME / ".ssh").mkdir()
    os.chown(broken.root / "home" / NAME / ".ssh", 20001, 20001)


@fault("`sudo` made ~/.cache root's")
def _(broken: Broken) -> None:
    (broken.root / "home" / NAME / ".cache").mkdir()


@fault("the quota of the home is used up")
def _(broken: Broken) -> None:
    broken.quota()


@fault("the disk of the homes is full")
def _(broken: Broken) -> None:
    broken.fill("home", "size=4m")
    (broken.root / "home/checkpoint").write_bytes(b"x" * (3 << 20))


@fault("the disk of the homes has no inode left")
def _(broken: Broken) -> None:
    broken.fill("home", "size=64m,nr_inodes=8")
    for number in range(6):
        (broken.root / f"home/{number}").touch()


@fault("the user manager failed")
def _(broken: Broken) -> None:
    broken.manager = "failed"


@fault("as many processes as the limit allows")
def _(broken: Broken) -> None:
    broken.write(f"{SLICE}/pids.current", "4096\n")
    broken.write(f"{SLICE}/pids.max", "4096\n")


@fault("a limit of processes was reached, and is not now")
def _(broken: Broken) -> None:
    broken.write(f"{SLICE}/pids.current", "12\n")
    broken.write(f"{SLICE}/pids.max", "4096\n")
    broken.write(f"{SLICE}/pids.events", "max 57\n")


@fault("a limit of memory was reached")
def _(broken: Broken) -> None:
    broken.write(f"{SLICE}/memory.max", "68719476736\n")
    broken.write(f"{SLICE}/memory.events", "low 0\noom 2\noom_kill 2\n")


@fault("a home of more than `limits.home`")
def _(broken: Broken) -> None:
    told = {"bytes": 512 * 10**9, "most": 500 * 10**9, "when": time.time(), "partial": False}
    broken.write(f"home/.gpuadmin-amounts/{NAME}.json", json.dumps(told))


@fault("a home has all of `limits.home`, and the kernel refuses more")
def _(broken: Broken) -> None:
    told = {"bytes": 498 * 10**9, "most": 500 * 10**9, "held": True, "when": time.time(), "partial": False}
    broken.write(f"home/.gpuadmin-amounts/{NAME}.json", json.dumps(told))


@fault("Docker's data has all of `limits.docker`")
def _(broken: Broken) -> None:
    used = {"bytes": 200 * 10**9, "most": 200 * 10**9, "held": True, "when": None, "partial": False}
    broken.parts["amounts"] = lambda _: {"docker": used}  # tests/unit/node/limits/test_holding.py has the real one


@fault("`nproc 3` in limits.conf: `exec request failed`")
def _(broken: Broken) -> None:
    broken.write("etc/security/limits.d/90-people.conf", "* - nproc 4096\nminji hard nproc 3\n")


@fault("/tmp has mode 755")
def _(broken: Broken) -> None:
    (broken.root / "tmp").chmod(0o755)


@fault("newuidmap has lost its setuid bit")
def _(broken: Broken) -> None:
    (broken.root / "usr/bin/newuidmap").chmod(0o755)


@fault("somebody masked their own docker.service and docker.socket")
def _(broken: Broken) -> None:
    units = broken.root / "home" / NAME / ".config/systemd/user"
    units.mkdir(parents=True)
    for name in ("docker.service", "docker.socket"):
        (units / name).symlink_to("/dev/null")
    for path in (units, units.parent, units.parent.parent):
        os.chown(path, UID, UID)


@fault("no subordinate ids")
def _(broken: Broken) -> None:
    broken.write("etc/subuid", "")


@fault("Docker's data belongs to somebody else")
def _(broken: Broken) -> None:
    os.chown(broken.root / "local/.docker" / NAME, 20001, 20001)


@fault("the disk of Docker's data is full")
def _(broken: Broken) -> None:
    broken.fill("local/.docker", "size=4m")
    (broken.root / "local/.docker/layer").write_bytes(b"x" * (3 << 20))


@fault("the Docker socket is gone")
def _(broken: Broken) -> None:
    (broken.root / f"run/user/{UID}/docker.sock").unlink()


@fault("the Docker daemon hangs")
def _(broken: Broken) -> None:
    broken.daemon(None)


@fault("a container was killed because memory ran out")
def _(broken: Broken) -> None:
    broken.container(ExitCode=137, OOMKilled=True)


@fault("an image of another processor")
def _(broken: Broken) -> None:
    # as Docker has it: `exec /arm: exec format error` is in the container's log, and nowhere else
    broken.container("arm64" if os.uname().machine == "x86_64" else "amd64", ExitCode=1, Error="")


@fault("a program that the image does not have")
def _(broken: Broken) -> None:
    broken.container(ExitCode=127, Error='exec: "no-such-thing": executable file not found in $PATH')


@fault("an upgrade replaced the GPU driver's libraries under a running module")
def _(broken: Broken) -> None:
    broken.gpus(libraries="560.35.03")


@fault("a new kernel, and no GPU driver built for it")
def _(broken: Broken) -> None:
    broken.gpu(driver=None)


@fault("an upgrade brought a kernel for which no GPU driver was built")
def _(broken: Broken) -> None:
    broken.gpus()
    (broken.root / "usr/lib/modules/6.12.99/kernel").mkdir(parents=True)


@fault("nouveau took the GPU")
def _(broken: Broken) -> None:
    broken.gpu(driver="nouveau")


@fault("the GPU driver hangs")
def _(broken: Broken) -> None:
    broken.gpus(("fault.nvmlDeviceGetCount", "hang"))


@fault("a GPU has fallen off the bus")
def _(broken: Broken) -> None:
    broken.gpus(("lost", "yes"), gpu=1)


@fault("a GPU has memory errors that ECC could not correct")
def _(broken: Broken) -> None:
    broken.gpus(("ecc_uncorrected", "3"), gpu=0)


@fault("no names of GPUs for containers (CDI)")
def _(broken: Broken) -> None:
    broken.gpus()
    (broken.root / "run/cdi/nvidia.yaml").unlink()


@fault("people may not open a GPU's device file")
def _(broken: Broken) -> None:
    broken.gpus()
    (broken.root / "dev/nvidia1").chmod(0o660)


@fault("a container asked for a GPU that has no name")
def _(broken: Broken) -> None:
    broken.container(ExitCode=128, Error="CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9")


@fault("the node's clock is wrong")
def _(broken: Broken) -> None:
    broken.ahead = -400.0
    broken.write("usr/lib/systemd/system/chrony.service", "")


@fault("the node's memory is used up")
def _(broken: Broken) -> None:
    broken.edit("proc/meminfo", "MemAvailable: 50000 kB", "MemAvailable: 900 kB")


@fault("the storage host's name is not found")
def _(broken: Broken) -> None:
    broken.servers = ("storage1.invalid",)


@fault("no name server answers")
def _(broken: Broken) -> None:
    broken.write("etc/resolv.conf", "nameserver 127.9.9.9\n")


@fault("the node is down")
def _(broken: Broken) -> None:
    broken.silent = {NODE: "does not answer (timed out)"}


def test_of_a_sound_node_nothing_is_said(broken: Broken) -> None:
    line = f"these 25 things were checked on {NODE} and are fine; {NAME} gets a session on {NODE}"
    assert broken.says()[0] == line


@pytest.mark.parametrize(
    "words", [pytest.param(one, marks=pytest.mark.btrfs) if "quota" in one else one for one in FAULTS]
)
def test_the_first_line_names_the_cause(broken: Broken, words: str) -> None:
    FAULTS[words](broken)
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
