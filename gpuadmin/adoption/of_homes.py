"""What does not fit about homes on a host: where they are, what is between them, and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuadmin.adoption.conflict import Conflict, on, several, word
from gpuadmin.adoption.groups import Homes
from gpuadmin.adoption.own_homes import Own
from gpuadmin.adoption.people import People
from gpuadmin.adoption.seen import Host
from gpuadmin.common.text import counted, listed, the_page
from gpuadmin.config.fields import USER_NAME

_MOST_SHOWN = 10


def on_node(host: Host, homes: Homes, own_homes: Mapping[str, Own]) -> Iterator[Conflict]:
    """What is at the homes' place on a node: others' disks, or homes of its own. `own_homes`: whose these are."""
    there = host.homes(homes.path)
    if there is None:
        return
    if there["mounted"]:
        if there["source"] in homes.sources:
            return
        source = there["source"] or "something"
        ours = (
            homes.export is not None
            and there["network"]
            and source.rpartition(":")[2]
            and (homes.export.endswith(source.rpartition(":")[2]))
        )
        what = "provision mounts the homes of the storage host by NFSv4 there" if ours else "the homes would hide it"
        yield Conflict(
            "home mount",
            f"{homes.path} is a mount of {source} ({there['fstype']}): {what}",
            "stops",
            (host.name,),
            remedies=(
                on([host.name]),
                f"umount {word(homes.path)}        # with nobody logged in; and its line out of /etc/fstab",
            ),
        )
        return
    names = host.local_homes(homes.path)
    if names:
        yield Conflict(
            "homes on the node",
            f"{homes.path} of {host.name} has {counted(len(names), 'home')} on its own disk, which the homes of the"
            f" storage host would hide: {listed(names)}",
            "stops",
            (host.name,),
            tuple(name for name in names if USER_NAME.fullmatch(name)),
            tuple(_commands(host, homes, names, own_homes)),
        )


def _commands(host: Host, homes: Homes, names: list[str], own_homes: Mapping[str, Own]) -> Iterator[str]:
    """What brings a node's homes to the storage host, and whose are left."""
    own = [one for one in names if one in own_homes and host.name in own_homes[one].nodes]
    if own:
        yield f"gpuadmin provision --limit {word(homes.server or 'STORAGE')}"
        yield f"gpuadmin move-homes --check        # then without --check: {the_page('move-homes')}"
    left = [name for name in names if name not in own]
    if left:
        before = word(homes.path + ".before")
        yield on([host.name])
        yield f"# nobody's by name and owner: {', '.join(map(word, left))}: find out whose they are, and move them"
        yield f"mkdir -p -m 0700 {before} && mv {' '.join(word(f'{homes.path}/{one}') for one in left[:3])} {before}/"


def disk(host: Host, homes: Homes) -> Iterator[Conflict]:
    """What the homes are on, on the host that serves them."""
    found = None if homes.export is None else host.disk(homes.export)
    if found is None:
        return
    if found["point"] == "/":
        yield Conflict(
            "homes on the root file system",
            f"{homes.export} is on the root file system: homes that fill it stop the host, and a disk that is not"
            " mounted would not be noticed",
            "stops",
            (host.name,),
            remedies=("# mount a disk of its own there, or name a directory of one as homes.export in gpuadmin.yml",),
        )
    elif found["fstype"] != "btrfs":
        yield Conflict(
            "homes without backups",
            f"{homes.export} is on {found['fstype']}: backups of homes and the store of images need btrfs, and"
            " everything else works",
            "note",
            (host.name,),
        )


