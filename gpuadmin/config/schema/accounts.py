"""Accounts: where they come from, their ids, and users.yml's entries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpuadmin.config.fields import Date, Email, GroupName, Path, SshKey, Text, UserName
from gpuadmin.config.schema.base import HIGHEST_HUMAN_UID, HIGHEST_SUBID, LOWEST_HUMAN_UID, Model


class Accounts(Model):
    """Where people's accounts come from and which ids they get."""

    source: Annotated[
        Literal["registry", "directory"],
        Field(
            description="`registry`: users.yml says who has an account, and gpuadmin makes it. "
            "`directory`: LDAP, SSSD or another NSS source makes them, gpuadmin does the rest."
        ),
    ] = "registry"
    uid_first: Annotated[
        int, Field(ge=LOWEST_HUMAN_UID, le=HIGHEST_HUMAN_UID, description="First uid of people's accounts.")
    ] = 20000
    uid_last: Annotated[
        int, Field(ge=LOWEST_HUMAN_UID, le=HIGHEST_HUMAN_UID, description="Last uid of people's accounts.")
    ] = 49999
    group: Annotated[GroupName, Field(description="The group that every person's account belongs to.")] = "gpuusers"
    gid: Annotated[int, Field(ge=LOWEST_HUMAN_UID, le=HIGHEST_HUMAN_UID, description="That group's id.")] = 19999
    shell: Annotated[Path, Field(description="Login shell of new accounts.")] = "/bin/bash"

    @model_validator(mode="after")
    def _ranges(self) -> Accounts:
        if self.uid_first > self.uid_last:
            raise ValueError(f"uid_first {self.uid_first} is above uid_last {self.uid_last}")
        if self.uid_first <= self.gid <= self.uid_last:
            raise ValueError(f"gid {self.gid} is in the range of people's ids ({self.uid_first}-{self.uid_last})")
        return self


class Subids(Model):
    """Subordinate ids for rootless containers: start = base + (uid - uid_first) * size."""

    base: Annotated[int, Field(ge=65536, le=HIGHEST_SUBID, description="Start of the first person's range.")] = 2**31
    size: Annotated[int, Field(ge=65536, le=2**24, description="Ids per person; containers expect 65536.")] = 65536


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
        Field(description="The term after which the person stays: its reset leaves them alone (`extend-term`)."),
    ] = None
    group: Annotated[
        GroupName | None,
        Field(
            description="The group of people that they are in, such as a lab: for limits (`limits.people[].groups`) "
            "and shares of the queue (`slurm.groups`). It is a Unix group where `groups` of gpuadmin.yml has its gid."
        ),
    ] = None
    projects: Annotated[
        list[GroupName],
        Field(
            max_length=20,
            description="Projects that they work for: what they ask the queue for with `gpu get --project` is counted "
            "as its use, too (`gpuadmin usage --by project`). Share and limits are those of their group.",
        ),
    ] = []
    note: Annotated[Text | None, Field(description="A remark for the admins.")] = None


class Retired(Model):
    """A removed account. Its uid stays taken while a home, a backup or Docker data of it may exist."""

    name: Annotated[UserName, Field(description="Login name it had.")]
    uid: Annotated[int, Field(ge=LOWEST_HUMAN_UID, le=HIGHEST_HUMAN_UID, description="uid that it had.")]
    email: Annotated[
        Email | None, Field(description="Address that it had; it shows when the same person comes back.")
    ] = None
    removed: Annotated[Date, Field(description="When it was removed.")]
