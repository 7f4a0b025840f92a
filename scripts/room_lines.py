"""The budget of lines of each room: `scripts/rooms.toml`, `[lines]`. `make lint` says which rooms outgrew theirs.

A file counts for the longest key that its path begins with; `node/` stands for module_utils. A room that shrinks takes
its budget along (`python scripts/room_lines.py --lower`), so that what comes next does not fill it again.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "scripts/rooms.toml"
NODE = "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins/module_utils/"
PICTURES = (".svg", ".png", ".lock")
#: The lines that a room may have less than its budget before the budget has to follow.
SLACK = 40


def read_budgets(text: str) -> dict[str, int]:
    """Given the text of rooms.toml, return the budget of each room, in lines."""
    return {room: lines for table in tomllib.loads(text)["lines"].values() for room, lines in table.items()}


def find_room(path: str, rooms: Mapping[str, int]) -> str | None:
    """Given a path below the checkout, return the room that it counts for; None where it counts for no room.

    >>> find_room(NODE + "gpus/mig.py", {"node": 10, "node/gpus": 5})
    'node/gpus'
    """
    named = "node/" + path.removeprefix(NODE) if path.startswith(NODE) else path
    return max((room for room in rooms if named.startswith(room + "/")), key=len, default=None)


def count_lines(root: Path, rooms: Mapping[str, int]) -> Counter[str]:
    """Return the lines of each room, of the files that git tracks or would."""
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    found: Counter[str] = Counter(dict.fromkeys(rooms, 0))
    for name in sorted(set(names)):
        room = find_room(name, rooms)
        if room and not name.endswith(PICTURES) and (root / name).is_file():
            found[room] += (root / name).read_bytes().count(b"\n")
    return found


def find_faults(budgets: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    """Given budgets and lines, return what is wrong, a sentence for each room."""
    faults = []
    for room, budget in budgets.items():
        if found[room] > budget:
            faults.append(
                f"{room} has {found[room]} lines, {found[room] - budget} more than its budget: take out what nobody "
                "would miss, or raise the number in scripts/rooms.toml and say why in a comment beside it"
            )
        elif found[room] < budget - SLACK:
            faults.append(f"{room} has {found[room]} lines, budget {budget}: python scripts/room_lines.py --lower")
    return faults


def lower_budgets(text: str, found: Mapping[str, int]) -> str:
    """Given the text of rooms.toml, return it with the budget of each room that shrank; comments stay."""

    def lower(line: re.Match[str]) -> str:
        room, budget = line[1], int(line[2])
        return f'"{room}" = {min(budget, found[room])}' if room in found else line[0]

    return re.sub(r'^"([^"]+)" = (\d+)', lower, text, flags=re.MULTILINE)


def main() -> int:
    if not (ROOT / ".git").exists():
        print("Lines were not counted: this is no checkout of git's")
        return 0
    text = RULES.read_text(encoding="utf-8")
    budgets = read_budgets(text)
    found = count_lines(ROOT, budgets)
    if "--lower" in sys.argv[1:]:
        RULES.write_text(lower_budgets(text, found), encoding="utf-8")
        return 0
    faults = find_faults(budgets, found)
    print("\n".join(faults), end="\n" if faults else "")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
