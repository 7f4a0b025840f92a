"""One lock and one history for a site of several admins: on its storage host, by an ssh that stays while a run goes on.

The host's side is `site_history.py` of the node code. What it answers is text that somebody else may have written: ids
and names of files have a form, contents are read as records, and a record that was made here is never replaced.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

from gpuadmin import records
from gpuadmin.ansible.connections import command_line, require_ssh
from gpuadmin.ansible.events import unreachable_message
from gpuadmin.common.text import counted
from gpuadmin.config.inventory import Host, find_storage
from gpuadmin.config.load import Site
from gpuadmin.config.private_key import public_blob
from gpuadmin.config.schema import Settings
from gpuadmin.console import echo
from gpuadmin.errors import GpuadminError, RefusedError, UnreachableError
from gpuadmin.local_programs import ask_git
from gpuadmin.text import one_line
from gpuadmin.who import who

SECONDS = 30.0  # until the storage host does not answer
SILENT = 60.0  # after which ssh itself gives up a connection
NOT_YET = "does not know of a lock of the site yet: gpuadmin provision brings it"
_LARGEST = 128 * 1024 * 1024  # bytes of an answer
_COMMAND = ("/usr/bin/python3", "-IB", "/var/lib/gpuadmin/lib/gpuadmin_node/cli.py", "site-history")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def is_shared(settings: Settings) -> bool:
    """Whether a site's lock and records are the same for all machines."""
    several = len(settings.admins or ()) > 1 or settings.timers is not None
    return several if settings.runs.shared is None else settings.runs.shared


def find_keeper(site: Site) -> Host | None:
    """The storage host that keeps the site's lock and records; None where they are each machine's own."""
    storage = site.inventory.group("storage")  # homes.server may name another host, which has no such lock
    return find_storage(storage, site.settings.homes.server) if is_shared(site.settings) else None


def declared_account(site: Site) -> str | None:
    """The account under `admins` whose key gpuadmin logs in with here; else the one of this machine's user's name."""
    admins, blob = site.settings.admins or [], public_blob(site.settings.admin.ssh_key)
    by_key = [one.name for one in admins if blob is not None and blob in [key.split()[1] for key in one.keys]]
    return next(iter([*by_key, *(one.name for one in admins if one.name == who().partition("@")[0])]), None)


