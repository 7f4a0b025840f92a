"""Causes in a host itself: disks, memory, names, the clock, units, the next boot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..records.diagnosis import RegisteredPerson as Person
from ..text import counted, listed, size_words
from .cause import HINDERS, NOTE, STOPS, UNKNOWN, Cause, Facts, Row, Table, Text, Thing, tell_admins

FULL = 64 << 20  # bytes: with less, daemons of the system fail
LITTLE = 0.03  # of all memory
_DISKS, _NAMES = Thing("disks", "disks"), Thing("the storage host's name", "names")
_MEMORY, _CLOCK, _IMAGE = Thing("memory", "memory"), Thing("clock", "clock"), Thing("image", "image")
_LARGEST = "gpuadmin run HOSTS -- du -xh --max-depth=2 {where}"
_RESOLVERS = "gpuadmin run HOSTS -- cat /etc/resolv.conf"
_SILENT = "it cannot be asked: {why}"
_STATUS = "; then: gpuadmin status"
ROWS = Table(
    Row("host-silent", STOPS, None, _SILENT, f"look at its power and its network{_STATUS}", None,
        {"name": (_SILENT, f"put its address there (ansible_host), or correct its name{_STATUS}"),
         "way": (_SILENT, f"{{way}}{_STATUS}"),
         "sshd": (_SILENT, "it runs, and its sshd does not: at its console, systemctl status ssh sshd" + _STATUS),
         "nologin": (_SILENT, "log in as root (at its console, or by ssh) "
                              "and look for /etc/nologin and /run/nologin")},
        before="nologin"),
    Row("tmp", STOPS, Thing("/tmp and /var/tmp", "temporary"),
        "{place} is closed to people: it has mode {mode:04o}", "gpuadmin run HOSTS -- chmod 1777 {place}",
        tell_admins("nobody may write to {place} on this node", "이 노드의 {place}에 아무도 쓸 수 없습니다"),
        {"missing": ("{place} is missing", "gpuadmin run HOSTS -- mkdir -m 1777 {place}")}, before="quota"),
    Row("disk-full", STOPS, _DISKS, "the disk of {where} is full: {left} of {most} free{people}", _LARGEST,
        Text("Delete what you have in {where}, and tell your admins", "the disk of {where} is full",
             "{where}에 있는 본인 파일을 지우고 관리자에게 알려 주세요", "{where} 디스크가 가득 찼습니다")),
    Row("disk-inodes", STOPS, _DISKS, "the disk of {where} has no inode left: no new file can be made", _LARGEST,
        Text("Delete small files that you have in {where}, and tell your admins",
             "no more files fit on the disk of {where}",
             "{where}에 있는 작은 파일을 지우고 관리자에게 알려 주세요",
             "{where} 디스크에 더 이상 파일을 만들 수 없습니다")),
    Row("disk-read-only", STOPS, _DISKS, "{where} is read-only", "gpuadmin run HOSTS -- dmesg --level=err",
        tell_admins("{where} is read-only", "{where}에 쓸 수 없습니다(읽기 전용)")),
    Row("names", STOPS, _NAMES, "the name {name} cannot be found: {problem}", "gpuadmin run HOSTS -- resolvectl status",
        tell_admins("this node does not find the storage host", "이 노드가 스토리지 서버를 찾지 못합니다"),
        {"late": ("names are not found: the name service does not answer", _RESOLVERS)}),
    Row("dns", HINDERS, Thing("name servers", "dns"), "the name server {server} does not answer: {problem}", _RESOLVERS,
        tell_admins("the name server {server} does not answer", "이름 서버 {server}: 응답하지 않습니다"),
        before="gpu-lost"),
    Row("memory", HINDERS, _MEMORY, "memory is used up: {left} of {most} left",
        "gpuadmin run HOSTS -- ps -eo user,rss,comm --sort=-rss",
        Text("Use less memory, or another node", "this node has {left} of {most} memory left",
             "메모리를 줄이거나 다른 노드를 쓰세요", "이 노드의 메모리가 {most} 중 {left} 남았습니다")),
    Row("memory-kills", HINDERS, _MEMORY, "the kernel killed processes because memory ran out",
        "gpuadmin run HOSTS -- journalctl -k -g oom", None),
    Row("clock", HINDERS, _CLOCK, "the clock is {off}", "gpuadmin run HOSTS -- systemctl restart {service}", None,
        {"free": ("the clock is {off}", "install systemd-timesyncd or chrony there, "
                                        "then: gpuadmin run HOSTS -- timedatectl set-ntp true")}),
    Row("trial", HINDERS, _IMAGE, "it runs {running} on trial; the next boot takes {next}",
        "wait for the health checks: gpuadmin status", None,
        {"next": ("the next boot tries {next}", "gpuadmin push-image {next} --limit HOSTS"),
         "failed": ("{image} failed there: {reason}", "gpuadmin list-images")}),
    # a fault of now comes before a fault of the next boot
    Row("gpu-kernels", HINDERS, Thing("GPU drivers of all kernels", "kernels"),
        "the GPUs would not work after a boot: {first}{more}",
        "gpuadmin drift --limit HOSTS; where gpuadmin installs the driver: gpuadmin provision --limit HOSTS", None),
    Row("unknown", UNKNOWN, None, "{part}: not known, {why}",
        "gpuadmin diagnose --host HOSTS again; gpuadmin ssh HOSTS",
        Text("Ask again; if it stays so, tell your admins", "this could not be looked at: {part}",
             "다시 실행해 보고, 계속되면 관리자에게 알려 주세요", "확인하지 못했습니다: {part}")),
    Row("units", NOTE, Thing("units", "units"), "{units} of the system failed: {names}",
        "gpuadmin run HOSTS -- systemctl status {first}", None),
    Row("reboot", NOTE, Thing("waiting reboots", "reboot"), "packages wait for a reboot",
        "gpuadmin reboot HOSTS --when-idle",
        Text("Save checkpoints", "this node is to be rebooted after an upgrade",
             "체크포인트를 저장해 두세요", "업그레이드 후 재부팅이 필요한 노드입니다")),
    # set-ntp enables the service that is installed, and says so where there is none
    Row("clock-free", NOTE, _CLOCK, "nothing keeps the clock right",
        "gpuadmin run HOSTS -- timedatectl set-ntp true; "
        "where it says that NTP is not supported: install systemd-timesyncd or chrony",
        tell_admins("nothing keeps the clock of this node right", "이 노드의 시계가 동기화되지 않습니다")),
    Row("drift", NOTE, _IMAGE, "{words}", "gpuadmin drift --limit HOSTS", None),
)  # fmt: skip
_found = ROWS.find


def judge(facts: Facts, _person: Person | None) -> Iterator[Cause]:
    """The causes that lie in the host. Only another machine can say how far a clock is off."""
    for disk in facts.get("disks") or ():
        yield from _judge_disk(disk)
    yield from _judge_memory(facts.get("memory"))
    if (facts.get("clock") or {}).get("synchronized") is False:
        yield _found("clock-free")
    for name, found in (facts.get("names") or {}).items():
        if found["problem"]:
            yield _found("names", name=name, problem=found["problem"])
    if "names" in facts["late"]:
        yield _found("names/late")
    for server, problem in ((facts.get("dns") or {}).get("problems") or {}).items():
        yield _found("dns", server=server, problem=problem)
    for place, mode in (facts.get("temporary") or {}).items() if facts["node"] else ():
        if mode is None or mode & 0o1777 != 0o1777:
            yield _found("tmp/missing" if mode is None else "tmp", place=place, mode=mode)
    units = facts.get("units")
    if units:
        yield _found("units", units=counted(len(units), "unit"), names=listed(units, 4), first=units[0])
    yield from _judge_boot(facts)


def _judge_disk(disk: Facts) -> Iterator[Cause]:
    """The causes that lie in one local file system."""
    where = disk["mount"]
    # a small file system (/run of a small machine) is full when a hundredth of it is left
    if disk["free"] < min(FULL, disk["bytes"] // 100):
        people = " for people; the rest is kept for root" if disk["type"] == "quota" else ""
        left, most = size_words(disk["free"]), size_words(disk["bytes"])
        yield _found("disk-full", disk["type"], where=where, left=left, most=most, people=people)
    elif disk["inodes"] and not disk["inodes_free"]:
        yield _found("disk-inodes", disk["type"], where=where)
    if disk["read_only"] and where in ("/var", "/local", "/tmp"):
        yield _found("disk-read-only", where=where)


def _judge_memory(memory: Facts | None) -> Iterator[Cause]:
    """The causes that lie in a host's memory."""
    if memory is None:
        return
    if memory["total"] and memory["available"] < memory["total"] * LITTLE:
        yield _found("memory", left=size_words(memory["available"]), most=size_words(memory["total"]))
    if memory["kills"]:
        yield _found("memory-kills", *memory["kills"])


def _judge_boot(facts: Facts) -> Iterator[Cause]:
    """The causes that lie in what a host boots next: kernels without a GPU driver, images, packages that wait."""
    kernels = facts.get("kernels")
    if kernels:
        more = f" (and {len(kernels) - 1} more)" if len(kernels) > 1 else ""
        yield _found("gpu-kernels", *kernels, first=kernels[0], more=more)
    image: dict[str, Any] | None = facts.get("image")
    if image is not None:
        if image["current"] != image["running"]:
            yield _found("trial", running=image["running"], next=image["trial"] or image["current"])
        elif image["trial"]:
            yield _found("trial/next", next=image["trial"])
        last = image["last"] or {}
        if last.get("stage") == "failed":
            yield _found("trial/failed", image=last.get("image"), reason=last.get("reason"))
        if image["drift"]:
            yield _found("drift", words="; ".join(image["drift"]))
    if (facts.get("reboot") or {}).get("asked"):
        yield _found("reboot")


def judge_unknown(facts: Facts, but: frozenset[str]) -> Iterator[Cause]:
    """The parts that could not be looked at, besides those that another cause explains."""
    for part, why in sorted(facts["unknown"].items()):
        if part not in but:
            yield _found("unknown", part=part, why=why)
