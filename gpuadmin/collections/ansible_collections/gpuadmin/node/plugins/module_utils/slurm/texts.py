"""What `gpu` says to people, in English and Korean."""

from __future__ import annotations

LANGUAGES = ("en", "ko")

USAGE = {
    "en": """usage: gpu run [--gpus N] [OPTIONS] [--detach] -- COMMAND | get [N] [OPTIONS] [--no-wait]
           | jupyter [N] [OPTIONS] [--detach] | list | why [JOB] | limits | jobs [--json]
           | extend [JOB] [--hours H] | release [JOB...]
           | book [N] --at TIME [--hours H] [--node NODE] | book [--cancel NUMBER] | mail [on|off|ko|en]
OPTIONS: [--hours H] [--type T | --mig PROFILE] [--node NODE] [--cpus C] [--memory M] [--project P]

gpu run -- COMMAND   wait for N GPUs (1) of one node, run COMMAND with them, and give them back when it ends, after
                     H hours (1) at the latest. Ctrl-C while waiting gives your place up
                     --detach: goes on without your terminal; its output goes to a file
gpu get [N]          ask for N GPUs (1) of one node, for H hours (1), and wait for them
                     --type h100: of that type; a part of its name is enough
                     --mig 1g.10gb: N MIG devices instead; `gpu list` shows which there are
                     --project nlp: it counts for a project that you are in; your limits stay the same
                     --cpus 8 --memory 64: with 8 processors and 64 GiB of memory
gpu jupyter [N]      the same with a notebook on it (JupyterLab), which you open in a browser, also on a phone
gpu jobs             your jobs of the last 30 days: when, where, how they ended, and what they used
gpu list             who has GPUs, who waits for some, which GPUs each node has, and how many of them are free
gpu why [JOB]        your place in the queue, and what you wait for
gpu limits           what you may have: GPUs, hours, jobs, bookings, and what happens to a GPU that you do not use
gpu extend [JOB]     H more hours (1) for what you have, up to the longest that you may
gpu release [JOB]    give back what you got with `gpu get` or `gpu jupyter`, or leave the queue
gpu book [N]         where your admins allow it: a node with N GPUs or more is yours from TIME on, for H hours (1)
                     TIME: 09:00, or "2026-11-26 09:00". `gpu get` uses it then; alone it shows what you have booked
gpu mail [off]       whether you get mails about your jobs: on, off, or in one language (ko, en)

--no-wait returns at once; you keep your place. squeue, sbatch, srun, salloc and scancel work as well.
--language ko|en""",
    "ko": """사용법: gpu run [--gpus N] [옵션] [--detach] -- 명령 | get [N] [옵션] [--no-wait]
             | jupyter [N] [옵션] [--detach] | list | why [JOB] | limits | jobs [--json]
             | extend [JOB] [--hours H] | release [JOB...]
             | book [N] --at TIME [--hours H] [--node NODE] | book [--cancel NUMBER] | mail [on|off|ko|en]
옵션: [--hours H] [--type T | --mig PROFILE] [--node NODE] [--cpus C] [--memory M] [--project P]

gpu run -- 명령      한 노드의 GPU N개(기본 1)를 기다렸다가 명령을 실행하고, 끝나면 반납합니다(최대 H시간, 기본 1)
                     기다리는 동안 Ctrl-C를 누르면 대기를 취소합니다
                     --detach: 터미널 없이 계속 실행하고 출력은 파일에 저장합니다
gpu get [N]          한 노드의 GPU N개(기본 1)를 H시간(기본 1) 동안 요청하고 차례를 기다립니다
                     --type h100: GPU 종류를 지정합니다. 이름의 일부만 적어도 됩니다
                     --mig 1g.10gb: GPU 대신 MIG 장치 N개. 종류는 `gpu list`에 나옵니다
                     --project nlp: 참여 중인 프로젝트의 사용량으로 집계합니다. 한도는 그대로입니다
                     --cpus 8 --memory 64: CPU 8개와 메모리 64 GiB를 함께 요청합니다
gpu jupyter [N]      GPU를 받고 그 위에서 Jupyter 노트북을 엽니다. 휴대전화의 브라우저로도 열 수 있습니다
gpu jobs             최근 30일의 내 작업: 언제, 어디서, 어떻게 끝났고 얼마나 썼는지 보여 줍니다
gpu list             누가 쓰고 누가 기다리는지, 노드마다 어떤 GPU가 몇 개 있고 몇 개 비었는지 보여 줍니다
gpu why [JOB]        대기 순서와 기다리는 이유를 보여 줍니다
gpu limits           GPU 수, 시간, 작업 수, 예약 등 본인의 한도와, 쓰지 않는 GPU가 어떻게 되는지 보여 줍니다
gpu extend [JOB]     받은 GPU를 H시간(기본 1) 연장합니다. 허용된 최대 시간까지 가능합니다
gpu release [JOB]    `gpu get`이나 `gpu jupyter`로 받은 GPU를 반납하거나 대기를 취소합니다
gpu book [N]         관리자가 허용한 경우, GPU가 N개 이상인 노드를 TIME부터 H시간(기본 1) 예약합니다
                     TIME: 09:00 또는 "2026-11-26 09:00". 그때 `gpu get`을 하면 예약한 노드를 씁니다
                     시각 없이 실행하면 본인의 예약을 보여 줍니다
gpu mail [off]       작업에 관한 메일을 켜거나(on) 끄거나(off) 한 언어로 받습니다(ko, en)

--no-wait: 기다리지 않고 바로 끝냅니다. 대기 순서는 유지됩니다. squeue, sbatch, srun, salloc, scancel도 쓸 수 있습니다.
--language ko|en""",
}

TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "asked": "Job {0}: you asked for {1} for {2} h.",
        "booked": "Job {0}: {1} of what you have booked, until {2}.",
        "place": "Your place in the queue: {0}. {1}.",
        "not-before": " Not before {0}, by what jobs have asked for.",
        "next-end": "Next to end: {0} ({1} of {2}) at {3}.",
        "share": "Of all that was used lately (a week old counts half) you have used {0} %. Your group, {1}: {2} of "
        "{3} shares, {4} % of the use.",
        "before-you": "Before you, with what they have used: {0}. Who has used least of their share comes first.",
        "more-people": "{0} more",
        "have": "{0} on {1} until {2}, open in all your shells and containers on {1}.",
        "there": "You are on {0}: {1}",
        "kept": "You keep your place. `gpu why` shows it, `gpu release {0}` gives it up.",
        "ended": "Job {0} has ended.",
        "given-up": "Your place in the queue is given up.",
        "run-over": "Job {0} has ended (its time is over, or somebody ended it): your command is asked to end.",
        "detached": "Job {0} runs by itself when its turn comes. Its output: {1}. `gpu why` shows your place, "
        "`gpu jobs` how it ended, `gpu release {0}` ends it.",
        "no-command": "gpu run: what is to be run? For example: gpu run -- python train.py",
        "no-such-command": "{0}: there is no such command on this node.",
        "away": "The queue does not answer. Whoever has a GPU keeps it; nobody gets a new one now. Try again later.",
        "waits-on": "The queue does not answer now. You keep your place, and this keeps waiting.",
        "failed": "Slurm refuses: {0}",
        "impossible": "No node has that: {0}. `gpu list` shows what each node of the queue has.",
        "too-much": "That is more than one person may have at once, or for longer.",
        "ask-admins": "Ask your admins what is allowed.",
        "limits": "You may have {0} at once, for {1} h each time, and {2} jobs, waiting ones counted.",
        "limits-any": "You may have GPUs for {1} h each time, and {2} jobs, waiting ones counted.",
        "limits-together": "All your jobs together may have {0}.",
        "limits-cpus": "{0} processor|{0} processors",
        "limits-memory": "{0} GiB of memory",
        "limits-nodes": "{0} node|{0} nodes",
        "limits-more": "If you need more, ask your admins.",
        "unknown": "You have no account in the queue yet: tell your admins.",
        "not-in-project": "--project: {0!r} is not a project of yours. Leave it out, or ask your admins to add you.",
        "none": "You have no GPU, and are not waiting for one.",
        "not-yours": "{0} is not a job of yours.",
        "others": "These jobs did not come from `gpu get`. To end one of them, too, name it: gpu release {0}",
        "released": "Job {0}: given back.",
        "empty": "Nobody has a GPU from the queue, and nobody is waiting.",
        "exception": "Job {0} is an exception: an admin ({1}) gave {2} {3} on {4} until {5}: {6}",
        "closed": "{0} takes no jobs now: {1}",
        "columns": "Job|Person|GPUs|Node|Until or place",
        "gpus": "{0} GPU|{0} GPUs",
        "waits": "place {0}",
        "since": "since {0}",
        "types": "{0}: no type of GPUs, or more than one, has that in its name. There are: {1}",
        "kinds": "GPUs: {0}",
        "free": "{0} free",
        "number": "{0!r} is not a number from {1} to {2}",
        "lacks": "{0} needs a value",
        "not-known": "{0!r} is not known",
        "help": "`gpu --help` shows how to use it",
        "not-a-node": "--node: {0!r} is not a node",
        "not-a-type": "--type: {0!r} is not a type of GPUs; `gpu list` shows them",
        "not-a-profile": "--mig: {0!r} is not a profile of MIG devices, such as 1g.10gb; `gpu list` shows them",
        "profiles": "{0}: no node has such MIG devices. There are: {1}",
        "devices": "MIG devices: {0}: {1}",
        "not-a-time": "--at: {0!r} is not a time such as 09:00, or '2026-11-26 09:00'",
        "language": "--language is ko or en",
    },
    "ko": {
        "asked": "작업 {0}: {1}를 {2}시간 동안 요청했습니다.",
        "booked": "작업 {0}: 예약한 노드의 {1}, {2}까지.",
        "place": "대기 순서: {0}번째. {1}.",
        "not-before": " 빨라도 {0} 이후입니다(작업들이 요청한 시간 기준).",
        "next-end": "다음 종료: {0}({2}의 {1}), {3}.",
        "share": "최근 전체 사용량 중 본인의 사용량: {0}%(7일이 지나면 절반으로 계산). 소속 그룹 {1}: 지분 {3} 중 {2}, "
        "사용량 {4}%.",
        "before-you": "앞 순서(괄호 안은 사용량): {0}. 지분에 비해 적게 쓴 사람이 먼저입니다.",
        "more-people": "외 {0}명",
        "have": "{1}의 {0}, {2}까지. {1}에 있는 모든 셸과 컨테이너에서 사용할 수 있습니다.",
        "there": "현재 노드는 {0}입니다: {1}",
        "kept": "대기 순서는 유지됩니다. 확인: `gpu why`, 취소: `gpu release {0}`",
        "ended": "작업 {0}: 끝났습니다.",
        "given-up": "대기를 취소했습니다.",
        "run-over": "작업 {0}: 끝났습니다(시간이 다 되었거나 누군가 끝냈습니다). 명령에 종료 신호를 보냅니다.",
        "detached": "작업 {0}: 차례가 되면 자동으로 실행됩니다. 출력: {1} "
        "(순서: `gpu why`, 결과: `gpu jobs`, 취소: `gpu release {0}`)",
        "no-command": "gpu run: 실행할 명령을 적으세요. 예: gpu run -- python train.py",
        "no-such-command": "{0}: 이 노드에 없는 명령입니다.",
        "away": "대기열이 응답하지 않습니다. 받은 GPU는 계속 쓸 수 있지만 "
        "지금은 새로 받을 수 없습니다. 나중에 다시 시도하세요.",
        "waits-on": "대기열이 지금 응답하지 않습니다. 대기 순서는 유지되며, 계속 기다립니다.",
        "failed": "Slurm이 거부했습니다: {0}",
        "impossible": "조건에 맞는 노드가 없습니다: {0}. 노드별 GPU는 `gpu list`로 볼 수 있습니다.",
        "too-much": "한 사람이 동시에 쓸 수 있는 GPU 수나 시간을 넘습니다.",
        "ask-admins": "허용량은 관리자에게 문의하세요.",
        "limits": "동시에 {0}, 한 번에 {1}시간, 대기 중인 것을 포함해 작업 {2}개까지 쓸 수 있습니다.",
        "limits-any": "한 번에 {1}시간, 대기 중인 것을 포함해 작업 {2}개까지 쓸 수 있습니다.",
        "limits-together": "모든 작업을 합해 {0}까지 쓸 수 있습니다.",
        "limits-cpus": "CPU {0}개",
        "limits-memory": "메모리 {0} GiB",
        "limits-nodes": "노드 {0}개",
        "limits-more": "더 필요하면 관리자에게 요청하세요.",
        "unknown": "아직 대기열에 계정이 없습니다. 관리자에게 알려 주세요.",
        "not-in-project": "--project: {0!r}: 참여 중인 프로젝트가 아닙니다. "
        "빼고 다시 실행하거나 관리자에게 등록을 요청하세요.",
        "none": "받은 GPU도, 기다리는 GPU도 없습니다.",
        "not-yours": "{0}: 본인의 작업이 아닙니다.",
        "others": "다음은 `gpu get`으로 받은 것이 아닙니다. 함께 끝내려면 번호를 적으세요: gpu release {0}",
        "released": "작업 {0}: 반납했습니다.",
        "empty": "대기열의 GPU를 쓰는 사람도, 기다리는 사람도 없습니다.",
        "exception": "작업 {0}: 관리자({1})가 {2}에게 따로 준 {4}의 {3}({5}까지). 이유: {6}",
        "closed": "{0}: 지금 작업을 받지 않습니다({1})",
        "columns": "작업|사용자|GPU|노드|종료 시각 또는 순서",
        "gpus": "GPU {0}개",
        "waits": "{0}번째",
        "since": "{0}부터",
        "types": "{0}: 다음 중 하나를 적으세요: {1}",
        "kinds": "GPU: {0}",
        "free": "{0}개 비어 있음",
        "number": "{0!r}: {1}에서 {2} 사이의 숫자를 적으세요",
        "lacks": "{0}에 값이 없습니다",
        "not-known": "{0!r}: 알 수 없는 명령입니다",
        "help": "사용법은 `gpu --help`로 볼 수 있습니다",
        "not-a-node": "--node: {0!r}: 노드 이름이 아닙니다",
        "not-a-type": "--type: {0!r}: GPU 종류가 아닙니다. 종류는 `gpu list`에 나옵니다",
        "not-a-profile": "--mig: {0!r}: MIG 프로필이 아닙니다. 1g.10gb처럼 적으세요. `gpu list`에 나옵니다",
        "profiles": "{0}: 이 MIG 장치를 가진 노드가 없습니다. 있는 것: {1}",
        "devices": "MIG 장치: {0}: {1}",
        "not-a-time": "--at: {0!r}: 시각이 아닙니다. 09:00 또는 '2026-11-26 09:00'처럼 적으세요",
        "language": "--language는 ko 또는 en입니다",
    },
}

