"""What is wrong with a host itself, whoever asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuadmin.diagnosis.finding import Finding
from gpuadmin.text import counted, listed, size_words

Facts = Mapping[str, Any]
FULL = 64 << 20  # bytes: less, and daemons of the system fail
LITTLE = 0.03  # of all memory
SKEW = 30.0  # seconds: with more, Kerberos, TLS and make go wrong; what ssh and Ansible take is far below


def machine(host: str, facts: Facts, now: float) -> Iterator[Finding]:
    """Memory, disks, clock, names, units. `now`: seconds since 1970 on the controller when the host answered."""
    yield from _disks(host, facts.get("disks") or ())
    yield from _memory(host, facts.get("memory"))
    yield from _clock(host, facts.get("clock"), now)
    here = (host,)
    for name, found in (facts.get("names") or {}).items():
        if found["problem"]:
            cause = f"the name {name} cannot be found: {found['problem']}"
            yield Finding("names", cause, "gpuadmin run HOSTS -- resolvectl status", (), here)
    if "names" in facts["late"]:
        cause = "names are not found: the name service does not answer"
        yield Finding("names", cause, "gpuadmin run HOSTS -- cat /etc/resolv.conf", (), here)
    bare = [gpu.split()[0] for gpu in facts.get("gpus") or () if gpu.endswith(" none")]
    if bare:
        cause = f"{counted(len(bare), 'GPU')} without a driver: {listed(bare, 4)}"
        yield Finding("gpu-driver", cause, "gpuadmin provision --limit HOSTS", (), here)
    units = facts.get("units")
    if units:
        cause = f"{counted(len(units), 'unit')} of the system failed: {listed(units, 4)}"
        yield Finding("units", cause, f"gpuadmin run HOSTS -- systemctl status {units[0]}", (), here)
    yield from _boot(host, facts)


def _disks(host: str, disks: Sequence[Facts]) -> Iterator[Finding]:
    here = (host,)
    for disk in disks:
        where = disk["mount"]
        largest = f"gpuadmin run HOSTS -- du -xh --max-depth=2 {where}"
        # a small file system (/run of a small machine) is full when a hundredth of it is left
        if disk["free"] < min(FULL, disk["bytes"] // 100):
            cause = f"the disk of {where} is full: {size_words(disk['free'])} of {size_words(disk['bytes'])} free"
            yield Finding("disk-full", cause, largest, (f"{host}: {disk['type']}",), here)
        elif disk["inodes"] and not disk["inodes_free"]:
            cause = f"the disk of {where} has no inode left: no file can be made"
            yield Finding("disk-inodes", cause, largest, (f"{host}: {disk['type']}",), here)
        if disk["read_only"] and where in ("/var", "/local", "/tmp"):
            cause = f"{where} is read-only"
            yield Finding("disk-read-only", cause, "gpuadmin run HOSTS -- dmesg --level=err", (), here)


def _memory(host: str, memory: Facts | None) -> Iterator[Finding]:
    if memory is None:
        return
    here = (host,)
    if memory["total"] and memory["available"] < memory["total"] * LITTLE:
        cause = f"memory is used up: {size_words(memory['available'])} of {size_words(memory['total'])} left"
        yield Finding("memory", cause, "gpuadmin run HOSTS -- ps -eo user,rss,comm --sort=-rss", (), here)
    if memory["kills"]:
        cause = "the kernel killed processes because memory ran out"
        evidence = tuple(f"{host}: {line}" for line in memory["kills"])
        yield Finding("memory-kills", cause, "gpuadmin run HOSTS -- journalctl -k -g oom", evidence, here)


def _clock(host: str, clock: Facts | None, now: float) -> Iterator[Finding]:
    if clock is None:
        return
    off = clock["seconds"] - now
    fix = "gpuadmin run HOSTS -- systemctl restart systemd-timesyncd chrony"
    if abs(off) > SKEW:
        cause = f"the clock is {counted(round(abs(off)), 'second')} {'ahead' if off > 0 else 'behind'}"
        yield Finding("clock", cause, fix, (f"{host}: compared with this machine",), (host,))
    elif clock["synchronized"] is False:
        yield Finding("clock-free", "nothing keeps the clock right", fix, (), (host,))


def _boot(host: str, facts: Facts) -> Iterator[Finding]:
    image, here = facts.get("image"), (host,)
    if image is not None:
        if image["current"] != image["running"]:
            cause = f"it runs {image['running']} on trial; the next boot takes {image['trial'] or image['current']}"
            yield Finding("trial", cause, "wait for the health checks: gpuadmin status", (), here)
        elif image["trial"]:
            cause = f"the next boot tries {image['trial']}"
            yield Finding("trial", cause, f"gpuadmin push-image {image['trial']} --limit HOSTS", (), here)
        last = image["last"] or {}
        if last.get("stage") == "failed":
            cause = f"{last.get('image')} failed there: {last.get('reason')}"
            yield Finding("trial", cause, "gpuadmin list-images", (), here)
        if image["drift"]:
            yield Finding("drift", "; ".join(image["drift"]), "gpuadmin drift --limit HOSTS", (), here)
    reboot = facts.get("reboot")
    if reboot is not None and reboot["asked"]:
        yield Finding("reboot", "packages wait for a reboot", "gpuadmin run HOSTS -- systemctl reboot", (), here)


def unknown(host: str, facts: Facts, but: frozenset[str]) -> Iterator[Finding]:
    """What could not be looked at, besides what another finding already explains."""
    for part, why in sorted(facts["unknown"].items()):
        if part not in but:
            remedy = "gpuadmin diagnose --host HOSTS again; gpuadmin ssh HOSTS"
            yield Finding("unknown", f"{part}: not known, {why}", remedy, (), (host,))
