"""`gpu jupyter`: the address at which somebody opens their notebook, in any browser."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from .. import web_reach
from . import notebook, queue, turn
from .gpu_words import Asked

TEXTS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "none": "This cluster has no notebooks: ask your admins for them. `gpu get` gives you a GPU.",
        "running": "Job {0}: your notebook runs already.",
        "silent": "Your notebook runs, and has no link now: `gpu jupyter` makes one.",
        "later": "Once you are in, the dashboard's page of the queue leads there, too. `gpu jupyter` makes a new link.",
        "close": "When you are done: File > Shut Down, or `gpu release {0}`. Both give the GPU back; closing the "
        "browser does not. If it does not open: ~/{1} says why.",
    },
    "ko": {
        "none": "이 클러스터에는 Jupyter 노트북이 없습니다. 관리자에게 요청하세요. "
        "GPU는 `gpu get`으로 받을 수 있습니다.",
        "running": "작업 {0}: Jupyter 노트북이 이미 실행 중입니다.",
        "silent": "Jupyter 노트북은 실행 중이지만 지금은 링크가 없습니다. `gpu jupyter`를 다시 실행하세요.",
        "later": "한 번 들어간 뒤에는 대시보드의 대기열 페이지에서도 열 수 있습니다. 새 링크: `gpu jupyter`",
        "close": "다 쓴 뒤에는 File > Shut Down을 누르거나 `gpu release {0}`을 실행하세요. 그러면 GPU가 반납됩니다. "
        "브라우저만 닫으면 반납되지 않습니다. 열리지 않는 이유: ~/{1}",
    },
}


def find_running(jobs: Sequence[Mapping[str, Any]], user: str) -> Mapping[str, Any] | None:
    """Somebody's notebook that is there or waits: whoever asks twice gets no second one."""
    return next((one for one in jobs if one["user"] == user and one["name"] == notebook.NAME), None)


def open_notebook(asked: Asked, sleep: Callable[[float], None]) -> int:
    """Wait for a notebook, and print where it is opened. Exit 0; 1 where there is none; 130 for who stops waiting."""
    words, say = TEXTS[asked.language], partial(print, flush=True)
    settings = notebook.load_settings()
    if settings is None:
        print(words["none"], file=sys.stderr)
        return 1
    person = pwd.getpwuid(os.getuid())
    there = find_running(queue.ask_jobs(), person.pw_name)
    if there is not None:
        say(words["running"].format(there["id"]))
    script = notebook.build_script(person.pw_dir, notebook.find_own(os.environ))
    job = turn.submit(asked, say, script) if there is None else str(there["id"])
    if job is None:
        return 1
    mine = turn.wait_or_keep(job, asked, sleep, say)
    if isinstance(mine, int):
        return mine
    if web_reach.main(asked.language, notebook=f"{mine['nodes']}/{mine['id']}", port=settings["port"]):
        print(words["silent"], file=sys.stderr)
        return 1
    say(f"{words['later']}\n{words['close'].format(mine['id'], notebook.LOG)}")
    return 0
