"""Show who holds a GPU without using it, or without a grant; tell them, and end what the site's policy says."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from gpuadmin.accounts.requests import known
from gpuadmin.actions.shared.mails import Post, mails_document, plan_letters, preview_document, show_letters
from gpuadmin.actions.shared.now import age, plain_table
from gpuadmin.actions.shared.prometheus import Prometheus
from gpuadmin.actions.shared.queue import ask, controller
from gpuadmin.actions.top import look
from gpuadmin.answers import Answers
from gpuadmin.common.idle import Idle, idle, jobs, spans, ungranted
from gpuadmin.common.mail.deliver import Delivery
from gpuadmin.common.mail.ledger import State
from gpuadmin.common.queries import idle as query_idle
from gpuadmin.common.text import clock, counted, listed
from gpuadmin.display import make_console
from gpuadmin.errors import ExitCode
from gpuadmin.mail.idling import plan_idle, terminal_words
from gpuadmin.mail.notices import Notices
from gpuadmin.monitoring.policy import Rules, Step, make_key, steps
from gpuadmin.options import MailOptions, Options
from gpuadmin.outcome import finish, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import Session, opened

#: node → what its module is given of one kind: messages to tell, or holds to stop
Items = dict[str, list[dict[str, Any]]]


def show_idle(options: Options, *, hours: int | None) -> int:
    """Ask Prometheus who has held a device for hours and not used it once. Returns the exit code."""
    with opened("idle", options, changes=False) as session:
        wanted = hours or session.site.settings.metrics.idle_hours
        rows, unknown = _rows(session, wanted)
        if not options.json:
            _show(rows, wanted, list(unknown))
        return finish(session, 0, {"idle": [asdict(row) for row in rows], "hours": wanted, "unknown": unknown})


def act_on_idle(options: Options, mail: MailOptions) -> int:
    """Do what the policy says: tell, wait, end. Returns the exit code."""
    with opened("idle", options, check=mail.preview) as session:
        settings, registry = session.site.settings, session.site.registry.registry
        if mail.again:
            known(session.site.registry, mail.again)
        rows, unknown = _rows(session, settings.metrics.idle_hours)
        rules = _rules(session)
        post = Post.of(session, mail) if settings.mail is not None else None

        def notified(key: str) -> float | None:
            entry = None if post is None else post.ledger.entry(key)
            return (
                datetime.fromisoformat(entry.time).timestamp()
                if entry
                # guard: a mail that nobody knows to have arrived ends nothing
                and entry.state is State.SENT
                else None
            )

        found = steps(rows, rules, notified, time.time())
        notices = Notices() if post is None else plan_idle(found, registry, rules, post.ledger, mail.again)
        found, why_not = _whole_jobs(session, found)
        stops = _stops(session, found)
        answers = _looked(session, stops)
        ending = _ending(found, answers)
        _plan(
            session, found, notices, answers, mailed=post is not None, unknown=list(unknown), jobs=ending, left=why_not
        )
        stops = _agreed(stops, answers, found, ending)
        result: dict[str, Any] = {
            "steps": [asdict(step) for step in found], **notices.document(), "unknown": unknown,
            "stopped": _outcomes(answers),
        }  # fmt: skip
        result["jobs"] = sorted(ending)
        if not notices.letters and not stops:
            session.console.print("There is nobody to notify and nothing to stop.")
            return finish(session, answers.code, {**mails_document(()), **result})
        if session.check:
            mails: Mapping[str, Any] = mails_document(())
            if post is not None:
                mails = preview_document(notices.letters, post.renderer)  # this finds a wrong template
                if mail.preview and not options.json:
                    show_letters(notices.letters, post.renderer)
            return finish(session, answers.code, {**mails, **result})
        session.confirm()
        session.begun()
        session.result = {**mails_document(()), **result}
        deliveries = [] if post is None or not notices.letters else post.send(notices.letters, session.console)
        jobs = _jobs(stops, _messages(session, found, rules, deliveries))
        run = session.run("idle", list(jobs), {"gpuadmin_idle": jobs}, check=False)
        after = Answers.of(run.hosts, list(stops), "idle")
        gone = _ending(found, after)
        # guard: who stops it while holds end cancels no job -> sorted(ending & gone)
        cancelled = [] if run.interrupted else sorted(ending & gone)
        result["jobs"] = cancelled
        if cancelled:
            keeper = controller(session)
            ending_as = {"gpuadmin_cancel": cancelled, "gpuadmin_cancel_why": "idle"}
            done = session.run("grant", [keeper], ending_as, check=False, label="idle: cancel jobs")
            run = run.then(done)
        bad = [one for one in deliveries if not one.good]
        if post is not None and deliveries:
            session.console.print(post.outcome(deliveries))
        for line in _sentences(after):
            session.console.print(line)
        for job in cancelled:
            session.console.print(f"job {job}: cancelled; its GPUs are the queue's again")
        code = run.code or (ExitCode.ERROR if bad else ExitCode.DONE)
        result = {**result, **mails_document(deliveries), "stopped": _outcomes(after)}
        return report(session, run, result, code=code, unknown=[after])


def _rows(session: Session, hours: int) -> tuple[list[Idle], dict[str, str]]:
    """Who has no grant, or is idle, and the nodes that are only partly known."""
    names, metrics = session.some("gpu"), session.site.settings.metrics
    with Prometheus(session.site) as prometheus:
        nodes = look(prometheus, names)
        asked = {span: prometheus.ask(query_idle(span)) for span in spans(hours)}
    unknown = {node.name: node.problem for node in nodes if node.problem is not None}
    of_jobs = jobs(nodes, hours, time.time(), metrics.idle_exempt)
    told = {(row.node, row.uuid, row.user) for row in of_jobs}  # of both, the job: ending it ends the hold as well
    held = [row for row in idle(nodes, asked, metrics.idle_exempt) if (row.node, row.uuid, row.user) not in told]
    return [*ungranted(nodes), *held, *of_jobs], unknown


def _rules(session: Session) -> Rules:
    settings, metrics = session.site.settings, session.site.settings.metrics
    people = {user.name for user in session.site.registry.registry.users}
    # guard: protected people are left alone -> set()
    protected = {name for name in people if settings.is_protected(name)}
    exempt = {*metrics.idle_exempt, *protected}
    return Rules(metrics.idle_hours, metrics.idle_notice_hours, metrics.idle_stop, exempt, people, protected)


def _uids(session: Session) -> dict[str, int]:
    """Of all who have one."""
    return {user.name: user.uid for user in session.site.registry.registry.users if user.uid is not None}


def _jobs(stops: Items, messages: Items) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Both kinds, as each node's module is given them."""
    return {host: {"tell": messages.get(host, []), "stop": stops.get(host, [])} for host in {**stops, **messages}}


