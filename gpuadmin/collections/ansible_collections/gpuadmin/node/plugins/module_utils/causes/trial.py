"""What a tried session shows: where it ends, and what does not work in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .cause import Cause, Facts, Person

#: EAGAIN: what the kernel says to somebody with as many processes as nproc allows (execve(2), fork(2)).
_NO_PROCESS = "Resource temporarily unavailable"
_LIMITS = "gpuadmin run HOSTS -- grep -rs nproc /etc/security /etc/systemd"


def session(person: Person, facts: Facts) -> Iterator[Cause]:
    """One cause for each step that went wrong, without what merely follows from it."""
    found, name = facts.get("trial"), person.name
    if found is None:
        return
    account = facts.get("account") or {}
    if found["pam"] is not None:
        if account.get("nologin") is None and _NO_PROCESS in found["pam"]:
            cause = f"{name} gets no session: PAM lets them in, and no process could be started: {found['pam']}"
            yield Cause("session-process", cause, _LIMITS)
        elif account.get("nologin") is None:
            cause = f"{name} gets no session: {found['pam']}"
            yield Cause("session-pam", cause, "gpuadmin run HOSTS -- journalctl --since=-5min -g PAM")
        return
    steps: Mapping[str, Any] = found["steps"]
    yield from _files(name, steps)
    if _wrong(steps, "process"):
        cause = f"{name} can start no process: {steps['process']['words']}"
        yield Cause("session-process", cause, _LIMITS)
        return
    entry = account.get("passwd") or {}
    if entry.get("shell_runs", True) and entry.get("shell_lets_in", True):
        yield from _shells(name, steps)
    if _wrong(steps, "docker"):
        cause = f"{name}'s Docker does not answer them: {steps['docker']['words']}"
        yield Cause("session-docker", cause, f"gpuadmin diagnose {name} --restart-docker --limit HOSTS")
    if not found["done"]:
        last = f"after the step {list(steps)[-1]}" if steps else "before its first step"
        why = "its time was up" if found["late"] else f"something of {name}'s ended it"
        remedy = f"{name}: look at ~/.bashrc and ~/.profile, or at what the login shell reads"
        yield Cause("session-cut", f"the session that was tried as {name} ended {last}: {why}", remedy)


def _wrong(steps: Mapping[str, Any], name: str) -> bool:
    return name in steps and steps[name]["code"] != ""


def _files(name: str, steps: Mapping[str, Any]) -> Iterator[Cause]:
    if _wrong(steps, "home"):
        code, words = steps["home"]["code"], steps["home"]["words"]
        if code == "EDQUOT":
            remedy = f"{name} deletes files, or gets a larger quota on the storage host: gpuadmin ssh STORAGE"
            yield Cause("quota", f"{name}'s quota of the homes is used up: not even 4 kB can be written", remedy)
        else:
            remedy = "look at the home and its mount: gpuadmin ssh HOSTS"
            yield Cause("session-home", f"{name} cannot write in their home: {words}", remedy, (), (words,))
    if _wrong(steps, "tmp"):
        words = steps["tmp"]["words"]
        remedy = "gpuadmin run HOSTS -- df /tmp"
        yield Cause("session-tmp", f"{name} cannot write a file: {words}", remedy, (), (words,))


#: Which step starts a shell, and how that is said.
_STARTS = (
    ("command", "session-command", "before it runs a command (ssh HOST COMMAND, scp, rsync, editors)"),
    ("login", "session-login", "at log-in"),
)


def _shells(name: str, steps: Mapping[str, Any]) -> Iterator[Cause]:
    look = f"{name}: look at ~/.bashrc and ~/.profile, or at what the login shell reads"
    for step, code, when in _STARTS:
        if not _wrong(steps, step):
            continue
        why, words = steps[step]["code"], steps[step]["words"]
        if why == "noise":
            cause = f"{name}'s shell prints text before a command's own, which breaks scp, sftp and rsync: {words}"
            yield Cause("session-noise", cause, look, (), (words,))
        elif why == "late":
            last = f"; it last printed: {words}" if words else ""
            what = "run a command" if step == "command" else "finish a log-in"
            cause = f"{name}'s shell does not {what} in 3 s{last}"
            yield Cause("session-late", cause, look, (), (words,))
        else:
            cause = f"{name}'s shell ends {when}: {words}"
            yield Cause(code, cause, look, (), (words,))
