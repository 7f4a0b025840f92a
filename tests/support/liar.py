#!/usr/bin/env python3
"""A host that lies: stands in for its Python, runs what it is given, and changes the answer before it goes out.

It takes the place of a captured host's interpreter, so it answers for every module, Ansible's own among them. The seed
decides which lie each answer is: a field of another type, a number that no host has, a text without an end, a
depth that no parser likes, a template, a path, an escape, half an answer or none. What runs there with arguments
(units, the code that the host keeps) is let through.

    liar.py REAL SEED DIRECTORY    (in the first line of what replaces the interpreter; DIRECTORY counts the lies)
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

TEXTS = [
    "", " ", "\n", "root", "--", "-rf", "../../../etc/passwd", "/", "{{ lookup('pipe', 'touch /tmp/owned') }}",
    "{% for x in range(9) %}{% endfor %}", "\x1b]0;owned\x07\x1b[2J", "[red]ok[/red]", "\u202eko", "minji", "sora",
    "9999-99-99T99:99:99Z", "2026-02-30", "0000-00-00", "1e999", "NaN", "storage1", "node1", "ok", "unreachable",
    "\ud800", "a/b", "\0", "=cmd|' /C calc'!A0", "<script>alert(1)</script>", "yes", "null", ".", "..",
    "x" * 10**6, "a\n" * 10**5, "민지" * 5000,
]  # fmt: skip
OURS = ["operations", "report", "each", "remarks", "msg", "diff", "progress"]
ANSIBLES = ["exception", "failed", "skipped", "unreachable", "rc", "results", "stderr", "warnings", "deprecations",
            "add_host", "ansible_job_id", "_ansible_no_log", "invocation"]  # fmt: skip
NUMBERS = [0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 1e308, -1e308, -1e12, 1e-320, 0.1]


def text_of_depth(levels: int) -> str:
    return "[" * levels + "]" * levels


def lie(dice: random.Random) -> Any:
    """Something that stands in for a field."""
    kind = dice.randrange(8)
    if kind == 0:
        return dice.choice([None, True, False])
    if kind in (1, 2):
        return dice.choice(NUMBERS)
    if kind in (3, 4):
        return dice.choice(TEXTS)
    if kind == 5:
        return [dice.choice(TEXTS[:-3]) for _ in range(dice.choice([0, 1, 3, 2000]))]
    if kind == 6:
        return {dice.choice(TEXTS[:-3]): dice.choice(NUMBERS) for _ in range(dice.choice([0, 1, 3]))}
    deep: Any = dice.choice(TEXTS[:-3])
    for _ in range(dice.choice([5, 60, 400])):
        deep = [deep] if dice.random() < 0.5 else {"a": deep}
    return deep


def places(value: Any, found: list[tuple[Any, Any]]) -> None:
    """All (holder, key) below a value, in ``found``."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(entries):
        found.append((value, key))
        places(inner, found)


def changed(answer: dict[str, Any], dice: random.Random) -> str:
    """Given an honest answer, return what goes out in its place."""
    kind = dice.randrange(12)
    if kind == 0:
        return dice.choice(["", "nonsense", "{", '{"changed": ', "[]", "null", "7", '"ok"', "{}", "\x00" * 100])
    if kind == 1:
        return json.dumps(answer)[: dice.randrange(200)]
    if kind == 2:
        return f'{{"changed": false, "report": {text_of_depth(dice.choice([500, 20_000]))}}}'
    if kind == 3:
        answer[dice.choice(OURS)] = lie(dice)
    elif kind == 4:
        answer["ansible_facts"] = {"gpuadmin": lie(dice), "ansible_connection": "local"}
    elif kind == 5:
        answer[dice.choice(ANSIBLES)] = lie(dice)
    else:
        for _ in range(dice.choice([1, 1, 2, 5])):
            spoil(answer, dice)
    return json.dumps(answer)


def spoil(answer: dict[str, Any], dice: random.Random) -> None:
    """Change one field, however deep, or leave it out."""
    found: list[tuple[Any, Any]] = []
    places(answer, found)
    if not found:
        return
    holder, key = dice.choice(found)
    if dice.random() < 0.2 and isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = lie(dice)


def next_number(directory: str) -> int:
    """How many lies were told before this one; several modules may ask at once."""
    with (Path(directory) / "count").open("a+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        number = len(stream.read())
        stream.write(".")
        return number


def main() -> int:
    real, seed, directory, *arguments = sys.argv[1:]
    if arguments or sys.stdin.isatty():
        os.execv(real, [real, *arguments])
    done = subprocess.run([real], stdout=subprocess.PIPE, check=False)
    text = done.stdout.decode(errors="replace")
    before, _, last = text.rstrip().rpartition("\n")
    try:
        answer = json.loads(last)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        dice = random.Random(int(seed) * 1_000_003 + next_number(directory))
        if dice.random() < 0.7:  # else nothing but the first module of a run would ever answer
            text = f"{before}\n{changed(answer, dice)}\n"
    sys.stdout.write(text)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
