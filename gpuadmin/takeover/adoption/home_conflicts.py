"""What does not fit about homes on a host: where they are, what is between them, and whose they are."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gpuadmin.common.text import counted, listed, the_page
from gpuadmin.config.fields import USER_NAME
from gpuadmin.takeover.adoption.conflict import Conflict, copy_command, on, several, word
from gpuadmin.takeover.adoption.groups import Homes
from gpuadmin.takeover.adoption.own_homes import Own
from gpuadmin.takeover.adoption.people import People
from gpuadmin.takeover.adoption.seen import Host, home_root, plain_path

_MOST_SHOWN = 10


def find_on_node(host: Host, homes: Homes, own_homes: Mapping[str, Own]) -> Iterator[Conflict]:
    """What is at the homes' place on a node: others' disks, or homes of its own. `own_homes`: whose these are."""
    place = host.homes(homes.path)
    if place is None:
        return
    if place["mounted"]:
        if place["source"] in homes.sources:
            return
        source = place["source"] or "something"
        ours = (
            homes.export is not None
            and place["network"]
            and source.rpartition(":")[2]
            and (homes.export.endswith(source.rpartition(":")[2]))
        )
        what = "provision mounts the homes of the storage host by NFSv4 there" if ours else "the homes would hide it"
        automounter = place["fstype"] == "autofs"
        own = [name for name in host.local_homes(homes.path) if host.name in own_homes.get(name, Own((), False)).nodes]
        after = "after move-homes: what is left stays on that disk" if own else "with nobody logged in"
        yield Conflict(
            "home mount",
            f"{homes.path} is a mount of {source} ({place['fstype']}): {what}",
            "stops",
            (host.name,),
            remedies=(
                *(_list_moving_commands(homes) if own else ()),
                on([host.name]),
                *(_list_automounter_commands(homes.path) if automounter or host.active("autofs.service") else ()),
                *(() if automounter else (
                    f"umount {word(homes.path)}        # {after}; and its line out of /etc/fstab",
                )),
            ),
        )  # fmt: skip
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
            tuple(_list_commands(host, homes, names, own_homes)),
        )


def _list_moving_commands(homes: Homes) -> tuple[str, str]:
    return (
        f"gpuadmin provision --limit {word(homes.server or 'STORAGE')}",
        f"gpuadmin move-homes --check        # then without --check: {the_page('move-homes')}",
    )


def _list_automounter_commands(path: str) -> tuple[str, str]:
    """umount ends no automounter: it mounts again for whoever looks."""
    return (
        f"grep -n {word(path)} /etc/auto.master /etc/auto.master.d/*.autofs        # take its line out, with nobody"
        " logged in",
        "systemctl reload autofs        # where there is such a line",
    )


def _list_commands(host: Host, homes: Homes, names: list[str], own_homes: Mapping[str, Own]) -> Iterator[str]:
    """What brings a node's homes to the storage host, and whose are left."""
    own = [one for one in names if one in own_homes and host.name in own_homes[one].nodes]
    yield from _list_moving_commands(homes) if own else ()
    left = [name for name in names if name not in own]
    held = [name for name in left if f"{homes.path}/{name}" in host.holders]
    if held:
        # guard: what is an account's home is not moved away
        left = [name for name in left if name not in held]
        yield (
            f"# move-homes leaves the homes of {', '.join(map(word, held))}: another's uid, a link, or whose account is"
            " left out. Settle that first"
        )
    if left:
        before = word(homes.path + ".before")
        whole = [name for name in left if not set("?…") & set(name)]  # of the others not every letter was told
        yield on([host.name])
        yield f"# no account's home: {', '.join(map(word, left))}: find out whose they are; this keeps them"
        for one in whole[:_MOST_SHOWN]:
            yield f"mkdir -p -m 0700 {before} && mv -n {word(f'{homes.path}/{one}')} {before}/"


def find_wrong_disk(host: Host, homes: Homes) -> Iterator[Conflict]:
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
            f"{homes.export} is on {found['fstype']}: backups of homes, semester-reset and the store of images"
            " need btrfs; everything else works",
            "note",
            (host.name,),
        )


def find_odd(host: Host, homes: Homes, people: People) -> Iterator[Conflict]:
    """Homes elsewhere, those that are links, and entries that are nobody's home by their name."""
    yield from _find_elsewhere(host, homes, people)
    yield from _find_unseen(host)
    known = {one["uid"] for one in host.listed("accounts")} | {0}
    for root in host.listed("homes"):
        if root["network"] or root["path"] != homes.path:
            continue
        for entry in root["entries"]:
            path = f"{root['path'].rstrip('/')}/{entry['name']}"
            if entry["name"] == "lost+found" or entry["uid"] not in known:  # those are told elsewhere
                continue
            whose = host.holders.get(path, [])
            link = entry.get("link")
            if whose and link:
                yield _describe_link(host, path, whose, link)
            elif not (whose and entry["kind"] == "directory"):
                owner = entry["owner"] or f"uid {entry['uid']}"
                look = f"ls -lab {word(root['path'])}        # then move it to whom it belongs, or away"
                home = f"it is the home of {listed(whose)}" if whose else "no account has it as its home"
                yield Conflict(
                    "home that is odd",
                    f"{path} is {_article(entry['kind'])} of {owner}, and {home}",
                    "decide",
                    (host.name,),
                    (),
                    (on([host.name]), look),
                )


