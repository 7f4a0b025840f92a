"""Two weeks of 20 people who share four GPUs, as Slurm's own priorities have it, and a picture of them (needs root).

    .venv/bin/python benchmarks/fair_share.py [--day 100] [--json FILE] [--picture FILE]
    .venv/bin/python benchmarks/fair_share.py --from build/fair-share.json     # the picture alone

Method. A lab of its own, of light hosts with a queue; a day takes as many seconds as `--day` says. Slurm is told so:
its `PriorityDecayHalfLife` is seven such days, and it brings usage up to date once a minute as always
(`PriorityCalcPeriod`). Everything else is what `provision` writes. Jobs are real ones, which sleep on one GPU for six
hours of such days. Who is who: `greedy` (2 people) have five jobs waiting at any time, from the first day on.
`steady` (12) ask for a job each day. `late` (6) come on the eighth day, and then have four jobs waiting at any time.
All are in one group. What is shown comes from slurmctld and slurmdbd alone: `sshare` (the factor that orders the
queue, 1 to 0), `sacct` (who ran when, who waited how long).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from _checkout import ROOT

from tests.support.lab_cluster import Cluster
from tests.support.labs import provisioned_lab
from tests.support.queued_cluster import CONTROLLER, queued

LAB = ("--light", "--nodes", "2", "--gpus", "2")
SLURM = "slurm: {constrain: [], hours: 400, queued: 100000}"
DAYS, HALF_LIFE, JOB, GPUS = 14, 7, 0.25, 4  # days; GPUs
PEOPLE = {"greedy": 2, "steady": 12, "late": 6}
COMES = {"greedy": 0, "steady": 0, "late": 7}  # day
COLOURS = {"greedy": "#c0392b", "steady": "#2471a3", "late": "#1e8449"}
NAMES = [f"{kind}{number:02}" for kind, count in PEOPLE.items() for number in range(1, count + 1)]


def kind_of(name: str) -> str:
    return name.rstrip("0123456789")


def asked(name: str, day: float, waiting: Mapping[str, int], begun: set[tuple[str, int]]) -> int:
    """How many jobs somebody asks for now. ``begun``: who has asked on which day."""
    kind = kind_of(name)
    if day < COMES[kind]:
        return 0
    if kind == "steady":
        today = (name, int(day + random.Random(name).random()))
        fresh = today not in begun
        begun.add(today)
        return int(fresh)
    return max(0, (5 if kind == "greedy" else 4) - waiting.get(name, 0))


def run(cluster: Cluster, day: float) -> dict[str, object]:
    """Let the days pass, and return what Slurm says of them."""
    half = round(HALF_LIFE * day)
    shorter = f"s/^\\(PriorityDecayHalfLife\\)=.*/\\1=00:{half // 60:02}:{half % 60:02}/"
    conf = "/etc/slurm/slurm.conf"  # on a root that is read-only
    cluster.admin(CONTROLLER, f"sed '{shorter}' {conf} > /run/slurm.conf && mount --bind /run/slurm.conf {conf}")
    cluster.admin(CONTROLLER, "scontrol reconfigure && scontrol show config | grep 'HalfLife.*= 00:'")
    begun: set[tuple[str, int]] = set()
    shares: list[tuple[float, dict[str, float]]] = []
    started = time.time()
    while (now := (time.time() - started) / day) < DAYS:
        look = "squeue -h -t PD -o %u; echo --; sshare -anP -o user,fairshare"
        pending, _, share = cluster.admin(CONTROLLER, look).partition("--\n")
        waiting = {name: pending.split().count(name) for name in NAMES}
        rows = [line.split("|") for line in share.splitlines()]
        shares.append((now, {row[0]: float(row[1]) for row in rows if row[0] in NAMES}))
        sleeps = f"sbatch -Q --gres=gpu:1 --time=60 -D / -o /dev/null --wrap 'exec sleep {JOB * day:.0f}'"
        wanted = [(name, asked(name, now, waiting, begun)) for name in NAMES]
        lines = [
            f"for x in $(seq {many}); do {sleeps.replace('-Q', f'-Q --uid={name}')}; done"
            for name, many in wanted
            if many
        ]
        if lines:
            cluster.admin(CONTROLLER, "\n".join(lines))
        time.sleep(day / 20)  # people look at their jobs some times a day
    ended = time.time()
    said = cluster.admin(
        CONTROLLER, "SLURM_TIME_FORMAT=%s sacct -anXP --starttime=2020-01-01 --format=user,submit,start,end"
    )
    jobs = []
    for line in said.splitlines():
        user, submit, start, end = line.split("|")
        if user in NAMES and submit.isdecimal():
            times = [(int(one) - started) / day if one.isdecimal() else None for one in (submit, start, end)]
            jobs.append([user, *times])
    return {"day": day, "until": (ended - started) / day, "shares": shares, "jobs": jobs}


def used(jobs: Sequence[Sequence[object]], name: str, until: float) -> float:
    """Days of GPUs that somebody had until then."""
    total = 0.0
    for user, _submit, start, end in jobs:
        if user == name and isinstance(start, float) and start < until:
            total += (min(end, until) if isinstance(end, float) else until) - start
    return total


def table(found: Mapping[str, object]) -> list[tuple[str, float, float, float]]:
    """Of each kind: GPU-days of a person in the first week and in the second, and the median wait in hours."""
    jobs, rows = found["jobs"], []
    assert isinstance(jobs, list)
    for kind, count in PEOPLE.items():
        mine = [name for name in NAMES if kind_of(name) == kind]
        first = sum(used(jobs, name, DAYS / 2) for name in mine) / count
        whole = sum(used(jobs, name, DAYS) for name in mine) / count
        waits = sorted(24 * (one[2] - one[1]) for one in jobs if one[0] in mine and isinstance(one[2], float))
        rows.append((kind, first, whole - first, waits[len(waits) // 2] if waits else 0.0))
    return rows


def picture(found: Mapping[str, object]) -> str:
    """GPU-days that each person has had, and what Slurm orders the queue by, as SVG."""
    jobs, shares = found["jobs"], found["shares"]
    assert isinstance(jobs, list)
    assert isinstance(shares, list)
    steps = [DAYS * step / 140 for step in range(141)]
    total = {name: [used(jobs, name, step) for step in steps] for name in NAMES}
    most = max(max(line) for line in total.values()) or 1.0
    panels = [
        (
            "GPU-days that each person has had",
            most,
            {name: list(zip(steps, total[name], strict=True)) for name in NAMES},
        ),
        (
            "fair-share factor, by which slurmctld orders the queue (1: first)",
            1.0,
            {name: [(when, factors[name]) for when, factors in shares if name in factors] for name in NAMES},
        ),
    ]
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 560" font-family="sans-serif" font-size="12">']
    lines.append('<rect width="760" height="560" fill="#fff"/>')
    for place, (title, top, of) in enumerate(panels):
        lines += _panel(title, top, of, 40 + 260 * place)
    for place, kind in enumerate(PEOPLE):
        words = {
            "greedy": "2 always have five jobs waiting",
            "steady": "12 ask for one a day",
            "late": "6 come on day 8",
        }
        x = (60, 330, 550)[place]
        lines.append(f'<rect x="{x}" y="536" width="14" height="4" fill="{COLOURS[kind]}"/>')
        lines.append(f'<text x="{x + 20}" y="542">{kind}: {words[kind]}</text>')
    return "\n".join([*lines, "</svg>\n"])


def _panel(title: str, top: float, of: Mapping[str, Sequence[tuple[float, float]]], y: int) -> Iterator[str]:
    """A panel of 680 × 190 at this height."""
    yield f'<text x="60" y="{y - 8}" font-weight="bold">{title}</text>'
    for part in range(5):
        height = y + 190 - 190 * part / 4
        yield f'<line x1="60" y1="{height:.0f}" x2="740" y2="{height:.0f}" stroke="#ddd"/>'
        yield f'<text x="52" y="{height + 4:.0f}" text-anchor="end" fill="#555">{top * part / 4:.3g}</text>'
    for day in range(0, DAYS + 1, 2):
        yield f'<text x="{60 + 680 * day / DAYS:.0f}" y="{y + 206}" text-anchor="middle" fill="#555">day {day}</text>'
    for name, line in of.items():
        values = [value for _, value in line]
        # what lies on a level line between two others says nothing more
        turns = [
            one
            for place, one in enumerate(line)
            if place in (0, len(line) - 1) or not values[place - 1] == values[place] == values[place + 1]
        ]
        points = " ".join(f"{60 + 680 * when / DAYS:.1f},{y + 190 - 190 * value / top:.1f}" for when, value in turns)
        yield f'<polyline fill="none" stroke="{COLOURS[kind_of(name)]}" stroke-opacity="0.7" points="{points}"/>'


def main() -> int:
    """Let the weeks pass, print a table, write JSON and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--day", type=float, default=100, help="seconds that stand for a day")
    parser.add_argument("--from", dest="given", type=Path)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "fair-share.json")
    parser.add_argument("--picture", type=Path, default=ROOT / "build" / "fair-share.svg")
    arguments = parser.parse_args()
    if arguments.given:
        found = json.loads(arguments.given.read_text())
    else:
        with (
            tempfile.TemporaryDirectory() as directory,
            provisioned_lab("bench-fair-share", Path(directory) / "lab", *LAB) as cluster,
            queued(cluster, SLURM),
        ):
            people = Path(directory) / "people.csv"
            people.write_text("name,email\n" + "".join(f"{name},{name}@example.org\n" for name in NAMES))
            cluster.gpuadmin("add-user", "--from", str(people), "--yes")
            found = run(cluster, arguments.day)
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(found) + "\n")
    for kind, first, second, wait in table(found):
        print(
            f"{kind:<7} GPU-days each: {first:.2f} in the first week, {second:.2f} in the second; "
            f"waited {wait:.1f} h (median)"
        )
    arguments.picture.write_text(picture(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