class SiteHistory:
    """An open way to the storage host. A question raises UnreachableError where it has no answer, or not in time."""

    def __init__(self, site: Site, host: Host) -> None:
        self._site, self._host, self._name = site, host, host.name
        self._holder: dict[str, Any] = {}
        self._open()

    def _open(self) -> None:
        self._complaint = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the ssh
        # a connection of its own: those that runs share are closed when a host boots
        ours = (require_ssh(), "-T", "-o", "BatchMode=yes", "-o", "ControlPath=none")
        line = [] if self._host.local else [*ours, *command_line(self._site, self._name, ())[1:]]
        self._ssh = subprocess.Popen(  # Ctrl-C is the run's: the lock is let go when that has ended
            [*line, *_COMMAND],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaint, start_new_session=True,
        )  # fmt: skip

    def fileno(self) -> int:
        """The descriptor that keeps the ssh, and with it the lock."""
        assert self._ssh.stdin is not None
        return self._ssh.stdin.fileno()

    def ask(self, do: str, **asked: Any) -> Mapping[str, Any]:
        """Send a request and return its answer. Raises UnreachableError, also for a problem over there."""
        late = threading.Timer(SECONDS, self._ssh.kill)
        late.start()  # guard: a storage host that hangs is not waited for
        try:
            assert self._ssh.stdin is not None
            assert self._ssh.stdout is not None
            self._ssh.stdin.write(json.dumps({"do": do, **asked}).encode() + b"\n")
            self._ssh.stdin.flush()
            # a login may print something before
            while not (line := self._ssh.stdout.readline(_LARGEST)).startswith(b'{"gpuadmin": ') and line:
                pass
            answer: Mapping[str, Any] = dict(json.loads(line)["gpuadmin"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            raise UnreachableError(f"{self._name}: {self._why()}") from None
        finally:
            late.cancel()
        if "problem" in answer:
            # guard: a storage host whose disk is full is asked about, as one that is away
            raise UnreachableError(one_line(f"{self._name}: the site's history: {str(answer['problem'])[:300]}"))
        return answer

    def _why(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._ssh.wait(1)
        self._complaint.seek(0)
        words = one_line(self._complaint.read(10_000).decode("utf-8", "replace").strip()[-1000:])
        return NOT_YET if self._ssh.returncode in (2, 127) else unreachable_message(words or "timed out")

    def close(self) -> None:
        """Let go of the lock, and say so; the host's side ends when nobody asks any more."""
        holder, self._holder = self._holder, {}
        with suppress(GpuadminError):
            if holder:
                self.ask("name", holder=holder)
        for stream in (self._ssh.stdin, self._ssh.stdout, self._complaint):
            with suppress(OSError):  # what was not sent any more
                if stream is not None:
                    stream.close()
        try:
            self._ssh.wait(2.0)  # the next run finds the lock free
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()

    def take(self, verb: str) -> Mapping[str, Any]:
        """Take the site's lock, and return who had it before. Raises RefusedError naming who has it."""
        answer = self.ask("lock", holder=self._describe(verb))
        if answer.get("held") is not True:
            raise _refusal(self._name, answer)
        last = answer["last"] if isinstance(answer.get("last"), dict) else {}
        self._holder = {**last, "ended": last.get("ended", False)}  # until this run goes on, the last one is the last
        return last

    def begin(self, verb: str) -> None:
        """Say that this run goes on, with these files of the site."""
        holder = {**self._describe(verb), "commit": commit_here(self._site)}
        self.ask("name", holder=holder)
        self._holder = {**holder, "ended": True}

    def _describe(self, verb: str) -> dict[str, Any]:
        account = declared_account(self._site)
        return {"who": who(), "account": account, "verb": verb, "since": datetime.now(UTC).isoformat()}

    def hold(self, verb: str) -> None:
        """See that the lock is still held; take it again where the connection was lost, as when the storage host boots.

        Raises RefusedError where another machine has it now, and UnreachableError.
        """
        if self._ssh.poll() is not None or not self._holder:
            self._holder = {}
            self.close()
            self._open()
            self.take(verb)
            self.begin(verb)

    def keep(self, identity: str) -> None:
        """Send a record of this machine."""
        found = records.files(self._site.runs, identity)
        self.ask("put", id=identity, files=found, keep=self._site.settings.runs.keep)

    def exchange(self) -> None:
        """Fetch the records that this machine lacks, and send those that are here alone."""
        runs, keep = self._site.runs, self._site.settings.runs.keep
        answer, here, odd = self.ask("list", newest=keep).get("records"), records.shared_files(runs), ""
        there = {one: names for one, names in answer.items() if records.is_id(one)} if isinstance(answer, dict) else {}
        for identity in sorted({*there, *here}, reverse=True)[:keep]:
            try:
                mine, theirs = here.get(identity, set()), {*there.get(identity, ())}
                if theirs - mine:
                    records.receive(runs, identity, self.ask("get", id=identity)["files"])
                if mine - theirs and not records.goes_on(runs / identity):
                    self.keep(identity)
            # guard: a record that is odd does not keep the lock, or another record, from anybody
            except (UnreachableError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                if self._ssh.poll() is not None:  # the lock went with it
                    raise UnreachableError(f"{self._name}: {self._why()}") from None
                odd = one_line(f"the records of other machines: {error}")
        if odd:
            echo(f"Note: {odd}", err=True)


def describe_person(run: Mapping[str, Any]) -> str:
    """`kim@laptop`, and the account that they are declared as, where that has another name: `kim@laptop as kim2`."""
    name, account = str(run.get("who", "somebody")), run.get("account")
    return f"{name} as {account}" if isinstance(account, str) and account != name.partition("@")[0] else name


def describe_run(run: Mapping[str, Any]) -> str:
    """`kim@laptop as kim2 (sync-users, 2026-11-03 10:31:07)`."""
    return one_line(f"{describe_person(run)} ({run.get('verb')}, {records.moment(str(run.get('since')))})"[:300])


def _refusal(host: str, answer: Mapping[str, Any]) -> RefusedError:
    holder, silent = dict(answer.get("holder") or {}), answer.get("silent")
    words, hint = f"the site is locked: {describe_run(holder)}; {host} keeps its lock", "wait for that run to end"
    if isinstance(silent, int | float) and silent > SILENT:  # guard: the lock of a machine that died is explained
        words += f", and has heard nothing of that machine for {counted(int(silent // 60), 'minute')}"
        hint = "it sleeps, or is gone. If its run is over for good, this ends its lock: "
        hint += f"gpuadmin ssh {host} kill {str(holder.get('pid'))[:10]}"
    return RefusedError(words, hint=one_line(hint))


def bring_up_to_date(site: Site) -> None:
    """Exchange records with the site's other machines, for a verb that looks, or notes that they are older ones."""
    try:
        if (host := find_keeper(site)) is not None:
            with closing(SiteHistory(site, host)) as history:
                history.exchange()
    except GpuadminError as error:
        echo(f"Note: {error.message}. Runs of other machines are shown as this one last had them.", err=True)


def behind(site: Site, last: Mapping[str, Any]) -> str | None:
    """Given the last run, return how far this machine's files of the site are behind those that it had, in words."""
    commit, here = str(last.get("commit")), commit_here(site)
    # guard: what another machine wrote is no option of git's -> here is None
    if here is None or not _COMMIT.fullmatch(commit):
        return None
    if commit == here or ask_git(site.directory, "merge-base", "--is-ancestor", commit, "HEAD") is not None:
        return None
    words = f"the last run of {describe_run(last)} was with commit {commit[:10]}"
    return f"the site's files here are behind: {words}, which is not in {here[:10]} of {socket.gethostname()}"


def commit_here(site: Site) -> str | None:
    """The last commit here that has to do with the site; None where no repository has its files."""
    return ask_git(site.directory, "rev-list", "-1", "HEAD", "--", ".") or None
