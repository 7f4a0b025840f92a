"""What `gpu` says to people, in English and Korean."""

from __future__ import annotations

LANGUAGES = ("en", "ko")

USAGE = """usage: gpu get [N] [--hours H] [--type T] [--node NODE] [--no-wait] | list | why [JOB]
           | extend [JOB] [--hours H] | release [JOB...]

gpu get [N]          ask for N GPUs (1) of one node, for H hours (1), and wait for them
                     --type h100: of that type; a part of its name is enough
gpu list             who has GPUs, who waits for some, and which types there are
gpu why [JOB]        your place in the queue, and what you wait for
gpu extend [JOB]     H more hours (1) for what you have, up to the longest that you may
gpu release [JOB]    give back what you got with `gpu get`, or leave the queue

--no-wait returns at once; you keep your place. squeue, sbatch, srun, salloc and scancel work as well.
--language ko|en"""

TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "asked": "Job {0}: you asked for {1} for {2} h.",
        "place": "Your place in the queue: {0}. {1}.",
        "have": "{0} on {1} until {2}. It is open in all your shells and containers on {1}.",
        "there": "You are on {0}: ssh {1}",
        "kept": "You keep your place. `gpu why` shows it, `gpu release {0}` gives it up.",
        "ended": "Job {0} has ended.",
        "away": "The queue does not answer. What has a GPU goes on; nobody gets a new one now. Try again later.",
        "failed": "Slurm refuses: {0}",
        "impossible": "No node has that: {0}. `gpu list` shows the nodes.",
        "too-much": "That is more than one person may have at once, or for longer: ask your admins what is allowed.",
        "unknown": "You have no account in the queue yet: tell your admins.",
        "none": "You have no GPU, and wait for none.",
        "not-yours": "{0} is not a job of yours.",
        "others": "These are not from `gpu get`. To end one as well, name it: gpu release {0}",
        "released": "Job {0}: given back.",
        "empty": "Nobody has a GPU of the queue, and nobody waits.",
        "closed": "{0} takes no jobs now: {1}",
        "columns": "Job|Person|GPUs|Node|Until or place",
        "gpus": "{0} GPU|{0} GPUs",
        "waits": "place {0}",
        "since": "since {0}",
        "types": "{0}: name one of these types: {1}",
        "kinds": "Types of GPUs: {0}",
        "number": "{0!r} is no number from {1} to {2}",
    },
    "ko": {
        "asked": "작업 {0}: {1}를 {2}시간 동안 요청했습니다.",
        "place": "대기 순서: {0}번째. {1}.",
        "have": "{1}의 {0}, {2}까지. {1}에 있는 모든 셸과 컨테이너에서 사용할 수 있습니다.",
        "there": "현재 노드는 {0}입니다: ssh {1}",
        "kept": "대기 순서는 유지됩니다. `gpu why`로 확인하고, `gpu release {0}`로 취소합니다.",
        "ended": "작업 {0}이(가) 끝났습니다.",
        "away": "대기열이 응답하지 않습니다. 받은 GPU는 계속 쓸 수 있지만 "
        "지금은 새로 받을 수 없습니다. 나중에 다시 시도하십시오.",
        "failed": "Slurm이 거부했습니다: {0}",
        "impossible": "조건에 맞는 노드가 없습니다: {0}. 노드 목록은 `gpu list`로 볼 수 있습니다.",
        "too-much": "한 사람이 동시에 쓸 수 있는 GPU 수나 시간을 넘습니다. 허용량은 관리자에게 문의하십시오.",
        "unknown": "아직 대기열에 계정이 없습니다. 관리자에게 알리십시오.",
        "none": "받은 GPU도, 기다리는 GPU도 없습니다.",
        "not-yours": "{0}은(는) 본인의 작업이 아닙니다.",
        "others": "다음은 `gpu get`으로 받은 것이 아닙니다. 함께 끝내려면 번호를 적으십시오: gpu release {0}",
        "released": "작업 {0}: 반납했습니다.",
        "empty": "대기열의 GPU를 쓰는 사람도, 기다리는 사람도 없습니다.",
        "closed": "{0}은(는) 지금 작업을 받지 않습니다: {1}",
        "columns": "작업|사용자|GPU|노드|종료 시각 또는 순서",
        "gpus": "GPU {0}개",
        "waits": "{0}번째",
        "since": "{0}부터",
        "types": "{0}: 다음 중 하나를 적으십시오: {1}",
        "kinds": "GPU 종류: {0}",
        "number": "{0!r}: {1}에서 {2} 사이의 숫자를 적으십시오",
    },
}

