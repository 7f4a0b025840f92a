"""gpuadmin.node.restore_home: restoring from a backup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from .. import background, mounts
from ..answer import Answer
from ..backups import restore, restore_plan
from ..backups.jobs import remote_of, restore_home
from ..documents import BackupHost
from ..errors import nothing_begun


@dataclass(frozen=True)
class Document:
    """Restore a home, or a part of it, from a backup.

    Restores beside what is there, never over it, and compares the copy with the backup's manifest before it
    gets its name.
    The work runs in the unit ``gpuadmin-restore-USER.service``, which goes on when the controller is
    interrupted.
    """

    #: Directory of homes.
    root: str
    #: Directory of backups.
    directory: str
    #: Whose home.
    user: str
    #: Mount point that must be mounted.
    mountpoint: str | None = None
    #: Name of the backup; without it the newest in which the home was verified. From one that is not here the
    #: home comes from the host of the second copies. So it does from the newest verified one, where none that
    #: is here has the home verified.
    backup: str = ""
    #: Where it goes. With ``in-place`` what is there now is moved aside.
    mode: Literal["beside", "in-place", "directory", "archive"] = "beside"
    #: A part of the home.
    path: str = ""
    #: The directory for ``mode=directory``, or for the file of ``mode=archive``.
    target: str | None = None
    #: The person's uid now, where it is another than in the backup.
    uid: int | None = None
    #: Base, size and first uid of the site's subordinate ids; they move with the uid.
    subids: Sequence[int] | None = None
    #: The host of the second copies; None where there is no such host.
    remote: BackupHost | None = None
    #: One word for this run of gpuadmin, the same where Ansible asks once more because ssh broke.
    run_id: str = ""


def operate(document: Document, check: bool) -> Answer:
    given = asdict(document)
    job, run_id = f"restore-{document.user}", given.pop("run_id")
    # guard: what this run restored is not in its own way -> None
    restored = None if check else background.said(job, run_id)
    if restored is not None:
        words = f"restore {document.user} from {restored['backup']} to {restored['target']}"
        return Answer([words], {"restored": restored, "problems": []})
    subids = tuple(given["subids"]) if given["subids"] else None
    remote = None if given["remote"] is None else remote_of(given["remote"])
    request = restore_plan.Request(**{**given, "subids": subids, "remote": remote})
    with nothing_begun():
        plan, backup, away = restore.look(request, mounts.read_mountinfo())
    operations = list(plan.operations)
    if away:
        operations.insert(0, f"take it from the second copy {backup.name} on {given['remote']['host']}")
    restored = {"target": plan.target, "backup": backup.name}
    if not check:  # guard: check mode restores nothing -> True
        arguments = {**given, "backup": backup.name}
        restored = background.perform(job, restore_home, arguments, start=run_id)
    return Answer(operations, {"restored": restored, "problems": []})
