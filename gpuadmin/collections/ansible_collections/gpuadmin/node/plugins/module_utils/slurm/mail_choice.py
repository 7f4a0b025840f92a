"""What somebody has chosen of the mails about their jobs: none, or their language. slurmctld keeps it, in the field
Extra of the node where they chose: nodes reach it, and so does the queue's host, which mails.
"""

from __future__ import annotations

import re
import socket
import time

from ..errors import NodeError
from . import queue

WORDS = ("on", "off", "ko", "en")
_BEGIN, MOST = "gpuadmin-mail:", 2000
_NODE = re.compile(r"^NodeName=(\S+)(?:.*? Extra=(\S*))?", re.MULTILINE)
_ONE = re.compile(r"([a-z_][a-z0-9_-]*)=(on|off|ko|en)@([0-9]{1,12})\Z")


def parse(extra: str) -> dict[str, tuple[str, int]]:
    """Person → what they chose and when, of one node."""
    found = map(_ONE.match, extra[len(_BEGIN) :].split(",") if extra.startswith(_BEGIN) else ())
    return {one[1]: (one[2], int(one[3])) for one in found if one}


def _extras() -> dict[str, str]:
    return {node: extra or "" for node, extra in _NODE.findall(queue.ask(("scontrol", "-o", "show", "node")))}


def read() -> dict[str, tuple[str, int]]:
    """What everybody has chosen, wherever they did: the last counts. Raises NodeError."""
    found: dict[str, tuple[str, int]] = {}
    for extra in _extras().values():
        for user, one in parse(extra).items():
            found[user] = max(one, found.get(user, one), key=lambda chosen: chosen[1])
    return found


def choose(user: str, word: str) -> str:
    """Keep what somebody has chosen. Returns what `gpu mail` is answered. Raises NodeError."""
    queue.alive()
    extras, node = _extras(), socket.gethostname()
    there = extras.get(node)
    # guard: what an admin has noted of a node stays
    if there is None or not (there.startswith(_BEGIN) or there in ("", "(null)")):
        raise NodeError(f"the field Extra of {node} has {there!r}, and no choices of mails")
    mine = parse(there)
    mine.pop(user, None)  # the newest is the last one
    mine[user] = word, int(time.time())
    text = ",".join(f"{name}={chosen}@{when}" for name, (chosen, when) in list(mine.items())[-MOST:])
    queue.ask(("scontrol", "update", f"NodeName={node}", f"Extra={_BEGIN}{text}"))
    return f"mail-{word}"