def _stops(session: Session, found: Sequence[Step]) -> Items:
    """What each node is asked to end."""
    uids = _uids(session)
    stops: Items = {}
    for step in found:
        if step.what == "stop" and step.row.user in uids:
            target = {
                "user": step.row.user, "uid": uids[step.row.user], "uuid": step.row.uuid,
                "since": int(step.row.wrong_since or 0), "notified": int(step.notified or 0),
                "why": "ungranted" if step.row.ungranted is not None else "job_unused" if step.row.job else "unused",
            }  # fmt: skip
            stops.setdefault(step.row.node, []).append(target)
    return stops


def _looked(session: Session, stops: Items) -> Answers:
    """What the nodes say of what they are to end, before anybody is asked."""
    if not stops:
        return Answers()
    run = session.look("idle", list(stops), {"gpuadmin_idle": _jobs(stops, {})})
    return Answers.of(run.hosts, list(stops), "idle")


def _whole_jobs(session: Session, found: Sequence[Step]) -> tuple[list[Step], dict[str, str]]:
    """The steps, without those that would end a job of which not all is known; and by job why it is left.

    A job ends as a whole: each of its GPUs has to be unused, and its notice over, and Slurm has to say that it has no
    more than these.
    """
    ending = [step for step in found if step.what == "stop" and step.row.job]
    if not ending:
        return list(found), {}
    why: dict[str, str] = {}
    answers, _ = ask(session, controller(session))
    queue = {one["id"]: one for answer in answers.known.values() for one in answer["jobs"] if not one["place"]}
    for job in {step.row.job for step in ending}:
        mine = [step for step in found if step.row.job == job]
        there = queue.get(job)
        if there is None:
            why[job] = next(iter(answers.unknown.values()), "it has ended")
        elif there["user"] != mine[0].row.user:  # guard: somebody else's job is not cancelled
            why[job] = "it is somebody else's"
        # guard: a job of which one GPU may be used is not cancelled
        elif there["gpus"] != len(mine) or any(step.what != "stop" for step in mine):
            why[job] = "not all of its GPUs are unused, or their notice is not over"
    return [step for step in found if step.row.job not in why or step.what != "stop"], why


