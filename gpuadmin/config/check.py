"""What `gpuadmin check` looks at beyond the schema: inventory groups, dates, and what will bite later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

from gpuadmin.common.amounts import NONE
from gpuadmin.common.names import SLURM_WORDS
from gpuadmin.common.text import listed
from gpuadmin.config.groups import GROUPS
from gpuadmin.config.host_variables import LIMITS
from gpuadmin.config.inventory import Inventory
from gpuadmin.config.known_hosts import known_as, no_keys, pinned_keys, read_known_hosts
from gpuadmin.config.load import KNOWN_HOSTS, Parts, Site
from gpuadmin.config.memory import WAY_OUT, recall
from gpuadmin.config.private_key import login_problem
from gpuadmin.config.queue import saved, takes_jobs
from gpuadmin.config.schema import User
from gpuadmin.config.schema.limits import any_amount
from gpuadmin.similar import did_you_mean

#: What is said of a site without limits, and the way out.
NO_LIMITS = "one person can take all memory of a node, and then nobody can log in until it is power-cycled"
WITH_LIMITS = "add `limits: {}` to gpuadmin.yml; only people who take too much notice these limits"


@dataclass(frozen=True)
class Finding:
    """Something that is wrong (error) or will bite later (warning), and the way out."""

    level: Literal["error", "warning"]
    where: str
    message: str
    hint: str


def findings(site: Site, *, today: date | None = None) -> list[Finding]:
    """Given a site that loads, return what is still wrong with it."""
    today = today or date.today()
    return [
        *_memory(site),
        *_inventory(site.inventory),
        *_known_hosts(site.directory, site.inventory),
        *_admin(site),
        *_homes(site),
        *_backups(site),
        *_limits(site),
        *_people(site, today),
        *_term(site, today),
        *_mail(site),
        *_metrics(site),
        *_slurm(site),
    ]


def findings_of_parts(parts: Parts) -> list[Finding]:
    """Given a site that does not load completely, return what is wrong with the rest, as far as possible."""
    return [] if parts.inventory is None else list(_inventory(parts.inventory))


def _memory(site: Site) -> Iterator[Finding]:
    for contradiction in recall(site.directory).contradictions(site.registry.registry):
        yield Finding("error", "users.yml", contradiction, WAY_OUT)


def _inventory(inventory: Inventory) -> Iterator[Finding]:
    where = "inventory/hosts.yml"
    if not inventory.hosts:
        yield Finding("error", where, "names no host", "add your machines below the groups gpu and storage")
        return
    for group in ("gpu", "storage"):
        if not inventory.group(group):
            yield Finding("error", f"{where}: {group}", f"no host is in it ({GROUPS[group]})", "put a host there")
    golden = inventory.group("golden")  # always in gpu too: inventory/groups.yml says so
    if len(golden) > 1:
        names = ", ".join(host.name for host in golden)
        yield Finding("error", f"{where}: golden", f"holds {names}", "one node is golden; leave one of them")
    for host in inventory.hosts:
        if not set(host.groups) & set(GROUPS):
            yield Finding(
                "warning",
                f"{where}: {host.name}",
                f"is in no group that gpuadmin knows{_meant(host.groups)}",
                f"groups: {', '.join(GROUPS)}",
            )
    yield from _group_slips(inventory, where)
    addresses: dict[tuple[str, int], str] = {}
    for host in inventory.hosts:
        key = (host.address, host.port)
        if key in addresses:
            yield Finding(
                "error",
                f"{where}: {host.name}",
                f"is reached at {key[0]} port {key[1]}, like {addresses[key]}",
                "two names for one machine would set it up twice; correct ansible_host or ansible_port",
            )
        addresses[key] = host.name


def _meant(groups: Sequence[str]) -> str:
    """Which group was meant where one has almost its name."""
    for group in groups:
        if close := did_you_mean(group, GROUPS):
            return f": '{group}'; {close}"
    return ""


def _known_hosts(site: Path, inventory: Inventory) -> Iterator[Finding]:
    text = read_known_hosts(site / KNOWN_HOSTS)
    for line in no_keys(text):
        yield Finding("error", f"known_hosts:{line}", "is not a host key, so ssh ignores it", "gpuadmin trust HOST")
    unknown = [host.name for host in inventory.hosts if not pinned_keys(text, known_as(host.address, host.port))]
    if len(unknown) == 1:
        yield Finding(
            "warning", f"known_hosts: {unknown[0]}", "its ssh host key is not pinned", f"gpuadmin trust {unknown[0]}"
        )
    elif unknown:
        message = f"the ssh host keys of {len(unknown)} hosts are not pinned: {listed(unknown)}"
        yield Finding("warning", "known_hosts", message, "gpuadmin trust --all")


def _admin(site: Site) -> Iterator[Finding]:
    """The keys that hosts are logged in to with: the site's, and those that the inventory names for some."""
    named = site.settings.admin.ssh_key
    keys: dict[str | None, str] = {} if named is None else {named: "gpuadmin.yml: admin.ssh_key"}
    for host in site.inventory.hosts:
        if not host.local:
            own = host.key is not None
            where = f"inventory: {host.name}: ansible_ssh_private_key_file" if own else "gpuadmin.yml: admin.ssh_key"
            keys.setdefault(host.key if own else named, where)
    for key, where in keys.items():
        if problem := login_problem(key):
            level: Literal["error", "warning"] = "error" if problem.sure and key is not None else "warning"
            yield Finding(level, where, f"{problem.key} {problem.message}", problem.hint)


