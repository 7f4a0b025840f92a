"""Causes that keep a person's processes from running: the user manager, limits of processes and memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..records.diagnosis import RegisteredPerson as Person
from ..text import counted, size_words
from .cause import HINDERS, STOPS, Cause, Facts, Row, Table, Text, Thing, tell_admins

LEAST = 16  # processes: the manager, a shell, and what it starts at log-in
NEARLY = 0.98  # of a limit of processes: a shell that starts needs some
_LIMIT = Thing("limit of processes", "sessions")
ROWS = Table(
    Row("processes", STOPS, _LIMIT, "{name} may run only {words} there (nproc)",
        "raise nproc in {file}, line {line}: gpuadmin ssh HOSTS",
        tell_admins("you may run only {most} processes on this node",
                    "이 노드에서 프로세스를 {most}개만 실행할 수 있습니다"),
        {"kernel": ("{name} may run only {words} there, by the kernel",
                    "gpuadmin run HOSTS -- grep -rs nproc /etc/security /etc/systemd")}),
    # logind answers nobody while so many processes come and go; the kernel asks nobody
    Row("tasks", STOPS, _LIMIT, "{name} runs as many processes as they may: {count} of {most}",
        "end all that {name} runs there: "
        "gpuadmin run HOSTS -- sh -c 'echo 1 >/sys/fs/cgroup/user.slice/user-{uid}.slice/cgroup.kill'",
        Text("End processes that you do not need: ps -u $USER",
             "your processes reached their limit of {most} on this node",
             "필요 없는 프로세스를 종료하세요: ps -u $USER", "이 노드의 프로세스 한도({most}개)에 도달했습니다"),
        {"refused": ("{name} reached their limit of {most} processes: {refused} did not start since the first login",
                     "{name} needs fewer workers or threads; or more: limits.people in gpuadmin.yml")}),
    Row("manager", STOPS, Thing("user manager", "sessions"), "{name}'s user manager failed: no session, no Docker",
        "gpuadmin run HOSTS -- systemctl restart user@{uid}.service",
        tell_admins("your session could not start completely", "세션이 제대로 시작되지 않았습니다")),
    Row("memory-limit", HINDERS, Thing("kills for memory", "sessions"),
        "processes of {name}'s were killed because {why}: {kills} since the first login",
        "{name} needs smaller batches or fewer workers",
        Text("Use smaller batches or fewer workers",
             "your processes reached their limit of memory on this node ({limit}): {kills} were killed",
             "배치를 줄이거나 워커 수를 줄이세요",
             "이 노드의 메모리 한도({limit})에 도달해 프로세스 {kills}개가 종료되었습니다"),
        before="memory"),
)  # fmt: skip
_found = ROWS.find


def judge(facts: Facts, person: Person | None) -> Iterator[Cause]:
    """The causes that lie in the user manager and the limits of a person's slice."""
    found = facts.get("sessions")
    if person is None or not facts["node"] or found is None:
        return
    tell = partial(_found, name=person.name, uid=((facts.get("account") or {}).get("passwd") or {}).get("uid"))
    if found["manager"] == "failed":
        yield tell("manager", *found["words"])
    yield from _judge_nproc(facts, person)
    limits = found["slice"]
    count, most = limits.get("tasks", 0), limits.get("tasks_max", 0)
    if most and count >= most * NEARLY:
        yield tell("tasks", count=count, most=most)
    elif most and limits.get("tasks_refused"):
        refused = counted(limits["tasks_refused"], "process", "processes")
        yield tell("tasks/refused", f"{count} at the moment", most=most, refused=refused)
    if limits.get("memory_oom_kill"):
        limit = size_words(limits["memory_max"]) if limits.get("memory_max") else ""
        why = f"they reached their limit of {limit}" if limit else "memory ran out"
        yield tell("memory-limit", why=why, limit=limit or "100 %", kills=limits["memory_oom_kill"])


def _judge_nproc(facts: Facts, person: Person) -> Iterator[Cause]:
    """The cause that lies in too low a number of processes, by limits.conf(5) or as the kernel says of a session."""
    line = (facts.get("pam") or {}).get("processes")
    if line is not None and line["most"] >= LEAST:
        line = None
    most = line["most"] if line is not None else (facts.get("trial") or {}).get("processes")
    if most is None or most >= LEAST:
        return
    tell = partial(_found, name=person.name, most=most, words=counted(most, "process", "processes"))
    if line is not None:
        yield tell("processes", f"{line['file']}, line {line['line']}", file=line["file"], line=line["line"])
    else:
        yield tell("processes/kernel", "the limits of a session that was tried")