def _ending(found: Sequence[Step], answers: Answers) -> set[str]:
    """The jobs to cancel: on each of their GPUs nothing is left, or would be, by what the nodes say."""
    said = {
        (host, one["user"], one["uuid"]): one["status"]
        for host, answer in answers.known.items()
        for one in answer["stopped"]
    }
    kept = {
        step.row.job
        for step in found
        if step.what == "stop"
        # guard: a job whose GPU somebody may use is not cancelled
        and said.get((step.row.node, step.row.user, step.row.uuid)) not in ("would stop", "stopped", "gone")
    }
    return {step.row.job for step in found if step.what == "stop" and step.row.job} - kept


def _agreed(stops: Items, answers: Answers, found: Sequence[Step] = (), ending: Collection[str] = ()) -> Items:
    """Of what is to end, that which the nodes would end; who did not answer is asked the next time. What a job that is
    cancelled has is looked at once more, also where nothing holds it now."""
    of_jobs = {(step.row.node, step.row.user, step.row.uuid): step.row.job for step in found if step.row.job}
    ready = {
        (host, one["user"], one["uuid"])
        for host, answer in answers.known.items()
        for one in answer["stopped"]
        if (one["status"] == "would stop" and not of_jobs.get((host, one["user"], one["uuid"])))
        or of_jobs.get((host, one["user"], one["uuid"])) in ending
    }
    agreed = {
        host: [one for one in given if (host, one["user"], one["uuid"]) in ready] for host, given in stops.items()
    }
    return {host: given for host, given in agreed.items() if given}


def _messages(session: Session, found: Sequence[Step], rules: Rules, deliveries: Sequence[Delivery]) -> Items:
    """What each node shows on terminals, to those whose mail went out just now."""
    uids = _uids(session)
    sent = {
        key
        for one in deliveries
        if one.good  # guard: whose mail did not go out is not told by their terminal
        for key in one.letter.keys
    }
    mine: dict[tuple[str, str], list[Step]] = {}
    for step in found:
        if (
            step.what == "tell"
            and make_key(step.row, rules) in sent  # guard: who was not mailed at all is not told by their terminal
            and step.row.user in uids
        ):
            mine.setdefault((step.row.node, step.row.user), []).append(step)
    messages: Items = {}
    for (node, user), theirs in mine.items():
        messages.setdefault(node, []).append({"uid": uids[user], "message": terminal_words(theirs, rules)})
    return messages


