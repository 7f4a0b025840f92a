"""The command `gpuadmin-me disk`: the largest directories of your home, and your files on this node's disks.

The home is counted now, as the person; the node's own disks once a day by root, who may look into containers' files.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from gpuadmin.common.text import size_words

from ..bounded import read_small
from ..btrfs import open_directory
from ..budget import Budget
from ..diagnosis.subject import Subject
from ..disk.tree import ALL, measure
from ..each import Failed, each
from ..errors import NodeError
from ..fields import CONTROL
from ..paths import OF_PEOPLE

COUNTING = 60.0  # seconds for the person's home; the rest of it is then unknown
DIRECTORIES = 10  # that are printed
LONGEST = 100  # characters of a path that is shown
_WORDS = {
    "en": {
        "docker": "Docker on this node", "scratch": "scratch on this node", "homes": "homes",
        "shared": "shared", "files": "files",
        "partly": "at least: not all of it could be counted", "unknown": "not known ({0})",
        "away": "there is none (gpuadmin-me check says why)", "ago": "measured {0} h ago",
        "none": "on this node's own disks: nothing is yours, or it was not measured yet",
        "docker-todo": "docker image ls and docker ps -a show it; docker rmi, docker rm, docker builder prune.",
    },
    "ko": {
        "docker": "이 노드의 Docker", "scratch": "이 노드의 임시 공간", "homes": "홈", "shared": "공유",
        "files": "개 파일",
        "partly": "이상: 모두 세지 못했습니다", "unknown": "알 수 없음 ({0})",
        "away": "없음 (이유: gpuadmin-me check)", "ago": "{0}시간 전에 측정",
        "none": "이 노드의 디스크: 본인 파일이 없거나 아직 측정하지 않았습니다",
        "docker-todo": "확인: docker image ls, docker ps -a. 삭제: docker rmi, docker rm, docker builder prune",
    },
}  # fmt: skip


def disk(subject: Subject, seconds: float = COUNTING) -> dict[str, Any]:
    """``home``: path, bytes, inodes, partial, largest; or why it is not known. ``node``: by place, as root measured."""
    path = subject.path(os.path.join(subject.homes, str(subject.name)))
    found: dict[str, Any] = {"home": "?", "path": path, "node": node(subject)}
    for _task, answer in each(lambda _: home(path, seconds), [path], 1, seconds, grace=5.0):
        found["home"] = answer.why if isinstance(answer, Failed) else answer
    return found


def home(path: str, seconds: float) -> dict[str, Any] | None:
    """Count a directory, for so many seconds; None if there is none. Raises NodeError or OSError if it cannot be looked
    at.
    """
    try:
        top = open_directory(path)
    except FileNotFoundError:
        return None
    try:
        tree = measure(top, Budget(seconds, setting=False))
    finally:
        os.close(top)
    used = tree.people[ALL]
    largest = [
        {"path": os.path.join(path, name), "bytes": size, "inodes": number} for name, size, number in used.largest
    ]
    return {
        "bytes": used.size.bytes, "inodes": used.size.inodes, "partial": bool(tree.problem), "largest": largest,
    }  # fmt: skip


def node(subject: Subject) -> dict[str, Any]:
    """The amounts that root measured of this person on this node; nothing where it has not."""
    path = subject.path(os.path.join(subject.state, OF_PEOPLE, f"{subject.name}.json"))
    try:
        found = json.loads(read_small(path))
    except (OSError, ValueError, RecursionError, NodeError):
        return {}
    return dict(found) if isinstance(found, dict) else {}


def lines(subject: Subject, found: Mapping[str, Any], host: str, language: str) -> list[str]:
    """What is printed."""
    words = _WORDS[language]
    output = [f"{subject.name}@{host}"]
    if found["home"] is None:
        output.append(f"  {found['path']}: {words['away']}")
    elif isinstance(found["home"], str):
        output.append(f"  {found['path']}: {words['unknown'].format(found['home'])}")
    else:
        output += _part(found["path"], found["home"], "", language)
    for place, held in found["node"].items():
        hours = max(int((time.time() - held["when"]) // 3600), 0)
        output += _part(words[place], held, words["ago"].format(hours), language)
    if not found["node"]:
        output.append(f"  {words['none']}")
    if "docker" in found["node"]:
        output.append(words["docker-todo"])
    return output


def _part(title: str, held: Mapping[str, Any], remark: str, language: str) -> list[str]:
    words = _WORDS[language]
    remarks = [text for text in (remark, words["partly"] if held["partial"] else "") if text]
    more = f" ({', '.join(remarks)})" if remarks else ""
    output = [f"  {title}: {size_words(held['bytes'])}, {_files(held, language)}{more}"]
    for one in held["largest"][:DIRECTORIES]:
        output.append(f"    {size_words(one['bytes']):>9}  {_files(one, language)}  {_plain(one['path'])}")
    return output


def _files(one: Mapping[str, Any], language: str) -> str:
    number, word = f"{one['inodes']:,}", _WORDS[language]["files"]
    return f"{number}{word}" if language == "ko" else "1 file" if number == "1" else f"{number} {word}"


def _plain(path: str) -> str:
    """A name that one chose oneself, or got from an archive: nothing that a terminal obeys."""
    text = CONTROL.sub("?", path)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
