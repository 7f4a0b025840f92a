"""What is wrong with a host itself, whoever asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuadmin.common.text import counted, listed, size_words

from .cause import Cause, Facts

FULL = 64 << 20  # bytes: less, and daemons of the system fail
LITTLE = 0.03  # of all memory
# it enables whichever service is installed, and says so where there is none
_CLOCK = (
    "gpuadmin run HOSTS -- timedatectl set-ntp true; "
    "where it says that NTP is not supported: install systemd-timesyncd or chrony"
)


def machine(facts: Facts) -> Iterator[Cause]:
    """Memory, disks, names, units, what boots next. How far a clock is off only another machine can say."""
    yield from _disks(facts.get("disks") or ())
    yield from _memory(facts.get("memory"))
    if (facts.get("clock") or {}).get("synchronized") is False:
        yield Cause("clock-free", "nothing keeps the clock right", _CLOCK)
    for name, found in (facts.get("names") or {}).items():
        if found["problem"]:
            cause = f"the name {name} cannot be found: {found['problem']}"
            yield Cause("names", cause, "gpuadmin run HOSTS -- resolvectl status")
    if "names" in facts["late"]:
        cause = "names are not found: the name service does not answer"
        yield Cause("names", cause, "gpuadmin run HOSTS -- cat /etc/resolv.conf")
    for server, problem in ((facts.get("dns") or {}).get("problems") or {}).items():
        cause = f"the name server {server} does not answer: {problem}"
        yield Cause("dns", cause, "gpuadmin run HOSTS -- cat /etc/resolv.conf", (), (server,))
    for place, mode in (facts.get("temporary") or {}).items() if facts["node"] else ():
        if mode is None or mode & 0o1777 != 0o1777:
            cause = f"{place} is {'missing' if mode is None else f'closed to people: it has mode {mode:04o}'}"
            make = f"mkdir -m 1777 {place}" if mode is None else f"chmod 1777 {place}"
            yield Cause("tmp", cause, f"gpuadmin run HOSTS -- {make}", (), (place,))
    units = facts.get("units")
    if units:
        cause = f"{counted(len(units), 'unit')} of the system failed: {listed(units, 4)}"
        yield Cause("units", cause, f"gpuadmin run HOSTS -- systemctl status {units[0]}")
    yield from _boot(facts)


def _disks(disks: Sequence[Facts]) -> Iterator[Cause]:
    for disk in disks:
        where = disk["mount"]
        largest = f"gpuadmin run HOSTS -- du -xh --max-depth=2 {where}"
        # a small file system (/run of a small machine) is full when a hundredth of it is left
        if disk["free"] < min(FULL, disk["bytes"] // 100):
            cause = f"the disk of {where} is full: {size_words(disk['free'])} of {size_words(disk['bytes'])} free"
            if disk["type"] == "quota":
                cause += " for people; the rest is kept for root"
            yield Cause("disk-full", cause, largest, (disk["type"],), (where,))
        elif disk["inodes"] and not disk["inodes_free"]:
            cause = f"the disk of {where} has no inode left: no new file can be made"
            yield Cause("disk-inodes", cause, largest, (disk["type"],), (where,))
        if disk["read_only"] and where in ("/var", "/local", "/tmp"):
            yield Cause(
                "disk-read-only", f"{where} is read-only", "gpuadmin run HOSTS -- dmesg --level=err", (), (where,)
            )


def _memory(memory: Facts | None) -> Iterator[Cause]:
    if memory is None:
        return
    if memory["total"] and memory["available"] < memory["total"] * LITTLE:
        left, most = size_words(memory["available"]), size_words(memory["total"])
        remedy = "gpuadmin run HOSTS -- ps -eo user,rss,comm --sort=-rss"
        yield Cause("memory", f"memory is used up: {left} of {most} left", remedy, (), (left, most))
    if memory["kills"]:
        cause = "the kernel killed processes because memory ran out"
        yield Cause("memory-kills", cause, "gpuadmin run HOSTS -- journalctl -k -g oom", tuple(memory["kills"]))


def _boot(facts: Facts) -> Iterator[Cause]:
    image: dict[str, Any] | None = facts.get("image")
    if image is not None:
        if image["current"] != image["running"]:
            cause = f"it runs {image['running']} on trial; the next boot takes {image['trial'] or image['current']}"
            yield Cause("trial", cause, "wait for the health checks: gpuadmin status")
        elif image["trial"]:
            remedy = f"gpuadmin push-image {image['trial']} --limit HOSTS"
            yield Cause("trial", f"the next boot tries {image['trial']}", remedy)
        last = image["last"] or {}
        if last.get("stage") == "failed":
            yield Cause("trial", f"{last.get('image')} failed there: {last.get('reason')}", "gpuadmin list-images")
        if image["drift"]:
            yield Cause("drift", "; ".join(image["drift"]), "gpuadmin drift --limit HOSTS")
    if (facts.get("reboot") or {}).get("asked"):
        yield Cause("reboot", "packages wait for a reboot", "gpuadmin reboot HOSTS --when-idle")


def unknown(facts: Facts, but: frozenset[str]) -> Iterator[Cause]:
    """What could not be looked at, besides what another cause already explains."""
    for part, why in sorted(facts["unknown"].items()):
        if part not in but:
            remedy = "gpuadmin diagnose --host HOSTS again; gpuadmin ssh HOSTS"
            yield Cause("unknown", f"{part}: not known, {why}", remedy, (), (part,))