def _plan(
    session: Session,
    found: Sequence[Step],
    notices: Notices,
    answers: Answers,
    *,
    mailed: bool,
    unknown: Sequence[str],
    jobs: Collection[str] = (),
    left: Mapping[str, str] | None = None,
) -> None:
    name = session.site.settings.name
    what = "not used" if all(step.row.ungranted is None for step in found) else "not used or not granted"
    builder = PlanBuilder(f"GPUs of {name} that are held and {what}", destroys=any(one.what == "stop" for one in found))
    plan_letters(builder, notices.letters)
    for host, answer in answers.known.items():
        for one in answer["stopped"]:
            builder.add(host, _sentence(one))
    for row in {step.row.job: step.row for step in found if step.row.job in jobs}.values():
        builder.add(row.node, f"cancel job {row.job} of {row.user}: its GPUs are not used, and others get them")
    for job, reason in (left or {}).items():
        builder.warn(f"job {job} is left: {reason}")
    for host, why in answers.unknown.items():
        builder.warn(f"{host}: it is not known what to end there: {why}")
    for step in found:
        where = f"{step.row.user} on {step.row.node}, GPU {step.row.index}"
        if step.what == "wait" and step.due is not None:
            stays = "it stays unused" if step.row.ungranted is None else "they still hold it"
            builder.warn(f"{where}: {_why(step.row)}was told; ended in {age(step.due - time.time())} if {stays}")
        elif step.what == "nothing":
            builder.warn(f"{where}: {_why(step.row)}nothing is done: {step.why}")
        elif step.row.ungranted is not None:
            builder.warn(f"{where}: {_why(step.row)}{'told' if step.what == 'tell' else 'ended'} now")
    for warning in notices.warnings:
        builder.warn(warning)
    if not mailed:
        builder.warn("gpuadmin.yml has no `mail`: nobody is told, so nothing is ended")
    if unknown:
        builder.warn(f"partly unknown because of a problem: {listed(unknown)} (gpuadmin top)")
    count = sum(1 for one in found if one.what == "stop")
    ends = f", and end what holds {counted(count, 'GPU')}" if count else ""
    session.plan(builder.build(question=f"Send {counted(len(notices.letters), 'mail')}{ends}?"))


def _why(row: Idle) -> str:
    """`has no grant for it (ended 18:00): `; nothing where it is only not used."""
    if row.ungranted is None:
        return f"job {row.job}: " if row.job else ""
    return f"has no grant for it (ended {clock(row.ungranted)}): "


def _sentence(one: Mapping[str, Any]) -> str:
    what = counted(int(one["processes"]), "process", "processes")
    more = f" and stop the container {', '.join(one['containers'])}" if one["containers"] else ""
    words = {
        "would stop": f"end {what} of {one['user']}'s{more}, on {one['uuid']}",
        "stopped": f"{one['user']}'s {what} on {one['uuid']} ended",
        "gone": f"nothing of {one['user']}'s holds {one['uuid']} any more",
    }
    return words.get(str(one["status"]), f"keep {one['user']}'s on {one['uuid']}: {one['why']}")


def _sentences(answers: Answers) -> list[str]:
    return [f"{host}: {_sentence(one)}" for host, answer in answers.known.items() for one in answer["stopped"]]


def _outcomes(answers: Answers) -> dict[str, Any]:
    return {host: answer["stopped"] for host, answer in answers.known.items()}


def _show(rows: list[Idle], hours: int, unknown: list[str]) -> None:
    console = make_console(json=False)
    if rows:
        table = [
            (
                row.user, row.node, row.index, row.name, ", ".join(row.containers) or "—",
                "unknown" if row.since is None else age(time.time() - row.since),
                f"{row.hours} h or longer" if row.ungranted is None else "—",
                row.policy if row.ungranted is None else f"{row.policy}: no grant since {clock(row.ungranted)}",
            )
            for row in rows
        ]  # fmt: skip
        titles = ("Person", "Node", "GPU", "Model", "Container", "Held for", "Not used for", "Policy")
        console.print(plain_table(titles, table))
        console.print("gpuadmin idle --act tells them. gpuadmin.yml: metrics.idle_exempt names who may hold one idle.")
    else:
        console.print(f"Nobody has held a GPU for {hours} h without using it, as far as it is known.")
    if unknown:
        console.print(f"Partly unknown because of a problem: {listed(unknown)} (gpuadmin top)")
