"""The overview of a person on a node: nodes, account, disks, GPUs. Each is looked at by itself."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any

from gpuadmin.common.text import clock, listed, size_words

from ..diagnosis import gpus, granted
from ..diagnosis.subject import Subject
from ..each import Failed, each
from ..errors import NodeError
from ..limits import amounts, room
from ..run import run_command
from . import hints
from .queue_place import find_place, has_self_service
from .queue_place import lines as of_queue

SECONDS = 5.0  # for each part
COUNTING = 2.0  # seconds for which a home's files are counted; the rest of it is then unknown


def overview(subject: Subject) -> dict[str, Any]:
    """The facts by part, or a text that says why they are not known."""
    parts = {"expires": expires, "home": home, "docker": docker, "gpus": gpus.gpus, "held": hints.held,
             "granted": granted.granted, "queue": find_place, "self_service": has_self_service}  # fmt: skip
    return look_at_parts(subject, parts)


def look_at_parts(subject: Subject, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Given functions by part, return what each finds, or a text that says why it is not known."""
    found: dict[str, Any] = {}
    for name, part in each(partial(_look, subject=subject, parts=parts), list(parts), len(parts), SECONDS, grace=0):
        found[name] = part.why if isinstance(part, Failed) else part
    return found


def _look(name: str, *, subject: Subject, parts: Mapping[str, Any]) -> Any:
    return parts[name](subject)


def expires(subject: Subject) -> str | None:
    """The last day of an account (chage(1) reads its caller's), or None for one without an end."""
    done = run_command(("chage", "-l", str(subject.name)), seconds=3, environment={"LC_ALL": "C"})
    return parse_expiry(done.stdout)


def parse_expiry(text: str) -> str | None:
    """Given what chage prints, return the last day as YYYY-MM-DD; None: never. chage has the day after it."""
    found = re.search(r"(?m)^Account expires\s*: (.+)$", text)
    if found is None:
        raise NodeError("chage does not say it")
    if found.group(1).strip() == "never":
        return None
    ends = datetime.strptime(found.group(1).strip(), "%b %d, %Y").date()  # in the C locale
    return date.fromordinal(ends.toordinal() - 1).isoformat()


def home(subject: Subject) -> dict[str, Any] | None:
    """Bytes of the caller's own home, as far as they could be counted in time, and of its file system; None: there
    is none."""
    path = subject.path(os.path.join(subject.homes, str(subject.name)))
    try:
        space = os.statvfs(path)
    except FileNotFoundError:
        return None
    used, whole = count_bytes(path, COUNTING)
    return {
        "path": path,
        "used": used,
        "whole": whole,
        "free": space.f_bavail * space.f_frsize,
        "bytes": space.f_blocks * space.f_frsize,
        "amount": _amount(amounts.of_home(subject.path(subject.homes), str(subject.name))),
    }


def _amount(used: amounts.Used | None) -> dict[str, Any] | None:
    return None if used is None else vars(used)


def count_bytes(path: str, seconds: float) -> tuple[int, bool]:
    """Count the bytes on disk below a directory, on its file system; and say whether all were counted in time."""
    end = time.monotonic() + seconds
    device = os.lstat(path).st_dev
    total, waiting = 0, [path]
    while waiting:
        if time.monotonic() > end:
            return total, False
        for facts, below in _list_entries(waiting.pop()):
            if facts.st_dev == device:  # guard: a count of a home enters nothing that is mounted there -> True
                total += facts.st_blocks * 512
                if stat.S_ISDIR(facts.st_mode):
                    waiting.append(below)
            if time.monotonic() > end:
                return total, False
    return total, True


def _list_entries(directory: str) -> Iterator[tuple[os.stat_result, str]]:
    try:
        with os.scandir(directory) as found:
            for entry in found:
                try:
                    yield (
                        entry.stat(
                            follow_symlinks=False  # guard: a count of a home follows no link
                        ),
                        entry.path,
                    )
                except OSError:
                    continue  # it has just gone
    except OSError:
        return  # a container's files, with a subordinate uid


