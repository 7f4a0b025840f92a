"""What makes somebody root on a host, or another person: Docker, sudo, subordinate ids; and what sshd keeps out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuadmin.common.text import counted, listed, the_page
from gpuadmin.config.fields import USER_NAME
from gpuadmin.takeover.adoption.conflict import Conflict, on, several, word
from gpuadmin.takeover.adoption.seen import Host

_GROUPS = ("sudo", "wheel", "admin", "root", "lxd", "incus-admin", "libvirt", "disk", "shadow")
_Range = tuple[str, int, int]
_INCLUDE = "Include /etc/ssh/sshd_config.d/*.conf"


def find_docker(host: Host) -> Iterator[Conflict]:
    members = host.members("docker")
    if members:
        yield Conflict(
            "in the group docker",
            f"{listed(sorted(members))}: in the group docker, which is as good as root; each gets a daemon of their"
            " own",
            "stops",
            (host.name,),
            tuple(sorted(members)),
            (on([host.name]), *_list_leave_commands(host, "docker", sorted(members))),
        )
    docker = host.part("docker")
    active = [unit for unit in ("docker.service", "docker.socket", "containerd.service") if host.active(unit)]
    if docker is None or not (active or docker["containers"] or docker["volume_count"]):
        return
    volumes, containers = docker["volumes"], docker["containers"]
    named = f" (named: {listed(volumes)})" if volumes else ""
    has = [
        "containers that are not known without root" if containers is None else counted(containers, "container"),
        "volumes that are not known without root" if volumes is None
        else f"{counted(docker['volume_count'] or 0, 'volume')}{named}",
    ]  # fmt: skip
    runs = f"{', '.join(active)} runs as root; " if active else ""
    yield Conflict(
        "Docker of root's",
        f"{runs}{docker['data']} has {', '.join(has)}. Root's daemon is masked by provision; what it has stays on the"
        " disk",
        "stops" if active else "note",
        (host.name,),
        (),
        (
            on([host.name]),
            "docker ps -a        # whose each is: ask them",
            "systemctl disable --now docker.socket docker.service containerd.service",
            f"# after provision, gpuadmin move-docker carries images and volumes to people: {the_page('move-docker')}",
        ),
    )


def _list_leave_commands(host: Host, group: str, members: Sequence[str]) -> list[str]:
    """What takes people out of a group; whose first one it is gets one of their own."""
    named, first = host.named_in(group), host.first_in(group)
    own = (
        '{ getent group {} > /dev/null || groupadd -g "$(id -u {})" {}; } && usermod -g {} {}'
        "        # with nobody of that name logged in"
    )
    lines = several([one for one in members if one in named], f"gpasswd -d {{}} {group}")
    return [*lines, *several([one for one in members if one in first], own)]


def find_subids(host: Host) -> Iterator[Conflict]:
    ranges = host.part("subids")
    if ranges is None:
        return
    for kind in ("subuid", "subgid"):
        odd = [one for one in ranges[kind] if one["start"] is None or not one["count"]]
        if odd:
            yield Conflict(
                "subordinate ids damaged",
                f"/etc/{kind} has {counted(len(odd), 'line')} that newuidmap does not read:"
                f" {listed([one['name'] for one in odd], 3)}",
                "decide",
                (host.name,),
                remedies=(on([host.name]), f"sed -n l /etc/{kind}        # then correct the line"),
            )
        whole = sorted((one for one in ranges[kind] if one["start"] is not None and one["count"]), key=_start)
        for left, right in find_overlaps([(one["name"], one["start"], one["count"]) for one in whole]):
            yield Conflict(
                "subordinate ids overlap",
                f"/etc/{kind}: {left[0]} has {_span(left)} and {right[0]} {_span(right)}: each can become the other"
                " inside a container",
                "stops",
                (host.name,),
                tuple(name for name in (left[0], right[0]) if USER_NAME.fullmatch(name)),
                (
                    on([host.name]),
                    f"{'usermod --del-subuids' if kind == 'subuid' else 'usermod --del-subgids'}"
                    f" {right[1]}-{right[1] + right[2] - 1} {word(right[0])}"
                    "        # with their containers removed; provision gives them a range of their own",
                ),
            )


def _start(one: Mapping[str, int]) -> int:
    return one["start"]


def _span(one: _Range) -> str:
    return f"{one[1]}-{one[1] + one[2] - 1}"


def find_overlaps(ranges: Sequence[_Range]) -> Iterator[tuple[_Range, _Range]]:
    """Given (name, start, count) in the order of their starts, yield the pairs of two people's that overlap.

    Each range is compared with the one before it that goes furthest, so there are no more pairs than ranges.
    """
    furthest: tuple[str, int, int] | None = None
    for one in ranges:
        if furthest is not None and one[1] < furthest[1] + furthest[2] and one[0] != furthest[0]:
            yield furthest, one
        if furthest is None or one[1] + one[2] > furthest[1] + furthest[2]:
            furthest = one


def find_sudo(host: Host, admins: Sequence[str]) -> Iterator[Conflict]:
    for one in host.listed("sudo") if host.without_root is None else ():  # nobody else can read its rules
        yield Conflict(
            "sudo by hand",
            f"{one['key']}: {one['words']}",
            "decide",
            (host.name,),
            (),
            (on([host.name]), "# visudo -f, with that file: provision leaves the rule, and gpuadmin drift reports it"),
        )
    for name in _GROUPS:
        members = sorted(set(host.members(name)) - set(admins))
        if members:
            yield Conflict(
                "group of root's",
                f"{listed(members)}: in the group {name}, which is as good as root",
                "decide",
                (host.name,),
                tuple(members),
                (on([host.name]), *_list_leave_commands(host, name, members), "# or name who may be: `protected`"),
            )
    roots = sorted(one["name"] for one in host.listed("accounts") if one["uid"] == 0 and one["name"] != "root")
    if roots:
        yield Conflict(
            "root by another name",
            f"{listed(roots)}: has uid 0",
            "decide",
            (host.name,),
            tuple(roots),
            (on([host.name]), "# passwd -l NAME, then out of /etc/passwd with vipw, where nobody logs in with it"),
        )


def find_sshd(host: Host) -> Iterator[Conflict]:
    sshd = host.part("sshd")
    if sshd is None:
        return
    if not sshd["include"]:
        yield Conflict(
            "sshd without Include",
            "/etc/ssh/sshd_config does not include /etc/ssh/sshd_config.d/*.conf, where people's keys are",
            "stops",
            (host.name,),
            remedies=(
                on([host.name]),
                "grep -H . /etc/ssh/sshd_config.d/*.conf        # what holds from then on: read it first",
                f"sed -i '1i {_INCLUDE}' /etc/ssh/sshd_config && sshd -t && systemctl reload ssh",
            ),
        )
    command = [one for one in sshd["settings"].get("authorizedkeyscommand", ()) if one != "none"]
    if command:
        yield Conflict(
            "keys from a command",
            f"sshd asks {command[0]} for keys as well (AuthorizedKeysCommand): adopt cannot read those, and they are"
            " not in users.yml",
            "decide",
            (host.name,),
            remedies=(on([host.name]), "sshd -T | grep -i authorizedkeys        # who says there whose key is whose?"),
        )
    if sshd["problem"] and host.without_root is None:
        yield Conflict(
            "not read",
            f"sshd's settings: {sshd['problem']}. Keys were looked for where sshd looks by itself",
            "decide",
            (host.name,),
            remedies=(on([host.name]), "sshd -T"),
        )
    for keyword in ("allowusers", "allowgroups", "denyusers", "denygroups"):
        names = sshd["settings"].get(keyword)
        if names:
            yield Conflict(
                "sshd keeps people out",
                f"{keyword}: {', '.join(names)}; gpuadmin sets no such list, and whoever it leaves out cannot log in",
                "decide",
                (host.name,),
                remedies=(on([host.name]), "sshd -T | grep -i -e allow -e deny        # then change it in sshd_config"),
            )
