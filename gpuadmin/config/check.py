"""What `gpuadmin check` looks at beyond the schema: what does not fit together, dates, and what will bite later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date

from gpuadmin.common.amounts import NONE
from gpuadmin.common.text import listed, the_page
from gpuadmin.config.check_hosts import of_inventory, of_keys, of_known_hosts
from gpuadmin.config.check_queue import of_notebooks, of_queue
from gpuadmin.config.check_shared import of_shared
from gpuadmin.config.finding import Finding, nobody_in
from gpuadmin.config.host_variables import LIMITS
from gpuadmin.config.load import Parts, Site
from gpuadmin.config.memory import WAY_OUT, recall
from gpuadmin.config.schema import User
from gpuadmin.config.schema.limits import any_amount
from gpuadmin.config.schema.term import MAIL_PASSWORD
from gpuadmin.errors import ConfigError
from gpuadmin.local_programs import ask_program
from gpuadmin.reading import expanded, read_secret

#: What is said of a site without limits, and the way out.
NO_LIMITS = "one person can take all memory of a node, and then nobody can log in until it is power-cycled"
WITH_LIMITS = "add `limits: {}` to gpuadmin.yml; only people who take too much notice these limits"


def findings(site: Site, *, today: date | None = None) -> list[Finding]:
    """Given a site that loads, return what is still wrong with it."""
    today = today or date.today()
    return [
        *_memory(site),
        *of_inventory(site.inventory),
        *of_known_hosts(site.directory, site.inventory),
        *of_keys(site),
        *_admins(site, today),
        *_homes(site),
        *_backups(site),
        *_limits(site),
        *_people(site, today),
        *_term(site, today),
        *_mail(site),
        *_metrics(site),
        *_timers(site),
        *of_queue(site),
        *of_notebooks(site),
        *of_shared(site),
    ]


def findings_of_parts(parts: Parts) -> list[Finding]:
    """Given a site that does not load completely, return what is wrong with the rest, as far as possible."""
    return [] if parts.inventory is None else list(of_inventory(parts.inventory))


def _memory(site: Site) -> Iterator[Finding]:
    for contradiction in recall(site.directory).contradictions(site.registry.registry):
        yield Finding("error", "users.yml", contradiction, WAY_OUT)


def _admins(site: Site, today: date) -> Iterator[Finding]:
    for index, one in enumerate(site.settings.admins or ()):
        where = f"gpuadmin.yml: admins[{index}]"
        if site.registry.find(one.name) is not None:
            yield Finding(
                "error",
                f"{where}.name",
                f"'{one.name}' is in users.yml, and an admin's account is separate from the person's own",
                f"give the admin's account another name, such as {one.name}-admin",
            )
        if one.until is not None and one.until < today:
            yield Finding(
                "warning",
                f"{where}.until",
                f"'{one.name}' has been no admin since {one.until}",
                "set another day, or take the entry out; then gpuadmin provision",
            )


def _homes(site: Site) -> Iterator[Finding]:
    homes, where = site.settings.homes, "gpuadmin.yml: homes"
    storage = [host.name for host in site.inventory.group("storage")]
    for key, server in (("homes", homes.server), ("images", site.settings.images.server)):
        if server is not None and server not in storage:
            why = f"'{server}' is not a host of group storage"
            yield Finding("error", f"gpuadmin.yml: {key}.server", why, "name one of that group")
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
    yield from nobody_in(site, f"{where}.people", [group for entry in limits.people for group in entry.groups])
    if any_amount(limits, hosts, "home"):
        message = "on btrfs, which backups need, nothing refuses more: people are told what was measured"
        hint = f"ext4 and xfs with user quotas refuse, and have no backups: {the_page('admin-guide')}"
        yield Finding("warning", f"{where}.home", message, hint)
    if any_amount(limits, hosts, "home") and not site.inventory.group("monitor"):
        message = "nobody is told how large their home is: nothing measures homes without a monitor host"
        yield Finding(
            "warning", f"{where}.home", message, f"put a host into the group monitor: {the_page('monitoring')}"
        )
    for place in ("docker", "scratch"):
        if limits.disk_reserve != NONE or not any_amount(limits, hosts, place):
            continue
        message = "nothing enforces it: limits.disk_reserve is 0, so quotas of btrfs are off"
        yield Finding("warning", f"{where}.{place}", message, "give limits.disk_reserve a share or a size, such as 5%")


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
            lambda user: f"'{user.name}' has no ssh key there, and logs in only with one in their home on the hosts",
            "people have no ssh key there, and log in only with one in their homes on the hosts",
            "add one under keys; gpuadmin diagnose NAME says whether somebody has another",
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
        file = expanded(mail.password_file)
        if file.is_relative_to(site.directory):
            yield Finding(
                "error",
                f"{where}.password_file",
                f"{file} is in the site, whose files are copied and put under version control",
                "move it out, to ~/.config/gpuadmin/ for instance",
            )
    timers = site.settings.timers
    by_timers = timers is not None and {"idle", "notify", "report"} & {*timers.verbs}
    # the monitor host has the file where it mails; alerts have its password from here
    if mail.user is not None and mail.password_file is not None and (site.settings.metrics.mail_to or not by_timers):
        try:
            read_secret(MAIL_PASSWORD, mail.password_file, "mail.password_file")
        except ConfigError as error:
            yield Finding("warning", "gpuadmin.yml", error.message, error.hint or "correct that file")


def _timers(site: Site) -> Iterator[Finding]:
    timers, mail, where = site.settings.timers, site.settings.mail, "gpuadmin.yml: timers"
    if timers is None:
        return
    if not site.inventory.group("monitor"):
        yield Finding("error", where, "no host is in the group monitor, whose timers they are", "name one there")
    if mail is not None and mail.user is not None and mail.password_file is None:
        yield Finding("error", where, "a timer has no environment to find the mail password in", "mail.password_file")
    if ("shutdown" in timers.verbs) != (timers.shutdown is not None):
        yield Finding(
            "error", where, "shutdown is in one of `verbs` and `shutdown` alone", "say when, and how many nodes"
        )
    if timers.shutdown is not None:
        done = ask_program("systemd-analyze", "calendar", "--", timers.shutdown.when)
        hint = "`Fri 20:00`, or what else systemd.time(7) has"
        # without systemd, or with one that does not run, nobody can tell here, and the monitor host refuses it
        if done is not None and done.returncode == 1:
            why = done.stderr.strip().splitlines() or ["no such time"]
            yield Finding("error", f"{where}.shutdown.when", why[0], hint)
        elif done is not None and "Next elapse: never" in done.stdout:
            yield Finding("warning", f"{where}.shutdown.when", f"{timers.shutdown.when} does not come any more", hint)
        try:
            named = site.inventory.limited(timers.shutdown.hosts, "timers.shutdown.hosts")
        except ConfigError as error:
            yield Finding("error", "gpuadmin.yml", error.message, error.hint or "name nodes")
        else:
            if not any("gpu" in host.groups for host in named):
                yield Finding("error", f"{where}.shutdown.hosts", "names no node", "name nodes: `gpu:!gpu1`")
    if "power" in timers.verbs and (site.settings.slurm is None or not site.inventory.group("slurm")):
        yield Finding("error", where, "power switches on what the queue needs, and there is no queue", "take it out")
    if {"notify", "report"} & {*timers.verbs} and mail is None:
        yield Finding("error", where, "no mail can be sent", "say how under mail: host, sender")


def _metrics(site: Site) -> Iterator[Finding]:
    metrics, mail, where = site.settings.metrics, site.settings.mail, "gpuadmin.yml: metrics"
    monitors = site.inventory.group("monitor")
    if len(monitors) > 1:
        names = ", ".join(host.name for host in monitors)
        yield Finding("error", "inventory/hosts.yml: monitor", f"holds {names}", "one host watches; keep one of them")
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
    for place in metrics.power_budgets:
        if not any(place in host.place for host in site.inventory.hosts):
            message, hint = f"no host has '{place}' in its place", "gpuadmin audit shows the places of the inventory"
            yield Finding("error", f"{where}.power_budgets", message, hint)
    if monitors and not (metrics.mail_to or metrics.webhook):
        yield Finding("warning", where, "alerts reach nobody", "name somebody in mail_to, or a webhook")
