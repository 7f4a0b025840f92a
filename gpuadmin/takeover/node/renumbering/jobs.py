"""What else on a host has ids inside: the headers of at jobs, and what admins have written into files of the system."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence

from ansible_collections.gpuadmin.node.plugins.module_utils.files import read_bytes, write_atomic

AT_JOBS = ("var/spool/cron/atjobs", "var/spool/at")
LARGEST = 16 << 20  # bytes; anything larger is not a job
_HEADER = re.compile(rb"\A#!/bin/sh\n# atrun uid=\d+ gid=\d+\n")
_COMMENT = re.compile(rb"\s*#(?![0-9])")  # in sudoers `#1001` is a uid
#: Files of the system in which an admin may have written a uid.
WRITTEN = ("etc/fstab", "etc/exports", "etc/exports.d", "etc/sudoers", "etc/sudoers-rs", "etc/sudoers.d",
           "etc/tmpfiles.d",
           "etc/security/limits.conf", "etc/security/limits.d", "etc/projid", "etc/auto.master.d")  # fmt: skip
#: The same of a name.
NAMED = ("etc/ssh/sshd_config", "etc/ssh/sshd_config.d", "etc/security/access.conf", "etc/security/group.conf",
         "etc/aliases", "etc/crontab", "etc/cron.d", "etc/cron.allow", "etc/cron.deny", "etc/at.allow", "etc/at.deny",
         "etc/systemd/system")  # fmt: skip


def correct_at_jobs(root: str, groups: dict[int, int]) -> int:
    """Have each at job name its owner's ids: atd runs no other. ``groups``: uid → gid. Returns how many it changed."""
    changed = 0
    for directory in AT_JOBS:
        path = os.path.join(root, directory)
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
            job = os.path.join(path, name)
            facts = os.lstat(job)
            # guard: only an at job is rewritten
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST or facts.st_uid not in groups:
                continue
            data = read_bytes(job) or b""
            head = b"#!/bin/sh\n# atrun uid=%d gid=%d\n" % (facts.st_uid, groups[facts.st_uid])
            fixed = _HEADER.sub(head, data, count=1)
            if fixed != data:
                write_atomic(job, fixed, mode=stat.S_IMODE(facts.st_mode))
                os.utime(job, ns=(facts.st_atime_ns, facts.st_mtime_ns))
                changed += 1
    return changed


def written(root: str, uids: Sequence[int], names: Sequence[str] = ()) -> list[str]:
    """Where files of the system name one of these uids or people: an admin looks at them."""
    by_uid = _make_word_pattern([b"%d" % one for one in sorted(set(uids))], rb"0-9.")
    by_name = _make_word_pattern([re.escape(os.fsencode(one)) for one in sorted(set(names))], rb"A-Za-z0-9_.-")
    found: list[str] = []
    for name in (*WRITTEN, *NAMED) if uids or names else ():
        path = os.path.join(root, name)
        files = [os.path.join(path, one) for one in sorted(os.listdir(path))] if os.path.isdir(path) else [path]
        patterns = [one for one in (by_uid if name in WRITTEN else None, by_name) if one is not None]
        for file in files:
            if not os.path.isfile(file):
                continue
            for number, line in enumerate((read_bytes(os.path.realpath(file)) or b"").split(b"\n"), 1):
                if not _COMMENT.match(line) and any(one.search(line) for one in patterns):
                    found.append(f"{file}:{number}")
    return found[:50]


def _make_word_pattern(words: Sequence[bytes], inside: bytes) -> re.Pattern[bytes] | None:
    """What matches one of these words, with none of the characters ``inside`` before or after it."""
    return re.compile(rb"(?<![%s])(?:%s)(?![%s])" % (inside, b"|".join(words), inside)) if words else None
