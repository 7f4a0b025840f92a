"""A lab with its site, and the commands that an admin and a person would type."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuadmin.lab import ssh, state

REPOSITORY = Path(__file__).resolve().parents[2]
GPUADMIN = str(Path(sys.executable).parent / "gpuadmin")
_ASKED = os.environ.get("GPUADMIN_TEST_RELEASE", "")
#: `N` and `HOST=N`, with commas between: what the labs are given as `--release`. Part of their names.
RELEASES = tuple(filter(None, _ASKED.split(",")))
_KIND = _ASKED if "=" not in _ASKED else hashlib.sha256(_ASKED.encode()).hexdigest()[:6]
_NAME = (os.environ.get("GPUADMIN_TEST_LAB", "test"), _KIND, os.environ.get("PYTEST_XDIST_WORKER", ""))
#: Another name lets a second checkout run its tests beside this one; each process of pytest-xdist has a lab of its own.
LAB = "-".join(filter(None, _NAME)).replace(".", "")
#: Seconds that a command may take; a machine that does other things needs more.
PATIENCE = float(os.environ.get("GPUADMIN_TEST_PATIENCE", "1800"))
KEEP = bool(os.environ.get("GPUADMIN_KEEP_LAB"))
#: The state that every lab is saved as when it has been provisioned.
PROVISIONED = "provisioned"
EMPTY_REGISTRY = "users: []\nretired: []\n"


class Cluster:
    """A lab with its site."""

    def __init__(self, site: Path, name: str = LAB, *, light: bool = False) -> None:
        self.site = site
        self.name = name
        #: The type of what homes are mounted with. Light hosts have no NFS: mergerfs stands in.
        self.nfs = "fuse.mergerfs" if light else "nfs4"
        self.keys = site.parent / "keys"
        #: The saved state that the lab was put to last.
        self.state = ""
        self._commands: list[subprocess.Popen[str]] = []

    def saved_states(self) -> list[str]:
        """The names of the states that the lab has; none where there is no lab."""
        lab = state.load(self.name)
        return sorted(lab.snapshots) if lab else []

    def hosts(self) -> list[str]:
        """The names of the lab's hosts."""
        return [str(host["name"]) for host in json.loads(self.lab("status", "--json"))["hosts"]]

    def lab(self, *arguments: str) -> str:
        """Run `gpuadmin lab …`, which must succeed."""
        verb, *rest = arguments
        if verb == "up" and not {"--release", "--like"} & set(rest):  # a twin has its hosts from the site
            rest += [word for one in RELEASES for word in ("--release", one)]
        return subprocess.run(
            [GPUADMIN, "lab", verb, "--name", self.name, *rest],
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            timeout=PATIENCE,
        ).stdout

    def process(self, host: str) -> int:
        """The id of the process that a host is."""
        hosts = json.loads(self.lab("status", "--json"))["hosts"]
        return next(int(entry["pid"]) for entry in hosts if entry["name"] == host)

    def command(self, verb: str, *arguments: str) -> list[str]:
        """The command that runs a verb on the site."""
        return [GPUADMIN, verb, "--site", str(self.site), *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start gpuadmin on the site, with no terminal."""
        process = subprocess.Popen(
            self.command(*arguments),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._commands.append(process)
        return process

    def end_commands(self) -> None:
        """End what a test that failed has left running; it would hold the site."""
        for process in self._commands:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=300)
        self._commands.clear()

    def save(self, state: str) -> None:
        """Save the lab, and who is on the site."""
        self.lab("save", state, "--replace")
        self.state = state
        shutil.copy(self.site / "users.yml", self._people(state))

    def restore(self, state: str) -> None:
        """Put the lab back to a saved state, with the people of then; the site remembers nobody who came since."""
        self.end_commands()
        self.lab("restore", state)
        self.state = state
        (self.site / "runs" / "uids.json").unlink(missing_ok=True)
        if self._people(state).exists():
            shutil.copy(self._people(state), self.site / "users.yml")

    def fresh(self) -> None:
        """Put the lab back to how provisioning made it, with nobody on it."""
        self.restore(PROVISIONED)
        self.empty()

    def begin(self, state: str, make: Callable[[], object]) -> None:
        """Put the lab to a state, which is made from a fresh lab when it is first asked for, and saved."""
        if state in self.saved_states():
            self.restore(state)
        else:
            self.fresh()
            make()
            self.save(state)

    @contextmanager
    def settings(self, change: Callable[[str], str]) -> Iterator[None]:
        """gpuadmin.yml is what `change` makes of it as long as the block lasts."""
        path = self.site / "gpuadmin.yml"
        before = path.read_text()
        path.write_text(change(before))
        try:
            yield
        finally:
            path.write_text(before)

    @contextmanager
    def site_file(self, name: str, text: str, mode: int = 0o644) -> Iterator[Path]:
        """The site has this file as long as the block lasts: what it leaves there, the next test's hosts differ by."""
        path = self.site / name
        assert not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _people(self, state: str) -> Path:
        return self.site.parent / f"users-{state}.yml"

    def gpuadmin(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Run gpuadmin on the site with --json; it must end with that code. Returns its document."""
        process = self.start(*arguments, "--json")
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, f"{arguments} ended with {process.returncode}\n{out[-2000:]}\n{err[-2000:]}"
        document: dict[str, Any] = json.loads(out)
        return document

    def ssh_command(self, login: str, host: str) -> list[str]:
        """The command that logs in to a host, as the admin or a person; what to run there follows."""
        lab = state.existing(self.name)  # as `gpuadmin lab ssh` does: tests log in a thousand times
        who: dict[str, Any] = {} if login == "admin" else {"login": login, "identity": self.keys / login}
        return [*ssh.ssh_command(lab, lab.host(host), **who)]

    def settle(self, host: str) -> None:
        """Wait until a host has come up whole."""
        # it fails where a unit has failed, too; tests look at those by themselves
        self.admin(host, "systemctl is-system-running --wait || true")

    def ssh(self, login: str, host: str, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a host, in a login shell, as the admin or a person."""
        quoted = "bash -lc '" + command.replace("'", "'\\''") + "'"
        return subprocess.run(
            [*self.ssh_command(login, host), quoted],
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=300,
            check=False,
        )

    @contextmanager
    def session(self, name: str, host: str) -> Iterator[subprocess.Popen[str]]:
        """A session of a person on a host, which has begun; it ends with the block."""
        process = subprocess.Popen(
            [*self.ssh_command(name, host), "echo here; sleep 1000"],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            yield process
        finally:
            process.kill()
            process.communicate()

    def admin(self, host: str, command: str) -> str:
        """Run a command as root on a host; it must succeed."""
        quoted = command.replace("'", "'\\''")
        done = self.ssh("admin", host, f"sudo bash -c '{quoted}'")
        assert done.returncode == 0, f"{host}: {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def person(self, name: str, host: str, command: str) -> str:
        """Run a command as a person; it must succeed."""
        done = self.ssh(name, host, command)
        if done.returncode == 255:  # ssh itself: of why sshd refuses somebody it tells them nothing
            why = self.ssh(
                "admin", host, "sudo journalctl -b -n 60 --no-pager -t sshd -t sshd-session -t kernel"
            ).stdout
            raise AssertionError(f"{name}@{host}: {command}\n{done.stderr}{why}")
        assert done.returncode == 0, f"{name}@{host}: {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def key(self, name: str) -> str:
        """A person's public key; the pair is made when it is first asked for."""
        self.keys.mkdir(exist_ok=True)
        path = self.keys / name
        if not path.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True)
        return path.with_suffix(".pub").read_text().strip()

    def add(self, name: str, *options: str, code: int = 0) -> dict[str, Any]:
        agreed = () if "--check" in options else ("--yes",)
        return self.gpuadmin("add-user", name, "--key", self.key(name), *agreed, *options, code=code)

    def empty(self) -> None:
        """Say that nobody is on the site."""
        (self.site / "users.yml").write_text(EMPTY_REGISTRY)

    def root_is_read_only(self, host: str) -> bool:
        return self.admin(host, "btrfs property get -ts / ro").strip() == "ro=true"

    def reboot(self, host: str) -> None:
        """Reboot a host as an admin would, and wait until it is back with another boot id."""
        before = self.admin(host, "cat /proc/sys/kernel/random/boot_id")
        self.ssh("admin", host, "sudo systemctl reboot")
        self.wait(lambda: self.ssh("admin", host, "cat /proc/sys/kernel/random/boot_id"), differs=before)

    def wait(
        self, probe: Callable[[], subprocess.CompletedProcess[str]], *, differs: str = "", seconds: float = 300
    ) -> str:
        """Wait until a command succeeds and prints something else than `differs`."""
        end = time.monotonic() + seconds
        while True:
            done = probe()
            if done.returncode == 0 and done.stdout != differs:
                return done.stdout
            assert time.monotonic() < end, f"waited {seconds} s in vain: {done.stdout}{done.stderr}"
            time.sleep(1)  # between two logins of the probe


# A container image out of what the node has; nothing is fetched. Its directories are in it: Docker before 23
# makes missing ones so that only root can enter them.
MAKE_IMAGE = (
    "tar --dereference --no-recursion -cf - /bin /lib /lib/*-linux-gnu /lib64 /bin/sh /bin/id /bin/cat /bin/sleep "
    "$(ldd /bin/sh /bin/id /bin/cat /bin/sleep | grep -o '/[^ ]*' | grep -v : | sort -u) 2>/dev/null "
    "| docker import - tiny >/dev/null"
)

#: A node's root is read-only; whoever breaks something in it has opened it before.
OPEN = "btrfs property set -ts / ro false"
