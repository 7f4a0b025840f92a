"""Operations on logins: what people read, what they run, and whether they can come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Optional

from gpuadmin.common.records.bounds import Size
from gpuadmin.common.records.files import File, FilesOrder
from gpuadmin.common.records.hosts import Announcement
from gpuadmin.common.records.people import PersonEntry

from .. import people
from ..answer import Answer
from ..operation import operation
from ..paths import STATE
from ..root.operations import ensure_files
from . import announcements, sessions, terminals


@dataclass(frozen=True)
class AnnouncementsOrder:
    """Have announcements that people read when they log in.

    Records the announcements of a host, and shows those that hold now in ``/run/motd.d``.
    The node shows and removes them by itself when their time comes, by ``gpuadmin-announcements.timer``.
    """

    #: All announcements that this host should have; others are taken back.
    entries: Annotated[Sequence[Announcement], Size(50)]
    #: Directory of this node's own state.
    state_directory: str = STATE


@operation("announcements", AnnouncementsOrder)
def converge_announcements(document: AnnouncementsOrder, check: bool) -> Answer:
    done = announcements.converge(document.entries, check=check, directory=document.state_directory)
    return Answer(done, {"problems": []})


@dataclass(frozen=True)
class LoginAccess:
    """Keep people's jobs and lingering managers from running, and prove that they cannot log in.

    Ends lingering, moves cron and at jobs to the state directory and cancels what waits in Slurm's queue.
    Then fails for whoever could still come in. With ``open`` the jobs come back.
    """

    #: The people. Names and uids differ, and ranges of subordinate ids do not overlap. Where one of them is
    #: refused nothing is done for anybody, because who owns what would not be certain.
    people: Sequence[PersonEntry]
    #: Whether to keep people out.
    state: Literal["closed", "open"] = "closed"
    #: Whether people log in to this host at all.
    login: bool = True
    #: Where accounts come from a directory, the group whose members may log in.
    group: Optional[str] = None
    #: Directory of this node's own state.
    state_directory: str = STATE


@operation("login_access", LoginAccess, each="login_access")
def converge_access(document: LoginAccess, check: bool) -> Answer:
    from . import access

    host = access.Host(state=document.state_directory, group=document.group)
    found = people.parse(document.people)
    plan = access.converge(
        found,
        document.state == "closed",
        host,
        check=check,  # guard: check mode closes no login access -> False
        login=document.login,
    )
    return Answer.of(plan)


@dataclass(frozen=True)
class SessionsOrder:
    """End people's sessions, containers and leftovers, and make sure that nothing is left.

    Tells everybody on their terminals, waits, and ends linger, sessions, user managers with their containers,
    and leftovers.
    Fails for whoever still runs something afterwards. Nobody else is touched.
    """

    #: The people. Names and uids differ, and ranges of subordinate ids do not overlap. Where one of them is
    #: refused nothing is done for anybody, because who owns what would not be certain.
    people: Sequence[PersonEntry]
    #: What terminals show before the grace time.
    message: str = ""
    #: Seconds between the message and the end; shorter when nobody is left.
    grace: int = 0


@operation("sessions", SessionsOrder, each="sessions")
def end_sessions(document: SessionsOrder, check: bool) -> Answer:
    found = people.parse(document.people)
    plan = sessions.converge(
        found,
        message=document.message,
        grace=document.grace,
        check=check,  # guard: check mode ends no sessions -> False
    )
    return Answer.of(plan)


@dataclass(frozen=True)
class SshdKeys:
    """Have sshd read the keys of the site, beside those that it reads by the host's own settings.

    The settings are tried in a copy before they are in place. It fails, with nothing changed, where they would not
    hold, and where somebody who can log in could not any more.
    """

    #: Keyword → value of further settings of sshd's.
    settings: Mapping[str, str] = field(default_factory=dict)


@operation("sshd_keys", SshdKeys)
def ensure_sshd_keys(document: SshdKeys, check: bool) -> Answer:
    from .. import sshd_keys

    wanted = File(sshd_keys.FILE, sshd_keys.plan_text(settings=tuple(document.settings.items())))
    return ensure_files(
        FilesOrder(files=[wanted], after=[("systemctl", "try-reload-or-restart", "ssh.service")]), check
    )


@dataclass(frozen=True)
class Telling:
    """Tell people something on their terminals.

    Writes a message to all terminals that somebody uses, those of ssh and tmux included.
    """

    #: What they read.
    message: str


@operation("tell", Telling)
def tell_people(document: Telling, check: bool) -> Answer:
    return Answer(more={"terminals": 0 if check else terminals.tell(document.message)})
