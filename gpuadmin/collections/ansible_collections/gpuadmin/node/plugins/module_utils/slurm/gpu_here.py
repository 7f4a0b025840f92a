"""`gpu` on a node without a queue: GPUs of this node that nobody has, by the site's rule. It runs as whoever calls it;
a service decides (self_service.py).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from functools import partial

from gpuadmin.common.records.gpus import SelfService

from ..documents import parse_settings
from ..errors import NodeError
from ..files import read_bytes
from ..gpus.grants import OF_JOBS
from ..paths import RUN, STATE
from . import extend_service
from .foreground import GRACE, run_foreground
from .gpu_run import visible, with_devices
from .gpu_words import Asked, clock, print_answer
from .texts import HERE, TEXTS

#: The site's rule, on nodes that have one.
RULE = os.path.join(STATE, "gpu-self-service.json")
SOCKET = "/run/gpuadmin-gpus.sock"
ask = partial(extend_service.ask, path=SOCKET)


def read_rule(path: str = RULE) -> SelfService | None:
    """The rule of this node; None: people take no GPUs by themselves here."""
    try:
        text = read_bytes(path)
        return None if text is None else parse_settings(SelfService, json.loads(text), path)
    except (NodeError, OSError, ValueError):
        return None


def act(asked: Asked, rule: SelfService) -> int:
    words = HERE[asked.language]
    verbs = {"run": _run, "get": _get, "list": _list, "release": _release}
    if asked.word not in verbs or asked.node or asked.type or asked.mig or asked.cpus or asked.memory or asked.detach:
        print(words["no-queue"], file=sys.stderr)
        return 2
    asked.hours = asked.hours or rule.hours
    return verbs[asked.word](asked)


def _run(asked: Asked) -> int:
    words, say = HERE[asked.language], partial(print, file=sys.stderr, flush=True)
    if shutil.which(asked.command[0]) is None:
        say(TEXTS[asked.language]["no-such-command"].format(asked.command[0][:60]))
        return 127
    answer = ask(f"take {asked.gpus} {asked.hours} run")
    if answer is None or answer[0]:
        return print_answer(answer, words)
    word, id, until, _place, *names = answer[1]
    say(words[word].format(id, clock(int(until)), _place))
    grant = f"{RUN}{OF_JOBS}/{id}.json"

    def seconds_left() -> float:
        if os.path.exists(grant):
            return 0
        say(words["run-over"])
        return GRACE

    try:
        return run_foreground(with_devices(asked.command, names), {**os.environ, **visible(names)}, seconds_left)
    finally:
        answer = ask(f"release {id}")
        # where nobody answers the node sees within a minute that this process has ended
        gone = answer is not None and answer[1][0] in ("released", "nothing")
        say(words["released" if gone else "released-soon"])


def _get(asked: Asked) -> int:
    return print_answer(ask(f"take {asked.gpus} {asked.hours} get"), HERE[asked.language])


def _release(asked: Asked) -> int:
    return print_answer(ask("release all"), HERE[asked.language])


def _list(asked: Asked) -> int:
    words, answer = HERE[asked.language], ask("list")
    if answer is None or answer[0]:
        return print_answer(answer, words)
    for one in answer[1][1:]:
        place, state, who, until = one.split("|")
        print(words[f"is-{state}"].format(place, who, clock(int(until))))
    return 0