def _group_slips(inventory: Inventory, where: str) -> Iterator[Finding]:
    groups = {group for host in inventory.hosts for group in host.groups} | set(GROUPS) | {"all", "ungrouped"}
    for host in inventory.hosts:
        if host.name in groups:
            yield Finding(
                "error",
                f"{where}: {host.name}",
                "a host and a group have this name, and Ansible cannot tell which is meant",
                f"give the host another name, such as {host.name}1 with ansible_host: {host.address}",
            )
        if {"gpu", "storage"} <= set(host.groups):
            yield Finding(
                "error",
                f"{where}: {host.name}",
                "is in gpu and in storage: people do not log in to the host that serves the homes",
                "take it out of one of them",
            )


def _homes(site: Site) -> Iterator[Finding]:
    homes, where = site.settings.homes, "gpuadmin.yml: homes"
    storage = site.inventory.group("storage")
    if homes.server is not None and homes.server not in [host.name for host in storage]:
        yield Finding(
            "error",
            f"{where}.server",
            f"'{homes.server}' is not a host of group storage",
            "name one of that group",
        )
    if homes.mountpoint is not None and not f"{homes.export}/".startswith(f"{homes.mountpoint}/"):
        yield Finding("error", f"{where}.mountpoint", f"{homes.export} is not below it", "correct one of the two")
    docker = site.settings.docker
    if f"{docker.data}/".startswith(f"{homes.path}/"):
        yield Finding(
            "error",
            "gpuadmin.yml: docker.data",
            f"is in {homes.path}, which is NFS",
            "use a local disk, such as /local/.docker",
        )


def _backups(site: Site) -> Iterator[Finding]:
    backups, homes = site.settings.backups, site.settings.homes
    if backups.directory is not None and f"{backups.directory}/".startswith(f"{homes.export}/"):
        yield Finding(
            "error",
            "gpuadmin.yml: backups.directory",
            f"is in {homes.export}, which every node can see",
            "name a directory beside the homes",
        )
    for host in site.inventory.group("backup"):
        if "storage" in host.groups:
            yield Finding(
                "error",
                f"inventory/hosts.yml: {host.name}",
                "is in the groups storage and backup; a copy on the same host does not count",
                "put another host into the group backup",
            )
        if "gpu" in host.groups:
            yield Finding(
                "warning",
                f"inventory/hosts.yml: {host.name}",
                "is in the groups gpu and backup: people who work on it can fill its disks and slow it down",
                "a host of its own keeps second copies better",
            )


