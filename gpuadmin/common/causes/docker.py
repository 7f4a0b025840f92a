"""Causes in a person's Docker: why it does not work, and why containers of theirs ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ..records.diagnosis import RegisteredPerson as Person
from ..text import size_words
from .cause import HINDERS, NOTE, STOPS, Cause, Facts, Row, Table, Text, Thing, tell_admins, type_command

FULL = 256 << 20  # bytes: a daemon without them cannot unpack a layer
FEW = 65536  # subordinate ids that an image expects
_SYNC = "gpuadmin sync-users --limit HOSTS"
_RESTART = "gpuadmin diagnose {name} --restart-docker --limit HOSTS"
_PLACE = Thing("Docker's ids, place and units", "docker")
_DAEMON = Thing("Docker's daemon and containers", "containers")
ROWS = Table(
    # a cause before what follows from it: without newuidmap no daemon runs
    Row("docker-missing", STOPS, _PLACE, "Docker is not installed", "gpuadmin provision --limit HOSTS",
        tell_admins("Docker is not installed on this node", "이 노드에 Docker가 설치되어 있지 않습니다")),
    Row("docker-disk", STOPS, _PLACE, "the disk of Docker's data is full: {left} of {most} free",
        "{name}: docker rmi, docker builder prune; whose it is: gpuadmin run HOSTS -- du -xsh {place}",
        type_command("docker rmi, docker builder prune", "the disk of Docker's data on this node is full: {left} left",
                     "이 노드의 Docker 디스크가 가득 찼습니다: {left} 남음")),
    Row("docker-subids", STOPS, _PLACE, "{name} has too few subordinate ids: {files}", _SYNC,
        type_command("add-me-to-docker-user", "you have no range of ids for containers on this node",
                     "이 노드에 컨테이너용 ID 범위가 없습니다")),
    Row("docker-mappers", STOPS, _PLACE, "nobody's rootless Docker can start: {wrong}",
        "gpuadmin run HOSTS -- chmod u+s /usr/bin/newuidmap /usr/bin/newgidmap",
        tell_admins("rootless Docker cannot start on this node (newuidmap)",
                    "이 노드에서 Docker를 시작할 수 없습니다(newuidmap)")),
    Row("docker-masked", STOPS, _PLACE, "{name} masked {which} for themselves: their Docker does not start",
        "{name}: systemctl --user unmask {units}",
        type_command("systemctl --user unmask docker.service docker.socket",
                     "you switched {which} off for yourself (masked)", "본인이 꺼 둠(mask): {which}")),
    Row("docker-data", STOPS, _PLACE, "{name} has no directory for Docker's data", _SYNC,
        Text("add-me-to-docker-user; if that does not help, tell your admins",
             "your place for Docker's data is not right",
             "add-me-to-docker-user를 실행하고 안 되면 관리자에게 알려 주세요",
             "Docker 데이터 디렉터리 문제입니다"),
        {"owner": ("{name}'s directory of Docker's data belongs to uid {owner}",
                   "gpuadmin run HOSTS -- chown {uid}:{uid} {path}")}),
    Row("docker-daemon", STOPS, _DAEMON, "{name}'s Docker daemon does not run; it last said: {words}", _RESTART,
        Text("systemctl --user restart docker.service (your running containers end)", "your Docker daemon: {words}",
             "systemctl --user restart docker.service (실행 중인 컨테이너는 종료됩니다)", "Docker 데몬: {words}"),
        {"silent": ("{name}'s Docker daemon runs and does not answer", _RESTART)}),
    Row("docker-socket", STOPS, _PLACE, "{name}'s Docker socket {wrong}", _RESTART,
        type_command("systemctl --user restart docker.socket", "your Docker socket is missing",
                     "Docker 소켓이 없습니다")),
    Row("container-oom", HINDERS, _DAEMON, "{name}'s container {container} was killed: out of memory",
        "{name} needs a higher --memory, or smaller batches",
        Text("docker run with a larger --memory, or smaller batches", "your container {container} used up its memory",
             "docker run --memory를 늘리거나 배치를 줄이세요", "컨테이너 {container}의 메모리가 부족했습니다"),
        before="memory-limit"),
    Row("container-gpu", HINDERS, _DAEMON, "{name}'s container {container} got no GPU: {error}",
        "gpuadmin diagnose --host HOSTS; gpuadmin list-gpus --limit HOSTS",
        Text("See the names of the GPUs: ls /etc/cdi /run/cdi",
             "your container {container} asked for a GPU that is not there",
             "GPU 이름을 확인하세요: ls /etc/cdi /run/cdi", "컨테이너 {container}: 없는 GPU를 요청했습니다"),
        before="memory-limit"),
    Row("container-killed", HINDERS, _DAEMON,
        "{name}'s container {container} was killed (SIGKILL): by memory of the node, or by docker stop",
        "gpuadmin diagnose --host HOSTS",
        Text("Watch memory while it runs: docker stats",
             "your container {container} was killed: out of memory, or docker stop",
             "실행 중에 메모리를 확인하세요: docker stats",
             "컨테이너 {container}: 강제 종료됨(메모리 부족 또는 docker stop)"),
        before="memory-limit"),
    Row("container-architecture", HINDERS, _DAEMON,
        "{name}'s container {container} is for another processor: its image is {theirs}",
        "{name}: docker pull --platform linux/{here} IMAGE",
        type_command("docker pull --platform linux/{here} IMAGE",
                     "the image of your container {container} is for another processor ({theirs})",
                     "컨테이너 {container}의 이미지는 다른 CPU용입니다({theirs})"),
        before="memory-limit"),
    Row("container-program", HINDERS, _DAEMON,
        "{name}'s container {container} lacks the program that it was told to run",
        "{name}: look at the command after the image's name",
        Text("Look at the command after the image's name",
             "the image of your container {container} has no such program",
             "이미지 이름 뒤에 쓴 명령을 확인하세요", "컨테이너 {container}의 이미지에 그런 프로그램이 없습니다"),
        before="memory-limit"),
    Row("docker-not-given", NOTE, _PLACE, "{name} has no Docker, as the site wants it (docker: false)",
        "only if {name} is to have it: gpuadmin change-user {name} --docker",
        type_command("add-me-to-docker-user", "you have no Docker on this node yet",
                     "이 노드에는 아직 Docker가 없습니다")),
    Row("container", NOTE, _DAEMON, "{name}'s container {container} ended with {status}",
        "{name}: docker logs {container}",
        type_command("docker logs {container}", "your container {container} ended with {status}",
                     "컨테이너 {container}: 끝났습니다(코드 {status})")),
)  # fmt: skip


def judge(facts: Facts, person: Person | None) -> Iterator[Cause]:
    """The causes that lie in a person's daemon, in what it needs, or in their containers."""
    if person is not None and facts["node"]:
        yield from _judge_place(facts, person)
        for ended in (facts.get("containers") or {}).get("ended", ()):
            yield _judge_container(ended, person.name)