def _find_elsewhere(host: Host, homes: Homes, people: People) -> Iterator[Conflict]:
    """Whose home is not where provision has it. On the host that serves homes what it serves is where it belongs."""
    served = homes.export if host.name == homes.server else None
    elsewhere = {
        name: plain_path(one["home"])
        for name, one in host.people.items()
        if name in people.persons and plain_path(one["home"]) not in (f"{homes.path}/{name}", f"{served}/{name}")
    }
    if not elsewhere:
        return
    words = ", ".join(f"{name} has {home}" for name, home in sorted(elsewhere.items())[:_MOST_SHOWN])
    more = f" and {len(elsewhere) - _MOST_SHOWN} more" if len(elsewhere) > _MOST_SHOWN else ""
    lines = []
    for name, old in sorted(elsewhere.items()):
        new, entry, place = f"{homes.path}/{name}", host.entries.get(old), host.homes(homes.path)
        if host.name == homes.server or people.persons[name].user is None or place is None or place["network"]:
            continue
        # guard: a home is brought to its place only where nothing is there
        if new in host.entries:
            continue
        if entry is not None and entry["kind"] == "directory" and entry["uid"] == host.people[name]["uid"]:
            lines.append(
                f"{copy_command(name, old, new)} && usermod -d {word(new)} {word(name)}        # {word(old)} stays"
            )
    yield Conflict(
        "home elsewhere",
        f"{words}{more}; provision gives everybody {homes.path}/NAME, and moves nothing",
        "decide",
        (host.name,),
        tuple(sorted(elsewhere)),
        (on([host.name]), *lines[:_MOST_SHOWN]) if lines else ("# their files stay where they are",),
    )


def _describe_link(host: Host, path: str, whose: list[str], link: Mapping[str, Any]) -> Conflict:
    """A home whose place has a link, since a disk was full once."""
    name, old, new = whose[0], plain_path(link["leads"]), f"{path}.moved"
    sure = len(whose) == 1 and link["leads"].startswith("/") and not set("?…") & set(old)
    account = next(one for one in host.listed("accounts") if one["name"] == name)
    swap = f"rm {word(path)} && mv -T {word(new)} {word(path)}"
    lines = [
        f"{copy_command(name, old, new)} && {swap}        # {word(old)} stays"
    ] if sure and link["uid"] == account["uid"] else []  # fmt: skip
    return Conflict(
        "home that is a link",
        f"{path}, the home of {listed(whose)}, is a symbolic link to {link['leads']}, where the files are. move-homes"
        " moves directories, and leaves it",
        "decide",
        (host.name,),
        tuple(whose),
        (
            on([host.name]),
            f"du -shL {word(path)}; df -h {word(posixpath.dirname(path))}        # is there room for it in its place?",
            *lines,
        ),
    )


def find_on_server(host: Host, homes: Homes, people: People) -> Iterator[Conflict]:
    """Homes in the storage host's own directory of homes, beside those that it serves."""
    root = host.homes(homes.path)
    if root is None or root["network"] or homes.export in (None, homes.path) or not root["entries"]:
        return
    whose = {
        entry["name"]: people.persons.get(entry["name"])
        for entry in root["entries"]
        if entry["kind"] == "directory" and entry["name"] in {*people.persons, *host.people}
    }
    lines = []
    for name, person in sorted(whose.items()):
        entry = host.entries.get(f"{homes.path}/{name}")
        if person is None or person.user is None or entry is None:
            continue
        # guard: what is in the storage host's own homes is copied as nobody but its owner
        if {entry["uid"], host.people.get(name, entry)["uid"]} == {person.uid}:
            new = word(f"{homes.export}/{name}/before-{host.name}")
            lines.append(f"test ! -e {new} && runuser -u {word(name)} -- cp -aT {word(f'{homes.path}/{name}')} {new}")
    if whose:
        yield Conflict(
            "homes of the storage host's own",
            f"{homes.path} of {host.name} has {counted(len(whose), 'home')} of people: {listed(sorted(whose))}. Nodes"
            f" mount {homes.export}, so nobody sees these there, and move-homes does not look at them",
            "decide",
            (host.name,),
            tuple(sorted(whose)),
            (
                f"# after gpuadmin provision --limit {word(host.name)}, which makes their homes, as root on"
                f" {word(host.name)}; what is copied stays",
                *lines[:_MOST_SHOWN],
            ) if lines else ("# they stay as they are",),
        )  # fmt: skip


def _find_unseen(host: Host) -> Iterator[Conflict]:
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
                    tuple(host.holders.get(path, ())),
                    (
                        on([host.name]),
                        f"findmnt {word(path)}        # what its person has mounted there; they can unmount it",
                        f"umount -l {word(path)}        # where they do not, or its server is gone",
                    ),
                )


def _article(kind: str) -> str:
    return {"other": "something", "directory": "a directory", "link": "a symbolic link", "file": "a file"}[kind]


def find_owners(host: Host, homes: Homes, elsewhere: Collection[int]) -> Iterator[Conflict]:
    """People whom the host has from elsewhere than its own files, and owners whom nobody knows.

    `elsewhere`: the uids of accounts on any host.
    """
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
    places = {home_root(path) for path in host.holders} | {homes.path}
    if host.name == homes.server and homes.export is not None:
        places.add(homes.export)  # its people may have accounts on nodes alone
    for root in host.listed("homes"):
        known = elsewhere if root["path"] == homes.export else {one["uid"] for one in host.listed("accounts")}
        for entry in root["entries"] if root["path"] in places else ():
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
