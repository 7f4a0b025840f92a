"""Mail a month's report."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date

from gpuadmin.actions.shared.mails import Post, perform_mail, plan_letters
from gpuadmin.actions.shared.now import plain_table
from gpuadmin.actions.shared.prometheus import Prometheus
from gpuadmin.actions.usage import measure, node_groups, read_accounts
from gpuadmin.common.given import past
from gpuadmin.common.queries import energy, project_seconds, waits
from gpuadmin.common.text import counted
from gpuadmin.console import echo
from gpuadmin.display import make_console
from gpuadmin.errors import ConfigError, ExitCode
from gpuadmin.mail.reporting import MonthReport, compose, make_letters
from gpuadmin.monitoring.monthly import Figures, Month, choose_month, ended_idle, make_figures
from gpuadmin.options import MailOptions, Options
from gpuadmin.outcome import finish
from gpuadmin.plan import PlanBuilder
from gpuadmin.records import history
from gpuadmin.session import Session, opened


def report_month(options: Options, mail: MailOptions, *, month: str | None) -> int:
    """Measure a month and the one before, and mail the report. Returns the exit code."""
    with opened("report", options, check=mail.preview) as session:
        settings = session.site.settings
        this = choose_month(month, date.today())
        with Prometheus(session.site) as prometheus:
            figures, before = (_measure(session, prometheus, one) for one in (this, this.before))
        language = settings.mail.languages[0] if settings.mail is not None else "en"
        made = compose(
            settings.name, language, figures, before, price=settings.metrics.price_per_kwh,
            currency=settings.metrics.currency, queue=settings.slurm is not None,
        )  # fmt: skip
        result = {"month": this.name, "report": asdict(made)}
        if settings.mail is None or not settings.mail.report:
            if mail != MailOptions():
                raise ConfigError("gpuadmin.yml: mail.report: is missing", hint="mail: {report: [prof@example.org], …}")
            if not options.json:
                _show(made)
                echo("gpuadmin.yml: mail.report names nobody, so nobody is mailed.", err=True)
            return finish(session, ExitCode.DONE, result)
        post = Post.of(session, mail)
        every = make_letters(made, this.name, settings.mail)
        # guard: nobody gets a month's report twice -> every
        letters = [one for one in every if post.is_open(one, mail)]
        builder = PlanBuilder(f"Report of {this.name} on {settings.name}")
        plan_letters(builder, letters)
        for entry in post.stuck(every, mail):
            builder.warn(entry.summary)
        plan = builder.build(question=f"Send {counted(len(letters), 'mail')}?")
        nothing = f"The report of {this.name} was sent already."
        return perform_mail(session, plan, letters, post, mail, result, nothing=nothing)


def _measure(session: Session, prometheus: Prometheus, month: Month) -> Figures:
    begin, end = month.span
    days, queued = month.days, session.site.settings.slurm is not None
    found, since = measure(session, prometheus, days, end)
    return make_figures(
        month, found, node_groups(session), read_accounts(session), since=since,
        waits=prometheus.ask(waits(days), end) if queued else (), energy=prometheus.ask(energy(days), end),
        projects=prometheus.ask(project_seconds(days), end) if queued else (),
        given=past(prometheus.over_time, begin, end), ended=ended_idle(history(session.site.runs), month),
    )  # fmt: skip


def _show(made: MonthReport) -> None:
    console = make_console(json=False)
    for line in (made.title, *made.lines):
        console.print(line)
    for one in made.tables:
        console.print()
        console.print(one.title)
        console.print(plain_table(one.columns, one.rows))
    console.print()
    console.print(made.notes)
