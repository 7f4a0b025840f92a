"""What `gpu limits` says: what its person may have, a line each, as the site has written it for their group."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpuadmin.common.records.queue import Group

from ..files import read_bytes
from ..lookup import find_name
from . import booking, owned, partitions, policy, queue
from .gpu_words import Asked, describe_exceptions, gpus, numbered
from .texts import TEXTS

LIMITS = {
    "en": {
        "group": "Your group in the queue: {0}. Among groups, whoever has used least of their share comes first.",
        "never": "More time for what you have: nobody gets it here.",
        "free": "More time for what you have: `gpu extend`, while nobody waits for GPUs; {0} h from the start at most.",
        "always": "More time for what you have: `gpu extend`; {0} h from the start at most.",
        "book": "Booking: `gpu book`, a node with at most {0} GPUs for {1} h, at least {2} h and at most {3} days "
        "ahead; {4} at a time.",
        "no-book": "Booking: your admins do not allow it.",
        "idle": "A GPU that is not used for {0} h: you are told, and {1} h later its job is ended if it still is not.",
        "idle-told": "A GPU that is not used for {0} h: you are told.",
        "exempt": "You may hold a GPU that you do not use: your admins have said so.",
    },
    "ko": {
        "group": "대기열 그룹: {0}. 최근에 자기 몫을 덜 쓴 그룹이 먼저 받습니다.",
        "never": "시간 연장: 이곳에서는 할 수 없습니다.",
        "free": "시간 연장: 기다리는 사람이 없을 때 `gpu extend`로, 시작부터 최대 {0}시간까지 할 수 있습니다.",
        "always": "시간 연장: `gpu extend`로, 시작부터 최대 {0}시간까지 할 수 있습니다.",
        "book": "예약: `gpu book`으로 GPU가 {0}개 이하인 노드를 {1}시간까지, {2}시간 뒤부터 {3}일 안에 시작하도록 "
        "예약할 수 있습니다. 한 번에 {4}개까지입니다.",
        "no-book": "예약: 허용되어 있지 않습니다.",
        "idle": "{0}시간 동안 쓰지 않은 GPU: 알려 드립니다. {1}시간이 지나도 쓰지 않으면 작업이 끝납니다.",
        "idle-told": "{0}시간 동안 쓰지 않은 GPU: 알려 드립니다.",
        "exempt": "쓰지 않는 GPU: 관리자가 계속 점유하도록 허용했습니다.",
    },
}


def show(asked: Asked) -> int:
    """Print them. Raises RefusedError (`unknown`) for who has no account there, NodeError."""
    words, mine = TEXTS[asked.language], LIMITS[asked.language]
    user = find_name(os.getuid()) or ""
    site = policy.read_policy(read_bytes(policy.PATH))
    try:
        group = booking.find_group(user)
    except policy.RefusedError:
        print(words["unknown"])
        return 1
    print(mine["group"].format(group))
    one, book = site.limits.get(group), site.book.get(group)
    if one is not None:
        print("\n".join(describe_limits(one, words)))
    print(mine[site.extend].format(site.hours.get(group, "?")))
    if book is None:
        print(mine["no-book"])
    else:
        print(mine["book"].format(book.gpus, book.hours, book.lead, book.days, book.standing))
    if user in site.idle_exempt:
        print(mine["exempt"])
    elif site.idle_hours:
        print(mine["idle" if site.idle_notice else "idle-told"].format(site.idle_hours, site.idle_notice))
    for line in owned.describe(partitions.look_owned(), asked.language):
        print(line)
    for line in describe_exceptions((job for job in queue.ask_jobs() if job["user"] == user), words):
        print(line)
    return 0


def describe_limits(one: Group, words: Mapping[str, str]) -> list[str]:
    """What one person of a group may have at once, in sentences."""
    lines = [words["limits" if one.gpus else "limits-any"].format(gpus(one.gpus or 0, words), one.hours, one.queued)]
    amounts = {"cpus": one.cpus, "memory": one.memory, "nodes": one.nodes}
    more = ", ".join(numbered(number, words[f"limits-{name}"]) for name, number in amounts.items() if number)
    return [*lines, *([words["limits-together"].format(more)] if more else [])]
