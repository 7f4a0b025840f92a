"""What somebody runs: their manager, limits, Docker, containers that ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuadmin.config.schema import User
from gpuadmin.diagnosis.finding import Finding
from gpuadmin.text import size_words

Facts = Mapping[str, Any]
FULL = 256 << 20  # bytes: a daemon without them cannot unpack a layer
FEW = 65536  # subordinate ids that an image expects


def sessions(name: str, host: str, facts: Facts) -> Iterator[Finding]:
    """The user manager and the limits of somebody's slice."""
    found, here = facts.get("sessions"), (host,)
    if found is None:
        return
    uid = ((facts.get("account") or {}).get("passwd") or {}).get("uid")
    words = tuple(f"{host}: {line}" for line in found["words"])
    if found["manager"] == "failed":
        cause = f"{name}'s user manager failed: no session, no Docker"
        remedy = f"gpuadmin run HOSTS -- systemctl restart user@{uid}.service"
        yield Finding("manager", cause, remedy, words, here)
    limits = found["slice"]
    if limits.get("tasks_max") and limits.get("tasks", 0) >= limits["tasks_max"] * 0.98:
        cause = f"{name} runs as many processes as they may: {limits['tasks']} of {limits['tasks_max']}"
        yield Finding("tasks", cause, f"gpuadmin run HOSTS -- loginctl terminate-user {name}", (), here)
    if limits.get("memory_oom_kill"):
        count = limits["memory_oom_kill"]
        bound = f" of {size_words(limits['memory_max'])}" if limits.get("memory_max") else ""
        cause = f"processes of {name}'s were killed because memory ran out{bound}: {count} since the first login"
        yield Finding("memory-limit", cause, f"{name} needs smaller batches or fewer workers", (), here)


def docker(name: str, user: User | None, host: str, facts: Facts) -> Iterator[Finding]:
    """Their daemon and what it needs."""
    found, here = facts.get("docker"), (host,)
    uid = ((facts.get("account") or {}).get("passwd") or {}).get("uid")
    if found is None or uid is None or found["subids"] is None:
        return
    words = tuple(f"{host}: {line}" for line in found["words"])
    sync, provision = "gpuadmin sync-users --limit HOSTS", "gpuadmin provision --limit HOSTS"
    restart = f"gpuadmin run HOSTS -- systemctl --user -M {name}@ restart docker.service"
    if user is not None and not user.docker and found["data"] is None:
        cause = f"{name} was not given Docker"
        yield Finding("docker-not-given", cause, f"gpuadmin change-user {name} --docker", (), here)
        return
    if not found["installed"]:
        yield Finding("docker-missing", "Docker is not installed", provision, (), here)
        return
    if found["free"] < FULL or found["inodes_free"] == 0:
        left = "no inode" if found["inodes_free"] == 0 else size_words(found["free"])
        cause = f"the disk of Docker's data is full: {left} of {size_words(found['bytes'])} free"
        remedy = f"{name}: docker system prune; whose it is: gpuadmin run HOSTS -- du -xsh {found['place']}"
        yield Finding("docker-disk", cause, remedy, words, here)
    short = [kind for kind, count in found["subids"].items() if count < FEW]
    if short:
        cause = f"{name} has too few subordinate ids: /etc/{' and /etc/'.join(short)}"
        counts = ", ".join(f"{kind}: {count}" for kind, count in found["subids"].items())
        yield Finding("docker-subids", cause, sync, (f"{host}: {counts}; an image needs {FEW}", *words), here)
    data = found["data"]
    if data is None or not data["directory"]:
        yield Finding("docker-data", f"{name} has no directory for Docker's data", sync, words, here)
    elif data["uid"] != uid:
        cause = f"{name}'s directory of Docker's data belongs to uid {data['uid']}"
        yield Finding("docker-data", cause, f"gpuadmin run HOSTS -- chown {uid}:{uid} {data['path']}", words, here)
    elif (facts.get("sessions") or {}).get("manager") == "active":
        if found["socket"] != "ok":
            cause = f"{name}'s Docker socket {'is missing' if found['socket'] == 'missing' else found['socket']}"
            remedy = f"gpuadmin run HOSTS -- systemctl --user -M {name}@ restart docker.socket"
            yield Finding("docker-socket", cause, remedy, words, here)
        elif not found["daemon"] and words:
            cause = f"{name}'s Docker daemon does not run; it last said: {_last(found['words'])}"
            yield Finding("docker-daemon", cause, restart, words, here)
        elif "containers" in facts["unknown"]:
            why = facts["unknown"]["containers"]
            cause = f"{name}'s Docker daemon runs and does not answer"
            yield Finding("docker-daemon", cause, restart, (f"{host}: {why}", *words), here)


def _last(words: list[str]) -> str:
    """The last line without its time, host and program."""
    return words[-1].split(": ", 1)[-1][:160]


def containers(name: str, host: str, facts: Facts) -> Iterator[Finding]:
    """Why their last containers ended. What a daemon answers is its person's word."""
    for one in (facts.get("containers") or {}).get("ended", ()):
        line = f"{host}: {one['name']} ended with {one['code']} at {one['finished']}" + (
            f": {one['error']}" if one["error"] else ""
        )
        error = one["error"].lower()
        which = f"{name}'s container {one['name']}"
        code, cause, remedy = "container", f"{which} ended with {one['code']}", f"{name}: docker logs {one['name']}"
        if one["oom"]:
            code, cause = "container-oom", f"{which} was killed: out of memory"
            remedy = f"{name} needs a higher --memory, or smaller batches"
        elif "exec format error" in error:
            code, cause = "container-architecture", f"{which} is of another processor: its image does not run here"
            remedy = f"{name}: docker pull --platform linux/amd64 IMAGE"
        elif one["code"] in (126, 127) or "no such file" in error or "not found" in error:
            code, cause = "container-program", f"{which} has no such program as it was told to run"
            remedy = f"{name}: look at the command after the image's name"
        elif one["code"] == 137:
            code, cause = "container-killed", f"{which} was killed (SIGKILL): by memory of the node, or by docker stop"
            remedy = "gpuadmin diagnose --host HOSTS"
        yield Finding(code, cause, remedy, (line,), (host,))