#: At log-in: two lines.
LOGIN = {
    "en": {
        "have": "You have {0}.",
        "part": "{0} of {1} until {2}",
        "wait": "You are waiting for {0}. {1}",
        "waiting": "You have no GPU. People waiting for one: {0}.",
        "nobody": "You have no GPU. Nobody is waiting for one.",
        "none": "You have no GPU.",
        "ask": "`gpu get` asks for one, `gpu list` shows who has them.",
        "more": "`gpu release` gives back what you no longer need.",
        "sick": "{0} is faulty: {1}. Unless another GPU is named, give yours back (`gpu release`) and ask again.",
        "ended": "Job {0} ended at {1}: {2}.",
        "why": "`gpu why` says more.",
        "away": "The queue does not answer now: whoever has a GPU keeps it, and nobody gets a new one.",
        "gpus": "{0} GPU|{0} GPUs",
    },
    "ko": {
        "have": "사용 중: {0}.",
        "part": "{1}의 {0}({2}까지)",
        "wait": "{0}를 기다리고 있습니다. {1}",
        "waiting": "받은 GPU가 없습니다. 기다리는 사람: {0}명.",
        "nobody": "받은 GPU가 없습니다. 기다리는 사람도 없습니다.",
        "none": "받은 GPU가 없습니다.",
        "ask": "`gpu get`으로 요청하고, `gpu list`로 현재 사용 현황을 볼 수 있습니다.",
        "more": "다 쓴 GPU는 `gpu release`로 반납해 주세요.",
        "sick": "{0}: 노드에 이상이 있습니다({1}). 다른 GPU의 문제가 아니라면 반납하고(`gpu release`) 다시 요청하세요.",
        "ended": "작업 {0}: {1}에 끝났습니다({2}).",
        "why": "자세한 내용은 `gpu why`로 확인하세요.",
        "away": "대기열이 응답하지 않습니다. 받은 GPU는 계속 쓸 수 있지만 지금은 새로 받을 수 없습니다.",
        "gpus": "GPU {0}개",
    },
}

