"""A term: its days, the mails about it, backups, and its end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpuadmin.common.text import the_page
from gpuadmin.config.fields import Date, Email, HostName, LocalFile, Path, Text
from gpuadmin.config.schema.base import Model

#: Directories in which everybody may make one, on every Linux.
OPEN_TO_ALL = ("/tmp", "/var/tmp", "/dev/shm")


class NextTerm(Model):
    """The semester after the running one."""

    name: Annotated[Text, Field(description="Its name, such as 2027-1.")]
    deadline: Annotated[Date, Field(description="The day it ends.")]


class Term(Model):
    """The semester that is running."""

    name: Annotated[Text, Field(description="Its name, such as 2026-2.")]
    deadline: Annotated[Date, Field(description="The day it ends.")]
    begin: Annotated[Date | None, Field(description="The day it begins, for `gpuadmin usage --term`.")] = None
    reminders: Annotated[
        list[Annotated[int, Field(ge=0, le=365)]],
        Field(description="How many days before the deadline people are mailed (`gpuadmin notify`)."),
    ] = [14, 7, 1]
    next: Annotated[
        NextTerm | None,
        Field(description="The semester after it: until when `gpuadmin extend-term` extends an account."),
    ] = None

    @model_validator(mode="after")
    def _follows(self) -> Term:
        if self.begin is not None and self.begin > self.deadline:
            raise ValueError(f"begin {self.begin} is after the deadline {self.deadline}")
        if self.next is not None and self.next.deadline <= self.deadline:
            raise ValueError(f"next.deadline {self.next.deadline} is not after this term's {self.deadline}")
        if self.next is not None and self.next.name == self.name:
            raise ValueError(f"next.name is this term's own name, {self.name!r}")
        if len(set(self.reminders)) != len(self.reminders):
            raise ValueError(f"reminders: a number appears twice in {self.reminders}")
        return self


#: The environment variable that comes before `mail.password_file`.
MAIL_PASSWORD = "GPUADMIN_SMTP_PASSWORD"


class Mail(Model):
    """How gpuadmin sends mail. The password is in a file outside the site, or in $GPUADMIN_SMTP_PASSWORD."""

    host: Annotated[HostName, Field(description="The SMTP server.")]
    port: Annotated[
        int | None,
        Field(ge=1, le=65535, description="Its port; without it 587 (starttls), 465 (tls) or 25 (none)."),
    ] = None
    security: Annotated[
        Literal["starttls", "tls", "none"],
        Field(description="How the connection is encrypted. `none` is refused with `user`, except on localhost."),
    ] = "starttls"
    ca_file: Annotated[
        LocalFile | None,
        Field(description="Certificates to trust in place of the system's, for a server of your own CA."),
    ] = None
    user: Annotated[Text | None, Field(description="Whom to log in as; without it no login is tried.")] = None
    password_file: Annotated[
        LocalFile | None,
        Field(
            description="A file that holds the password and that only you can read. "
            "The environment variable GPUADMIN_SMTP_PASSWORD comes before it."
        ),
    ] = None
    sender: Annotated[Email, Field(description="The address that mails come from.")]
    reply_to: Annotated[Email | None, Field(description="Where answers go, if not to the sender.")] = None
    languages: Annotated[
        list[Literal["ko", "en"]],
        Field(
            min_length=1,
            max_length=2,
            description="The languages of every mail, in this order, in one mail. On nodes the first one is for people "
            "whose locale is of none of them.",
        ),
    ] = ["ko", "en"]
    guide: Annotated[Text | None, Field(description="The address of your users' guide, named in mails.")] = None
    attach_guide: Annotated[
        bool,
        Field(description="Whether the mail about a new account carries the guide (`gpuadmin user-guide`) as HTML."),
    ] = False
    login: Annotated[
        list[HostName],
        Field(description="The host names that mails tell people to log in to; without them the nodes' own names."),
    ] = []
    welcome: Annotated[
        bool,
        Field(
            description="Whether `gpuadmin add-user` sends newcomers the mail that applicants get: how to log in, "
            "Docker, conda. `--mail` and `--no-mail` come before it."
        ),
    ] = False
    report: Annotated[
        list[Email],
        Field(description="Who gets each month's report (`gpuadmin report`), in the first of `languages`."),
    ] = []
    directory: Annotated[
        LocalFile | None,
        Field(description="Where mails are written to, a file each, in place of being sent; to try things out."),
    ] = None

    @model_validator(mode="after")
    def _safe(self) -> Mail:
        if self.user is not None and self.security == "none" and self.host not in ("localhost", "127.0.0.1"):
            raise ValueError("security: with `user` a password would cross the network in clear; use starttls or tls")
        if len(set(self.languages)) != len(self.languages):
            raise ValueError("languages: one appears twice")
        return self

    @property
    def server(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port or {"starttls": 587, "tls": 465, "none": 25}[self.security]


class Backups(Model):
    """Backups of the homes: snapshots on the storage host, and a second copy where the group `backup` has a host."""

    directory: Annotated[
        Path | None,
        Field(
            description="Where they are on the storage host, on the homes' file system; without it beside the homes."
        ),
    ] = None
    copies: Annotated[
        Path,
        Field(
            description="Where the second copies are on the host of group `backup`, on btrfs. Each stays 30 days "
            f"after it came, and 48 sets are taken in 24 hours; {the_page('security')} says why these are not settings."
        ),
    ] = "/srv/backups"
    days: Annotated[
        int,
        Field(ge=1, le=36500, description="How many days a backup of a reset or of an admin stays: two quarters."),
    ] = 183
    ordinary: Annotated[int, Field(ge=0, le=10000, description="How many of the timer's backups stay.")] = 14
    schedule: Annotated[
        Text | None,
        Field(description="When the timer makes one, as systemd's OnCalendar; `null` for no timer."),
    ] = "daily"
    home_seconds: Annotated[
        int,
        Field(
            ge=60,
            le=604800,
            description="Seconds that one home may take to be read; after that it is a problem, and the others go on.",
        ),
    ] = 21600
    home_entries: Annotated[
        int,
        Field(
            ge=1000,
            le=1000000000,
            description="How many entries one home may hold; a path counts once more for each KiB of it.",
        ),
    ] = 20000000


class Reset(Model):
    """What the end of a term does on the nodes."""

    scratch: Annotated[
        list[Path],
        Field(
            description="Directories whose entries are wiped with the person they belong to, beside Docker's data. In "
            "each but `/tmp`, `/var/tmp` and `/dev/shm` everybody gets a directory with their account."
        ),
    ] = ["/local", *OPEN_TO_ALL]
    grace: Annotated[
        int, Field(ge=0, le=86400, description="Seconds between the message on terminals and the end of sessions.")
    ] = 300

    @property
    def own_scratch(self) -> list[str]:
        """The directories of scratch in which each person has one of their own: in the others anybody can make one."""
        return [path for path in self.scratch if path not in OPEN_TO_ALL]
