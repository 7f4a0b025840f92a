"""What hosts log, on the monitor host: a timer holds each host's files within their days and bytes.

systemd-journal-remote writes a host's lines into a directory of that host's, which nginx chooses by its certificate.
"""

from __future__ import annotations

import os
import time

DIRECTORY = "/var/log/gpuadmin-journals"
CURRENT = "remote.journal"  # what the next lines go to


def sweep(days: int, most: int, directory: str = DIRECTORY, now: float | None = None) -> int:
    """Delete what is older than so many days, and of each host what is beyond so many bytes, the oldest first. Exit 0.

    Once a day each host's file is set aside, so that a new one begins; a server that has it open goes on in it. So the
    newest is left, however large, for its days: nobody could read what is written to one that was deleted.
    """
    now = now or time.time()
    for host in [one.path for one in os.scandir(directory) if one.is_dir(follow_symlinks=False)]:
        try:
            _sweep_host(host, days, most, now)
        # guard: a host whose files change meanwhile keeps no other's
        except FileNotFoundError:  # a file that was full has another name now: in a minute once more
            continue
    return 0


def _sweep_host(host: str, days: int, most: int, now: float) -> None:
    files = {one.path: one.stat(follow_symlinks=False) for one in os.scandir(host)}
    total = sum(one.st_blocks * 512 for one in files.values())
    day = f"{host}/remote@{time.strftime('%Y-%m-%d', time.gmtime(now))}.journal"
    newest = max((status.st_mtime for status in files.values()), default=now)
    for path, status in sorted(files.items(), key=lambda one: one[1].st_mtime):
        # guard: one host's lines push out no other's
        if now - status.st_mtime > days * 86400 or (total > most and status.st_mtime < newest):
            os.unlink(path)
            total -= status.st_blocks * 512
        # guard: what was set aside is not replaced -> os.path.basename(path) == CURRENT
        elif os.path.basename(path) == CURRENT and not os.path.exists(day):
            os.rename(path, day)
