"""The verbs of GPUs: which there are, whose they are, and what is done with them."""

from __future__ import annotations

from datetime import date

import click

from gpuadmin.cli._complete import hosts, pattern, people
from gpuadmin.cli._options import WholeNumber, as_day, mail_options, require_no_passwords, run_options
from gpuadmin.options import MailOptions, Options


@click.command("list-gpus")
@run_options(changes=False)
def list_gpus(options: Options) -> int:
    """Show every GPU of the nodes, how many there are of how many are expected, and what is missing or wrong.

    It changes nothing. Without a driver it shows what the PCI bus has. A driver that does not answer is given up after
    20 seconds.
    """
    from gpuadmin.actions.list_gpus import list_gpus

    return list_gpus(options)


@click.command("top")
@run_options(changes=False)
@click.option("--once", is_flag=True, help="Show it once and leave; the default without a terminal and with --json.")
@click.option("--user", metavar="NAME", shell_complete=people(), help="Only what this person holds.")
@click.option("--local", is_flag=True, help="Ask the nodes themselves, once; also while the monitor host is away.")
@click.option("--every", type=WholeNumber(1, 3600), metavar="SECONDS", help="How often it is shown anew.  [default: 5]")
@click.option("--free", is_flag=True, help="Show once on which nodes somebody can run now.")
@click.option("--gpus", type=WholeNumber(1, 64), metavar="N", help="With --free: how many on one node.  [default: 1]")
@click.option("--memory", type=WholeNumber(0, 10000), metavar="GIB", help="With --free: GiB that each must have left.")
def top(
    options: Options,
    once: bool,
    user: str | None,
    local: bool,
    every: int | None,
    free: bool,
    gpus: int | None,
    memory: int | None,
) -> int:
    """Show what every GPU of the cluster does now, who holds it, in which container and since when. q ends it.

    It asks Prometheus on the monitor host, or with --local every node, and changes nothing. A node that is down, or of
    which nothing is known, is a row that says so: what is unknown is never shown as free.

    With --free: the nodes on which somebody can run now, with GPUs or MIG devices that nobody holds.

    \b
    gpuadmin top --free --gpus 2 --memory 40
    """
    from gpuadmin.actions import top as action

    if not local:
        require_no_passwords(options, "--local")
    if free and (user is not None or local or every is not None):
        raise click.UsageError("--free shows what nobody holds, once: leave --user, --local and --every out")
    if not free and (gpus is not None or memory is not None):
        raise click.UsageError("--gpus and --memory go with --free")
    if free:
        return action.show_free(options, gpus=gpus or 1, memory=memory or 0)
    return action.top(options, once=once, user=user, local=local, every=every or 5)


@click.command("usage")
@run_options(changes=False, playbook=False)
@click.option("--since", "days", type=WholeNumber(1, 3650), metavar="DAYS", help="The last days.  [default: 30]")
@click.option("--from", "first", metavar="DAY", callback=as_day, help="From this day on instead (YYYY-MM-DD).")
@click.option("--to", "last", metavar="DAY", callback=as_day, help="With --from: the last day.  [default: today]")
@click.option("--term", is_flag=True, help="The term instead, from term.begin to today.")
@click.option(
    "--by", "kind", type=click.Choice(["user", "account", "project", "node", "group"]), default="user",
    show_default=True,
    help="A row for each person, account in the queue (slurm.groups), project (users[].projects), node, or group of "
    "nodes of the site's own inventory.",
)  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, for a spreadsheet.")
@click.option("--html", "page", metavar="FILE", help="Write it as a page with charts, which needs nothing else.")
def usage(
    options: Options,
    days: int | None,
    first: date | None,
    last: date | None,
    term: bool,
    kind: str,
    as_csv: bool,
    page: str | None,
) -> int:
    """Show how many GPU-hours were held and used: of what was bought, how much was taken, and how much of that
    computed.

    Allocated is what the queue gave to somebody, granted what was theirs alone, by the queue or an admin. Held is a
    GPU that somebody's process has open; used is one on which something ran. Efficiency is used of held,
    where it is known.
    """
    from gpuadmin.actions.usage import Asked, show_projects, show_usage

    if as_csv and options.json:
        raise click.UsageError("--csv and --json: one of them")
    if sum((days is not None, first is not None, term)) > 1:
        raise click.UsageError("--since, --from and --term: one of them")
    if last is not None and (first is None or last < first):
        raise click.UsageError("--to goes with --from, and is the same day or a later one")
    if kind == "project":
        if page is not None:
            raise click.UsageError("--html: --by project has no page")
        return show_projects(options, asked=Asked(days or 30, first, last, term), as_csv=as_csv)
    return show_usage(options, asked=Asked(days or 30, first, last, term), kind=kind, as_csv=as_csv, page=page)