def docker(subject: Subject) -> dict[str, Any] | None:
    """The disk of Docker's data on this node; None for people who have none."""
    if subject.docker is None or not os.path.isdir(subject.path(os.path.join(subject.docker, str(subject.name)))):
        return None
    whole, free = room.space(subject.path(subject.docker))
    state = subject.path(subject.state)
    told = amounts.load(state)
    return {
        "path": os.path.join(subject.docker, str(subject.name)),
        "free": free,
        "bytes": whole,
        "amount": None if told is None else _amount(amounts.of_node(told, amounts.DOCKER, str(subject.name), state)),
    }


def scratch(subject: Subject) -> dict[str, Any] | None:
    """The disk of somebody's scratch on this node; None: nothing there is held to an amount."""
    state = subject.path(subject.state)
    told = amounts.load(state)
    used = None if told is None else amounts.of_node(told, amounts.SCRATCH, str(subject.name), state)
    if told is None or used is None:
        return None
    every = [os.path.join(one, str(subject.name)) for one in told.directories(amounts.SCRATCH)]
    own = [one for one in every if os.path.isdir(subject.path(one))]
    whole, free = room.space(subject.path(own[0]))
    return {"path": listed(own), "free": free, "bytes": whole, "amount": _amount(used)}


def lines(
    subject: Subject, found: Mapping[str, Any], host: str, nodes: Sequence[Mapping[str, str]], language: str
) -> list[str]:
    """The lines to print. A part that is a text could not be looked at."""
    korean = language == "ko"
    names = ("계정", "노드", "홈", "Docker", "GPU") if korean else ("account", "nodes", "home", "Docker", "GPUs")
    texts = (
        _account(found["expires"], korean),
        ", ".join(f"{one['name']} ({one['address']})" for one in nodes) or host,
        describe_home(found["home"], korean),
        describe_docker(found["docker"], korean),
        _gpus(found["gpus"], str(subject.name), korean),
    )
    given = found.get("granted")
    queue = found.get("queue")
    if isinstance(given, str):  # it is not known whether they are given at all
        texts = (*texts[:-1], _unknown(given, korean))
    elif queue is not None:
        texts = (*texts[:-1], "대기열에서 배정합니다" if korean else "given by the queue here")
    elif given is not None and found.get("self_service") is True:
        texts = (*texts[:-1], "`gpu get`으로 직접 받습니다" if korean else "take a free one: `gpu get`")
    elif given is not None:
        texts = (*texts[:-1], "신청하면 관리자가 배정합니다" if korean else "given on request here: ask your admins")
    nobodys = subject.docker is None and found["docker"] is None  # this site has no Docker
    shown = (f"  {name}: {text}" for name, text in zip(names, texts) if not (nobodys and name == "Docker"))
    output = [f"{subject.name}@{host}", *shown]
    if isinstance(given, dict):
        output += [f"  {line}" for line in _granted(given, str(subject.name), korean)]
    if isinstance(queue, str):
        output.append(f"  {'대기열' if korean else 'queue'}: {_unknown(queue, korean)}")
    elif queue is not None:
        output += [f"  {line}" for line in of_queue(queue, language)]
    if isinstance(found.get("held"), list):  # where the collector has written nothing, the line above is what is known
        output += [f"  {line}" for line in hints.lines(found["held"], korean)]
    return [*output, "안 될 때: gpuadmin-me check" if korean else "When it does not work: gpuadmin-me check"]


def _unknown(why: str, korean: bool) -> str:
    return f"알 수 없음 ({why})" if korean else f"not known ({why})"


def _account(day: Any, korean: bool) -> str:
    if day is None:
        return "따로 정한 만료일 없음" if korean else "no last day of its own"
    try:
        left = (date.fromisoformat(day) - date.today()).days
    except ValueError:
        return _unknown(day, korean)
    return f"{day}까지 ({left}일 남음)" if korean else f"valid until {day} ({left} days left)"