#: What any service of a node answers, by its word; `failed` also where there is no other.
_ANY = {
    "en": {
        "silent": "The node does not answer. Try again; if that does not help, tell your admins.",
        "busy": "You have asked already; wait for the answer.",
        "failed": "It could not be done: tell your admins.",
    },
    "ko": {
        "silent": "노드가 응답하지 않습니다. 다시 시도하고, 계속되면 관리자에게 알려 주세요.",
        "busy": "이미 요청했습니다. 답을 기다려 주세요.",
        "failed": "처리하지 못했습니다. 관리자에게 알려 주세요.",
    },
}

#: What extend_service.py answers, by its word; and what else is said of bookings.
ASKED = {
    "en": {
        **_ANY["en"],
        "extended": "Job {0}: yours until {1} now.",
        "not-running": "{0} is not a running job of yours.",
        "exception": "Job {0} is an exception: an admin ({2}) gave it to you until {1}. Only an admin can extend it: "
        "ask for it before then.",
        "never": "Nobody gets more time here: save a checkpoint, and ask again with `gpu get`.",
        "unknown": "You have no account in the queue: tell your admins.",
        "too-long": "A job may take {0} h: yours can last until {1} at most.",
        "others": "People waiting for GPUs: {0}. You keep yours until its end, and no longer.",
        "taken-from": "Somebody has booked the node from {0} on.",
        "booked-until": "You have booked it until {0}, and no longer.",
        "booked": "Booking {0}: {1} with its GPUs ({2}) is yours from {3} to {4}. `gpu get` uses it then; "
        "after half an hour without a job it ends.",
        "unbooked": "Booking {0} is given back.",
        "no-booking": "Your admins do not allow you to book: ask with `gpu get`.",
        "book-long": "A booking may last {0} h at most.",
        "book-many": "You may book a node with at most {0} GPUs, and no such node has as many as you ask for.",
        "past": "That time is in the past.",
        "ahead": "A booking must begin within {0} days.",
        "soon": "A booking must begin at least {0} hours from now. For GPUs sooner, wait for your turn with `gpu get`.",
        "standing": "You may have {0} at a time: `gpu book` shows yours, `gpu book --cancel NUMBER` gives one back.",
        "no-node": "There is no node {0} in the queue.",
        "full": "More than {0} % of all GPUs would be booked then: choose another time.",
        "taken": "All such nodes are booked then, or somebody's job runs there: choose another time.",
        "not-booked": "You have no booking {0}: `gpu book` shows yours.",
        "in-use": "You have a job in booking {0}: `gpu release` first.",
        "no-bookings": "You have booked nothing.",
        "yours": "You (booking {0})",
        "line": "Booked: {0}: {1} from {2} to {3}",
        "window": "Maintenance: {1} from {2} to {3}: a job that would run into it waits until it is over.",
        "which": "You have several: name one of {0}.",
        "away": "The queue does not answer. Whoever has a GPU keeps it; nobody can extend or book. Try again later.",
        "mail-on": "You get mails about your jobs with GPUs, where your site sends them. `gpu mail off` ends that.",
        "mail-off": "You get no mails about your jobs. `gpu mail on` turns them on again.",
        "mail-ko": "You get mails about your jobs in Korean. `gpu mail off` ends that.",
        "mail-en": "You get mails about your jobs in English. `gpu mail off` ends that.",
    },
    "ko": {
        **_ANY["ko"],
        "extended": "작업 {0}: {1}까지 쓸 수 있습니다.",
        "not-running": "{0}: 실행 중인 본인의 작업이 아닙니다.",
        "exception": "작업 {0}: 관리자({2})가 {1}까지 따로 준 것입니다. 연장은 관리자만 할 수 있으니, "
        "그 전에 관리자에게 요청하세요.",
        "never": "이곳에서는 시간을 연장할 수 없습니다. 체크포인트를 저장하고 `gpu get`으로 다시 요청하세요.",
        "unknown": "대기열에 계정이 없습니다. 관리자에게 알려 주세요.",
        "too-long": "작업 하나는 최대 {0}시간입니다. {1}까지만 연장할 수 있습니다.",
        "others": "GPU를 기다리는 사람이 {0}명 있어 연장할 수 없습니다. 원래 시각까지는 쓸 수 있습니다.",
        "taken-from": "{0}부터 다른 사람이 예약했습니다.",
        "booked-until": "예약은 {0}까지이며, 그 뒤로는 연장할 수 없습니다.",
        "booked": "예약 {0}: {1}(GPU {2}개), {3}부터 {4}까지 쓸 수 있습니다. "
        "그때 `gpu get`을 하면 이 노드를 씁니다. 30분 동안 작업이 없으면 예약이 끝납니다.",
        "unbooked": "예약 {0}: 취소했습니다.",
        "no-booking": "예약이 허용되어 있지 않습니다. `gpu get`으로 요청하세요.",
        "book-long": "예약 하나는 최대 {0}시간입니다.",
        "book-many": "GPU가 {0}개 이하인 노드만 예약할 수 있고, 그중에 요청한 만큼 가진 노드가 없습니다.",
        "past": "이미 지난 시각입니다.",
        "ahead": "예약은 {0}일 안에 시작해야 합니다.",
        "soon": "예약은 지금부터 {0}시간 뒤에야 시작할 수 있습니다. 지금 쓰려면 `gpu get`으로 순서를 기다리세요.",
        "standing": "예약은 한 번에 {0}개까지입니다. "
        "`gpu book`으로 확인하고 `gpu book --cancel NUMBER`로 취소할 수 있습니다.",
        "no-node": "{0}: 대기열에 없는 노드입니다.",
        "full": "그 시간에는 전체 GPU의 {0}%를 넘게 예약하게 되어 예약할 수 없습니다. 다른 시간을 고르세요.",
        "taken": "그 시간에는 해당하는 노드가 모두 예약되었거나 사용 중입니다. 다른 시간을 고르세요.",
        "not-booked": "예약 {0}: 없습니다. `gpu book`으로 확인하세요.",
        "in-use": "예약 {0}에서 실행 중인 작업이 있습니다. 먼저 `gpu release`로 반납하세요.",
        "no-bookings": "예약한 노드가 없습니다.",
        "yours": "본인(예약 {0})",
        "line": "예약: {0}: {1}, {2}부터 {3}까지",
        "window": "점검: {1}, {2}부터 {3}까지. 그 전에 끝나지 않는 작업은 점검이 끝날 때까지 기다립니다.",
        "which": "받은 GPU가 여럿입니다. 다음 중 하나를 적으세요: {0}",
        "away": "대기열이 응답하지 않습니다. 받은 GPU는 계속 쓸 수 있지만 지금은 연장하거나 예약할 수 없습니다. "
        "나중에 다시 시도하세요.",
        "mail-on": "작업에 관한 메일을 받습니다(메일을 보내도록 설정된 경우). 끄기: `gpu mail off`",
        "mail-off": "작업에 관한 메일을 받지 않습니다. 다시 켜기: `gpu mail on`",
        "mail-ko": "작업에 관한 메일을 한국어로 받습니다. 끄기: `gpu mail off`",
        "mail-en": "작업에 관한 메일을 영어로 받습니다. 끄기: `gpu mail off`",
    },
}

