"""Programs that run as somebody other than their caller, and root's files that others can change.

find(1) walks. No link is followed, no other file system entered.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

from gpuadmin.common.records.audits import Rank

from ..attributes import attribute_names
from ..mounts import NETWORK, below, parse_mountinfo, read_mountinfo
from ..run import LateError, run_command
from .packages import overridden, owned
from .place import DIFFERS, ROOT, Found, Place

SECONDS = 6.0
CAPABILITIES = "security.capability"
#: Programs that distributions ship setuid, setgid or with capabilities. dpkg does not say which; rpm and pacman do.
KNOWN = frozenset(
    """
    su sudo sudoedit sudoreplay passwd chsh chfn chage expiry gpasswd newgrp sg newuidmap newgidmap mount umount
    fusermount fusermount3 pkexec polkit-agent-helper-1 dbus-daemon-launch-helper ssh-keysign ssh-agent unix_chkpwd
    pam_timestamp_check pam_extrausers_chkpwd crontab at write wall bsd-write ping ping6 traceroute6.iputils
    mtr-packet clockdiff arping utempter mount.nfs mount.cifs ntfs-3g pppd Xorg.wrap snap-confine chrome-sandbox
    bwrap exim4 sendmail postdrop postqueue procmail lockfile dotlockfile dotlock.mailutils mail-lock mail-unlock
    mail-touchlock mlocate plocate locate locate.findutils nvidia-modprobe usernetctl userhelper staprun screen tmux
    starter-suid starter lxc-user-nic vmware-user-suid-wrapper cgexec kismet_capture dumpcap grub2-set-bootflag
    gst-ptp-helper keysign systemd-detect-virt ksu pam-ssh-add pt_chown ecryptfs mount.ecryptfs_private doas
    slurmstepd auth_pam_tool VBoxNetAdpCtl VBoxHeadless cockpit-session pmlogctl camel-lock-helper-1.2
    gnome-keyring-daemon prometheus-blackbox-exporter sudo.ws sudo-rs su-rs
    """.split()  # noqa: SIM905  a list of a hundred quoted names hides what is in it
)
#: What needs its privilege to work, and what stops without it.
NEEDED = {
    "/usr/bin/newuidmap": "rootless Docker does not start",
    "/usr/bin/newgidmap": "rootless Docker does not start",
    "/usr/bin/sudo": "nobody becomes root by it, the admin included",
    "/usr/bin/su": "nobody changes to another account by it",
    "/usr/bin/passwd": "nobody changes their password",
    "/usr/bin/fusermount3": "people cannot mount FUSE file systems",
}
#: What root runs or reads: nobody else may write there.
ROOTS = ("usr", "etc", "boot", "bin", "sbin", "lib", "lib32", "lib64", "opt", "root")
#: Where root keeps what it does not run by itself: an archive that root unpacks has its author's uids.
_NOT_RUN = ("/opt/", "/root/", "/usr/src/", "/usr/local/src/")
#: Where everybody may write; /tmp and the like that are in memory are mostly mounted nosuid.
_EVERYBODYS = ("/tmp", "/var/tmp", "/dev/shm")
#: Where systemd, kernel and containers have things that are not on the host's disks.
_ELSEWHERE = ("/proc", "/sys", "/dev", "/run", "/snap", "/var/lib/docker", "/var/lib/containers")


def programs(place: Place, seconds: float = SECONDS, mountinfo: str | None = None) -> tuple[list[Found], list[str]]:
    """Programs with privileges that no package owns, or is known to ship with them; and what was not walked."""
    tops, aside = _tops(place, read_mountinfo() if mountinfo is None else mountinfo)
    first = [one for one in map(place.path, ("/usr", "/etc")) if os.path.isdir(one)]
    last = [one for one in map(place.path, _EVERYBODYS) if os.path.isdir(one) and not _nosuid(one)]
    special: dict[str, tuple[int, int]] = {}
    capable = set()
    end = time.monotonic() + seconds
    # /usr and /etc come first: nobody can keep the walk from them by making millions of files elsewhere
    for where, but in ((first, []), (tops, [*first, *last]), (last, [])):
        if not where:
            continue  # find would walk the working directory
        records, late = _run(_walk(where, [*but, *[place.path(one) for one in (*_ELSEWHERE, *place.aside)]]), end)
        if late:
            aside.append(f"setuid files: the walk of {', '.join(where)} was stopped after {seconds:g} s")
        for record in records:
            kind, (mode, owner, path) = record[0], record[1:].split(" ", 2)
            if kind == "s":
                special[place.name(path)] = (int(mode, 8), int(owner))
            elif has_capabilities(path):
                capable.add(place.name(path))
    known = owned(place, [*special, *capable])
    given = overridden(place)
    found = []
    for path in sorted({*special, *capable}):
        what = "file capabilities" if path in capable else _what(*special[path])
        if path not in known:  # guard: a setuid program that no package owns is not overlooked
            found.append(Found(path, f"has {what}, and no package owns it"))
        # guard: a packaged program that became setuid is not overlooked
        elif os.path.basename(path) not in KNOWN and path not in given:
            found.append(Found(path, f"has {what}; its package is not known to ship it so"))
    found += _without(place, given)
    return found, aside


def foreign(place: Place, seconds: float = SECONDS) -> tuple[list[Found], list[str]]:
    """What root runs or reads, and somebody else can change: the topmost directory or file alone."""
    there = [place.path(one) for one in ROOTS]
    tops = [one for one in there if os.path.isdir(one) and not os.path.islink(one)]
    command = (
        "find", "-P", *tops, "-xdev", *_but([place.path(one) for one in place.aside]),
        "(", "-type", "f", "-o", "-type", "d", ")",
        "(", "-uid", "+999", "-o", "-perm", "-0002", "!", "-perm", "-1000", ")", "-printf", r"%m %U %p\0", "-prune",
    )  # fmt: skip
    text, late = _run(command, time.monotonic() + seconds)
    aside = [f"owners and modes: the walk of {', '.join(ROOTS)} was stopped after {seconds:g} s"] if late else []
    found = []
    for record in text:
        mode, owner, path = record.split(" ", 2)
        words = f"uid {owner} owns it" if int(owner) > 999 else f"everybody may write it (mode {mode})"
        rank: Rank = DIFFERS if place.name(path).startswith(_NOT_RUN) else ROOT
        found.append(Found(place.name(path), f"{words}: whoever changes it changes what root runs or reads", rank))
    return found, aside


def _walk(tops: Sequence[str], but: Sequence[str]) -> tuple[str, ...]:
    """find(1), for what has a privilege (s) and for programs, which may have capabilities (x), in NUL-ended records."""
    return (
        "find", "-P", *tops, "-xdev", *_but(but), "-type", "f", "(",
        # root left it like that; people can make as many setuid files of their own as they like
        "(", "-perm", "-4000", "-uid", "-1000", "-o", "-perm", "-2000", "-gid", "-1000", ")", "-printf", r"s%m %U %p\0",
        "-o", "-perm", "/111", "-uid", "-1000", "-printf", r"x%m %U %p\0", ")",
    )  # fmt: skip


def _but(paths: Sequence[str]) -> list[str]:
    """What keeps find out of some directories. It takes their names for patterns."""
    # guard: a directory that is left out is not a pattern -> [one for one in paths]
    names = [re.sub(r"([*?\[\]\\])", r"\\\1", one) for one in paths]
    words = [word for one in names for word in ("-o", "-path", one)][1:]
    return ["(", *words, ")", "-prune", "-o"] if words else []


def closed(place: Place, seconds: float = SECONDS) -> list[Found]:
    """Programs of packages that a service owns, or that people cannot run: dpkg does not know owners and
    modes.
    """
    tops = [one for one in (place.path("/usr/bin"), place.path("/usr/sbin")) if os.path.isdir(one)]
    if not tops:
        return []
    command = (
        "find", "-P", *tops, "-xdev", "-type", "f", "!", "-perm", "/6000",
        "(", "-uid", "+0", "-uid", "-1000", "-o", "!", "-perm", "-0001", ")", "-printf", r"%m %U %p\0",
    )  # fmt: skip
    found = []
    for record in _run(command, time.monotonic() + seconds)[0]:
        mode, owner, path = record.split(" ", 2)
        if int(owner):
            found.append(Found(place.name(path), f"uid {owner} owns it: it may change what root runs"))
        else:
            found.append(Found(place.name(path), f"has mode {mode}: people cannot run it", DIFFERS))
    return found


def has_capabilities(path: str) -> bool:
    """Whether a file has capabilities(7) of its own."""
    try:
        return CAPABILITIES in attribute_names(path)
    except OSError:
        return False  # gone


def _without(place: Place, given: dict[str, int]) -> list[Found]:
    """Programs that lost the privilege that they need."""
    found = []
    for path, consequence in NEEDED.items():
        try:
            mode = os.stat(place.path(path)).st_mode & 0o7777
        except OSError:
            continue
        # guard: a program that lost what it needs is not overlooked
        if not mode & 0o6000 and path not in given and not has_capabilities(place.path(path)):
            found.append(Found(path, f"is not setuid (mode {mode:o}): {consequence}", DIFFERS))
    return found


def _what(mode: int, uid: int) -> str:
    bits = "setuid" if mode & 0o4000 else "setgid"
    return f"{bits} {'root ' if uid == 0 and mode & 0o4000 else ''}(mode {mode:o})"


def _tops(place: Place, mountinfo: str) -> tuple[list[str], list[str]]:
    """Where the walks begin: / and what is mounted below it from this host's disks; and what is left out, in words."""
    if place.root != "/":
        return [place.root], []
    tops, aside, seen = ["/"], [], {os.stat("/").st_dev}
    for mount in parse_mountinfo(mountinfo):
        if mount.point == "/" or any(below(one, [mount]) for one in (*_ELSEWHERE, *place.aside)):
            continue
        if NETWORK.match(mount.fstype) or mount.fstype in ("autofs", "proc", "sysfs", "cgroup2", "squashfs"):
            continue
        try:
            device = os.stat(mount.point).st_dev
            without = _nosuid(mount.point)
        except OSError:
            continue
        if without or device in seen:
            continue
        seen.add(device)
        tops.append(mount.point)
    skipped = [one for one in place.aside if os.path.isdir(one)]
    if skipped:
        aside.append(f"setuid files: not in {', '.join(skipped)}, which are people's")
    return tops, aside


def _nosuid(path: str) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_NOSUID)


def _run(command: Sequence[str], end: float) -> tuple[list[str], bool]:
    """What find printed, record by record, and whether it was stopped. What it cannot enter vanished meanwhile."""
    try:
        text, late = run_command(command, seconds=max(end - time.monotonic(), 0.1)).stdout, False
    except LateError as error:
        text, late = (
            error.output.rpartition("\0")[0],
            True,  # guard: a walk that was stopped says so -> False
        )
    return [one for one in text.split("\0") if one], late
