"""The schema of a site: what may stand in gpuadmin.yml and users.yml, and what is meant when it does not.

One definition serves validation, the JSON Schema for editors, and the reference page in docs/.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpuadmin.config.fields import Date, Email, HostName, LocalFile, Path, Pattern, SshKey, Text, UserName

# Below 1000 are system accounts, 60001-60513 belong to systemd-homed, 61184-65519 to its dynamic users, 65534 is
# nobody: https://systemd.io/UIDS-GIDS. docs/decisions/0002-uids-and-subids.md has the whole reasoning.
LOWEST_HUMAN_UID, HIGHEST_HUMAN_UID = 1000, 60000
HIGHEST_SUBID = 2**32 - 2  # 2**32 - 1 is the kernel's "no uid"


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Admin(Model):
    """How gpuadmin reaches the hosts."""

    user: Annotated[
        Text, Field(description="The account that gpuadmin logs in as; it has sudo and is not a person's.")
    ] = "gpuadmin"
    ssh_key: Annotated[
        Text | None,
        Field(description="Private key file for that account; without it ssh's own defaults apply."),
    ] = None


class Accounts(Model):
    """Where people's accounts come from and which ids they get."""

    source: Annotated[
        Literal["registry", "directory"],
        Field(
            description="`registry`: users.yml is the truth and gpuadmin makes the accounts. "
            "`directory`: LDAP, SSSD or another NSS source makes them, gpuadmin does the rest."
        ),
    ] = "registry"
    uid_first: Annotated[
        int, Field(ge=LOWEST_HUMAN_UID, le=HIGHEST_HUMAN_UID, description="First uid of people's accounts.")
    ] = 20000
    uid_last: Annotated[
        int, Field(ge=LOWEST_HUMAN_UID, le=HIGHEST_HUMAN_UID, description="Last uid of people's accounts.")
    ] = 49999
    group: Annotated[UserName, Field(description="The group that every person's account belongs to.")] = "gpuusers"
    gid: Annotated[int, Field(ge=LOWEST_HUMAN_UID, le=HIGHEST_HUMAN_UID, description="That group's id.")] = 19999
    shell: Annotated[Path, Field(description="Login shell of new accounts.")] = "/bin/bash"

    @model_validator(mode="after")
    def _ranges(self) -> Accounts:
        if self.uid_first > self.uid_last:
            raise ValueError(f"uid_first {self.uid_first} is above uid_last {self.uid_last}")
        if self.uid_first <= self.gid <= self.uid_last:
            raise ValueError(f"gid {self.gid} lies in the range of people's ids ({self.uid_first}-{self.uid_last})")
        return self


class Subids(Model):
    """Subordinate ids for rootless containers: start = base + (uid - uid_first) * size."""

    base: Annotated[int, Field(ge=65536, le=HIGHEST_SUBID, description="Start of the first person's range.")] = 2**31
    size: Annotated[int, Field(ge=65536, le=2**24, description="Ids per person; containers expect 65536.")] = 65536


class Homes(Model):
    """People's homes: served by the storage host over NFSv4, mounted on every node."""

    path: Annotated[Path, Field(description="Where nodes mount the homes.")] = "/home"
    export: Annotated[Path, Field(description="The homes' directory on the storage host.")] = "/srv/storage/homes"
    mountpoint: Annotated[
        Path | None,
        Field(
            description="The file system that must be mounted on the storage host before a home is made there. "
            "Without it, whatever is mounted nearest above `export` must not be the root file system."
        ),
    ] = None
    skeleton: Annotated[Path, Field(description="What a new home begins with, on the storage host.")] = "/etc/skel"
    server: Annotated[
        HostName | None,
        Field(description="The storage host's inventory name; without it the first of group `storage`."),
    ] = None


