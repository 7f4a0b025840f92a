"""What does not fit about hosts: homes, Docker, sudo, sshd, subordinate ids, the root, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuadmin.common.text import the_page
from gpuadmin.takeover.adoption import home_conflicts, own_homes, root_conflicts
from gpuadmin.takeover.adoption.conflict import Conflict, word
from gpuadmin.takeover.adoption.earlier import merged
from gpuadmin.takeover.adoption.groups import Grouped, Homes
from gpuadmin.takeover.adoption.people import People
from gpuadmin.takeover.adoption.seen import Host


def find_host_conflicts(
    hosts: Sequence[Host], groups: Mapping[str, Grouped], homes: Homes, people: People, admins: Sequence[str]
) -> list[Conflict]:
    """Everything about hosts that an admin has to know. `admins`: who is meant to be root."""
    nodes = [host for host in hosts if "gpu" in groups[host.name].groups]
    on_nodes = own_homes.own_homes(nodes, homes, people, own_homes.served(hosts, homes))
    uids = {one["uid"] for host in hosts for one in host.listed("accounts")}
    found: list[Conflict] = [*own_homes.several(on_nodes, homes)]
    for host in hosts:
        node = "gpu" in groups[host.name].groups
        found += _find_unread(host)
        found += _find_system(host)
        if node:
            found += home_conflicts.find_on_node(host, homes, on_nodes)
            found += root_conflicts.find_docker(host)
            found += _find_root(host)
        if host.name == homes.server:
            found += home_conflicts.find_wrong_disk(host, homes)
            found += home_conflicts.find_on_server(host, homes, people)
        found += home_conflicts.find_odd(host, homes, people)
        found += home_conflicts.find_owners(host, homes, uids)
        found += root_conflicts.find_subids(host)
        found += root_conflicts.find_sudo(host, admins)
        found += root_conflicts.find_sshd(host)
        found += _find_services(host)
    return merged(found)


def _find_unread(host: Host) -> Iterator[Conflict]:
    if host.without_root is not None:
        why = host.without_root.partition(" (at the step")[0]
        yield Conflict(
            "read without root",
            f"gpuadmin could not become root there: {why}. Not known without: password states and ends, other"
            " people's keys, closed homes, sudo's rules, sshd's settings, volumes of root's Docker",
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


def _find_system(host: Host) -> Iterator[Conflict]:
    system = host.part("system")
    if system is not None and not (system["family"] and system["systemd"]):
        without = "" if system["systemd"] else " without systemd"
        yield Conflict(
            "system",
            f"runs {system['name']}{without}; gpuadmin works on Debian and Ubuntu, with systemd",
            "stops",
            (host.name,),
        )


def _find_root(host: Host) -> Iterator[Conflict]:
    root = host.part("root")
    if root is not None and root["problems"]:
        yield Conflict(
            "root without images",
            f"images cannot be used: {'; '.join(root['problems'][:3])}. Everything else works on any root",
            "note",
            (host.name,),
            remedies=(
                "gpuadmin prepare-root --check",
                f"# the whole way: {the_page('your-cluster')}, Images on a node",
            ),
        )


#: Services that do what gpuadmin does, or that decide who is who.
_OTHERS: Mapping[str, str] = {
    "slurmctld.service": "Slurm's controller runs there: gpuadmin has a queue of its own"
    f" ({the_page('slurm')}), and takes over no other",
    "slurmd.service": "Slurm runs there: its jobs hold GPUs that gpuadmin knows nothing of",
    "k3s.service": "Kubernetes runs there: what it starts is nobody's to gpuadmin",
    "kubelet.service": "Kubernetes runs there: what it starts is nobody's to gpuadmin",
    "jupyterhub.service": "JupyterHub runs there: whoever logs in to it does not log in by ssh",
}


def _find_services(host: Host) -> Iterator[Conflict]:
    for unit, words in _OTHERS.items():
        if host.active(unit):
            yield Conflict("another system", f"{unit}: {words}", "decide", (host.name,))
    services = host.part("services")
    if services is not None and "docker" in services["repositories"]:
        system = host.part("system") or {"id": "debian"}
        yield Conflict(
            "Docker from docker.com",
            "Docker is installed from download.docker.com; provision installs the distribution's unless"
            " gpuadmin.yml names"
            " that repository",
            "decide",
            (host.name,),
            remedies=(
                f"curl -fsSLo docker.asc https://download.docker.com/linux/{word(system['id'])}/gpg",
                f"# in gpuadmin.yml: docker: {{repository: {{url: https://download.docker.com/linux/{system['id']},"
                " key: docker.asc, components: [stable]}}",
            ),
        )