def _limits(site: Site) -> Iterator[Finding]:
    limits, where = site.settings.limits, "gpuadmin.yml: limits"
    if limits is None:
        if site.inventory.group("gpu"):
            yield Finding("warning", where, NO_LIMITS, WITH_LIMITS)
        own = [host for host in site.inventory.hosts if set(LIMITS) & set(host.variables)]
        for host in own[:1]:
            name = next(name for name in LIMITS if name in host.variables)
            message = f"{name} does nothing: gpuadmin.yml has no section limits"
            yield Finding("error", f"inventory: {host.name}", message, WITH_LIMITS)
        return
    hosts = [host.variables for host in site.inventory.hosts]
    named = dict.fromkeys(name for entry in limits.people for name in entry.names)
    strange = [name for name in named if site.registry.find(name) is None]
    if strange and site.settings.accounts.source == "registry":
        message = f"{listed([repr(name) for name in strange])} {'is' if len(strange) == 1 else 'are'} not in users.yml"
        yield Finding("warning", f"{where}.people", message, "correct the name if it is a slip")
    yield from _nobody_in(site, f"{where}.people", [group for entry in limits.people for group in entry.groups])
    if any_amount(limits, hosts, "home") and not site.inventory.group("monitor"):
        message = "nobody is told how large their home is: nothing measures homes without a monitor host"
        yield Finding("warning", f"{where}.home", message, "put a host into the group monitor: docs/monitoring.md")
    if any_amount(limits, hosts, "docker") and limits.disk_reserve == NONE:
        message = "nothing enforces it: limits.disk_reserve is 0, so quotas of btrfs are off"
        yield Finding("warning", f"{where}.docker", message, "give limits.disk_reserve a share or a size, such as 5%")


def _nobody_in(site: Site, where: str, groups: Iterable[str]) -> Iterator[Finding]:
    """Groups of people that nobody is in."""
    there = {user.group for user in site.registry.registry.users if user.group is not None}
    for group in dict.fromkeys(groups):
        if group not in there:
            hint = did_you_mean(group, there) or "gpuadmin change-user NAME --group GROUP"
            yield Finding("warning", where, f"nobody in users.yml has `group: {group}`", hint)


def _people(site: Site, today: date) -> Iterator[Finding]:
    file, settings, users = site.registry.file, site.settings, site.registry.registry.users

    def of_all(whom: list[int], field: str, one: Callable[[User], str], many: str, hint: str) -> Iterator[Finding]:
        # the same about many is one line: five thousand would hide the rest
        if not whom:
            return
        first = users[whom[0]]
        names = listed([users[index].name for index in whom])
        message = one(first) if len(whom) == 1 else f"{len(whom)} {many}: {names}"
        where = f"{file.where(('users', whom[0]))}{field}" if len(whom) == 1 else file.path.name
        yield Finding("warning", where, message, hint.replace("NAME", first.name) if len(whom) == 1 else hint)

    late = [
        index
        for index, user in enumerate(users)
        if user.expires is not None and user.expires < today and not user.locked
    ]
    yield from of_all(
        late, ".expires", lambda user: f"'{user.name}' expired on {user.expires}", "people have expired",
        "gpuadmin extend-user NAME --expires DATE, or remove-user",
    )  # fmt: skip
    if settings.accounts.source == "registry":
        yield from of_all(
            [index for index, user in enumerate(users) if not user.keys], "",
            lambda user: f"'{user.name}' has no ssh key and cannot log in",
            "people have no ssh key and cannot log in", "add one under keys",
        )  # fmt: skip
    strange = [name for name in settings.protected if site.registry.find(name) is None]
    if strange:
        verb = "is" if len(strange) == 1 else "are"
        yield Finding(
            "warning",
            "gpuadmin.yml: protected",
            f"{listed([repr(name) for name in strange])} {verb} not in users.yml",
            "correct the name if it is a slip",
        )
    used = len(site.registry.registry.users) + len(site.registry.registry.retired)
    size = settings.accounts.uid_last - settings.accounts.uid_first + 1
    if used > size * 0.9:
        yield Finding(
            "warning", "gpuadmin.yml: accounts", f"{used} of {size} uids are taken", "raise accounts.uid_last"
        )


def _term(site: Site, today: date) -> Iterator[Finding]:
    term = site.settings.term
    if term is not None and term.deadline < today:
        yield Finding(
            "warning",
            "gpuadmin.yml: term.deadline",
            f"{term.name} ended on {term.deadline}",
            "set the next term",
        )


def _mail(site: Site) -> Iterator[Finding]:
    mail, where = site.settings.mail, "gpuadmin.yml: mail"
    if mail is None:
        return
    silent = [user.name for user in site.registry.registry.users if user.email is None]
    if silent:
        message = f"no e-mail address, so never notified: {listed(silent)}"
        yield Finding("warning", "users.yml", message, "give one: email")
    if mail.password_file is not None:
        file = Path(mail.password_file).expanduser()
        if file.is_relative_to(site.directory):
            yield Finding(
                "error",
                f"{where}.password_file",
                f"{file} is in the site, whose files are copied and put under version control",
                "move it out, to ~/.config/gpuadmin/ for instance",
            )


