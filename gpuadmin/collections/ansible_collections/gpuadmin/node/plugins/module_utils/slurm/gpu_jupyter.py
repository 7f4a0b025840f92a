"""`gpu jupyter`: the address at which somebody opens their notebook, in any browser."""

from __future__ import annotations

import json
import os
import pwd
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from gpuadmin.common.tokens import LINK_SECONDS

from .. import peercred_service
from ..bounded import read_small
from ..errors import NodeError, in_words
from ..paths import STATE
from . import notebook, queue, turn
from .gpu_words import Asked

LINKS = "/run/gpuadmin-web-link.sock"
WAY = os.path.join(STATE, "web-links.json")
SECONDS = 60.0
TEXTS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "none": "This cluster has no notebooks: ask your admins for them. `gpu get` gives you a GPU.",
        "running": "Job {0}: your notebook runs already.",
        "silent": "Your notebook runs, and no link could be made now: `gpu jupyter` makes one, `gpuadmin-me web` says "
        "what is wrong.",
        "open": "Open it in a browser, also on a phone. The link works once, within {0} minutes, and for you alone: do "
        "not pass it on.",
        "forward": "If your browser cannot reach it, run this on your own machine, then open the second link there:",
        "later": "Once you are in, the dashboard's page of the queue leads there, too. `gpu jupyter` makes a new link.",
        "certificate": "Your browser may warn of the certificate: ask your admins which one is right.",
        "close": "When you are done: File > Shut Down, or `gpu release {0}`. Both give the GPU back; closing the "
        "browser does not. If it does not open: ~/{1} says why.",
    },
    "ko": {
        "none": "이 클러스터에는 Jupyter 노트북이 없습니다. 관리자에게 요청하세요. "
        "GPU는 `gpu get`으로 받을 수 있습니다.",
        "running": "작업 {0}: Jupyter 노트북이 이미 실행 중입니다.",
        "silent": "Jupyter 노트북은 실행 중이지만 지금 링크를 만들 수 없습니다. `gpu jupyter`를 다시 실행하세요. "
        "이유는 `gpuadmin-me web`으로 볼 수 있습니다.",
        "open": "브라우저에서 여세요. 휴대전화에서도 됩니다. 링크는 {0}분 동안 한 번만, 본인만 쓸 수 있습니다. "
        "다른 사람에게 전달하지 마세요.",
        "forward": "브라우저에서 열리지 않으면, 본인 컴퓨터에서 아래 명령을 실행하고 두 번째 링크를 여세요.",
        "later": "한 번 들어간 뒤에는 대시보드의 대기열 페이지에서도 열 수 있습니다. 새 링크: `gpu jupyter`",
        "certificate": "브라우저에 인증서 경고가 나올 수 있습니다. 어떤 인증서인지는 관리자에게 확인하세요.",
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
    if notebook.load_settings() is None:
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
    return mine if isinstance(mine, int) else show(mine, asked.language)


def show(job: Mapping[str, Any], language: str, path: str = LINKS, way: str = WAY) -> int:
    """Print where a notebook that runs is opened. Exit 1 where no link is signed now. Raises NodeError."""
    words, settings = TEXTS[language], notebook.load_settings()
    found = peercred_service.ask(path, SECONDS)
    if settings is None or found is None or found[0] != 0:
        print(words["silent"], file=sys.stderr)
        return 1
    link = f"{found[1]}&notebook={job['nodes']}/{job['id']}"
    print("\n".join(lines(link, job, _read(way), settings["port"], pwd.getpwuid(os.getuid()).pw_name, words)))
    return 0


def lines(
    link: str, job: Mapping[str, Any], way: Mapping[str, Any], port: int, name: str, words: Mapping[str, str]
) -> list[str]:
    """What is printed. ``way``: as the dashboard's own links have it; ``port``: of notebooks on the monitor host."""
    parts = urlsplit(link)
    own, _, end = str(way["forward"]).partition(":")
    host = end.rpartition(":")[0]
    forward = [
        f"    ssh -N -L {own}:{end} -L {port}:{host}:{port} {name}@{way['through']}",
        f"    https://localhost:{own}{parts.path}?{parts.query}",
    ]
    return [
        words["open"].format(LINK_SECONDS // 60), *([f"    {link}"] if way["direct"] else []), words["forward"],
        *forward, words["certificate"], words["later"], words["close"].format(job["id"], notebook.LOG),
    ]  # fmt: skip


def _read(path: str) -> dict[str, Any]:
    try:
        found = json.loads(read_small(path))
        return {name: found[name] for name in ("forward", "through", "direct")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{path} cannot be read ({in_words(error)}): tell your admins") from None
