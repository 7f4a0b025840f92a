"""What becomes of a job with GPUs, in words for its person: it has begun, ends in an hour, has ended and why, or its
node is faulty. In English and Korean, for mails and a site's webhook. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .mail.message import one_line
from .text import clock

KINDS = ("begun", "ends", "ended", "lost")
MOST_LINES = 40  # of a mail
#: Why a job has ended → what is said of it.
ENDS: Mapping[str, tuple[str, str]] = {
    "done": ("it is done", "작업을 마쳤습니다"),
    "time": ("its time was over", "요청한 시간이 다 되었습니다"),
    "idle": ("its GPUs were not used", "GPU를 사용하지 않아 종료되었습니다"),
    "memory": ("it took more memory than it had asked for", "요청한 것보다 많은 메모리를 사용했습니다"),
    "failed": ("its program failed", "프로그램이 오류로 끝났습니다"),
    "cancelled": ("an admin ended it", "관리자가 종료했습니다"),
    "sick": ("it failed, and its node was found faulty", "오류로 끝났고, 노드에서 이상이 발견되었습니다"),
    "own": ("you ended it", "본인이 종료했습니다"),
    "node": ("its node failed", "노드에 문제가 생겼습니다"),
    "preempted": (
        "preempted: a group that comes first on its node needed it",
        "노드를 우선 사용하는 그룹에서 쓰게 되어 중단되었습니다",
    ),
}
_WORDS = {
    "en": {
        "hello": "Hello,", "gpus": "GPUs: {0}, on {1}", "job": "job {0}{1}",
        "tasks": " ({0} tasks)", "more": " and {0} more",
        "begun-subject": "Your GPUs are ready: {job}, on {nodes}",
        "begun": "{job}: your GPUs are ready until {end} ({gpus}). Log in there: ssh {node}",
        "ends-subject": "Less than an hour left: {job}, on {nodes}",
        "ends": "{job}: ends at {end} ({gpus}). Save what you need. `gpu extend` asks for more time.",
        "preempted-subject": "Preempted: {job} ends at {end}",
        "preempted": "{job}: preempted: {owner} comes first on {nodes} and needs it now. Your GPUs go back at {end} "
        "({gpus}): save what you need. `gpu why` says whether the job is in the queue again then.",
        "ended-subject": "Ended: {job}: {why}",
        "ended": "{job}: ended at {at}: {why} ({gpus}). {used}",
        "lost-subject": "Your node is faulty: {job}, on {nodes}",
        "lost": "{job}: {nodes} is faulty: {lost}. Save what you can, give it back (`gpu release`) and ask again.",
        "used": "Its GPUs were in use {0} % of the time on average, with {1} GB of {2} GB of memory at most.",
        "unknown": "How well it used them was not measured.",
        "bye": "On a node, `gpu jobs` says more of each job, and `gpu mail off` ends these mails.\n\nQuestions: {0}\n\n"
        "The administrators of {1}",
    },
    "ko": {
        "hello": "안녕하세요.", "gpus": "{1}의 GPU {0}개", "job": "작업 {0}{1}",
        "tasks": "({0}개)", "more": " 외 {0}건",
        "begun-subject": "GPU를 받았습니다: {job}, {nodes}",
        "begun": "{job}: GPU를 받았습니다({gpus}, {end}까지). 접속: ssh {node}",
        "ends-subject": "한 시간 안에 끝납니다: {job}, {nodes}",
        "ends": "{job}: {end}에 끝납니다({gpus}). 필요한 것은 저장해 두세요. 연장 요청: `gpu extend`",
        "preempted-subject": "작업이 중단됩니다: {job}, {end}",
        "preempted": "{job}: {nodes} 노드를 우선 사용하는 {owner} 그룹에서 지금 쓰려고 해 중단됩니다. GPU는 "
        "{end}에 반납됩니다({gpus}). 필요한 것은 저장하세요. 그 뒤 다시 대기하는지는 `gpu why`로 볼 수 있습니다.",
        "ended-subject": "끝났습니다: {job}: {why}",
        "ended": "{job}: {at}에 끝났습니다({gpus}). 이유: {why}. {used}",
        "lost-subject": "노드에 이상이 있습니다: {job}, {nodes}",
        "lost": "{job}: {nodes}에 이상이 있습니다({lost}). 저장할 수 있는 것은 저장하고 GPU를 반납한 뒤(`gpu release`) "
        "다시 요청하세요.",
        "used": "GPU 사용률은 평균 {0}%, GPU 메모리는 최대 {2} GB 중 {1} GB였습니다.",
        "unknown": "사용률은 측정되지 않았습니다.",
        "bye": "노드에서 `gpu jobs`로 작업별 결과와 사용량을 볼 수 있고, `gpu mail off`로 이 메일을 끌 수 있습니다.\n\n"
        "문의: {0}\n\n{1} 관리자 드림",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """One thing to tell. `at`, `end`: seconds since 1970. `whys`: why it ended → how many of its tasks. `used`: part of
    the time, and bytes of memory at most and of the GPU; None: not measured. `lost`: what is broken. `owner`: the
    group whose node it has to leave. `name`: its person's word, which may be anything."""

    kind: str
    key: str
    user: str
    job: str
    at: float
    gpus: int
    nodes: str
    end: float | None = None
    name: str = ""
    whys: tuple[tuple[str, int], ...] = ()
    used: tuple[float, float, float] | None = None
    lost: str = ""
    owner: str = ""


def line(turn: Turn, language: str, form: str = "") -> str:
    """A turn in one sentence or two; `form`: `-subject`, as the subject of a mail."""
    words, korean = _WORDS[language], language == "ko"

    tasks = sum(number for _, number in turn.whys)
    whys = [f"{number} × {ENDS[why][korean]}" if tasks > 1 else ENDS[why][korean] for why, number in turn.whys]
    used = words["unknown"]
    if turn.used is not None:
        used = words["used"].format(round(100 * turn.used[0]), *(f"{x / 1e9:.1f}" for x in turn.used[1:]))
    name = one_line(turn.name, 40).replace("=?", "= ?")
    job = words["job"].format(turn.job, f" “{name}”" if name else "")
    said = words[("preempted" if turn.owner else turn.kind) + form].format(
        job=job + (words["tasks"].format(tasks) if tasks > 1 else ""), nodes=turn.nodes or "–",
        node=turn.nodes.split(",")[0], gpus=words["gpus"].format(turn.gpus, turn.nodes or "–"),
        end="?" if turn.end is None else clock(turn.end), at=clock(turn.at), why=", ".join(whys), used=used,
        lost=turn.lost, owner=turn.owner,
    )  # fmt: skip
    return said[:1].upper() + said[1:]


def mail(turns: Sequence[Turn], language: str, site: str, contact: str) -> tuple[str, str]:
    """Given what one person is told, the most urgent first, return subject and text."""
    words = _WORDS[language]
    more = words["more"].format(len(turns) - 1) if len(turns) > 1 else ""
    text = "\n\n".join(f"- {line(one, language)}" for one in turns[:MOST_LINES])
    text += f"\n\n{words['more'].format(len(turns) - MOST_LINES)}" if len(turns) > MOST_LINES else ""
    bye = words["bye"].format(contact, site)
    return f"[{site}] {line(turns[0], language, '-subject')}{more}", f"{words['hello']}\n\n{text}\n\n{bye}"
