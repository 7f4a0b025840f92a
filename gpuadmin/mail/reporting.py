"""A month's report: its tables in one language, and the mails that carry them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from gpuadmin.common.given import Given
from gpuadmin.common.mail.letter import Letter
from gpuadmin.common.text import clock
from gpuadmin.common.usage import Usage
from gpuadmin.config.schema import Mail
from gpuadmin.monitoring.monthly import Figures, median, most

NOTHING = "–"
WORDS: Mapping[str, tuple[str, str]] = {
    "title": ("{0}: use of the GPUs in {1}", "{0}: {1} GPU 사용 현황"),
    "all": ("In all", "전체"),
    "figure": ("Figure", "항목"),
    "available": ("GPU-hours available", "사용 가능했던 GPU 시간"),
    "held": ("GPU-hours held", "점유한 GPU 시간"),
    "used": ("GPU-hours used", "실제 사용한 GPU 시간"),
    "idle": ("GPU-hours idle", "점유만 한 GPU 시간"),
    "allocated": ("GPU-hours from the queue", "대기열에서 받은 GPU 시간"),
    "jobs": ("jobs that began", "시작한 작업 수"),
    "wait": ("median wait (h:mm)", "대기 시간 중앙값(시:분)"),
    "wait-most": ("95 % waited at most (h:mm)", "대기 시간 95번째 백분위수(시:분)"),
    "ended": ("GPUs taken back, since nobody used them", "쓰지 않아 회수한 GPU 수"),
    "ended-hours": ("hours for which these had been idle", "회수 전까지 쓰지 않은 시간"),
    "kwh": ("kWh of the GPUs", "GPU 전력 사용량(kWh)"),
    "cost": ("cost of that", "GPU 전력 요금"),
    "accounts": ("By group", "그룹별"),
    "account": ("Group", "그룹"),
    "people": ("By person", "사용자별"),
    "person": ("Person", "사용자"),
    "projects": ("By project", "프로젝트별"),
    "project": ("Project", "프로젝트"),
    "given": ("GPUs that an admin gave", "관리자가 따로 준 GPU"),
    "where": ("GPUs", "GPU"),
    "from": ("from", "시작"),
    "until": ("until", "종료"),
    "early": ("ended early", "먼저 끝남"),
    "who": ("by", "관리자"),
    "why": ("why", "이유"),
    "measured": ("{0}, measured since {1}.", "{0}: {1}부터 측정했습니다."),
    "unmeasured": ("{0}: nothing was measured.", "{0}: 측정값이 없습니다."),
    "ratio": (
        "Of {0} GPU-hours available, {1} were held and {2} used.",
        "사용 가능했던 GPU 시간은 총 {0}시간이며, 그중 {1}를 점유했고 {2}를 실제로 사용했습니다.",
    ),
    "notes": (
        "Held is a GPU that a program has open; used is one on which something ran; idle is one that is held and not "
        "used. Two people on one GPU: its time counts for each. A dash: not measured, or nothing. Times are up to five "
        "minutes late; GPUs taken back are those of the runs that this site has on record.",
        "점유는 프로그램이 GPU를 열고 있는 시간이고, 실제 사용은 GPU에서 무언가 실행된 시간입니다. 한 GPU를 두 사람이 "
        "함께 쓰면 각자의 시간으로 셉니다. –는 측정되지 않았거나 해당 사항이 없다는 뜻입니다. 시각은 최대 5분 늦게 "
        "측정되며, 회수한 GPU는 이 사이트의 실행 기록을 기준으로 합니다.",
    ),
}


@dataclass(frozen=True)
class Table:
    """`columns`: of the first one each row's name is."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class MonthReport:
    """All that a reader is shown, in their language."""

    title: str
    lines: Sequence[str]
    tables: Sequence[Table]
    notes: str


