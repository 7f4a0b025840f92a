"""Given a directory of the callback `predicted`, report where check mode and the runs do not agree. Exit code 1 if so.

The runs of a scenario are: a check on a fresh host, the converge, the same again, and another check.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

Run = dict[str, dict[str, str]]

#: It follows what is free on a disk, which other tasks of the run take: a check cannot know how much.
FOLLOWS = "limits | Keep room on disks for root"


def disagreements(check: Run, run: Run) -> list[str]:
    """Given what a check predicted and what the run did, return what was predicted wrongly, a sentence each.

    A task that check mode cannot reach (a unit of a package that is not there yet) may change something in the run,
    if its role predicted a change of that host at all: then the check did not promise that nothing would happen.
    """
    found = []
    for host, tasks in run.items():
        predicted = check.get(host, {})
        roles = {name.split(" | ")[0] for name, status in predicted.items() if status == "changed"}
        for name, status in tasks.items():
            before = predicted.get(name, "skipped")
            if status == "changed" and before == "ok" and name != FOLLOWS:
                found.append(f"{host}: {name}: changed, which the check did not predict")
            elif status == "changed" and before == "skipped" and name.split(" | ")[0] not in roles:
                found.append(f"{host}: {name}: changed, and the check predicted no change of its role")
            elif status == "ok" and before == "changed":
                found.append(f"{host}: {name}: was predicted, and did not change anything")
        found += [
            f"{host}: {name}: was predicted, and did not run"
            for name, status in predicted.items()
            if status == "changed" and tasks.get(name, "skipped") == "skipped"
        ]
    return found


def changes(run: Run, when: str) -> list[str]:
    """Given a run that should change nothing, return what it changed."""
    return [
        f"{host}: {name}: {status} {when}"
        for host, tasks in run.items()
        for name, status in tasks.items()
        if status in ("changed", "failed")
    ]


def main(directory: Path) -> int:
    runs = sorted(directory.iterdir(), key=lambda path: int(path.name.split("-")[0]))
    kinds = [path.stem.split("-")[1] for path in runs]
    if kinds != ["check", "run", "run", "check"]:
        print(f"Error: expected check, run, run, check; there is {', '.join(kinds) or 'nothing'} in {directory}")
        return 1
    check, run, again, after = (json.loads(path.read_text(encoding="utf-8")) for path in runs)
    if not any("changed" in tasks.values() for tasks in run.values()):
        print("Error: the first run changed nothing, so this proves nothing")
        return 1
    found = disagreements(check, run) + changes(again, "in the second run") + changes(after, "in the check after it")
    print("\n".join(found) if found else "check mode predicted the runs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