#: As queue.WHY, for whoever waits.
WHY = {
    "en": {
        "priority": "Others come first: they have used less of their share, or have waited longer",
        "resources": "You are next, as soon as enough GPUs are free",
        "limit": "You have as many GPUs as one person may have at once",
        "longest": "You asked for longer than you may",
        "node": "The node that you asked for takes no jobs now",
        "later": "It starts again soon: its node failed",
        "held": "It was held, by you or an admin",
        "unread": "It was not looked at yet",
        "other": "Slurm says: {0}",
    },
    "ko": {
        "priority": "다른 사람이 먼저입니다(사용량이 더 적거나 더 오래 기다렸습니다)",
        "resources": "GPU가 충분히 비면 바로 다음 차례입니다",
        "limit": "한 사람이 동시에 쓸 수 있는 GPU를 이미 모두 쓰고 있습니다",
        "longest": "허용된 시간보다 길게 요청했습니다",
        "node": "요청한 노드가 지금 작업을 받지 않습니다",
        "later": "노드에 문제가 있어 곧 다시 시작합니다",
        "held": "본인이나 관리자가 보류했습니다",
        "unread": "아직 확인되지 않았습니다",
        "other": "Slurm: {0}",
    },
}

#: At log-in: two lines.
LOGIN = {
    "en": {
        "have": "You have {0}.",
        "part": "{0} of {1} until {2}",
        "wait": "You wait for {0}. {1}",
        "waiting": "You have no GPU. People who wait for one: {0}.",
        "nobody": "You have no GPU. Nobody waits for one.",
        "none": "You have no GPU.",
        "ask": "`gpu get` asks for one, `gpu list` shows who has them.",
        "more": "`gpu release` gives back what you no longer need.",
        "why": "`gpu why` says more.",
        "away": "The queue does not answer now: what has a GPU goes on, and nobody gets a new one.",
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
        "more": "다 쓴 GPU는 `gpu release`로 반납해 주십시오.",
        "why": "자세한 내용은 `gpu why`로 확인하십시오.",
        "away": "대기열이 응답하지 않습니다. 받은 GPU는 계속 쓸 수 있지만 지금은 새로 받을 수 없습니다.",
        "gpus": "GPU {0}개",
    },
}

#: What the service answers that may give more time (asked.py), by its word.
ASKED = {
    "en": {
        "extended": "Job {0}: yours until {1} now.",
        "not-running": "{0} is not a job of yours that runs.",
        "never": "Nobody gets more time here: save a checkpoint, and ask again with `gpu get`.",
        "unknown": "You have no account in the queue: tell your admins.",
        "too-long": "A job may take {0} h: yours until {1} at most.",
        "others": "People who wait for GPUs: {0}. You keep yours until its end, and no longer.",
        "booked": "Somebody has booked it from {0} on.",
        "which": "You have several: name one of {0}.",
        "away": "The queue does not answer. What has a GPU goes on; nobody gets more time now. Try again later.",
        "silent": "The node does not answer. Try again; if that does not help, tell your admins.",
        "busy": "You have asked already; wait for the answer.",
        "failed": "It could not be done: tell your admins.",
        "not-understood": "It could not be done: tell your admins.",
    },
    "ko": {
        "extended": "작업 {0}: {1}까지 쓸 수 있습니다.",
        "not-running": "{0}은(는) 실행 중인 본인의 작업이 아닙니다.",
        "never": "이곳에서는 시간을 연장할 수 없습니다. 체크포인트를 저장하고 `gpu get`으로 다시 요청하십시오.",
        "unknown": "대기열에 계정이 없습니다. 관리자에게 알리십시오.",
        "too-long": "작업 하나는 최대 {0}시간입니다. {1}까지만 연장할 수 있습니다.",
        "others": "GPU를 기다리는 사람이 {0}명 있어 연장할 수 없습니다. 원래 시각까지는 쓸 수 있습니다.",
        "booked": "{0}부터 다른 사람이 예약했습니다.",
        "which": "받은 GPU가 여럿입니다. 다음 중 하나를 적으십시오: {0}",
        "away": "대기열이 응답하지 않습니다. 받은 GPU는 계속 쓸 수 있지만 지금은 연장할 수 없습니다. "
        "나중에 다시 시도하십시오.",
        "silent": "노드가 응답하지 않습니다. 다시 시도하고, 계속되면 관리자에게 알리십시오.",
        "busy": "이미 요청했습니다. 답을 기다려 주십시오.",
        "failed": "연장하지 못했습니다. 관리자에게 알리십시오.",
        "not-understood": "연장하지 못했습니다. 관리자에게 알리십시오.",
    },
}
