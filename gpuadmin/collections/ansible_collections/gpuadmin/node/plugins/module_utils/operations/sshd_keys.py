"""gpuadmin.node.sshd_keys: sshd finds people's keys on the host, and wherever it looked for them before."""

from __future__ import annotations

from dataclasses import dataclass

from ..answer import Answer
from ..sshd_keys import FILE, plan_text
from ..system import family, os_release
from . import files


@dataclass(frozen=True)
class Document:
    """Have sshd read the keys of the site, beside those that it reads by the host's own settings.

    The settings are tried in a copy before they are in place. It fails, with nothing changed, where they would not
    hold, and where somebody who can log in could not any more.
    """


def operate(document: Document, check: bool) -> Answer:
    unit = "ssh.service" if family(os_release()) == "debian" else "sshd.service"
    wanted = files.WantedFile(FILE, plan_text())
    return files.operate(files.Document(files=[wanted], after=[("systemctl", "try-reload-or-restart", unit)]), check)