@click.command("report")
@click.option("--month", metavar="YYYY-MM", help="Another month that is over.  [default: the last one]")
@mail_options
@run_options(playbook=False, limit=False)
def report(options: Options, mail: MailOptions, month: str | None) -> int:
    """Mail a month's report to mail.report, once each: what was held, used and waited for, by group and person; what
    the idle rule took back; what admins gave; kWh, and where metrics.price_per_kwh is set, their cost; all beside the
    month before. Where mail.report names nobody it is only shown.

    \b
    gpuadmin report --preview                     # the last month's, in full
    gpuadmin report --month 2026-10
    """
    from gpuadmin.actions.report import report_month

    return report_month(options, mail, month=month)


@click.command("idle")
@click.option(
    "--hours", type=WholeNumber(1, 168), metavar="N", help="Not used for so long.  [default: metrics.idle_hours]"
)
@click.option("--act", is_flag=True, help="Tell them once, and end what the site's policy says; without it only show.")
@mail_options
@run_options()
def idle(options: Options, mail: MailOptions, hours: int | None, act: bool) -> int:
    """Show who holds a GPU and has not used it once for hours, and what the site's policy says of it.

    With --act they are told, by mail and on their terminals. Where metrics.idle_stop says so, what they were told of is
    ended after metrics.idle_notice_hours, if it was not used in all that time. Where gpus.access is granted, the same
    happens to whoever still holds a GPU after their grant, whatever metrics.idle_stop says. Unattended: --act --yes, by
    cron. MIG devices never count as idle: their hours of use are not counted.
    """
    from gpuadmin.actions.idle import act_on_idle, show_idle

    if act and hours is not None:
        raise click.UsageError("--act goes by metrics.idle_hours: leave --hours out")
    if not act and (options.check or options.yes or mail != MailOptions()):
        raise click.UsageError("without --act nothing is told or ended: give it, or leave the other options out")
    if not act:
        require_no_passwords(options, "--act")
    return act_on_idle(options, mail) if act else show_idle(options, hours=hours)


@click.command("dashboard")
@run_options(
    changes=False, check="Only look whether it answers, and with which certificate.", limit=False, playbook=False
)
@click.option("--open", "browser", is_flag=True, help="Open it in this machine's browser, too.")
@click.option(
    "--port",
    type=WholeNumber(1024, 65535),
    metavar="PORT",
    help="On this machine.  [default: the dashboard's own, or a free one]",
)
def dashboard(options: Options, browser: bool, port: int | None) -> int:
    """Open the cluster's web page as an admin: through ssh, with a link that works once. Ctrl-C ends it.

    The dashboard's port need not be open to anybody for this. With --check no link is made. People have gpuadmin-me web
    on nodes.
    """
    from gpuadmin.actions.dashboard import dashboard

    return dashboard(options, browser=browser, port=port)


@click.command("grant")
@click.argument("name", metavar="NAME", shell_complete=people())
@click.argument("host", metavar="HOST", shell_complete=hosts())
@click.option(
    "--gpus", "number", type=WholeNumber(min=1, max=64), help="How many GPUs; the node chooses.  [default: 1]"
)
@click.option(
    "--gpu", "ids", multiple=True, metavar="ID", help="Which GPU: its number (0, 1, …) or UUID. Repeat it for several."
)
@click.option("--mig", metavar="PROFILE", help="A MIG device of this profile, such as 1g.10gb.")
@click.option("--hours", type=WholeNumber(min=1, max=24 * 366), help="For how many hours.")
@click.option("--until", metavar="TIME", help="Until when: tonight, HH:MM, YYYY-MM-DD or YYYY-MM-DDTHH:MM.")
@click.option("--reason", metavar="TEXT", default="", help="Why; everybody can read it.")
@run_options(limit=False)
def grant(
    name: str,
    host: str,
    number: int | None,
    ids: tuple[str, ...],
    mig: str | None,
    hours: int | None,
    until: str | None,
    reason: str,
    options: Options,
) -> int:
    """Grant somebody GPUs of a node until a time, where gpus.access is granted.

    They can open the GPUs at once, in shells and containers that are running and in new ones; nobody else can. The
    node takes the GPUs back by itself. What is granted to somebody else is not granted again.

    On a node of Slurm's queue it is an exception: a job in their name that has no limits and starts before all others.
    It starts now, or the command says who has the GPUs. It needs a --reason.

    \b
    gpuadmin grant minji gpu1 --gpus 2 --hours 8
    gpuadmin grant minji gpu1 --gpu 0 --until tonight --reason 'paper deadline'
    gpuadmin grant minji gpu1 --mig 1g.10gb --hours 4
    """
    from gpuadmin.actions.grant import Granting, grant

    if sum((number is not None, bool(ids), bool(mig))) > 1:
        raise click.UsageError("--gpus says how many, --gpu which, and --mig a profile: give one of them")
    if (hours is None) == (until is None):
        raise click.UsageError("say until when: either --hours or --until")
    return grant(
        options, Granting(name, host, number or (0 if ids or mig else 1), ids, hours, until, reason, mig or "")
    )


