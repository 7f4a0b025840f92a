"""What somebody runs: their manager, limits, Docker, containers that ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from gpuadmin.common.text import counted, size_words

from .cause import Cause, Facts, Person

FULL = 256 << 20  # bytes: a daemon without them cannot unpack a layer
LEAST = 16  # processes: the manager, a shell, and what it starts at log-in
FEW = 65536  # subordinate ids that an image expects
_SYNC, _PROVISION = "gpuadmin sync-users --limit HOSTS", "gpuadmin provision --limit HOSTS"


def sessions(person: Person, facts: Facts) -> Iterator[Cause]:
    """The user manager and the limits of somebody's slice."""
    found, name = facts.get("sessions"), person.name
    if found is None:
        return
    uid = ((facts.get("account") or {}).get("passwd") or {}).get("uid")
    if found["manager"] == "failed":
        cause = f"{name}'s user manager failed: no session, no Docker"
        yield Cause("manager", cause, f"gpuadmin run HOSTS -- systemctl restart user@{uid}.service", (*found["words"],))
    yield from _processes(person, facts)
    limits = found["slice"]
    count, most = str(limits.get("tasks", 0)), str(limits.get("tasks_max", 0))
    if limits.get("tasks_max") and limits.get("tasks", 0) >= limits["tasks_max"] * 0.98:
        cause = f"{name} runs as many processes as they may: {count} of {most}"
        # logind answers nobody while so many processes come and go; the kernel asks nobody
        kill = f"echo 1 >/sys/fs/cgroup/user.slice/user-{uid}.slice/cgroup.kill"
        remedy = f"end all that {name} runs there: gpuadmin run HOSTS -- sh -c '{kill}'"
        yield Cause("tasks", cause, remedy, (), (count, most))
    elif limits.get("tasks_max") and limits.get("tasks_refused"):
        refused = counted(limits["tasks_refused"], "process", "processes")
        cause = f"{name} reached their limit of {most} processes: {refused} did not start since the first login"
        remedy = f"{name} needs fewer workers or threads; or more: limits.people in gpuadmin.yml"
        yield Cause("tasks", cause, remedy, (f"{count} at the moment",), (count, most))
    if limits.get("memory_oom_kill"):
        count = str(limits["memory_oom_kill"])
        most = size_words(limits["memory_max"]) if limits.get("memory_max") else ""
        why = f"they reached their limit of {most}" if most else "memory ran out"
        cause = f"processes of {name}'s were killed because {why}: {count} since the first login"
        remedy = f"{name} needs smaller batches or fewer workers"
        yield Cause("memory-limit", cause, remedy, (), (count, most or "100 %"))


def _processes(person: Person, facts: Facts) -> Iterator[Cause]:
    """How many processes of theirs may run, by limits.conf(5) or by what the kernel says of a session of theirs."""
    line = (facts.get("pam") or {}).get("processes")
    if line is not None and line["most"] < LEAST:
        cause = f"{person.name} may run only {counted(line['most'], 'process', 'processes')} there (nproc)"
        remedy = f"raise nproc in {line['file']}, line {line['line']}: gpuadmin ssh HOSTS"
        yield Cause("processes", cause, remedy, (f"{line['file']}, line {line['line']}",), (str(line["most"]),))
        return
    most = (facts.get("trial") or {}).get("processes")
    if most is not None and most < LEAST:
        cause = f"{person.name} may run only {counted(most, 'process', 'processes')} there, by the kernel"
        remedy = "gpuadmin run HOSTS -- grep -rs nproc /etc/security /etc/systemd"
        yield Cause("processes", cause, remedy, ("the limits of a session that was tried",), (str(most),))