class Repository(Model):
    """A package repository of the site's own."""

    url: Annotated[Text, Field(description="Base URL.")]
    key: Annotated[Text | None, Field(description="Path, on the controller, of the signing key (ASCII-armoured).")] = (
        None
    )
    suite: Annotated[Text | None, Field(description="Debian family: the suite.")] = None
    components: Annotated[list[Text], Field(description="Debian family: the components.")] = ["main"]
    packages: Annotated[list[Text], Field(description="The packages to install in place of the distribution's.")] = []


class Docker(Model):
    """Rootless Docker."""

    enabled: Annotated[bool, Field(description="Whether nodes get rootless Docker at all.")] = True
    data: Annotated[
        Path, Field(description="Where images and containers lie, a directory per person; never on NFS.")
    ] = "/local/.docker"
    repository: Annotated[
        Repository | None, Field(description="Where Docker comes from, if not from the distribution.")
    ] = None


class Images(Model):
    """Images: built on the golden node, kept on the storage host, run by the nodes."""

    store: Annotated[Path, Field(description="Where the storage host keeps images, outside the homes.")] = (
        "/srv/storage/images"
    )
    server: Annotated[
        HostName | None,
        Field(description="The storage host's inventory name; without it the first of group `storage`."),
    ] = None
    signing_key: Annotated[
        Text | None,
        Field(
            description="Private ssh key that signs images, on the controller. Without it `image_signing_key` in the "
            "site; it is made when it is first needed."
        ),
    ] = None
    signers: Annotated[list[SshKey], Field(description="Public keys of others whose images nodes accept as well.")] = []
    identity: Annotated[
        list[Text],
        Field(description="Further paths that belong to a node and not to an image: patterns such as etc/foo/*.key."),
    ] = []
    deadline: Annotated[
        int,
        Field(ge=60, le=86400, description="Seconds that the first boot of a new root may take before it is ended."),
    ] = 600
    settle: Annotated[
        int, Field(ge=0, le=3600, description="Seconds for which required health checks are tried again.")
    ] = 60
    relay_port: Annotated[
        int | None,
        Field(
            ge=1024,
            le=65535,
            description="TCP port on which nodes pass full images on to each other; null: each gets its own from the "
            "store.",
        ),
    ] = 7370
    keep: Annotated[int, Field(ge=1, le=1000, description="How many images are kept when pruning.")] = 3


class NextTerm(Model):
    """The semester after the running one."""

    name: Annotated[Text, Field(description="Its name, such as 2027-1.")]
    deadline: Annotated[Date, Field(description="The day it ends.")]


class Term(Model):
    """The semester that is running."""

    name: Annotated[Text, Field(description="Its name, such as 2026-2.")]
    deadline: Annotated[Date, Field(description="The day it ends.")]
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
        if self.next is not None and self.next.deadline <= self.deadline:
            raise ValueError(f"next.deadline {self.next.deadline} is not after this term's {self.deadline}")
        if self.next is not None and self.next.name == self.name:
            raise ValueError(f"next.name is this term's own name, {self.name!r}")
        if len(set(self.reminders)) != len(self.reminders):
            raise ValueError(f"reminders: a number stands twice in {self.reminders}")
        return self