#: `gpu --help` on a node without a queue, where people take free GPUs by the site's rule.
USAGE_HERE = {
    "en": """usage: gpu run [--gpus N] [--hours H] -- COMMAND | get [N] [--hours H] | list | release

There is no queue here: you take GPUs of this node that nobody has, as many and for as long as your site allows.

gpu run -- COMMAND   take N GPUs (1), run COMMAND with them, and give them back when it ends, or after H hours
gpu get [N]          take N GPUs (1) for H hours, to work by hand
gpu list             each GPU of this node: free, or whose and until when
gpu release          give back what you have taken

Without --hours: the longest that you may. --language ko|en""",
    "ko": """사용법: gpu run [--gpus N] [--hours H] -- 명령 | get [N] [--hours H] | list | release

여기에는 대기열이 없습니다. 이 노드의 빈 GPU를 정해진 개수와 시간까지 직접 받아 씁니다.

gpu run -- 명령      GPU N개(기본 1)를 받아 명령을 실행하고, 명령이 끝나거나 H시간이 지나면 반납합니다
gpu get [N]          직접 쓸 GPU N개(기본 1)를 H시간 동안 받습니다
gpu list             이 노드의 GPU별 상태: 비어 있는지, 누가 언제까지 쓰는지 보여 줍니다
gpu release          직접 받은 GPU를 반납합니다

--hours를 생략하면 허용된 최대 시간입니다. --language ko|en""",
}

