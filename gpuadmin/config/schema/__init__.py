"""The schema of a site: what may be in gpuadmin.yml and users.yml, and what is meant when it does not.

One definition serves validation, the JSON Schema for editors, and the reference page in docs/.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from gpuadmin.config.fields import Text
from gpuadmin.config.schema.accounts import Accounts, Retired, Subids, User
from gpuadmin.config.schema.applications import Applications, FormColumns, MemberColumns
from gpuadmin.config.schema.base import HIGHEST_SUBID, Model
from gpuadmin.config.schema.bmc import Bmc
from gpuadmin.config.schema.gpus import Gpus
from gpuadmin.config.schema.hosts import Admin, Audit, Compare, DeclaredAdmin, Docker, Drift, Homes, Images, Nodes
from gpuadmin.config.schema.limits import Limits
from gpuadmin.config.schema.metrics import Metrics
from gpuadmin.config.schema.notebooks import Notebooks
from gpuadmin.config.schema.shared import Mount, Shared, UnixGroup, find_contradictions
from gpuadmin.config.schema.slurm import Slurm
from gpuadmin.config.schema.term import Backups, Mail, Reset, Term
from gpuadmin.config.schema.timers import Timers

__all__ = [
    "HIGHEST_SUBID",
    "Applications",
    "FormColumns",
    "Mail",
    "MemberColumns",
    "Registry",
    "Settings",
    "Term",
    "User",
]


class Runs(Model):
    """The record of past runs."""

    keep: Annotated[int, Field(ge=1, le=100000, description="How many runs are kept in runs/.")] = 200
    shared: Annotated[
        bool | None,
        Field(
            description="Whether runs from all machines have one lock and one history, on the storage host. "
            "Without it: where `admins` names more than one, and where there are `timers`."
        ),
    ] = None


class Settings(Model):
    """gpuadmin.yml"""

    name: Annotated[Text, Field(min_length=1, description="The cluster's name, as people call it.")]
    admin: Annotated[Admin, Field(description="How gpuadmin reaches the hosts.")] = Admin()
    admins: Annotated[
        list[DeclaredAdmin] | None,
        Field(
            description="Who has power over the hosts, beside `admin.user`: `provision` makes their accounts, and ends "
            "those of whoever is not in the list any more. Without this section gpuadmin leaves admins alone."
        ),
    ] = None
    accounts: Annotated[Accounts, Field(description="Where accounts come from and which ids they get.")] = Accounts()
    subids: Annotated[Subids, Field(description="Subordinate ids for rootless containers.")] = Subids()
    homes: Annotated[Homes, Field(description="People's homes.")] = Homes()
    nodes: Annotated[Nodes, Field(description="What nodes have for the people who log in there.")] = Nodes()
    groups: Annotated[
        list[UnixGroup], Field(description="Groups of people that are Unix groups on all hosts, with their gids.")
    ] = []
    shared: Annotated[list[Shared], Field(description="Directories that several people share.")] = []
    mounts: Annotated[list[Mount], Field(description="What is mounted from other servers.")] = []
    docker: Annotated[Docker, Field(description="Rootless Docker.")] = Docker()
    bmc: Annotated[Bmc, Field(description="BMCs, which switch hosts on and off.")] = Bmc()
    gpus: Annotated[Gpus, Field(description="GPUs of the nodes.")] = Gpus()
    limits: Annotated[
        Limits | None,
        Field(description="How much of a node one person gets. Without this section gpuadmin limits nobody."),
    ] = None
    slurm: Annotated[
        Slurm | None, Field(description="A fair queue for GPUs, kept by Slurm. Without this section there is none.")
    ] = None
    notebooks: Annotated[
        Notebooks | None,
        Field(description="JupyterLab on a GPU of the queue (`gpu jupyter`). Without this section there is none."),
    ] = None
    images: Annotated[Images, Field(description="Images of the nodes' systems.")] = Images()
    metrics: Annotated[Metrics, Field(description="Measurements and alerts.")] = Metrics()
    protected: Annotated[
        list[Text],
        Field(description="Accounts that gpuadmin never locks, removes or wipes; root and the admin always are."),
    ] = []
    term: Annotated[Term | None, Field(description="The semester that is running.")] = None
    mail: Annotated[Mail | None, Field(description="How gpuadmin sends mail.")] = None
    backups: Annotated[Backups, Field(description="Backups of the homes.")] = Backups()
    reset: Annotated[Reset, Field(description="What the end of a term does on the nodes.")] = Reset()
    applications: Annotated[Applications, Field(description="How survey exports are read.")] = Applications()
    drift: Annotated[Drift, Field(description="What is meant to differ.")] = Drift()
    compare: Annotated[Compare, Field(description="Which settings of hosts are not compared.")] = Compare()
    audit: Annotated[Audit, Field(description="What `gpuadmin audit` judges by.")] = Audit()
    timers: Annotated[Timers | None, Field(description="What the monitor host does by itself.")] = None
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

    @model_validator(mode="after")
    def _shares_fit(self) -> Settings:
        found = find_contradictions(
            self.groups, self.shared, self.mounts,
            taken=(str(self.homes.path), str(self.homes.export), str(self.docker.data)),
            people=range(self.accounts.uid_first, self.accounts.uid_last + 1),
            everybody=(self.accounts.group, self.accounts.gid),
            directory=self.accounts.source == "directory",
        )  # fmt: skip
        if found is not None:
            raise ValueError(found)
        return self

    @model_validator(mode="after")
    def _admins_differ(self) -> Settings:
        names = [one.name for one in self.admins or ()]
        uids = [one.uid for one in self.admins or ()]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"admins: {twice[0]} is there twice")
        if self.admin.user == "root" and self.audit.ssh.set and self.audit.ssh.root == "no":
            # guard: gpuadmin does not shut itself out
            raise ValueError("audit.ssh: root: no would shut out gpuadmin, which logs in as root (admin.user)")
        if self.admin.user in names:
            raise ValueError(f"admins: {self.admin.user} is admin.user, the account that gpuadmin logs in as")
        if shared := [uid for uid in uids if uids.count(uid) > 1]:
            raise ValueError(f"admins: uid {shared[0]} is there twice")
        return self

    def is_timed(self, verb: str) -> bool:
        """Whether the monitor host runs this verb by itself."""
        return self.timers is not None and verb in self.timers.verbs

    def is_protected(self, name: str) -> bool:
        """Whether no verb may lock, remove or wipe this account."""
        return name in ("root", self.admin.user, *self.protected)


class Registry(Model):
    """users.yml"""

    users: Annotated[list[User], Field(description="Everybody with an account.")] = []
    retired: Annotated[
        list[Retired], Field(description="Removed accounts whose uid must not be given to anybody else.")
    ] = []