@click.command("revoke")
@click.argument("names", metavar="NAME|ID...", nargs=-1, required=True, shell_complete=people())
@run_options()
def revoke(names: tuple[str, ...], options: Options) -> int:
    """End grants before their time: all of a person's, or the one with an ID.

    Nothing new can open those GPUs from then on. What already holds one keeps it until it lets it go.

    A grant that Slurm's queue has made ends with its job, which is cancelled.

    \b
    gpuadmin revoke minji --limit gpu1
    gpuadmin revoke 1f2e3d4c
    """
    from gpuadmin.actions.revoke import revoke

    return revoke(options, names)


@click.command("grants")
@click.option(
    "--past", "days", is_flag=False, flag_value="90", type=WholeNumber(1, 3650), metavar="[DAYS]",
    help="What admins gave in the last DAYS (90), exceptions of the queue included, and how each ended, as measured.",
)  # fmt: skip
@run_options(changes=False)
def grants(options: Options, days: int | None) -> int:
    """Show who was granted which GPUs, until when, by whom and why."""
    from gpuadmin.actions.grants import show_grants, show_past

    return show_grants(options) if days is None else show_past(options, days)


@click.command("queue")
@run_options(changes=False, limit=False)
def queue(options: Options) -> int:
    """Show who has GPUs of the queue, who waits for some and why, what is booked, and which nodes take no jobs.

    People see the same with `gpu list` on their nodes.
    """
    from gpuadmin.actions.queue import show_queue

    return show_queue(options)


@click.command("drain")
@click.argument("nodes", metavar="HOST...", nargs=-1, required=True, shell_complete=hosts())
@click.option("--reason", metavar="TEXT", help="Why; everybody can read it.  [default: an admin drains it]")
@run_options(limit=False)
def drain(nodes: tuple[str, ...], reason: str | None, options: Options) -> int:
    """Let nodes take no further jobs of the queue. What runs there goes on until it ends.

    \b
    gpuadmin drain gpu1 --reason 'new image at six'
    gpuadmin resume gpu1
    """
    from gpuadmin.actions.drain import drain

    return drain(options, nodes, reason)


@click.command("resume")
@click.argument("nodes", metavar="HOST...", nargs=-1, required=True, shell_complete=hosts())
@run_options(limit=False)
def resume(nodes: tuple[str, ...], options: Options) -> int:
    """Let nodes take jobs of the queue again: those that were drained, and those that Slurm has drained itself.

    It looks at each node first, and leaves one that is sick as it is.

    `gpuadmin queue` shows which nodes take none, and why.
    """
    from gpuadmin.actions.drain import resume

    return resume(options, nodes)


@click.command("burn-in")
@click.argument("nodes", metavar="HOST...", nargs=-1, required=True, shell_complete=hosts())
@run_options()
def burn_in(nodes: tuple[str, ...], options: Options) -> int:
    """Load the GPUs of nodes with a program (gpus.health.burn_in), before they join or come back from repair.

    A node takes no work meanwhile, nor afterwards until one passes. It then takes jobs again, if nobody else has
    drained it. Refused where somebody computes. The node keeps a record.
    """
    from gpuadmin.actions.burn_in import burn_in

    return burn_in(options, nodes)


@click.command("mig")
@click.argument("hosts", metavar="[HOST...]", nargs=-1, shell_complete=pattern())
@click.option("--when-idle", is_flag=True, help="Wait until nobody holds a GPU or was granted it, for a day at most.")
@run_options()
def mig(hosts: tuple[str, ...], when_idle: bool, options: Options) -> int:
    """Divide GPUs into MIG devices as gpus.mig says, and make whole again what it does not name.

    Only GPUs that nobody holds or was granted are divided; the plan names the people who keep the others. With
    --when-idle they are told, and each GPU is divided as soon as it is free. Nodes make the devices again after a boot.

    \b
    gpuadmin mig --check
    gpuadmin mig gpu1 --when-idle
    """
    from gpuadmin.actions.mig import divide

    return divide(options, hosts, when_idle=when_idle)
