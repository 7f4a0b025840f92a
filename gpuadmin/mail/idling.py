"""The mails about GPUs that are held and not used: one for each address, about all of its GPUs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from gpuadmin.common.text import counted
from gpuadmin.config.schema import Registry
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.letter import Letter
from gpuadmin.mail.notices import Notices, Sorting
from gpuadmin.monitoring.policy import Rules, Step, key_of


def plan_idle(
    steps: Sequence[Step], registry: Registry, rules: Rules, ledger: Ledger, again: Collection[str] = ()
) -> Notices:
    """Given what to do, return the mails to the people to tell."""

    def letter(address: str, found: Sequence[Step]) -> Letter:
        names = tuple(dict.fromkeys(step.row.user for step in found))
        items = [
            {"node": step.row.node, "index": step.row.index, "name": step.row.name,
             "containers": list(step.row.containers), "since": _when(step.row.unused or 0)}
            for step in found
        ]  # fmt: skip
        values = {"items": items, "hours": rules.after, "stop_hours": rules.notice if rules.stop else None}
        summary = f"{counted(len(found), 'GPU')} held and not used"
        return Letter("idle", address, tuple(key_of(step.row, rules) for step in found), names, summary, values)

    sorting = Sorting[Step](ledger, again)
    users = {user.name: user for user in registry.users}
    for step in steps:
        if step.what == "tell":
            sorting.add(users[step.row.user], key_of(step.row, rules), step)
    return sorting.notices(letter)


def terminal_words(steps: Sequence[Step], rules: Rules) -> str:
    """What somebody reads on their terminals on a node: of the GPUs there, in both languages."""
    gpus = ", ".join(f"GPU {step.row.index}" for step in steps)
    after = counted(rules.after, "hour")
    english = f"{gpus}: you hold it and have not used it for {after}. Please end what you do not need."
    korean = f"{gpus}: {rules.after}시간 넘게 사용하지 않고 점유 중입니다. 필요 없는 작업은 종료해 주세요."
    if rules.stop:
        english += f" What still holds it unused in {counted(rules.notice, 'hour')} will be stopped."
        korean += f" {rules.notice}시간 뒤에도 그대로이면 강제로 종료됩니다."
    return f"{english}\n{korean}"


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
