"""What the pages say, in English and Korean. `{0}` and `{1}` are values; everything else is fixed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..common.turns import ENDS
from ..common.waiting import WHY

LANGUAGES = {"en": "English", "ko": "한국어"}
_AT = {"en": 0, "ko": 1}

TEXTS: Mapping[str, tuple[str, str]] = {
    "skip": ("Skip to the content", "본문으로 건너뛰기"),
    "menu": ("Pages", "메뉴"),
    "all-nodes": ("All nodes", "전체 노드"),
    "where-free": ("Where can I run now?", "지금 쓸 수 있는 GPU"),
    "me": ("My use", "내 사용 현황"),
    "people": ("People", "사용자"),
    "leave": ("Log out", "로그아웃"),
    "language": ("Language", "언어"),
    "as-of": ("As of {0}", "{0} 기준"),
    "missing": (
        "Some measurements are missing at the moment: what is not known is shown as –.",
        "일부 측정값을 가져오지 못했습니다. 알 수 없는 값은 –로 표시합니다.",
    ),
    "announcements": ("Announcements", "공지"),
    "until": ("until {0}", "{0}까지"),
    "from": ("from {0}", "{0}부터"),
    "summary": (
        "{0} of {1} nodes are up. {2} of {3} GPUs are free.",
        "노드 {1}대 중 {0}대 작동, GPU {3}개 중 {2}개를 쓸 수 있습니다.",
    ),
    "summary-unknown": ("Nobody knows whether {0} are held.", "GPU {0}개는 사용 여부를 알 수 없습니다."),
    "node": ("Node", "노드"),
    "state": ("State", "상태"),
    "gpus": ("GPUs", "GPU"),
    "gpu": ("GPU", "GPU"),
    "model": ("Model", "모델"),
    "who": ("Held by", "사용 중인 사람"),
    "memory": ("Memory", "메모리"),
    "host-memory": ("Host memory", "노드 메모리"),
    "gpu-memory": ("GPU memory", "GPU 메모리"),
    "temperature": ("Temperature", "온도"),
    "hottest": ("Hottest GPU", "최고 GPU 온도"),
    "disk": ("Fullest disk", "가장 찬 디스크"),
    "disks": ("Disks", "디스크"),
    "utilization": ("Utilisation", "사용률"),
    "power": ("Power", "전력"),
    "cpu": ("Processors", "CPU"),
    "network": ("Network", "네트워크"),
    "received": ("received", "수신"),
    "sent": ("sent", "송신"),
    "disk-throughput": ("Disk throughput", "디스크 입출력"),
    "read": ("read", "읽기"),
    "written": ("written", "쓰기"),
    "cores": ("Processor cores", "CPU 코어"),
    "load": ("Load", "부하"),
    "tasks": ("Processes and threads", "프로세스와 스레드"),
    "container": ("Container", "컨테이너"),
    "since": ("Since", "시작"),
    "asked-at": ("Asked at", "요청 시각"),
    "for": ("for {0}", "{0}째"),
    "of": ("{0} of {1}", "{1} 중 {0}"),
    "up": ("up", "작동 중"),
    "down": ("down", "응답 없음"),
    "silent": ("not measured", "측정 안 됨"),
    "unknown": ("unknown", "알 수 없음"),
    "up-since": ("up for {0}", "{0}째 작동 중"),
    "away-since": ("last seen {0} ago", "마지막 확인: {0} 전"),
    "away-long": ("not seen in 30 days", "30일 넘게 확인되지 않음"),
    "free": ("free", "사용 가능"),
    "held": ("held", "사용 중"),
    "granted": ("granted, not held", "배정됨(미사용)"),
    "granted-to": ("granted to", "배정:"),
    "granted-left": ("for {0} more", "{0} 남음"),
    "no-grant": ("no grant for {0}", "배정 종료 후 {0} 지남"),
    "count-granted": ("{0} granted", "배정됨 {0}"),
    "summary-granted": ("{0} are granted and not held.", "배정되었지만 사용 중이 아닌 GPU {0}개."),
    "divided": ("divided (MIG)", "분할됨(MIG)"),
    "lost": ("does not answer", "응답하지 않습니다"),
    "count-lost": ("{0} lost", "응답 없음 {0}"),
    "count-free": ("{0} free", "사용 가능 {0}"),
    "count-held": ("{0} held", "사용 중 {0}"),
    "count-unknown": ("{0} unknown", "알 수 없음 {0}"),
    "no-gpu": ("no GPU", "GPU 없음"),
    "no-gpu-known": ("No GPU is known.", "확인된 GPU가 없습니다."),
    "nobody": ("nobody", "없음"),
    "idle-for": ("not used for {0} h or longer", "{0}시간 넘게 쓰지 않음"),
    "slowed": ("slowed down: {0}", "성능 제한: {0}"),
    "problems": ("Problems", "문제"),
    "no-problem": ("None is known.", "알려진 문제가 없습니다."),
    "history": ("History", "사용 기록"),
    "history-js": ("The plots need JavaScript.", "그래프를 보려면 JavaScript가 필요합니다."),
    "history-none": ("Nothing was measured in this time.", "이 기간의 측정값이 없습니다."),
    "history-failed": ("The plots could not be fetched.", "그래프를 가져오지 못했습니다."),
    "span-1h": ("1 hour", "1시간"),
    "span-1d": ("1 day", "1일"),
    "span-7d": ("7 days", "7일"),
    "span-30d": ("30 days", "30일"),
    "mean": ("mean", "평균"),
    "most": ("highest", "최고"),
    "plot-held": ("GPUs held, and how many of them worked", "점유한 GPU와 실제로 사용한 GPU"),
    "series-held": ("held", "점유"),
    "series-used": ("worked", "사용"),
    "name": ("Name", "이름"),
    "count": ("GPUs held", "사용 중인 GPU"),
    "count-idle": ("of them unused", "그중 쓰지 않는 GPU"),
    "week-held": ("GPU-hours held, {0} days", "{0}일간 점유 시간"),
    "week-used": ("GPU-hours used, {0} days", "{0}일간 사용 시간"),
    "holds": ("Holds now", "지금 사용 중인 GPU"),
    "holds-nothing": ("No GPU, as far as it is known.", "확인된 범위에서 사용 중인 GPU가 없습니다."),
    "unsure": (
        "Not known of these nodes: {0}.",
        "다음 노드는 확인하지 못했습니다: {0}",
    ),
    "hours": ("GPU-hours", "GPU 사용 시간"),
    "days": ("the last {0} days", "최근 {0}일"),
    "unit-hours": ("{0} h", "{0}시간"),
    "hours-note": (
        "Held: nvidia-smi listed a program on the GPU. Used: something ran on it.",
        "점유는 nvidia-smi에 프로그램이 표시된 시간, 사용은 GPU에서 실제로 작업이 실행된 시간입니다.",
    ),
    "besides": ("Processors and memory", "CPU와 메모리"),
    "own-disk": ("Disk", "디스크 사용량"),
    "private-note": (
        "Only you and the admins see disk and hints.",
        "디스크와 알림은 본인과 관리자만 볼 수 있습니다.",
    ),
    "hints": ("Hints", "알림"),
    "hint-idle": (
        "{0}, GPU {1}: held and not used for {2} hours or longer. Others wait for it: end what holds it"
        " (docker stop, or the notebook's kernel).",
        "{0}의 GPU {1}: {2}시간 넘게 점유만 하고 쓰지 않았습니다. 다른 사용자를 위해 컨테이너나 Jupyter 노트북 커널을"
        " 종료해 주세요(docker stop).",
    ),
    "hint-data-loader": (
        "{0}, GPU {1}: it worked {2} of the last 15 minutes while your processes keep processors busy: it waits for"
        " your data loader. More workers, or preparing the data once, may help.",
        "{0}의 GPU {1}: 최근 15분 동안 사용률이 {2}이고 CPU는 바쁩니다. GPU가 데이터 로더를 기다리고 있습니다."
        " 워커 수를 늘리거나 데이터를 미리 전처리해 보세요.",
    ),
    "need-gpus": ("GPUs on one node", "한 노드에서 필요한 GPU 수"),
    "need-memory": ("GiB free on each", "GPU마다 필요한 메모리(GiB)"),
    "any": ("any", "상관없음"),
    "show": ("Show", "찾기"),
    "free-here": ("Free devices", "사용 가능한 GPU"),
    "free-types": ("Free now:", "지금 쓸 수 있는 GPU:"),
    "asks-gpus": ("GPUs: {0}", "GPU {0}개"),
    "and-more": ("and {0} more", "외 {0}건"),
    "free-none": ("No node has that many free now.", "지금은 조건에 맞는 노드가 없습니다."),
    "free-next": (
        "Ends next: {0}, GPUs: {1}, on {2}, until {3}.",
        "가장 먼저 끝나는 사람: {0}, GPU {1}개({2}), {3}까지.",
    ),
    "free-waits": (
        "People waiting: {0}. On a node, gpu get asks for GPUs and keeps your place.",
        "기다리는 사람: {0}명. 노드에서 gpu get으로 요청하면 순서대로 받습니다.",
    ),
    "free-note": (
        "The node that is filled best comes first, so that large jobs find whole nodes. Nothing is reserved.",
        "큰 작업이 노드 전체를 쓸 수 있도록 빈자리가 적은 노드부터 보여 줍니다. 예약되지는 않습니다.",
    ),
    "given": ("What admins gave", "관리자가 따로 준 GPU"),
    "given-note": (
        "Grants and exceptions of the last {0} days, as measured: a few minutes late.",
        "최근 {0}일 동안 관리자가 따로 준 GPU입니다. 시각은 몇 분 늦게 측정됩니다.",
    ),
    "given-ended": ("Ended", "끝난 시각"),
    "given-on": ("goes on", "사용 중"),
    "given-time": ("at its time", "예정대로"),
    "given-why": ("By whom, and why", "관리자와 이유"),
    "from-when": ("From", "시작 시각"),
    "queue": ("Queue", "대기열"),
    "queue-away": (
        "The queue does not answer now. Whoever has a GPU keeps it; nobody gets a new one.",
        "대기열이 응답하지 않습니다. 받은 GPU는 계속 쓸 수 있지만 지금은 새로 받을 수 없습니다.",
    ),
    "queue-mine": ("Yours", "내 GPU와 대기 순서"),
    "queue-nothing": (
        "You have no GPU from the queue, and are not waiting for one. On a node, gpu get asks for one.",
        "받은 GPU도, 기다리는 GPU도 없습니다. 노드에서 gpu get으로 요청할 수 있습니다.",
    ),
    "queue-yours": ("GPUs: {0}, on {1}, until {2}", "GPU {0}개({1}), {2}까지"),
    "notebook": ("Your notebook", "Jupyter 노트북"),
    "notebook-open": ("Open notebook", "Jupyter 노트북 열기"),
    "notebook-close": (
        "When you are done: File > Shut Down, or gpu release on a node. Both give the GPU back; closing the browser "
        "does not.",
        "다 쓴 뒤에는 File > Shut Down을 누르거나 노드에서 gpu release를 실행하세요. 그러면 GPU가 반납됩니다. "
        "브라우저만 닫으면 반납되지 않습니다.",
    ),
    "queue-place": ("Place {0}, GPUs: {1}.", "{0}번째, GPU {1}개."),
    "queue-exception": ("an exception, made by", "따로 준 관리자:"),
    "queue-has": ("Who has GPUs", "GPU를 받은 사람"),
    "queue-waits": ("Who waits", "기다리는 사람"),
    "queue-until": ("Until", "종료 시각"),
    "queue-order": ("Place", "순서"),
    "queue-reason": ("Why", "이유"),
    "queue-expected": (
        "Not before {0}, by what jobs have asked for.",
        "빨라도 {0} 이후입니다(작업들이 요청한 시간 기준).",
    ),
    "queue-ended": ("Ended in the last day", "지난 24시간에 끝난 작업"),
    "queue-job-ended": ("Job {0}, {1}:", "작업 {0}, {1}:"),
    **{f"queue-end-{why}": (f"{english}.", f"{korean}.") for why, (english, korean) in ENDS.items()},
    "queue-closed": ("Nodes that take no jobs", "지금 작업을 받지 않는 노드"),
    **{f"queue-why-{code}": (f"{english}.", f"{korean}.") for code, (english, korean) in WHY.items()},
    "queue-why-other": ("Slurm's own reason: `squeue` shows it.", "Slurm의 이유입니다(`squeue`로 확인)."),
    "rules": ("Rules", "이용 규칙"),
    "usage": ("Usage", "사용량"),
    "usage-span": ("Time", "기간"),
    "usage-by": ("By", "기준"),
    "usage-month": ("this month", "이번 달"),
    "usage-last-month": ("last month", "지난달"),
    "usage-term": ("term", "학기"),
    "usage-user": ("Person", "사용자"),
    "usage-account": ("Group", "그룹"),
    "usage-node": ("Node", "노드"),
    "usage-allocated": ("from the queue", "대기열 배정"),
    "usage-held": ("held", "점유"),
    "usage-used": ("used", "사용"),
    "usage-idle": ("held, not used", "점유만 하고 쓰지 않음"),
    "usage-efficiency": ("efficiency", "효율"),
    "usage-share": ("held, of all", "전체 대비 점유"),
    "usage-kwh": ("kWh", "전력(kWh)"),
    "usage-cost": ("cost", "비용"),
    "usage-measured": ("Measured in {0} of {1} hours.", "{1}시간 중 {0}시간 측정."),
    "usage-note": (
        "kWh: what the GPUs drew, without the rest of the node; a person's are those of GPUs that they held.",
        "kWh는 GPU만의 전력이며 노드의 나머지는 뺀 값입니다. 사용자별 값은 그 사람이 점유한 GPU의 전력입니다.",
    ),
    "usage-waits": ("How long jobs waited, by week", "주별 대기 시간"),
    "usage-week": ("Week until", "주(마지막 날)"),
    "usage-median": ("half at most", "중앙값"),
    "usage-p95": ("19 of 20 at most", "95번째 백분위수"),
    "press-jobs": ("My jobs of 30 days", "최근 30일간 내 작업"),
    "press-get": ("Ask for GPUs", "GPU 요청"),
    "press-release": ("Give back", "반납"),
    "press-leave": ("Leave the queue", "대기 취소"),
    "press-extend": ("Extend", "연장"),
    "press-book": ("Book a node", "노드 예약"),
    "press-cancel": ("Cancel a booking", "예약 취소"),
    "press-sure": (
        "Job {0}: programs that use these GPUs lose them.",
        "작업 {0}: 이 GPU를 쓰는 프로그램은 더 이상 GPU를 쓸 수 없습니다.",
    ),
    "press-hours": ("Hours", "시간"),
    "press-number": ("Booking number", "예약 번호"),
    "press-type": ("Type", "종류"),
    "press-at": ("From", "시작 시각"),
    "pressed-back": ("To the queue", "대기열로"),
    "pressed-soon": ("The pages follow within a minute.", "페이지에는 1분 안에 반영됩니다."),
    "pressed-not": ("Not done", "처리되지 않음"),
    "pressed-late": (
        "The page was too old, of another session, or not the dashboard's. Open the queue's page again and press its "
        "button.",
        "페이지가 오래되었거나, 다른 로그인의 페이지이거나, 대시보드 페이지가 아닙니다. 대기열 페이지를 다시 열고 "
        "버튼을 눌러 주세요.",
    ),
    "pressed-twice": (
        "This was done already. The queue's page shows how things are.",
        "이미 처리한 요청입니다. 대기열 페이지에서 현재 상태를 확인해 주세요.",
    ),
    "pressed-often": (
        "You have pressed many buttons within an hour. Wait a while, or use gpu on a node.",
        "한 시간 동안 버튼을 너무 많이 눌렀습니다. 잠시 기다리거나 노드에서 gpu 명령을 써 주세요.",
    ),
    "pressed-odd": (
        "A field has a value that it cannot have.",
        "입력한 값 중에 쓸 수 없는 값이 있습니다.",
    ),
    "pressed-locked": (
        "Your account may not ask the queue. Ask the admins.",
        "이 계정으로는 대기열에 요청할 수 없습니다. 관리자에게 문의해 주세요.",
    ),
    "pressed-unsure": (
        "The queue's host did not answer in time. Look at the queue's page in a minute: it may have been done.",
        "대기열 호스트가 제때 응답하지 않았습니다. 처리되었을 수도 있으니 1분 뒤 대기열 페이지를 확인해 주세요.",
    ),
    "not-found": ("There is no such page", "페이지가 없습니다"),
    "not-found-why": (
        "There is nothing by this name, or it is not yours to see.",
        "이 이름의 페이지가 없거나 볼 수 있는 권한이 없습니다.",
    ),
    "wrong-value": ("{0}: must be a number from {1} to {2}", "{0}: {1}에서 {2} 사이의 숫자를 입력하세요"),
    "wrong": ("This could not be understood", "잘못된 요청입니다"),
    "away-title": ("Measurements are not available", "측정값을 가져올 수 없습니다"),
    "away": (
        "The monitor does not answer. That says nothing about the nodes: try again in a minute, and tell your admins if"
        " it lasts.",
        "모니터가 응답하지 않습니다. 노드의 상태와는 관계가 없습니다. 잠시 후 다시 시도하고"
        " 계속되면 관리자에게 알려 주세요.",
    ),
    "failed": ("This page failed", "페이지를 표시하지 못했습니다"),
    "failed-why": (
        "The admins find why in the dashboard's journal.",
        "원인은 관리자가 대시보드 로그에서 확인할 수 있습니다.",
    ),
    "often": ("Too many pages at once", "요청이 너무 많습니다"),
    "often-why": (
        "Wait for what you have asked for, and try again.",
        "이미 요청한 페이지를 기다린 뒤 다시 시도해 주세요.",
    ),
    "back": ("To all nodes", "전체 노드로"),
}

#: What cluster.py says of a node, in Korean; `(.*)` are numbers. English is as it is said there.
_PROBLEMS = (
    ("does not answer a ping", "응답하지 않습니다(꺼져 있거나 네트워크 문제)"),
    ("its measurements cannot be fetched", "측정값을 가져올 수 없습니다"),
    ("nothing is measured of it: gpuadmin provision", "측정되지 않는 노드입니다"),
    ("nothing is known of its GPUs: the collector has written nothing", "GPU 정보가 없습니다(수집기가 기록하지 않음)"),
    ("the GPU driver is missing", "GPU 드라이버가 없습니다"),
    ("the GPU driver is broken", "GPU 드라이버가 작동하지 않습니다"),
    ("the GPU driver has not answered for a while", "GPU 드라이버가 한동안 응답하지 않습니다"),
    ("([0-9]+) of ([0-9]+) GPUs answer", "GPU {1}개 중 {0}개만 응답합니다"),
    ("who holds its GPUs is not known", "누가 GPU를 쓰는지 알 수 없습니다"),
)

#: What an alert (roles/monitoring/files/rules) means to somebody who works there.
ALERTS: Mapping[str, tuple[str, str]] = {
    "GpusMissing": ("a GPU is missing", "일부 GPU를 찾을 수 없음"),
    "GpuDriverBroken": ("the GPU driver does not work", "GPU 드라이버 고장"),
    "GpuGateOpen": ("GPUs may be open to everybody", "배정받지 않은 사람에게 GPU가 열려 있을 수 있음"),
    "GpuMemoryErrors": ("GPU memory errors: results may be wrong", "GPU 메모리 오류: 결과가 잘못될 수 있음"),
    "GpuXid": ("the GPU driver noted an error", "GPU 드라이버 오류 기록"),
    "GpuHot": ("a GPU is too hot", "GPU 과열"),
    "GpuSlowed": ("a GPU is slower than it should be", "GPU 성능 저하"),
    "InletHot": ("the room is too hot", "서버실 온도 높음"),
    "FanFailed": ("a fan has failed", "팬 고장"),
    "SupplyLost": ("a power supply is lost", "전원 공급 장치 하나 끊김"),
    "BmcSilent": ("its BMC does not answer", "BMC 응답 없음"),
    "HostHot": ("a part of the host is too hot", "장비 과열"),
    "CollectorFailed": ("some measurements are missing", "일부 측정값 없음"),
    "CollectorMissing": ("GPUs are not measured", "GPU가 측정되지 않음"),
    "HostDown": ("down", "응답 없음"),
    "ExporterDown": ("not measured", "측정 안 됨"),
    "DiskFull": ("a disk is full", "디스크 가득 참"),
    "DiskFullSoon": ("a disk is full within a day", "하루 안에 디스크가 가득 참"),
    "InodesFull": ("a disk has no room for more files", "더 이상 파일을 만들 수 없음"),
    "MemoryLow": ("memory is running out", "메모리 부족"),
    "OutOfMemory": ("memory ran out, and processes were ended", "메모리 부족으로 프로세스가 종료됨"),
    "DiskFailing": ("a disk has errors", "디스크 오류"),
}


def say(language: str, key: str, *values: object) -> str:
    """The text of that key in a language, with its values."""
    return TEXTS[key][_AT[language]].format(*values)


def problem(language: str, text: str) -> str:
    """What is wrong with a node, as cluster.py says it, in a language; in English where it is not known here."""
    if language == "ko":
        for english, korean in _PROBLEMS:
            found = re.fullmatch(english, text)
            if found:
                return korean.format(*found.groups())
    return text


def alert(language: str, name: str) -> str:
    """What an alert means, or its name where it is the site's own."""
    return ALERTS[name][_AT[language]] if name in ALERTS else name


def choose(languages: tuple[str, ...], wanted: str, accepted: str) -> str:
    """Given the site's languages, what somebody chose, and a browser's Accept-Language, return the language."""
    if wanted in languages:
        return wanted
    ranked = []
    for number, part in enumerate(accepted[:500].split(",")):
        tag, _, weight = part.strip().partition(";q=")
        try:
            ranked.append((-float(weight or 1), number, tag.partition("-")[0].lower()))
        except ValueError:
            continue
    return next((tag for _, _, tag in sorted(ranked) if tag in languages), languages[0])
