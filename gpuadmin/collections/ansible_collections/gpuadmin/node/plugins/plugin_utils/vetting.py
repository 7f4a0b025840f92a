"""Checks the form of what a module printed on a host before Ansible reads it: no host can end a run for the others.

Ansible believes some keys of a result: `ansible_stats` that is a number ends ansible-playbook itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

LONGEST = 64 * 2**20  # bytes: what 5,000 people's answer takes ten times over
DEEPEST = 40
MOST_VALUES = 2_000_000
_WORDS = {bool: "true or false", str: "text", dict: "an object", list: "a list", int: "a number"}
# the type that Ansible relies on; gpuadmin/ansible/reports.py parses the modules' own keys
_KINDS: Mapping[str, type] = {
    "changed": bool, "failed": bool, "skipped": bool, "unreachable": bool, "finished": bool,
    "msg": str, "stdout": str, "stderr": str, "rc": int, "ansible_facts": dict,
}  # fmt: skip
_NEVER = ("ansible_stats",)


def vetted(output: bytes) -> bytes:
    """Given what a module printed on a host, return what Ansible may read of it.

    An invalid answer becomes that of a failed module and says what is wrong. Text without a JSON object stays as it is:
    to Ansible that is a failure already.
    """
    if len(output) > LONGEST:
        return too_long()
    text = _object_in(output.decode("utf-8", "replace"))
    if text is None:
        return output
    try:
        found = json.loads(text, parse_constant=_no_number)
        odd = problem(found)
    except RecursionError:
        found, odd = {}, f"it is nested more than {DEEPEST} levels deep"
    except ValueError as error:
        found, odd = {}, f"it is not JSON: {error}"
    # the text that was read: Ansible, which looks for the object in its own way, must not find another one
    return (
        text.encode()
        if odd is None
        else _refusal(found, odd)  # guard: an answer that ends Ansible is that host's failure
    )


def too_long() -> bytes:
    """What Ansible reads in place of an answer of more than LONGEST bytes."""
    return _refusal({}, f"it is longer than {LONGEST // 2**20} MiB")


def problem(answer: object) -> str | None:
    """Given a module's answer, return in words what is wrong with it, or None."""
    if not isinstance(answer, dict):
        return f"it is {_kind(answer)}"
    for key in _NEVER:
        if key in answer:
            return f"it has {key}"
    for key, kind in _KINDS.items():
        if answer.get(key) is not None and not _is(answer[key], kind):
            return f"{key} is {_kind(answer[key])}, not {_WORDS[kind]}"
    return _too_much(answer)


def _too_much(answer: object) -> str | None:
    level, count = [answer], 0
    for _ in range(DEEPEST):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below.extend(one.values())
            elif isinstance(one, list):
                below.extend(one)
            elif isinstance(one, float) and not math.isfinite(one):
                return "it has a number that is not finite"
        count += len(below)
        if count > MOST_VALUES:
            return f"it has more than {MOST_VALUES} values"
        if not below:
            return None
        level = below
    return f"it is nested more than {DEEPEST} levels deep"


def _object_in(text: str) -> str | None:
    """The lines from the first that begins with a brace to the last that ends with one, as Ansible looks for them."""
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if line.strip().startswith("{")), None)
    if first is None:
        return None
    last = next(
        (number for number in range(len(lines) - 1, first - 1, -1) if lines[number].strip().endswith("}")), first
    )
    return "\n".join(lines[first : last + 1]).strip()


def _refusal(answer: object, odd: str) -> bytes:
    changed = isinstance(answer, dict) and answer.get("changed") is True
    message = f"its answer is not understood: {odd}"
    return json.dumps({"failed": True, "changed": changed, "msg": message[:400]}).encode()


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    return "a number" if isinstance(value, float) else _WORDS.get(type(value), type(value).__name__)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")