#: What is said there.
HERE: dict[str, dict[str, str]] = {
    "en": {
        **_ANY["en"],
        "taken": "GPU {2} of this node is yours until {1}.",
        "run-over": "Your time is over, or an admin has ended it: your command is asked to end.",
        "released": "The GPUs are given back.",
        "released-soon": "The GPUs are given back within a minute.",
        "nothing": "You have taken no GPU here. What an admin has granted you ends by itself.",
        "none-free": "GPUs of this node that are free now: {0}. Others: granted to somebody: {1}, used by somebody's "
        "program: {2}, faulty or not answering: {3}. `gpu list` shows them; try another node, or later.",
        "too-many": "One person may take {0} of this node's GPUs at a time: `gpu release` gives yours back. "
        "If you need more, ask your admins.",
        "too-long": "You may take a GPU for {0} h at most: --hours {0}.",
        "maintained": "This node is being maintained: try another one, or later.",
        "taken-window": "GPU {2} of this node is yours until {1}: then the node is maintained.",
        "silent-driver": "The driver does not say which GPUs work, so none is given now: tell your admins.",
        "open": "GPUs of this node are open to everybody: run your command without `gpu run`.",
        "unknown": "Your account may take no GPU here: ask your admins.",
        "no-queue": "There is no queue here, only GPUs of this node that nobody has: "
        "gpu run [--gpus N] [--hours H] -- COMMAND | get [N] [--hours H] | list | release",
        "is-free": "GPU {0}: free",
        "is-granted": "GPU {0}: {1} until {2}",
        "is-held": "GPU {0}: a program of {1} has it open",
        "is-lost": "GPU {0}: faulty, or does not answer",
    },
    "ko": {
        **_ANY["ko"],
        "taken": "이 노드의 GPU {2}: {1}까지 쓸 수 있습니다.",
        "run-over": "시간이 다 되었거나 관리자가 끝냈습니다. 명령에 종료 신호를 보냅니다.",
        "released": "GPU를 반납했습니다.",
        "released-soon": "GPU는 1분 안에 반납됩니다.",
        "nothing": "여기서 직접 받은 GPU가 없습니다. 관리자가 준 GPU는 정해진 시각에 끝납니다.",
        "none-free": "지금 이 노드에서 비어 있는 GPU: {0}개. 다른 사람에게 배정: {1}개, 프로그램이 사용 중: {2}개, "
        "이상이 있거나 응답하지 않음: {3}개. `gpu list`로 확인하고 다른 노드를 쓰거나 나중에 다시 시도하세요.",
        "too-many": "한 사람이 이 노드에서 동시에 {0}개까지 쓸 수 있습니다. 반납: `gpu release`. "
        "더 필요하면 관리자에게 요청하세요.",
        "too-long": "한 번에 최대 {0}시간입니다: --hours {0}",
        "maintained": "이 노드는 지금 점검 중입니다. 다른 노드를 쓰거나 나중에 다시 시도하세요.",
        "taken-window": "이 노드의 GPU {2}: {1}까지 쓸 수 있습니다. 그때 노드 점검이 시작됩니다.",
        "silent-driver": "드라이버가 응답하지 않아 지금은 GPU를 줄 수 없습니다. 관리자에게 알려 주세요.",
        "open": "이 노드의 GPU는 누구나 쓸 수 있습니다. `gpu run` 없이 실행하세요.",
        "unknown": "이 계정으로는 여기서 GPU를 받을 수 없습니다. 관리자에게 문의하세요.",
        "no-queue": "여기에는 대기열이 없고 이 노드의 빈 GPU만 쓸 수 있습니다: "
        "gpu run [--gpus N] [--hours H] -- 명령 | get [N] [--hours H] | list | release",
        "is-free": "GPU {0}: 비어 있음",
        "is-granted": "GPU {0}: {1}, {2}까지",
        "is-held": "GPU {0}: {1}의 프로그램이 사용 중",
        "is-lost": "GPU {0}: 이상이 있거나 응답하지 않음",
    },
}

