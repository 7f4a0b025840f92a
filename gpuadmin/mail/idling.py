"""The mails about GPUs that are held and not used, or without a grant: of each kind one for each address. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from itertools import chain

from gpuadmin.common.mail.letter import Letter
from gpuadmin.common.text import clock, counted
from gpuadmin.config.schema import Registry
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.notices import Notices, Sorting
from gpuadmin.monitoring.policy import Rules, Step, make_key


def plan_idle(
    steps: Sequence[Step], registry: Registry, rules: Rules, ledger: Ledger, again: Collection[str] = ()
) -> Notices:
    """Given what to do, return the mails to the people to tell."""
    kinds = [_plan(one, registry, rules, ledger, again) for one in _by_reason(steps) if one]
    names = [one.name for one in fields(Notices)]
    return Notices(**{name: tuple(chain.from_iterable(getattr(one, name) for one in kinds)) for name in names})


def _by_reason(steps: Sequence[Step]) -> tuple[list[Step], list[Step], list[Step]]:
    """Those that are not used, those of jobs that are not, and those that nobody granted."""
    unused = [one for one in steps if one.row.ungranted is None]
    return (
        [one for one in unused if not one.row.job],
        [one for one in unused if one.row.job],
        [one for one in steps if one.row.ungranted is not None],
    )


def _plan(steps: Sequence[Step], registry: Registry, rules: Rules, ledger: Ledger, again: Collection[str]) -> Notices:
    template, what = ("idle", "not used") if steps[0].row.ungranted is None else ("ungranted", "not granted")

    def letter(address: str, found: Sequence[Step]) -> Letter:
        names = tuple(dict.fromkeys(step.row.user for step in found))
        items = [
            {"node": step.row.node, "index": step.row.index, "name": step.row.name,
             "containers": list(step.row.containers), "job": step.row.job, "since": clock(step.row.wrong_since or 0)}
            for step in found
        ]  # fmt: skip
        stop_hours = rules.notice if rules.ends(found[0].row) else None
        values = {"items": items, "hours": rules.after, "stop_hours": stop_hours}
        summary = f"{counted(len(found), 'GPU')} held and {what}"
        return Letter(template, address, tuple(make_key(step.row, rules) for step in found), names, summary, values)

    sorting = Sorting[Step](ledger, again)
    users = {user.name: user for user in registry.users}
    for step in steps:
        if step.what == "tell":
            sorting.add(users[step.row.user], make_key(step.row, rules), step)
    return sorting.notices(letter)


def terminal_words(steps: Sequence[Step], rules: Rules) -> str:
    """What somebody reads on their terminals on a node: of the GPUs there, in both languages."""
    return "\n".join(_words(one, rules) for one in _by_reason(steps) if one)


def _words(steps: Sequence[Step], rules: Rules) -> str:
    gpus = ", ".join(f"GPU {step.row.index}" for step in steps)
    if steps[0].row.ungranted is not None:
        return (
            f"{gpus}: your time with it is over, and a program of yours still has it open. Save your work and end it: "
            f"what still holds it in {counted(rules.notice, 'hour')} will be stopped. More time: ask your admins.\n"
            f"{gpus}: 사용 기간이 끝났지만 아직 점유 중입니다. 작업을 저장하고 종료해 주세요. "
            f"{rules.notice}시간 뒤에도 점유 중이면 강제로 종료됩니다. 연장은 관리자에게 문의하세요."
        )
    after = counted(rules.after, "hour")
    if steps[0].row.job:
        jobs = ", ".join(dict.fromkeys(step.row.job for step in steps))
        english = f"{gpus}: the queue has given it to you (job {jobs}), and you have not used it for {after}."
        english += " Please give back what you do not need: gpu release."
        korean = f"{gpus}: 대기열에서 받은 뒤(작업 {jobs}) {rules.after}시간 넘게 사용하지 않고 있습니다."
        korean += " 필요 없으면 반납해 주세요: gpu release."
        if rules.stop:
            english += f" A job that is still unused in {counted(rules.notice, 'hour')} is cancelled."
            korean += f" {rules.notice}시간 뒤에도 그대로이면 작업이 취소됩니다."
        return f"{english}\n{korean}"
    english = f"{gpus}: you hold it and have not used it for {after}. Please end what you do not need."
    korean = f"{gpus}: {rules.after}시간 넘게 사용하지 않고 점유 중입니다. 필요 없는 작업은 종료해 주세요."
    if rules.stop:
        english += f" What still holds it unused in {counted(rules.notice, 'hour')} will be stopped."
        korean += f" {rules.notice}시간 뒤에도 그대로이면 강제로 종료됩니다."
    return f"{english}\n{korean}"