def _judge_place(facts: Facts, person: Person) -> Iterator[Cause]:
    """The causes that lie in what a daemon needs, and then in the daemon."""
    found = facts.get("docker")
    uid = ((facts.get("account") or {}).get("passwd") or {}).get("uid")
    if found is None or uid is None or found["subids"] is None:
        return
    tell = partial(ROWS.find, name=person.name, uid=uid)
    words = tuple(found["words"])
    if not person.docker and found["data"] is None:
        yield tell("docker-not-given")
        return
    if not found["installed"]:
        yield tell("docker-missing")
        return
    if found["free"] < FULL or found["inodes_free"] == 0:
        left = "no inode" if found["inodes_free"] == 0 else size_words(found["free"])
        yield tell("docker-disk", *words, left=left, most=size_words(found["bytes"]), place=found["place"])
    short = [f"/etc/{kind}" for kind, count in found["subids"].items() if count < FEW]
    if short:
        counts = ", ".join(f"{kind}: {count}" for kind, count in found["subids"].items())
        yield tell("docker-subids", f"{counts}; an image needs {FEW}", *words, files=" and ".join(short))
    for wrong in found["mappers"]:
        yield tell("docker-mappers", *words, wrong=wrong)
    masked = (facts.get("home") or {}).get("masked") or ()
    if masked:
        yield tell("docker-masked", *words, which=" and ".join(masked), units=" ".join(masked))
    data = found["data"]
    if data is None or not data["directory"]:
        yield tell("docker-data", *words)
    elif data["uid"] != uid:
        yield tell("docker-data/owner", *words, owner=data["uid"], path=data["path"])
    elif (facts.get("sessions") or {}).get("manager") == "active":
        if found["socket"] != "ok":
            yield tell("docker-socket", *words, wrong="is missing" if found["socket"] == "missing" else found["socket"])
        elif not found["daemon"] and words:
            yield tell("docker-daemon", *words, words=_strip_head(words))
        elif "containers" in facts["unknown"]:
            why = facts["unknown"]["containers"]
            yield tell("docker-daemon/silent", why, *words, words=why)


def _strip_head(lines: Sequence[str]) -> str:
    """The last line of a journal without its time, host and program."""
    return lines[-1].split(": ", 1)[-1][:160]


def _judge_container(ended: Facts, name: str) -> Cause:
    """The cause for which a container ended. A daemon's answers are its person's word."""
    error, status = ended["error"], ended["code"]
    lower = error.lower()
    line = f"{ended['name']} ended with {status} at {ended['finished']}" + (f": {error}" if error else "")
    theirs, here = ended["other"] or ("", "")
    code = "container"
    if ended["oom"]:
        code = "container-oom"
    elif theirs:
        code = "container-architecture"
    elif "cdi device" in lower or "nvidia.com/gpu" in lower:
        code = "container-gpu"
    elif status in (126, 127) or "no such file" in lower or "not found" in lower:
        code = "container-program"
    elif status == 137:
        code = "container-killed"
    return ROWS.find(
        code, line, name=name, container=ended["name"], status=status, error=error, theirs=theirs, here=here
    )
