"""A timer of your own on this machine that runs a verb on a site every day: units of `systemctl --user`.

Here and not on a host of the cluster: users.yml, the ledger of mails and the mail server's password are here, and
another place that has them would be a second one to keep right: docs/decisions/0041-reminders-from-the-controller.md
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.errors import GpuadminError


@dataclass(frozen=True)
class Timer:
    """The two units: their common name, and their texts by file name."""

    name: str
    files: dict[str, str]


def notify_timer(site: Path, *, python: str = sys.executable) -> Timer:
    """Given a site's directory, return the units that run `notify` there every morning, and again after a failure."""
    return _timer(site, python, "notify", "Mail the reminders that are due", "Every morning", "*-*-* 09:00")


def report_timer(site: Path, *, python: str = sys.executable) -> Timer:
    """The same for `report`, on the first day of each month."""
    return _timer(site, python, "report", "Mail the last month's report", "Every month", "*-*-01 09:00")


def _timer(site: Path, python: str, verb: str, does: str, often: str, when: str) -> Timer:
    digest = hashlib.sha256(str(site).encode()).hexdigest()[:8]
    slug = re.sub(r"[^a-z0-9]+", "-", site.name.lower()).strip("-") or "site"
    name = f"gpuadmin-{verb}-{slug}-{digest}"
    command = " ".join(quoted(word) for word in (python, "-m", "gpuadmin", verb, "--yes", "--site", str(site)))
    service = f"""\
# Managed by gpuadmin {verb} --install-timer.
[Unit]
Description={does} ({name})
# The server may be away for hours; it is not tried for ever: there is another mail run the next time.
StartLimitIntervalSec=20h
StartLimitBurst=10

[Service]
Type=oneshot
ExecStart={command}
Restart=on-failure
RestartSec=15min
# A mistake in the site's files does not go away by itself.
RestartPreventExitStatus=2
"""
    timer = f"""\
# Managed by gpuadmin {verb} --install-timer.
[Unit]
Description={often}: {name}.service

[Timer]
OnCalendar={when}
RandomizedDelaySec=10min
# A time at which this machine was off is made up for.
Persistent=true

[Install]
WantedBy=timers.target
"""
    return Timer(name, {f"{name}.service": service, f"{name}.timer": timer})


def quoted(word: str) -> str:
    """A word of ExecStart= (systemd.service(5)): specifiers, variables and quotes are taken literally."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def directory() -> Path:
    """Where a person's own units are."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "systemd" / "user"


def install(timer: Timer) -> None:
    """Write the units and start the timer. Raises GpuadminError if there is no user manager of systemd: nothing new
    stays then.
    """
    _need_systemctl()
    folder = directory()
    folder.mkdir(parents=True, exist_ok=True)
    new = [path for name in timer.files if not (path := folder / name).exists()]
    try:
        for name, text in timer.files.items():
            write_atomically(folder / name, text, mode=0o644)
        _systemctl("daemon-reload")
        _systemctl("enable", "--now", f"{timer.name}.timer")
    except BaseException:
        # one that is enabled would run after the next login, although this said that it failed
        wanted = folder / "timers.target.wants" / f"{timer.name}.timer"
        for path in [*new, *([wanted] if new else [])]:
            path.unlink(missing_ok=True)
        raise


def remove(timer: Timer) -> bool:
    """Stop the timer and remove its units. Returns whether there was one."""
    _need_systemctl()
    files = [path for name in timer.files if (path := directory() / name).exists()]
    if not files:
        return False
    _systemctl("disable", "--now", f"{timer.name}.timer")
    for path in files:
        path.unlink()
    _systemctl("daemon-reload")
    return True


def _need_systemctl() -> None:
    if shutil.which("systemctl") is None:
        raise GpuadminError(
            "there is no systemctl on this machine", hint="run `gpuadmin notify --yes --site DIR` daily by cron"
        )


def _systemctl(*arguments: str) -> None:
    command = ("systemctl", "--user", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GpuadminError(
            f"{' '.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}",
            hint="it needs a login session of your own (not su or sudo), or a daily cron job instead",
        )