def compose(
    cluster: str, language: str, month: Figures, before: Figures, *, price: float | None, currency: str, queue: bool
) -> MonthReport:
    """Given a month's figures and those of the month before, return the report. `price`: of a kWh; None: no cost."""
    place = ("en", "ko").index(language)

    def say(key: str, *values: object) -> str:
        return WORDS[key][place].format(*values)

    both, lines = (month, before), []
    for one in both:
        if not one.measured:
            lines.append(say("unmeasured", one.month.name))
        elif one.since is not None:
            lines.append(say("measured", one.month.name, clock(one.since)))
    whole = month.whole
    if whole.available > 0:
        ratios = (f"{value / whole.available:.0%}" for value in (whole.held, whole.used))
        lines.append(say("ratio", _number(whole.available), *ratios))
    sums: dict[str, Callable[[Figures], str]] = {
        "available": lambda one: _number(one.whole.available),
        "held": lambda one: _number(one.everything.held),
        "used": lambda one: _number(one.everything.active),
        "idle": lambda one: _number(one.everything.idle),
    }
    if queue:
        sums |= {
            "allocated": lambda one: _number(one.everything.allocated),
            "jobs": lambda one: str(len(one.all_waits)),
            "wait": lambda one: _span(median(one.all_waits)),
            "wait-most": lambda one: _span(most(one.all_waits)),
        }
    sums["kwh"] = lambda one: _number(one.kwh)
    if price is not None:
        sums["cost"] = lambda one: NOTHING if one.kwh is None else f"{_number(one.kwh * price)} {currency}"
    rows = [(say(key), *(show(one) if one.measured else NOTHING for one in both)) for key, show in sums.items()]
    rows += [
        (say("ended"), *(str(len(one.ended)) for one in both)),
        (say("ended-hours"), *(_number(sum(one.ended)) for one in both)),
    ]
    tables = [Table(say("all"), (say("figure"), month.month.name, before.month.name), rows)]
    more = ("allocated", "wait") if queue else ()
    titles = tuple(map(say, ("held", "used", "idle", *more)))
    if queue:
        shares = [_cells(one, month.find_waits(one.name), queue) for one in month.accounts]
        tables.append(Table(say("accounts"), (say("account"), *titles), shares))
    people = [_cells(one, month.waits.get(one.name, ()), queue) for one in month.people]
    tables.append(Table(say("people"), (say("person"), *titles), people))
    if month.projects:
        projects = [(name, _number(value)) for name, value in month.projects.items()]
        tables.append(Table(say("projects"), (say("project"), say("allocated")), projects))
    if month.given:
        columns = tuple(map(say, ("person", "where", "from", "until", "early", "who", "why")))
        tables.append(Table(say("given"), columns, [_describe_given(one) for one in month.given]))
    return MonthReport(say("title", cluster, month.month.name), lines, tables, say("notes"))


def make_letters(made: MonthReport, month: str, mail: Mail) -> list[Letter]:
    """Given a report, return its mails: one to each of `mail.report`. A month's is one in the ledger."""
    values, language = {"month": month, **asdict(made)}, (mail.languages[0],)
    keys = {address: (f"report {month} {address.casefold()}",) for address in mail.report}
    return [Letter("report", address, key, ("report",), made.title, values, language) for address, key in keys.items()]


def _cells(one: Usage, waits: Sequence[float], queue: bool) -> tuple[str, ...]:
    known = one.held <= 0 or one.measured > 0
    cells = (_number(one.held), *((_number(one.active), _number(one.idle)) if known else (NOTHING, NOTHING)))
    return (one.name, *cells, *((_number(one.allocated), _span(median(waits))) if queue else ()))


def _describe_given(one: Given) -> tuple[str, ...]:
    early = NOTHING if one.ended is None else clock(one.ended)
    where = f"{one.gpus} × {one.node}"
    return one.user, where, clock(one.begin), clock(one.until), early, one.who or "?", one.reason or NOTHING


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.1f}"


def _span(seconds: float | None) -> str:
    """Hours and minutes: `1:05`."""
    return NOTHING if seconds is None else f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}"
