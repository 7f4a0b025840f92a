"""What root's Docker has on hosts: whose it may be, what was named of it, and what is said of each thing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuadmin.common.text import counted, listed, size_words
from gpuadmin.errors import ConfigError

Look = Mapping[str, Any]
#: Names of containers, volumes and images, as an admin gives them.
Named = tuple[Sequence[str], Sequence[str], Sequence[str]]


@dataclass(frozen=True)
class Chosen:
    """What is carried, of one host: ids of images, names of volumes, id → name of containers."""

    host: str
    images: tuple[str, ...]
    volumes: tuple[str, ...]
    containers: Mapping[str, str]


def image_name(image: Mapping[str, Any]) -> str:
    """How an image is called: its first tag, or the beginning of its id."""
    return str(image["tags"][0]) if image["tags"] else str(image["id"])[7:19]


def _images(look: Look, name: str) -> list[str]:
    """The ids of images of that name: a tag, `latest` understood, or the beginning of an id."""
    tag = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
    tagged = [str(one["id"]) for one in look["images"] if tag in one["tags"]]
    bare = name.removeprefix("sha256:")
    ids = [str(one["id"]) for one in look["images"] if len(bare) >= 4 and one["id"].startswith(f"sha256:{bare}")]
    return tagged or ids


def _has(look: Look, named: Named) -> dict[str, list[Any]]:
    """Each named thing, in words, and what of the host is meant by it."""
    containers, volumes, images = named
    return {
        **{f"container {name}": [one for one in look["containers"] if one["name"] == name] for name in containers},
        **{f"volume {name}": [one for one in look["volumes"] if one["name"] == name] for name in volumes},
        **{f"image {name}": _images(look, name) for name in images},
    }


def choose(looks: Mapping[str, Look], named: Named) -> Chosen:
    """What is meant. Raises ConfigError where that is nothing, or more than one thing."""
    found = {host: _has(look, named) for host, look in looks.items()}
    for words in next(iter(found.values()), {}):
        hosts = [host for host, has in found.items() if has[words]]
        if not hosts:
            raise ConfigError(f"root's Docker has no {words} on {listed(sorted(looks))}",
                              hint="gpuadmin move-docker lists what it has")  # fmt: skip
    hosts = [host for host, has in found.items() if all(has.values())]
    # guard: what several hosts have is not carried from one of them by chance
    if len(hosts) != 1:
        where = f"are on several hosts: {listed(hosts)}" if hosts else "are not on one host"
        raise ConfigError(f"the things that you name {where}", hint="name those of one host, with --limit HOST")
    look, has = looks[hosts[0]], found[hosts[0]]
    containers = [one[0] for words, one in has.items() if words.startswith("container ")]
    images = [one["image"] for one in containers]
    volumes = [name for one in containers for name in one["volumes"]]
    for words, one in has.items():
        if words.startswith("image "):
            # guard: the beginning of an id of two images is neither
            if len(set(one)) > 1:
                raise ConfigError(f"{words} is the beginning of several ids")
            images.append(one[0])
        elif words.startswith("volume "):
            volumes.append(one[0]["name"])
    if gone := {one for one in images if one not in {each["id"] for each in look["images"]}}:
        raise ConfigError(f"an image that a container is made of is not there any more: {listed(sorted(gone))}")
    return Chosen(
        hosts[0], tuple(dict.fromkeys(images)), tuple(dict.fromkeys(volumes)),
        {str(one["id"]): str(one["name"]) for one in containers},
    )  # fmt: skip


def obstacles(look: Look, chosen: Chosen) -> Iterator[str]:
    """What of it cannot be carried as it is, in words."""
    for one in look["volumes"]:
        if one["name"] in chosen.volumes:
            if one["cannot"]:
                yield f"volume {one['name']} {one['cannot']}"
            busy = [each["name"] for each in look["containers"] if each["running"] and one["name"] in each["volumes"]]
            if busy:
                yield f"volume {one['name']} is in use by {listed(busy)}: docker stop {busy[0]}, on {chosen.host}"


def steps(look: Look, chosen: Chosen, name: str) -> Iterator[str]:
    """What is done, a sentence for each thing."""
    for one in look["images"]:
        if one["id"] in chosen.images:
            yield f"image {image_name(one)}: to {name}'s Docker ({size_words(one['bytes'])}, if it is not there)"
    for one in look["volumes"]:
        if one["name"] in chosen.volumes:
            size = f" ({size_words(one['bytes'])})" if one["bytes"] >= 0 else ""
            yield f"volume {one['name']}: to {name}'s Docker{size}, and compared"


def stays(container: Mapping[str, Any]) -> Iterator[str]:
    """What of a container is not carried."""
    if container["changes"]:
        files = counted(container["changes"], "file") if container["changes"] > 0 else "many files"
        yield f"{files} of its own (docker diff) do not come along: docker commit makes an image of them first"
    for path in container["binds"]:
        yield f"{path} is a directory of the host: copy it to where they may read it"
    yield from container["differs"]


def perhaps(container: Mapping[str, Any], names: Collection[str], homes: str) -> list[str]:
    """Whose a container may be: by homes that are mounted in it, labels, and its name."""
    found = [name for name in names for path in container["binds"] if f"{path}/".startswith(f"{homes}/{name}/")]
    found += [name for name in names for label in container["labels"] if label.partition("=")[2] == name]
    words = container["name"].replace("_", "-").replace(".", "-").split("-")
    return list(dict.fromkeys([*found, *(name for name in names if name in words)]))


def lines(host: str, look: Look, names: Collection[str], homes: str) -> Iterator[str]:
    """What people see of a host."""
    if not look["running"]:
        yield f"{host}: root's Docker does not run"
        return
    if look["problem"]:
        yield f"{host}: {look['problem']}"
        return
    counts = [counted(len(look[kind]), kind[:-1]) for kind in ("containers", "images", "volumes")]
    yield f"{host}: root's Docker has {listed(counts)}"
    images = {one["id"]: image_name(one) for one in look["images"]}
    for one in look["containers"]:
        whose = perhaps(one, names, homes)
        state = ", runs" if one["running"] else ""
        mounted = f", volumes {listed(one['volumes'])}" if one["volumes"] else ""
        yield (
            f"  container {one['name']}: image {images.get(one['image'], one['image'])}{mounted}{state}"
            f"{f'; perhaps of {listed(whose)}' if whose else ''}"
        )
        yield from (f"    {words}" for words in stays(one))
        if one["command"]:
            yield f"    {one['command']}"
    for one in look["volumes"]:
        size = f", {size_words(one['bytes'])}" if one["bytes"] >= 0 else ""
        yield f"  volume {one['name']}{size}" + (f": {one['cannot']}" if one["cannot"] else "")
    for one in look["images"]:
        yield f"  image {image_name(one)}, {size_words(one['bytes'])}"