def docker(person: Person, facts: Facts) -> Iterator[Cause]:
    """Their daemon and what it needs."""
    found, name = facts.get("docker"), person.name
    uid = ((facts.get("account") or {}).get("passwd") or {}).get("uid")
    if found is None or uid is None or found["subids"] is None:
        return
    words = tuple(found["words"])
    if not person.docker and found["data"] is None:
        cause = f"{name} has no Docker, as the site wants it (docker: false)"
        yield Cause("docker-not-given", cause, f"only if {name} is to have it: gpuadmin change-user {name} --docker")
        return
    if not found["installed"]:
        yield Cause("docker-missing", "Docker is not installed", _PROVISION)
        return
    if found["free"] < FULL or found["inodes_free"] == 0:
        left = "no inode" if found["inodes_free"] == 0 else size_words(found["free"])
        cause = f"the disk of Docker's data is full: {left} of {size_words(found['bytes'])} free"
        remedy = f"{name}: docker system prune; whose it is: gpuadmin run HOSTS -- du -xsh {found['place']}"
        yield Cause("docker-disk", cause, remedy, words, (left,))
    short = [kind for kind, count in found["subids"].items() if count < FEW]
    if short:
        cause = f"{name} has too few subordinate ids: /etc/{' and /etc/'.join(short)}"
        counts = ", ".join(f"{kind}: {count}" for kind, count in found["subids"].items())
        yield Cause("docker-subids", cause, _SYNC, (f"{counts}; an image needs {FEW}", *words))
    for wrong in found["mappers"]:
        remedy = "gpuadmin run HOSTS -- chmod u+s /usr/bin/newuidmap /usr/bin/newgidmap"
        yield Cause("docker-mappers", f"nobody's rootless Docker can start: {wrong}", remedy, words)
    masked = (facts.get("home") or {}).get("masked") or ()
    if masked:
        which = " and ".join(masked)
        cause = f"{name} masked {which} for themselves: their Docker does not start"
        yield Cause("docker-masked", cause, f"{name}: systemctl --user unmask {' '.join(masked)}", words, (which,))
    data = found["data"]
    if data is None or not data["directory"]:
        yield Cause("docker-data", f"{name} has no directory for Docker's data", _SYNC, words)
    elif data["uid"] != uid:
        cause = f"{name}'s directory of Docker's data belongs to uid {data['uid']}"
        yield Cause("docker-data", cause, f"gpuadmin run HOSTS -- chown {uid}:{uid} {data['path']}", words)
    elif (facts.get("sessions") or {}).get("manager") == "active":
        yield from _daemon(name, facts, found, words)


def _daemon(name: str, facts: Facts, found: Facts, words: tuple[str, ...]) -> Iterator[Cause]:
    restart = f"gpuadmin diagnose {name} --restart-docker --limit HOSTS"
    if found["socket"] != "ok":
        cause = f"{name}'s Docker socket {'is missing' if found['socket'] == 'missing' else found['socket']}"
        yield Cause("docker-socket", cause, restart, words)
    elif not found["daemon"] and words:
        last = _last(words)
        yield Cause(
            "docker-daemon", f"{name}'s Docker daemon does not run; it last said: {last}", restart, words, (last,)
        )
    elif "containers" in facts["unknown"]:
        why = facts["unknown"]["containers"]
        cause = f"{name}'s Docker daemon runs and does not answer"
        yield Cause("docker-daemon", cause, restart, (why, *words), (why,))


def _last(words: Sequence[str]) -> str:
    """The last line without its time, host and program."""
    return words[-1].split(": ", 1)[-1][:160]


def containers(person: Person, facts: Facts) -> Iterator[Cause]:
    """Why their last containers ended. What a daemon answers is its person's word."""
    name = person.name
    for one in (facts.get("containers") or {}).get("ended", ()):
        line = f"{one['name']} ended with {one['code']} at {one['finished']}" + (
            f": {one['error']}" if one["error"] else ""
        )
        error = one["error"].lower()
        which = f"{name}'s container {one['name']}"
        code, cause, remedy = "container", f"{which} ended with {one['code']}", f"{name}: docker logs {one['name']}"
        if one["oom"]:
            code, cause = "container-oom", f"{which} was killed: out of memory"
            remedy = f"{name} needs a higher --memory, or smaller batches"
        elif one["other"]:
            theirs, here = one["other"]
            code, cause = "container-architecture", f"{which} is for another processor: its image is {theirs}"
            remedy = f"{name}: docker pull --platform linux/{here} IMAGE"
        elif "cdi device" in error or "nvidia.com/gpu" in error:
            code, cause = "container-gpu", f"{which} got no GPU: {one['error']}"
            remedy = "gpuadmin diagnose --host HOSTS; gpuadmin list-gpus --limit HOSTS"
        elif one["code"] in (126, 127) or "no such file" in error or "not found" in error:
            code, cause = "container-program", f"{which} lacks the program that it was told to run"
            remedy = f"{name}: look at the command after the image's name"
        elif one["code"] == 137:
            code, cause = "container-killed", f"{which} was killed (SIGKILL): by memory of the node, or by docker stop"
            remedy = "gpuadmin diagnose --host HOSTS"
        yield Cause(code, cause, remedy, (line,), (one["name"], str(one["code"]), *(one["other"] or ())))