def _metrics(site: Site) -> Iterator[Finding]:
    metrics, mail, where = site.settings.metrics, site.settings.mail, "gpuadmin.yml: metrics"
    monitors = site.inventory.group("monitor")
    if len(monitors) > 1:
        names = ", ".join(host.name for host in monitors)
        yield Finding("error", "inventory/hosts.yml: monitor", f"holds {names}", "one host watches; leave one of them")
    if "gpu" in {group for host in monitors for group in host.groups}:
        yield Finding(
            "warning",
            "inventory/hosts.yml: monitor",
            "holds a node: people log in there, and can read what is measured of others",
            "put the storage host, or one of its own, into the group monitor",
        )
    if metrics.mail_to and mail is None:
        yield Finding("error", f"{where}.mail_to", "no mail can be sent", "say how under mail: host, sender")
    if metrics.mail_to and mail is not None and mail.security == "tls" and mail.server[1] != 465:
        yield Finding(
            "error",
            f"{where}.mail_to",
            f"Alertmanager begins with TLS on port 465 alone, and mail.port is {mail.server[1]}",
            "use port 465, or mail.security: starttls",
        )
    if monitors and not (metrics.mail_to or metrics.webhook):
        yield Finding("warning", where, "alerts reach nobody", "name somebody in mail_to, or a webhook")


def _slurm(site: Site) -> Iterator[Finding]:
    section, hosts = site.settings.slurm, site.inventory.group("slurm")
    if section is None:
        if hosts:
            message = "is in the group slurm, and gpuadmin.yml has no section slurm: provision takes the queue away"
            yield Finding("warning", f"inventory: {hosts[0].name}", message, "add `slurm: {}` to gpuadmin.yml")
        return
    if not hosts:
        message = "there is no queue: no host is in the group slurm"
        hint = "put one host into the inventory's group slurm; the storage host may be that"
        yield Finding("error", "gpuadmin.yml: slurm", message, hint)
    nodes = site.inventory.group("gpu")
    for host in site.inventory.hosts:
        if host.variables.get("slurm_node") is True and host not in nodes:
            message = "slurm_node does nothing: only hosts of the group gpu take jobs"
            yield Finding(
                "error", f"inventory: {host.name}", message, "put it into the group gpu, or remove slurm_node"
            )
        if host.name.upper() in SLURM_WORDS and takes_jobs(site.settings, site.inventory.hosts, host):
            message = "is called by a word of Slurm's, which would take it for something else"
            yield Finding("error", f"inventory: {host.name}", message, "rename it, or set slurm_node: false for it")
    if hosts and nodes and not any(takes_jobs(site.settings, site.inventory.hosts, one) for one in nodes):
        message = "no node takes jobs: slurm_node is false for all of them"
        yield Finding("error", "inventory: slurm_node", message, "set slurm_node: true for a node, or remove it")
    if len(hosts) > 1:
        names = ", ".join(host.name for host in hosts)
        yield Finding("error", "inventory: slurm", f"holds {names}", "a queue has one controller; leave one of them")
    if any("gpu" in host.groups for host in hosts):
        message = "is in the groups slurm and gpu: whoever slows this node down slows the queue down"
        yield Finding("error", f"inventory: {hosts[0].name}", message, "the storage host can have the queue")
    if hosts and not saved(site.settings, site.inventory.hosts):
        message = "no backup has the queue's accounting: backups are of what the storage host has"
        yield Finding(
            "warning", f"inventory: {hosts[0].name}", message,
            "let the storage host have the queue, or run mariadb-dump there yourself (docs/slurm.md)",
        )  # fmt: skip
    if site.settings.accounts.source != "registry":
        message = "the queue knows the people of users.yml, and accounts.source is directory"
        yield Finding(
            "error", "gpuadmin.yml: slurm", message, "keep accounts in users.yml, or remove the section slurm"
        )
    open_nodes = [
        host.name
        for host in site.inventory.group("gpu")
        if takes_jobs(site.settings, site.inventory.hosts, host)
        and (host.variables.get("gpus_access") or site.settings.gpus.access) == "open"
    ]
    if open_nodes:
        message = (
            f"people can use GPUs without waiting for their turn on {listed(open_nodes)}: they are open to everybody"
        )
        yield Finding("warning", "gpuadmin.yml: gpus.access", message, "set it to granted")
    yield from _nobody_in(site, "gpuadmin.yml: slurm.groups", [group.name for group in section.groups])