def odd(host: Host, homes: Homes, people: People) -> Iterator[Conflict]:
    """Homes elsewhere, and entries that are nobody's home by their name."""
    elsewhere = {
        name: one["home"]
        for name, one in host.people.items()
        if name in people.persons and one["home"] != f"{homes.path}/{name}"
    }
    if elsewhere:
        words = ", ".join(f"{name} has {home}" for name, home in sorted(elsewhere.items())[:_MOST_SHOWN])
        more = f" and {len(elsewhere) - _MOST_SHOWN} more" if len(elsewhere) > _MOST_SHOWN else ""
        yield Conflict(
            "home elsewhere",
            f"{words}{more}; provision gives everybody {homes.path}/NAME, and moves nothing",
            "decide",
            (host.name,),
            tuple(sorted(elsewhere)),
            (on([host.name]), *several(sorted(elsewhere)[:3], f"usermod -m -d {word(homes.path)}/{{}} {{}}")),
        )
    yield from _unseen(host)
    known = {one["uid"] for one in host.listed("accounts")} | {0}
    owned = {one["home"] for one in host.people.values()}
    for root in host.listed("homes"):
        if root["network"] or root["path"] != homes.path:
            continue
        for entry in root["entries"]:
            path = f"{root['path'].rstrip('/')}/{entry['name']}"
            if entry["name"] == "lost+found" or entry["uid"] not in known:  # those are told elsewhere
                continue
            if path in owned and entry["kind"] == "directory":
                continue
            yield Conflict(
                "home that is odd",
                f"{path} is {_article(entry['kind'])} of {entry['owner'] or 'uid ' + str(entry['uid'])}, and no account"
                " has it as its home",
                "decide",
                (host.name,),
                (),
                (on([host.name]), f"ls -lab {word(root['path'])}        # then move it to whom it belongs, or away"),
            )


def _unseen(host: Host) -> Iterator[Conflict]:
    """Homes that root cannot look at: most often their person has mounted something over them."""
    for root in host.listed("homes"):
        for entry in root["entries"]:
            if entry["kind"] == "unknown":
                path = f"{root['path'].rstrip('/')}/{entry['name']}"
                yield Conflict(
                    "home that cannot be looked at",
                    f"{path} cannot be looked at: {entry['problem']}",
                    "decide",
                    (host.name,),
                    tuple(name for name, one in host.people.items() if one["home"] == path),
                    (
                        on([host.name]),
                        f"findmnt {word(path)}        # what its person has mounted there; they can unmount it",
                        f"umount -l {word(path)}        # where they do not, or its server is gone",
                    ),
                )


def _article(kind: str) -> str:
    return {"other": "something", "directory": "a directory", "link": "a symbolic link", "file": "a file"}[kind]


def owners(host: Host, people: People) -> Iterator[Conflict]:
    """People whom the host has from elsewhere than its own files, and owners whom nobody knows."""
    directory = host.part("directory")
    if directory is not None and directory["sources"]:
        names = [one["name"] for one in directory["accounts"] if one["name"] not in host.people]
        listing = f": {listed(names)}" if names else ", and lists nobody, as many directories do"
        yield Conflict(
            "names from elsewhere",
            f"takes names from {', '.join(directory['sources'])} as well (/etc/nsswitch.conf){listing}. They are not in"
            " users.yml",
            "decide",
            (host.name,),
            tuple(names[:50]),
            (
                "# where all people come from there, in gpuadmin.yml: accounts: {source: directory}",
                *several([one for one in names[:3] if USER_NAME.fullmatch(one)], "gpuadmin add-user {} --uid UID"),
            ),
        )
    known = {one["uid"] for one in host.listed("accounts")}
    for root in host.listed("homes"):
        for entry in root["entries"]:
            if entry["uid"] in known or entry["uid"] in (0, None) or root["network"]:
                continue
            who = f"{entry['owner']}, who is not in passwd" if entry["owner"] else "no account of this host"
            yield Conflict(
                "owner without an account",
                f"{root['path'].rstrip('/')}/{entry['name']} belongs to uid {entry['uid']}: {who}",
                "decide",
                (host.name,),
                (),
                (
                    f"gpuadmin add-user {word(entry['name'])} --uid {entry['uid']}        # where it is theirs"
                    if USER_NAME.fullmatch(entry["name"])
                    else "# find out whose it was",
                    "# otherwise it stays as it is: no verb deletes what is nobody's",
                ),
            )
