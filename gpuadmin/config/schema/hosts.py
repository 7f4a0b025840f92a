"""The hosts: how they are reached, homes, Docker and images."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from gpuadmin.common.sections import SECTIONS
from gpuadmin.config.fields import AccountName, Date, HostName, PackageName, Path, SshKey, Text, UserName
from gpuadmin.config.schema.base import Model
from gpuadmin.config.schema.limits import Disk
from gpuadmin.similar import did_you_mean

#: Of Docker Hub: at most one directory, whose name has no dot, as registries have; a tag, unless it is `latest`.
_IMAGE = re.compile(r"([a-z0-9_-]+/)?[a-z0-9][a-z0-9._-]*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?")


class Admin(Model):
    """How gpuadmin reaches the hosts."""

    user: Annotated[
        AccountName, Field(description="The account that gpuadmin logs in as; it has sudo and is not a person's.")
    ] = "gpuadmin"
    ssh_key: Annotated[
        Text | None,
        Field(description="Private key file for that account; without it ssh's own defaults apply."),
    ] = None


class DeclaredAdmin(Model):
    """Somebody who has power over the hosts, with an account of their own."""

    name: Annotated[
        UserName,
        Field(description="Login name. Not one of users.yml: an admin's account is separate from the person's own."),
    ]
    uid: Annotated[
        int, Field(ge=100, le=999, description="uid and gid, the same on every host; no service's and nobody else's.")
    ]
    keys: Annotated[list[SshKey], Field(min_length=1, description="ssh public keys.")]
    sudo: Annotated[bool, Field(description="Whether they may become root, without a password.")] = True
    until: Annotated[
        Date | None, Field(description="The last day; from the next one on sshd and sudo refuse the account.")
    ] = None


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


class Nodes(Model):
    """What nodes have for the people who log in there."""

    packages: Annotated[
        list[PackageName],
        Field(
            description="Packages that `provision` installs on every node, without what they recommend: what the "
            "user's guide names. Names are Debian's, or the nodes' distribution's; what you take out stays installed."
        ),
    ] = ["at", "cron", "curl", "git", "python3-pip", "python3-venv", "rsync", "tmux", "wget"]


def _image(value: str) -> str:
    if not _IMAGE.fullmatch(value):  # guard: an image of the site's is named as Docker Hub names it
        raise ValueError(f"{value!r} is not an image of Docker Hub, such as python:3.12 or pytorch/pytorch:2.4")
    return value


def _registry_url(value: str) -> str:
    if not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]-]+", value):
        raise ValueError(f"{value!r} is not the address of a registry, such as https://registry-1.docker.io")
    return value


class Repository(Model):
    """A package repository of the site's own."""

    url: Annotated[Text, Field(description="Base URL.")]
    key: Annotated[Text | None, Field(description="Path, on the controller, of the signing key (ASCII-armoured).")] = (
        None
    )
    suite: Annotated[Text | None, Field(description="The suite.")] = None
    components: Annotated[list[Text], Field(description="The components.")] = ["main"]
    packages: Annotated[list[Text], Field(description="The packages to install in place of the distribution's.")] = []


class SiteImage(Model):
    """A container image that the site recommends."""

    model_config = ConfigDict(populate_by_name=True)

    name: Annotated[Text, Field(description="What it is for, in a few words: the guide shows it.")]
    source: Annotated[
        Text,
        AfterValidator(_image),
        Field(alias="from", description="The image, as `docker pull` takes it: `pytorch/pytorch:2.4`, of Docker Hub."),
    ]


class Docker(Model):
    """Rootless Docker."""

    enabled: Annotated[bool, Field(description="Whether nodes get rootless Docker at all.")] = True
    data: Annotated[
        Path, Field(description="Where images and containers are, a directory per person; never on NFS.")
    ] = "/local/.docker"
    mirror: Annotated[
        bool | HostName,
        Field(
            description="A cache of images for the whole site, which people's Docker asks first: the distribution's "
            "docker-registry on the first storage host, else on the monitor host; or the name of one of them. "
            "Whoever reaches its port 5000 can read what is public anyway. A daemon follows when it starts next."
        ),
    ] = False
    mirror_size: Annotated[
        Disk, Field(description="How much the cache may have. Its pruning also keeps a tenth of its disk free.")
    ] = "200G"
    upstream: Annotated[
        Text, AfterValidator(_registry_url), Field(description="The registry that is cached; by itself Docker Hub.")
    ] = "https://registry-1.docker.io"
    images: Annotated[list[SiteImage], Field(description="Images that the guide names, each with its command.")] = []
    repository: Annotated[
        Repository | None, Field(description="Where Docker comes from, if not from the distribution.")
    ] = None


class Drift(Model):
    """What `gpuadmin drift` finds of privileges and packaged files."""

    ignore: Annotated[
        list[Text],
        Field(
            description="What is meant to differ, as `gpuadmin drift` prints it: the part before the first `: `, or "
            "the whole line; a directory, with `/` at its end, stands for all below it. `drift` counts what it hides."
        ),
    ] = []


def _ignored(value: str) -> str:
    """A section, or a section and a setting of it as `compare` writes it: sshd's keywords in lower case."""
    section, *key = value.split(" ", 1)
    if section not in SECTIONS:
        hint = did_you_mean(section, SECTIONS) or f"the sections are {', '.join(SECTIONS)}"
        raise ValueError(f"{value!r} begins with no section: {hint}")
    return " ".join([section, *(one.lower() if section == "ssh" and " " not in one else one for one in key)])


class Compare(Model):
    """What `gpuadmin compare` compares."""

    ignore: Annotated[
        list[Annotated[Text, AfterValidator(_ignored)]],
        Field(
            description="What is meant to differ: a section (`packages`), or a setting with its section "
            "(`ssh clientaliveinterval`). `compare` counts the settings that it hides."
        ),
    ] = []


class AuditSsh(Model):
    """How sshd should be set: `gpuadmin audit` compares, with `set` `provision` writes it (nodes, storage host)."""

    set: Annotated[bool, Field(description="`provision` writes it, unless somebody has only a password.")] = False
    idle_minutes: Annotated[
        int | None,
        Field(ge=5, le=10080, description="Minutes without input and output until sshd (9.2 or newer) closes a shell."),
    ] = None
    passwords: Annotated[
        bool | None, Field(description="false: nobody logs in with a password. Without it this is not judged.")
    ] = None
    root: Annotated[
        Literal["no", "keys"] | None,
        Field(description="`no`: root does not log in; `keys`: with a key at most. Without it this is not judged."),
    ] = None


class Audit(Model):
    """What `gpuadmin audit` judges by."""

    ssh: Annotated[AuditSsh, Field(description="How sshd should be set.")] = AuditSsh()


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
    keep: Annotated[int, Field(ge=1, le=1000, description="How many images are kept when pruning.")] = 3
