"""Causes that a tried session shows: the step at which it ends, and steps that fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ..records.diagnosis import RegisteredPerson as Person
from .cause import HINDERS, STOPS, Cause, Facts, Row, Table, Text, Thing, tell_admins

#: EAGAIN: the kernel's answer to a person with as many processes as nproc allows (execve(2), fork(2)).
_NO_PROCESS = "Resource temporarily unavailable"
_LIMITS = "gpuadmin run HOSTS -- grep -rs nproc /etc/security /etc/systemd"
_LOOK = "{name}: look at ~/.bashrc and ~/.profile, or at what the login shell reads"
_SESSION, _FILE = Thing("a session by sshd's rules of PAM", "trial"), Thing("a file in the home", "trial", "home")
_COMMAND = Thing("the shell for a command", "trial", "command")
ROWS = Table(
    Row("quota", STOPS, _FILE, "{name}'s quota of the homes is used up: not even 4 kB can be written",
        "{name} deletes files, or gets a larger quota on the storage host: gpuadmin ssh STORAGE",
        Text("Delete what you do not need, or ask your admins for more", "the quota of your home is used up",
             "필요 없는 파일을 지우거나 관리자에게 용량을 늘려 달라고 하세요",
             "홈 디렉터리를 한도까지 썼습니다")),
    Row("session-pam", STOPS, _SESSION, "{name} gets no session: {words}",
        "gpuadmin run HOSTS -- journalctl --since=-5min -g PAM", None),
    Row("session-home", STOPS, _FILE, "{name} cannot write in their home: {words}",
        "look at the home and its mount: gpuadmin ssh HOSTS",
        tell_admins("no file can be written in your home: {words}", "홈 디렉터리에 파일을 쓸 수 없습니다: {words}")),
    Row("session-tmp", STOPS, Thing("a file in /tmp", "trial", "tmp"), "{name} cannot write a file: {words}",
        "gpuadmin run HOSTS -- df /tmp",
        tell_admins("no temporary file can be written: {words}", "임시 파일을 쓸 수 없습니다: {words}")),
    Row("session-process", STOPS, Thing("a process", "trial", "process"), "{name} can start no process: {words}",
        _LIMITS,
        Text("End processes that you do not need: ps -u $USER", "no process can be started",
             "필요 없는 프로세스를 종료하세요: ps -u $USER", "프로세스를 시작할 수 없습니다"),
        {"pam": ("{name} gets no session: PAM lets them in, and no process could be started: {words}", _LIMITS)}),
    Row("session-command", STOPS, _COMMAND,
        "{name}'s shell ends before it runs a command (ssh HOST COMMAND, scp, rsync, editors): {words}", _LOOK,
        Text("Look at ~/.bashrc, or at what your shell reads",
             "your shell ends before a command (scp, editors): {words}",
             "~/.bashrc 등 셸 설정 파일을 확인하세요", "명령을 실행하기 전에 셸이 끝납니다(scp, 편집기): {words}")),
    Row("session-login", STOPS, Thing("the shell at log-in", "trial", "login"),
        "{name}'s shell ends at log-in: {words}", _LOOK,
        Text("Look at ~/.bashrc and ~/.profile, or at what your shell reads", "your shell ends at log-in: {words}",
             "~/.bashrc, ~/.profile 등 셸 설정 파일을 확인하세요", "로그인할 때 셸이 끝납니다: {words}")),
    Row("session-docker", STOPS, Thing("Docker's socket", "trial", "docker"),
        "{name}'s Docker does not answer them: {words}", "gpuadmin diagnose {name} --restart-docker --limit HOSTS",
        Text("systemctl --user restart docker.service (your running containers end)",
             "your Docker daemon does not answer",
             "systemctl --user restart docker.service (실행 중인 컨테이너는 종료됩니다)",
             "Docker 데몬이 응답하지 않습니다"),
        before="gpu-versions"),
    Row("session-noise", HINDERS, _COMMAND,
        "{name}'s shell prints text before a command's own, which breaks scp, sftp and rsync: {words}", _LOOK,
        Text("Print nothing in ~/.bashrc where no terminal is",
             "your shell prints text, which breaks scp and rsync: {words}",
             "터미널이 아닐 때는 ~/.bashrc에서 아무것도 출력하지 마세요",
             "셸 출력 때문에 scp와 rsync가 실패합니다: {words}")),
    Row("session-late", HINDERS, _COMMAND, "{name}'s shell does not {what} in 3 s{last}", _LOOK,
        Text("Look at ~/.bashrc: what does it wait for?", "your shell does not come to a command in 3 s",
             "~/.bashrc가 무엇을 기다리는지 확인하세요", "셸이 3초 안에 명령을 실행하지 못합니다")),
    Row("session-cut", HINDERS, _SESSION, "the session that was tried as {name} ended {last}: {why}", _LOOK,
        Text("Look at ~/.bashrc and ~/.profile", "a session that was tried was ended",
             "~/.bashrc와 ~/.profile을 확인하세요", "시험 세션이 중간에 끝났습니다")),
)  # fmt: skip


def judge(facts: Facts, person: Person | None) -> Iterator[Cause]:
    """A cause for each step of a tried session that went wrong, without what merely follows from it."""
    found = facts.get("trial")
    if person is None or not facts["node"] or found is None:
        return
    tell = partial(ROWS.find, name=person.name)
    account = facts.get("account") or {}
    if found["pam"] is not None:
        if account.get("nologin") is None:
            yield tell("session-process/pam" if _NO_PROCESS in found["pam"] else "session-pam", words=found["pam"])
        return
    steps: Mapping[str, Any] = {name: step for name, step in found["steps"].items() if step["code"] != ""}
    if "home" in steps:
        words = steps["home"]["words"]
        yield tell("quota" if steps["home"]["code"] == "EDQUOT" else "session-home", words=words)
    if "tmp" in steps:
        yield tell("session-tmp", words=steps["tmp"]["words"])
    if "process" in steps:
        yield tell("session-process", words=steps["process"]["words"])
        return
    entry = account.get("passwd") or {}
    if entry.get("shell_runs", True) and entry.get("shell_lets_in", True):
        yield from _judge_shells(steps, person)
    if "docker" in steps:
        yield tell("session-docker", words=steps["docker"]["words"])
    if not found["done"]:
        last = f"after the step {list(found['steps'])[-1]}" if found["steps"] else "before its first step"
        why = "its time was up" if found["late"] else f"something of {person.name}'s ended it"
        yield tell("session-cut", last=last, why=why)


def _judge_shells(steps: Mapping[str, Any], person: Person) -> Iterator[Cause]:
    """The causes of the steps that start a shell: for a command, and at log-in."""
    for step in ("command", "login"):
        if step in steps:
            words = steps[step]["words"]
            tell = partial(ROWS.find, name=person.name, words=words)
            if steps[step]["code"] == "noise":
                yield tell("session-noise")
            elif steps[step]["code"] == "late":
                what = "run a command" if step == "command" else "finish a log-in"
                yield tell("session-late", what=what, last=f"; it last printed: {words}" if words else "")
            else:
                yield tell(f"session-{step}")