def describe_home(home: Any, korean: bool) -> str:
    if home is None:
        return "없음 (이유: gpuadmin-me check)" if korean else "none (gpuadmin-me check says why)"
    if isinstance(home, str):
        return _unknown(home, korean)
    free, most, used = size_words(home["free"]), size_words(home["bytes"]), size_words(home["used"])
    amount = home["amount"]
    if amount is not None:
        now = {**amount, "bytes": home["used"], "when": None, "partial": False} if home["whole"] else amount
        left = f"모두가 함께 쓰는 {most} 중 {free} 남음" if korean else f"{free} of {most} left for everybody"
        return f"{home['path']}: {_print_amount(now, korean)}{', ' if korean else '; '}{left}"
    if korean:
        return f"{home['path']}: 사용 {used}{'' if home['whole'] else ' 이상'}, 모두가 함께 쓰는 {most} 중 {free} 남음"
    return (
        f"{home['path']}: {'' if home['whole'] else 'more than '}{used} are yours; {free} of {most} left for everybody"
    )


def _print_amount(amount: Mapping[str, Any], korean: bool) -> str:
    """The amount in words, with its age: `412.0 GB of 500.0 GB (82%, measured 5 h ago)`."""
    has, most = size_words(amount["bytes"]), size_words(amount["most"])
    share = f"{amount['bytes'] * 100 // amount['most']}%"
    if amount["when"] is not None:
        hours = max(int((time.time() - amount["when"]) // 3600), 0)
        share += f", {hours}시간 전에 측정" if korean else f", measured {hours} h ago"
    if korean:
        return f"한도 {most} 중 {has}{' 이상' if amount['partial'] else ''} 사용({share})"
    return f"{'more than ' if amount['partial'] else ''}{has} of {most} ({share})"


def describe_docker(docker: Any, korean: bool) -> str:
    if isinstance(docker, str):
        return _unknown(docker, korean)
    if docker is None:
        return "없음 (add-me-to-docker-user)" if korean else "none (add-me-to-docker-user)"
    free, most = size_words(docker["free"]), size_words(docker["bytes"])
    if docker["amount"] is not None:
        left = f"{most} 중 {free} 남음" if korean else f"{free} of {most} left for everybody"
        return f"{docker['path']}: {_print_amount(docker['amount'], korean)}{', ' if korean else '; '}{left}"
    return f"{docker['path']}: {most} 중 {free} 남음" if korean else f"{docker['path']}: {free} of {most} left"


def _gpus(gpus: Any, name: str, korean: bool) -> str:
    if isinstance(gpus, str):
        return _unknown(gpus, korean)
    if gpus is None:
        return "없음" if korean else "none"
    if not gpus["gpus"]:
        return _unknown("; ".join([*gpus["missing"], *([gpus["problem"]] if gpus["problem"] else [])]), korean)
    words = {"mine": "사용 중(본인)", "others": "다른 사람이 사용 중", "free": "비어 있음"} if korean else {
        "mine": "yours", "others": "used by others", "free": "free",
    }  # fmt: skip
    return ", ".join(f"{one['index']} {one['name'] or ''}: {words[_state(one, name)]}" for one in gpus["gpus"])


def _granted(given: Mapping[str, Any], name: str, korean: bool) -> Iterator[str]:
    """A line for each grant, one's own first: which GPUs, until when, by whom and why; then what nobody has."""
    for one in sorted(given["grants"], key=lambda one: (one["user"] != name, one["gpus"])):
        places, until = ", ".join(one["gpus"]), clock(one["until"])
        why = f"{one['who']}: {one['reason']}" if one["reason"] else one["who"]
        if korean:
            yield f"GPU {places}: {'본인' if one['user'] == name else one['user']}, {until}까지 ({why})"
        else:
            yield f"GPU {places}: {'yours' if one['user'] == name else one['user']} until {until} ({why})"
    taken = {place for one in given["grants"] for place in one["gpus"]}
    left = [str(place) for place in range(given["gpus"]) if str(place) not in taken]
    if left:
        yield f"GPU {', '.join(left)}: {'배정되지 않음' if korean else 'granted to nobody'}"


def _state(gpu: Mapping[str, Any], name: str) -> str:
    return "mine" if name in gpu["holders"] else "others" if gpu["holders"] else "free"
