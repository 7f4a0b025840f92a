"""What does not fit about hosts: homes, Docker, sudo, sshd, subordinate ids, the root, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuadmin.adoption.conflict import Conflict, on, several, word
from gpuadmin.adoption.groups import Grouped, Homes
from gpuadmin.adoption.people import People
from gpuadmin.adoption.seen import Host
from gpuadmin.common.text import counted, listed
from gpuadmin.config.fields import USER_NAME

_MOST_SHOWN = 10
_ROOT_GROUPS = ("sudo", "wheel", "admin", "root", "lxd", "incus-admin", "libvirt", "disk", "shadow")
_INCLUDE = "Include /etc/ssh/sshd_config.d/*.conf"


def conflicts(
    hosts: Sequence[Host], groups: Mapping[str, Grouped], homes: Homes, people: People, admins: Sequence[str]
) -> list[Conflict]:
    """Everything about hosts that an admin has to know. `admins`: who is meant to be root."""
    found: list[Conflict] = []
    for host in hosts:
        node = "gpu" in groups[host.name].groups
        found += _unread(host)
        found += _system(host)
        if node:
            found += _homes(host, homes)
            found += _docker(host)
            found += _root(host)
        found += _odd_homes(host, homes, people)
        found += _names(host, people)
        found += _subids(host)
        found += _sudo(host, admins)
        found += _sshd(host)
        found += _services(host)
    return merged(found)


def merged(found: Sequence[Conflict]) -> list[Conflict]:
    """The same conflict on several hosts as one; remedies on hosts name all of them."""
    together: dict[tuple[str, str, tuple[str, ...]], list[Conflict]] = {}
    for one in found:
        together.setdefault((one.kind, one.words, one.people), []).append(one)
    result = []
    for ones in together.values():
        hosts = tuple(dict.fromkeys(host for one in ones for host in one.hosts))
        remedies = tuple(on(hosts) if line.startswith("# as root on ") else line for line in ones[0].remedies)
        result.append(Conflict(ones[0].kind, ones[0].words, ones[0].level, hosts, ones[0].people, remedies))
    return result


def _unread(host: Host) -> Iterator[Conflict]:
    if host.without_root is not None:
        yield Conflict(
            "read without root",
            "root could not be had there by sudo, so this is not known: password states and ends, other people's keys,"
            " closed homes, sudo's rules, sshd's settings, volumes of root's Docker",
            "decide",
            (host.name,),
            remedies=(
                f"gpuadmin adopt {word(host.name)} --ask-become-pass",
                f"gpuadmin adopt {word(host.name)} --admin root",
            ),
        )
        return
    for part, why in (host.part("unknown") or {}).items():
        yield Conflict(
            "not read",
            f"{part.replace('_', ' ')}: {why}",
            "decide",
            (host.name,),
            remedies=(f"gpuadmin adopt {word(host.name)}",),
        )


def _system(host: Host) -> Iterator[Conflict]:
    system = host.part("system")
    if system is not None and (system["family"] is None or not system["systemd"]):
        without = "" if system["systemd"] else " without systemd"
        yield Conflict(
            "system",
            f"runs {system['name']}{without}; gpuadmin works on Debian, Red Hat and Arch Linux and their kin, with systemd",
            "stops",
            (host.name,),
        )


def _homes(host: Host, homes: Homes) -> Iterator[Conflict]:
    """What is at the homes' place on a node: others' disks, or homes of its own."""
    there = host.homes(homes.path)
    if there is None:
        return
    if there["mounted"]:
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
        server = homes.server or "STORAGE"
        export = homes.export or "/srv/storage/homes"
        yield Conflict(
            "homes on the node",
            f"{homes.path} of {host.name} has {counted(len(names), 'home')} on its own disk, which the homes of the storage"
            f" host would hide: {listed(names)}",
            "stops",
            (host.name,),
            tuple(name for name in names if USER_NAME.fullmatch(name)),
            (
                on([host.name]),
                f"mv {word(homes.path)} {word(homes.path + '.before')} && mkdir -m 0755 {word(homes.path)}",
                on([server]),
                f"rsync -aHAX --numeric-ids root@{word(host.name)}:{word(homes.path + '.before')}/NAME/"
                f" {word(export)}/NAME/        # for each person; a second home of theirs into before-{word(host.name)}/",
                "# the whole way: docs/your-cluster.md#homes-on-the-node",
            ),
        )


def _odd_homes(host: Host, homes: Homes, people: People) -> Iterator[Conflict]:
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
    for root in host.listed("homes"):
        owned = {one["home"] for one in host.people.values()}
        for entry in root["entries"]:
            path = f"{root['path'].rstrip('/')}/{entry['name']}"
            if root["network"] or entry["name"] == "lost+found" or root["path"] != homes.path:
                continue
            if path in owned and entry["kind"] == "directory" and USER_NAME.fullmatch(entry["name"]):
                continue
            yield Conflict(
                "home that is odd",
                f"{path} is {_article(entry['kind'])} of {entry['owner'] or 'nobody that this host knows'} (uid"
                f" {entry['uid']}), and no home by its name: nobody's account has it",
                "decide",
                (host.name,),
                (),
                (on([host.name]), f"ls -ld {word(path)}        # then move it to whom it belongs, or away"),
            )


def _article(kind: str) -> str:
    return {"other": "something", "directory": "a directory", "link": "a symbolic link", "file": "a file"}[kind]


def _names(host: Host, people: People) -> Iterator[Conflict]:
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
            if entry["uid"] in known or entry["uid"] == 0 or root["network"]:
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


def _docker(host: Host) -> Iterator[Conflict]:
    members = host.members("docker")
    if members:
        yield Conflict(
            "in the group docker",
            f"{listed(sorted(members))}: in the group docker, which is as good as root; each gets a daemon of their own",
            "stops",
            (host.name,),
            tuple(sorted(members)),
            (on([host.name]), *several(sorted(members), "gpasswd -d {} docker")),
        )
    docker = host.part("docker")
    active = [unit for unit in ("docker.service", "docker.socket", "containerd.service") if host.active(unit)]
    if docker is None or not (active or docker["containers"] or docker["volume_count"]):
        return
    volumes = docker["volumes"]
    has = [
        "containers: not known without root" if docker["containers"] is None else counted(docker["containers"], "container"),
        "volumes: not known without root" if volumes is None
        else counted(docker["volume_count"] or 0, "volume") + (f" (named: {listed(volumes)})" if volumes else ""),
    ]  # fmt: skip
    runs = f"{', '.join(active)} runs as root; " if active else ""
    yield Conflict(
        "Docker of root's",
        f"{runs}{docker['data']} has {', '.join(has)}. Root's daemon is masked by provision; what it has stays on the disk",
        "stops" if active else "note",
        (host.name,),
        (),
        (
            on([host.name]),
            "docker ps -a        # whose each is: ask them",
            *(
                f"cp -a {word(docker['data'])}/volumes/{word(one)}/_data HOME/{word(one)}"
                for one in (volumes or [])[:3]
            ),
            "systemctl disable --now docker.socket docker.service containerd.service",
        ),
    )


def _subids(host: Host) -> Iterator[Conflict]:
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
        for left, right in overlaps([(one["name"], one["start"], one["count"]) for one in whole]):
            yield Conflict(
                "subordinate ids overlap",
                f"/etc/{kind}: {left[0]} has {_span(left)} and {right[0]} {_span(right)}: each can become the other inside"
                " of a container",
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


def _span(one: tuple[str, int, int]) -> str:
    return f"{one[1]}-{one[1] + one[2] - 1}"


def overlaps(ranges: Sequence[tuple[str, int, int]]) -> Iterator[tuple[tuple[str, int, int], tuple[str, int, int]]]:
    """Given (name, start, count) in the order of their starts, yield the pairs of two people's that overlap.

    Each range is compared with the one before it that goes furthest, so there are no more pairs than ranges.
    """
    furthest: tuple[str, int, int] | None = None
    for one in ranges:
        if furthest is not None and one[1] < furthest[1] + furthest[2] and one[0] != furthest[0]:
            yield furthest, one
        if furthest is None or one[1] + one[2] > furthest[1] + furthest[2]:
            furthest = one


def _sudo(host: Host, admins: Sequence[str]) -> Iterator[Conflict]:
    for one in host.listed("sudo"):
        yield Conflict(
            "sudo by hand",
            f"{one['key']}: {one['words']}",
            "decide",
            (host.name,),
            (),
            (on([host.name]), "visudo -f FILE        # provision leaves it, and gpuadmin drift reports it"),
        )
    for name in _ROOT_GROUPS:
        members = sorted(set(host.members(name)) - set(admins))
        if members:
            yield Conflict(
                "group of root's",
                f"{listed(members)}: in the group {name}, which is as good as root",
                "decide",
                (host.name,),
                tuple(members),
                (on([host.name]), *several(members, f"gpasswd -d {{}} {name}"), "# or name who may be: `protected`"),
            )
    roots = sorted(one["name"] for one in host.listed("accounts") if one["uid"] == 0 and one["name"] != "root")
    if roots:
        yield Conflict(
            "root by another name",
            f"{listed(roots)}: has uid 0",
            "decide",
            (host.name,),
            tuple(roots),
            (on([host.name]), *several(roots, "userdel {}")),
        )


def _sshd(host: Host) -> Iterator[Conflict]:
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
                f"sed -i '1i {_INCLUDE}' /etc/ssh/sshd_config && sshd -t && systemctl reload ssh",
            ),
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


def _root(host: Host) -> Iterator[Conflict]:
    root = host.part("root")
    if root is not None and root["problems"]:
        yield Conflict(
            "root without images",
            f"images cannot be used: {'; '.join(root['problems'][:3])}. Everything else works on any root",
            "note",
            (host.name,),
            remedies=("gpuadmin prepare-root --check", "# the whole way: docs/your-cluster.md#images-on-a-node"),
        )


#: Services that do what gpuadmin does, or that decide who is who.
_OTHERS: Mapping[str, str] = {
    "slurmctld.service": "Slurm's controller runs there: gpuadmin has a queue of its own (docs/slurm.md), and takes over none",
    "slurmd.service": "Slurm runs there: its jobs hold GPUs that gpuadmin knows nothing of",
    "k3s.service": "Kubernetes runs there: what it starts is nobody's to gpuadmin",
    "kubelet.service": "Kubernetes runs there: what it starts is nobody's to gpuadmin",
    "jupyterhub.service": "JupyterHub runs there: whoever logs in to it does not log in by ssh",
}


def _services(host: Host) -> Iterator[Conflict]:
    for unit, words in _OTHERS.items():
        if host.active(unit):
            yield Conflict("another system", f"{unit}: {words}", "decide", (host.name,))
    services = host.part("services")
    if services is not None and "docker" in services["repositories"]:
        system = host.part("system") or {"id": "debian"}
        yield Conflict(
            "Docker from docker.com",
            "Docker is installed from download.docker.com; provision installs the distribution's unless gpuadmin.yml names"
            " that repository",
            "decide",
            (host.name,),
            remedies=(
                f"curl -fsSLo docker.asc https://download.docker.com/linux/{word(system['id'])}/gpg",
                f"# in gpuadmin.yml: docker: {{repository: {{url: https://download.docker.com/linux/{system['id']},"
                " key: docker.asc, components: [stable]}}",
            ),
        )