class Mail(Model):
    """How gpuadmin sends mail. The password stands in a file outside the site, or in $GPUADMIN_SMTP_PASSWORD."""

    host: Annotated[HostName, Field(description="The SMTP server.")]
    port: Annotated[
        int | None,
        Field(ge=1, le=65535, description="Its port; without it 587 (starttls), 465 (tls) or 25 (none)."),
    ] = None
    security: Annotated[
        Literal["starttls", "tls", "none"],
        Field(description="How the connection is encrypted. `none` is refused together with `user`, but on localhost."),
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
        Field(min_length=1, max_length=2, description="The languages of every mail, in this order, in one mail."),
    ] = ["ko", "en"]
    guide: Annotated[Text | None, Field(description="The address of your users' guide, named in mails.")] = None
    login: Annotated[
        list[HostName],
        Field(description="The host names that mails tell people to log in to; without them the nodes' own names."),
    ] = []
    timeout: Annotated[int, Field(ge=1, le=600, description="Seconds to wait for the server.")] = 30

    @model_validator(mode="after")
    def _safe(self) -> Mail:
        if self.user is not None and self.security == "none" and self.host not in ("localhost", "127.0.0.1"):
            raise ValueError("security: with `user` a password would cross the network in clear; use starttls or tls")
        if len(set(self.languages)) != len(self.languages):
            raise ValueError("languages: one stands twice")
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
            description="Where they lie on the storage host, on the homes' file system; without it beside the homes."
        ),
    ] = None
    copies: Annotated[
        Path, Field(description="Where the second copies lie on the host of group `backup`, on btrfs.")
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
    workers: Annotated[int, Field(ge=1, le=64, description="How many homes are read at once.")] = 2


class Reset(Model):
    """What the end of a term does on the nodes."""

    scratch: Annotated[
        list[Path],
        Field(description="Directories whose entries are wiped with the person they belong to, beside Docker's data."),
    ] = ["/local", "/tmp", "/var/tmp", "/dev/shm"]
    grace: Annotated[
        int, Field(ge=0, le=86400, description="Seconds between the message on terminals and the end of sessions.")
    ] = 300


class FormColumns(Model):
    """The survey form's columns, by their titles. Usual Korean and English titles are recognised without it."""

    time: Annotated[Text | None, Field(description="When it was sent.")] = None
    name: Annotated[Text | None, Field(description="The person's name.")] = None
    student_id: Annotated[Text | None, Field(description="Student id.")] = None
    email: Annotated[Text | None, Field(description="E-mail address.")] = None
    user_name: Annotated[
        Text | None, Field(description="The login name asked for. Without such a column it is made from the address.")
    ] = None
    key: Annotated[Text | None, Field(description="ssh public key, or several on lines of their own.")] = None
    docker: Annotated[Text | None, Field(description="Whether Docker is wanted.")] = None
    terms: Annotated[
        list[Text] | None,
        Field(description="Every one of these must be agreed to; `[]` where the form asks for no agreement."),
    ] = None


class MemberColumns(Model):
    """The columns of the group's list of applications, by their titles."""

    name: Annotated[Text | None, Field(description="The person's name.")] = None
    student_id: Annotated[Text | None, Field(description="Student id.")] = None
    email: Annotated[Text | None, Field(description="E-mail address.")] = None


class Applications(Model):
    """How survey exports are read (`gpuadmin import-applications`)."""

    columns: Annotated[FormColumns, Field(description="The survey form's columns, by their titles.")] = FormColumns()
    members: Annotated[MemberColumns, Field(description="The columns of the group's list.")] = MemberColumns()
    encodings: Annotated[
        list[Literal["utf-8", "cp949"]],
        Field(min_length=1, description="Tried in this order; a byte order mark is understood."),
    ] = ["utf-8", "cp949"]
    required: Annotated[
        list[Literal["name", "student_id", "key"]], Field(description="What nobody gets an account without.")
    ] = ["name", "student_id", "key"]
    agree: Annotated[list[Text], Field(min_length=1, description="Answers that mean agreement.")] = [
        "동의", "동의함", "동의합니다", "예", "네", "yes", "agree", "i agree", "true",
    ]  # fmt: skip
    student_id: Annotated[
        Pattern, Field(description="A regular expression that a whole student id matches, without blanks and hyphens.")
    ] = "[A-Za-z]?[0-9]{6,12}"
    domains: Annotated[
        list[HostName], Field(description="Addresses must be of these domains or below them; any, if none is named.")
    ] = []
    docker: Annotated[bool, Field(description="Whether people get Docker where the form does not ask.")] = True
    expires: Annotated[
        Date | None, Field(description="Last day of the new accounts; without it the term's deadline.")
    ] = None
    form: Annotated[Text | None, Field(description="The form's address, for mails that ask to fill it in.")] = None


class Runs(Model):
    """The record of past runs."""

    keep: Annotated[int, Field(ge=1, le=100000, description="How many runs are kept in runs/.")] = 200


class Settings(Model):
    """gpuadmin.yml"""

    name: Annotated[Text, Field(description="The cluster's name, as people call it.")]
    admin: Annotated[Admin, Field(description="How gpuadmin reaches the hosts.")] = Admin()
    accounts: Annotated[Accounts, Field(description="Where accounts come from and which ids they get.")] = Accounts()
    subids: Annotated[Subids, Field(description="Subordinate ids for rootless containers.")] = Subids()
    homes: Annotated[Homes, Field(description="People's homes.")] = Homes()
    docker: Annotated[Docker, Field(description="Rootless Docker.")] = Docker()
    images: Annotated[Images, Field(description="Images of the nodes' systems.")] = Images()
    protected: Annotated[
        list[Text],
        Field(description="Accounts that gpuadmin never locks, removes or wipes; root and the admin always are."),
    ] = []
    term: Annotated[Term | None, Field(description="The semester that is running.")] = None
    mail: Annotated[Mail | None, Field(description="How gpuadmin sends mail.")] = None
    backups: Annotated[Backups, Field(description="Backups of the homes.")] = Backups()
    reset: Annotated[Reset, Field(description="What the end of a term does on the nodes.")] = Reset()
    applications: Annotated[Applications, Field(description="How survey exports are read.")] = Applications()
    runs: Annotated[Runs, Field(description="The record of past runs.")] = Runs()

    @model_validator(mode="after")
    def _subids_fit(self) -> Settings:
        people = self.accounts.uid_last - self.accounts.uid_first + 1
        last = self.subids.base + people * self.subids.size - 1
        if last > HIGHEST_SUBID:
            fitting = (HIGHEST_SUBID + 1 - self.subids.base) // self.subids.size
            raise ValueError(
                f"subids: {people} people at {self.subids.size} ids each from {self.subids.base} end at {last}, "
                f"above the highest id {HIGHEST_SUBID}; {fitting} people fit: lower accounts.uid_last"
            )
        return self

    def is_protected(self, name: str) -> bool:
        """Whether no verb may lock, remove or wipe this account."""
        return name in ("root", self.admin.user, *self.protected)


class User(Model):
    """A person with an account."""

    name: Annotated[UserName, Field(description="Login name.")]
    uid: Annotated[
        int | None,
        Field(
            ge=LOWEST_HUMAN_UID,
            le=HIGHEST_HUMAN_UID,
            description="uid and gid, the same on every host. Left out only where accounts.source is `directory`.",
        ),
    ] = None
    email: Annotated[Email | None, Field(description="Where mails about the account go.")] = None
    keys: Annotated[list[SshKey], Field(description="ssh public keys.")] = []
    expires: Annotated[Date | None, Field(description="The last day on which the account is valid.")] = None
    locked: Annotated[bool, Field(description="Whether logging in is refused for now.")] = False
    docker: Annotated[
        bool,
        Field(
            description="Whether the person gets rootless Docker with the account. Without it they can still take it "
            "themselves on a node (add-me-to-docker-user), and keep it."
        ),
    ] = True
    stays: Annotated[
        Text | None,
        Field(description="The term whose end the person stays beyond: its reset leaves them alone (`extend-term`)."),
    ] = None
    note: Annotated[Text | None, Field(description="A remark for the admins.")] = None


class Retired(Model):
    """A removed account. Its uid stays taken while a home, a backup or Docker data of it may exist."""

    name: Annotated[UserName, Field(description="Login name it had.")]
    uid: Annotated[int, Field(ge=LOWEST_HUMAN_UID, le=HIGHEST_HUMAN_UID, description="uid that it had.")]
    email: Annotated[
        Email | None, Field(description="Address that it had: by it somebody who comes back is recognised.")
    ] = None
    removed: Annotated[Date, Field(description="When it was removed.")]


class Registry(Model):
    """users.yml"""

    users: Annotated[list[User], Field(description="Everybody with an account.")] = []
    retired: Annotated[
        list[Retired], Field(description="Removed accounts whose uid must not be given to anybody else.")
    ] = []