def gpus(person: Person | None, facts: Facts) -> Iterator[Cause]:
    """The GPUs of a node, and whether a container of somebody's can get one."""
    found = facts.get("gpus")
    if not found:
        return
    listed = "gpuadmin list-gpus --limit HOSTS"
    if found["differ"]:
        module, libraries = found["differ"]
        cause = f"the GPU driver's module is {module}, its libraries are {libraries}: nothing can use a GPU"
        yield Cause("gpu-versions", cause, "gpuadmin reboot HOSTS --when-idle", (*found["missing"],))
    elif found["missing"]:
        cause = f"the GPUs cannot be used: {found['missing'][0]}"
        yield Cause("gpu-driver", cause, f"{listed} says what is missing", (*found["missing"],))
    elif found["problem"]:
        yield Cause("gpu-silent", f"the GPU driver does not answer: {found['problem']}", listed, (), ())
    for words in found["broken"]:
        if not (found["differ"] or found["problem"]):
            yield Cause("gpu-broken", words, f"gpuadmin reboot HOSTS --when-idle; {listed}")
    if found["lost"]:
        many, first = counted(len(found["lost"]), "GPU"), found["lost"][0]
        cause = first if len(found["lost"]) == 1 else f"{many} of {found['number']} do not answer: {first}"
        yield Cause("gpu-lost", cause, listed, (*found["lost"],), (many,))
    for words in found["worse"]:
        yield Cause("gpu-worse", words, listed)
    for words in found["containers"]:
        remedy = "gpuadmin run HOSTS -- systemctl start gpuadmin-gpu-devices.service"
        yield Cause("gpu-cdi", words, f"{remedy}; {listed}")
    yield from _held(person, found)


def granted(person: Person, facts: Facts) -> Iterator[Cause]:
    """Which GPUs somebody may open where GPUs are given on request."""
    found = facts.get("granted")
    if found is None:
        return
    theirs = [one for one in found["grants"] if one["user"] == person.name]
    places = [place for one in theirs for place in one["gpus"]]
    here = "GPUs are given on request there, and opening another one fails with EPERM (gpus.access)"
    ask = f"gpuadmin grants; gpuadmin grant {person.name} HOSTS --hours 8 --reason …"
    if not theirs:
        yield Cause("gpu-grant", f"{person.name} was granted no GPU: {here.replace('another one', 'one')}", ask)
    elif len(places) < found["gpus"]:
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(min(one["until"] for one in theirs)))
        words = f"GPU {', '.join(places)}"
        yield Cause("gpu-granted", f"{person.name} was granted {words} until {until}: {here}", ask, (), (words, until))


def kernels(facts: Facts) -> Iterator[Cause]:
    """Why GPUs would be gone after a boot into one of the kernels that are installed."""
    found = facts.get("kernels")
    if found:
        first, more = found[0], len(found) - 1
        cause = f"the GPUs would not work after a boot: {first}" + (f" (and {more} more)" if more else "")
        remedy = "gpuadmin drift --limit HOSTS; where gpuadmin installs the driver: gpuadmin provision --limit HOSTS"
        yield Cause("gpu-kernels", cause, remedy, (*found,), (first,))


def _held(person: Person | None, found: Facts) -> Iterator[Cause]:
    """Who holds it. It is the cause only if nothing is left for anybody else."""
    holders: dict[str, list[str]] = {}
    for gpu in found["gpus"]:
        for who in gpu["holders"]:
            holders.setdefault(who, []).append(str(gpu["index"]))
    mine = None if person is None else person.name
    if not [who for who in holders if who != mine]:
        return
    words = "; ".join(f"{who}: GPU {', '.join(places)}" for who, places in sorted(holders.items()))
    free = [gpu for gpu in found["gpus"] if mine in gpu["holders"] or not gpu["holders"] or not gpu["full"]]
    if not free and person is not None:
        cause = f"all GPUs are held by others: {words}"
        yield Cause("gpu-full", cause, "gpuadmin free says where GPUs are free", (), (str(len(found["gpus"])),))
    else:
        yield Cause("gpu-held", f"GPUs are held: {words}", "gpuadmin status")
