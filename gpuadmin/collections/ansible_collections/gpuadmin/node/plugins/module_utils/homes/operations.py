"""Operations on homes: those of the storage host, and what nodes have of a former one."""

from __future__ import annotations

import os
from dataclasses import replace

from gpuadmin.common.records.homes import FormerOrder, HomesOrder

from ..accounts.renumbered import find_old_ids
from ..accounts.uids import keep, of_others
from ..answer import Answer
from ..documents import entries
from ..fields import valid_name, whole_number
from ..mounts import read_mountinfo
from ..operation import operation
from ..paths import STATE
from . import former, shared
from .directories import converge


@operation("homes", HomesOrder, role="homes_server", each="homes")
def converge_homes(document: HomesOrder, check: bool, state: str = STATE) -> Answer:
    users, archive, remember = (
        entries(option, getattr(document, option)) for option in ("users", "archive", "remember")
    )
    wanted = [
        one
        for one in users
        if not one.get("locked")  # guard: who is locked gets no home
    ]
    root, archives, forget = document.root, document.archive_directory, document.forget
    # Before a home is made: two admins who asked at the same time both got the answer that a uid is free.
    known = keep(root, archives, remember, (), check=check, state=state)
    # guard: a uid is remembered before a home is made -> {}
    refused = of_others(known.memory, wanted, forget)
    old = find_old_ids(state)
    # guard: no newcomer gets a home whose id a file of somebody in a renumbering may still have
    refused |= {
        str(one["name"]): old[uid]
        for one in wanted
        if (uid := whole_number(one.get("uid"))) in old
        and valid_name(one.get("name"))
        and not os.path.lexists(os.path.join(root, str(one["name"])))
    }
    plan = converge(replace(document, users=wanted, archive=archive), refused, check=check)
    known = keep(root, archives, remember, forget, check=check, state=state)
    # no home is asked for anybody locked, but they, too, can have another's uid
    theirs = {name: str(plan.homes[name].problem) for name in plan.refused}
    # guard: who is locked is refused as well -> theirs
    refused = {**of_others(known.memory, remember, forget), **theirs}
    of_all = shared.converge(document.shared, root, document.mountpoint, read_mountinfo(), check=check)
    answer = Answer.of(plan, uids=known, refused=refused, problems=of_all.notes)
    return replace(
        answer, diff=plan.diff(), operations=[*answer.operations, *of_all.done],
        conflicts=[*answer.conflicts, *of_all.problems],
    )  # fmt: skip


@operation("former_homes", FormerOrder)
def leave_former_homes(document: FormerOrder, check: bool) -> Answer:
    found = former.look(document.server, document.above)
    if not check:  # guard: a check unmounts nothing -> True
        former.let_go(document.server, document.above)
    return Answer([f"let {one} go, whose server is away" for one in found.mounts], {"former_homes": found})