#: What `gpu jobs` says; how a job ended, by Slurm's word for it.
JOBS: dict[str, dict[str, str]] = {
    "en": {
        "columns": "Job|Name|Began|Waited|Ran|Node|GPUs|How it ended|Used",
        "none": "You have had no job in the last {0} days.",
        "of": "{0} of {1}",
        "gpu-use": "GPU {0:.0%}, {1:.1f} of {2:.0f} GiB",
        "cpu-use": "{0:.1f} of {1} CPUs",
        "memory-use": "memory {0:.1f} of {1:.0f} GiB",
        "COMPLETED": "done",
        "FAILED": "failed: the command ended with {0}",
        "signal": "failed: ended by signal {0}",
        "TIMEOUT": "its time was over: ask for more hours",
        "OUT_OF_MEMORY": "out of memory: ask for more with --memory",
        "NODE_FAIL": "its node failed: ask your admins",
        "PREEMPTED": "preempted: a group that comes first on its node needed it",
        "given-back": "given back",
        "never-began": "you gave your place up",
        "cancelled-own": "you ended it",
        "cancelled": "ended by an admin ({0})",
        "RUNNING": "runs",
        "PENDING": "waits",
        "other": "Slurm says: {0}",
    },
    "ko": {
        "columns": "작업|이름|시작|대기|실행|노드|GPU|결과|사용량",
        "none": "최근 {0}일 동안 작업이 없습니다.",
        "of": "{0}/{1}",
        "gpu-use": "GPU {0:.0%}, {1:.1f}/{2:.0f} GiB",
        "cpu-use": "CPU {0:.1f}/{1}개",
        "memory-use": "메모리 {0:.1f}/{1:.0f} GiB",
        "COMPLETED": "완료",
        "FAILED": "실패: 명령의 종료 코드 {0}",
        "signal": "실패: 시그널 {0}",
        "TIMEOUT": "시간 초과: 다음에는 시간을 더 길게 요청하세요",
        "OUT_OF_MEMORY": "메모리 부족: --memory로 더 요청하세요",
        "NODE_FAIL": "노드 장애: 관리자에게 문의하세요",
        "PREEMPTED": "중단: 노드를 우선 사용하는 그룹에서 쓰게 됨",
        "given-back": "반납함",
        "never-began": "대기 취소",
        "cancelled-own": "직접 끝냄",
        "cancelled": "관리자({0})가 끝냄",
        "RUNNING": "실행 중",
        "PENDING": "대기 중",
        "other": "Slurm: {0}",
    },
}
