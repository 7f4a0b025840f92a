"""The screen of `gpuadmin status`: its result, for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from gpuadmin.actions.shared.queue import GPULESS_NODE, way_back
from gpuadmin.common.text import counted, listed, size_words
from gpuadmin.display import join_lines, make_console, make_table, styled
from gpuadmin.records import moment

_STYLES = {"up": "green", "unreachable": "bold red", "failed": "bold red", "unknown": "bold red", "not asked": "dim"}
_MOST_PENDING = 8


def show_status(name: str, result: Mapping[str, Any]) -> None:
    """Print what status found."""
    console = make_console(json=False)
    totals = result["totals"]
    looked = result["looked"]
    when = "" if looked is None else f" as of {datetime.fromisoformat(looked).astimezone():%H:%M:%S}"
    parts = [f"{totals['up']} of {counted(totals['hosts'], 'host')} up{when}", gpus_words(totals)]
    console.print(styled((name, "bold"), "".join(f" · {part}" for part in [*parts, term_words(result["term"])])))
    table = make_table("Host", "State", "GPUs", "People", "Disk", "Image", fold=True)
    for hosts, entry in rows(result["hosts"]):
        table.add_row(
            ", ".join(hosts),
            styled((state_words(entry), _STYLES[entry["state"]])),
            *(join_lines(lines) for lines in cells(entry)),
        )
    console.print(table)
    for line in [
        *queue_lines(result["hosts"]),
        *backup_lines(result["backup"]),
        *update_lines(result["hosts"]),
        *timer_lines(result["hosts"]),
        drift_words(result["drift"]),
        *pending_lines(result["pending"]),
    ]:
        console.print(line)


def rows(hosts: Mapping[str, Mapping[str, Any]]) -> list[tuple[list[str], Mapping[str, Any]]]:
    """The names of hosts that show the same thing, with that thing: of 100 nodes most are alike."""
    found: dict[tuple[str, ...], tuple[list[str], Mapping[str, Any]]] = {}
    for name, entry in hosts.items():
        key = (state_words(entry), *("\n".join(lines) for lines in cells(entry)))
        found.setdefault(key, ([], entry))[0].append(name)
    return list(found.values())


def gpus_words(totals: Mapping[str, Any]) -> str:
    """`15 of 16 GPUs found, unknown on node2`."""
    silent, expected = totals["gpus_unknown"], totals["gpus_expected"]
    number = counted(totals["gpus"], "GPU") if expected is None else f"{totals['gpus']} of {counted(expected, 'GPU')}"
    return f"{number} found" + (f", unknown on {', '.join(silent)}" if silent else "")


def term_words(term: Mapping[str, Any] | None) -> str:
    """`2026-2 ends on 2026-12-31, 39 days left`."""
    if term is None:
        return "no term is set"
    days = int(term["days_left"])
    left = f"{counted(days, 'day')} left" if days >= 0 else f"{counted(-days, 'day')} ago"
    return f"{term['name']} {'ends' if days >= 0 else 'ended'} on {term['deadline']}, {left if days else 'today'}"


def state_words(entry: Mapping[str, Any]) -> str:
    """`up`, or `unreachable: does not answer (timed out)`."""
    return entry["state"] if entry["state"] == "up" else f"{entry['state']}: {entry['reason']}"


def cells(entry: Mapping[str, Any]) -> Iterator[list[str]]:
    """GPUs, people, disk and image of one host, each as its lines."""
    unknown, node = entry["unknown"], "gpus" in entry
    if entry["state"] != "up":
        blank = ["—"] if entry["state"] == "not asked" else ["unknown"]
        yield from ([*blank] if node or column == "disk" else ["—"] for column in ("gpus", "people", "disk", "image"))
        return
    yield (
        [*_gpus(entry["gpus"], entry["gpus_expected"], unknown.get("gpus")), *_gate(entry), *_closed(entry)]
        if node
        else ["—"]
    )
    yield _people(entry) if node else ["—"]
    disks = [
        f"{name}: {size_words(disk['free'])} of {size_words(disk['bytes'])} free"
        for name, disk in (entry["disks"] or {}).items()
    ]
    others = ("people", "gpu_people", "gpus", "gpu_gate", "image", "backup", "queue", "queue_without_gpus", "updates")
    disks += [f"{name}: unknown: {why}" for name, why in unknown.items() if name not in others]
    yield disks or ["—"]
    yield _image(entry["image"], unknown.get("image")) if node else ["—"]


def _gpus(gpus: list[str] | None, expected: int | None, why: str | None) -> list[str]:
    if gpus is None:
        return [f"unknown: {why}"]
    bare = sum(1 for gpu in gpus if gpu.endswith(" none"))
    of = "" if expected in (None, len(gpus)) else f" of {expected}"
    return [f"{len(gpus)}{of}" + (f", {bare} without driver" if bare else "")]


def _gate(entry: Mapping[str, Any]) -> list[str]:
    """Why GPUs that are granted may be open to others; nothing where none is, or where the gate is closed."""
    if (why := entry["unknown"].get("gpu_gate")) is not None:
        return [f"gate: unknown: {why}"]
    wrong = entry["gpu_gate"] or []
    more = f" (and {len(wrong) - 1} more: gpuadmin list-gpus)" if len(wrong) > 1 else ""
    return [f"gate not closed: {wrong[0]}{more}"] if wrong else []


def _closed(entry: Mapping[str, Any]) -> list[str]:
    """Why a node takes no jobs of the queue, or none with GPUs; nothing where it does, or where there is none."""
    closed = [f"takes no jobs: {entry['closed']}"] if "closed" in entry else []
    return [*closed, *(["0 GPUs in the queue"] if "gpus_in_queue" in entry else [])]


def _people(entry: Mapping[str, Any]) -> list[str]:
    lines = []
    for key, title in (("people", ""), ("gpu_people", "on a GPU: ")):
        if entry[key] is None:
            lines.append(f"{title}unknown: {entry['unknown'].get(key)}")
        elif entry[key]:
            lines.append(title + ", ".join(entry[key]))
    return lines or ["nobody"]


def _image(image: Mapping[str, Any] | None, why: str | None) -> list[str]:
    if why is not None:
        return [f"unknown: {why}"]
    if image is None:
        return ["no images here"]
    lines = [str(image["image"] or image["running"])]
    if image["current"] != image["running"]:
        lines.append(f"not confirmed; the next boot takes {image['trial'] or image['current']}")
    elif image["trial"]:
        lines.append(f"the next boot tries {image['trial']}")
    last = image["last"] or {}
    if last.get("stage") == "failed":
        lines.append(f"{last.get('image')} failed: {last.get('reason')}")
    return [*lines, *image["drift"]]


def queue_lines(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """How nodes that take no jobs of the queue take jobs again; nothing where all do, or without a queue."""
    closed = {name: way_back(one["closed"]) for name, one in hosts.items() if "closed" in one}
    lines = []
    for way in dict.fromkeys(closed.values()):
        names = [name for name, its in closed.items() if its == way]
        lines.append(f"Queue: {listed(names)} {'take' if names[1:] else 'takes'} no jobs: {way}")
    if gpuless := [name for name, one in hosts.items() if "gpus_in_queue" in one]:
        lines.append(f"Queue: {listed(gpuless)}: 0 GPUs there. {GPULESS_NODE}")
    return lines


def backup_lines(backup: Mapping[str, Any]) -> list[str]:
    """The newest backup, whether it is verified, and its second copy."""
    lines = []
    newest = backup["newest"]
    if newest is not None:
        age = "" if newest["age_hours"] is None else f", {_age(newest['age_hours'])}"
        homes, verified = newest["homes"], newest["verified"]
        check = "all verified" if homes == verified else f"{verified} verified"
        problems = f", {counted(newest['problems'], 'home')} with a problem" if newest["problems"] else ""
        lacking = newest.get("uncopied", {})  # an older gpuadmin on that host does not say
        copies = ", ".join(
            f"{host} without {listed(lacking[host])}" if host in lacking else host for host in newest["copies"]
        )
        lines.append(
            f"Backup: {newest['name']} on {newest['host']}{age}: {counted(homes, 'home')}, {check}{problems}; "
            + (f"second copy on {copies}" if copies else "no second copy")
        )
    elif backup["asked"] and not any(name in backup["unknown"] for name in backup["asked"]):
        lines.append("Backup: none yet: gpuadmin backup")
    elif not backup["asked"]:
        lines.append("Backup: no storage host was asked")
    lines += [f"Backup: unknown on {host}: {why}" for host, why in backup["unknown"].items()]
    for host, copy in backup["second"].items():
        lines.append(f"Second copies on {host}: " + (f"the newest is {copy['name']}" if copy else "none yet"))
    return lines


def update_lines(hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """How many security updates wait on which hosts, and since when; hosts that should be rebooted."""
    for name, host in hosts.items():
        found = host["updates"] or {"security": 0, "reboot": []}
        if (why := host["unknown"].get("updates")) is not None:
            yield f"Updates: unknown on {name}: {why}"
        if found["security"]:
            since = f"{counted(found['security'], 'security update')} since {datetime.fromtimestamp(found['since']):%F}"
            yield f"Updates: {name} waits for {since}: gpuadmin upgrade {name} --security"
        if found["reboot"]:
            yield f"Updates: {name} should be rebooted ({listed(found['reboot'])}): gpuadmin reboot {name}"


def _age(hours: float) -> str:
    return f"{counted(round(hours), 'hour')} old" if hours < 48 else f"{counted(round(hours / 24), 'day')} old"


def timer_lines(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the monitor host does by itself, and how it went."""
    words = []
    for verb, ended in (one for entry in hosts.values() for one in (entry.get("timers") or {}).items()):
        when, _, failed = str(ended).partition(" ")
        state = f"{'did not succeed' if failed else 'ended'} {moment(when)[:-3]}"
        words.append(f"{verb} {state if when else 'has not run since the host booted'}")
    return [f"Timers: {'; '.join(words)}"] if words else []


def drift_words(drift: Mapping[str, Any] | None) -> str:
    """When hosts were last compared with the site."""
    if drift is None:
        return "Drift: unknown, nobody has looked for it yet: gpuadmin drift"
    when = f"{datetime.fromisoformat(drift['looked']).astimezone():%Y-%m-%d %H:%M}"
    unknown = f"unknown on {', '.join(drift['unknown'])}" if drift["unknown"] else ""
    if not drift["same"] and not drift["differing"]:
        return f"Drift: {unknown}, as of {when}: gpuadmin drift"
    return f"Drift: {', '.join(drift['differing']) or 'no host'} differed on {when}" + (unknown and f"; {unknown}")


def pending_lines(pending: Mapping[str, Any]) -> list[str]:
    """What is left of earlier runs, and what to do about it; that nothing is."""
    lines = []
    for reset in pending["resets"]:
        hosts = sorted({host for left in reset["pending"].values() for host in left})
        where = f", on {', '.join(hosts)}" if hosts else ""
        lines.append(f"Reset of {reset['term']}: {reset['next']} is next{where}: gpuadmin semester-reset --resume")
    runs = pending["runs"]
    for run in runs[:_MOST_PENDING]:
        silent = run["silent"]
        reached = [host for host in run["hosts"] if host not in silent]
        ends = [run["status"] + (f" on {', '.join(reached)}" if reached else "")]
        if silent:
            # a host that was away has not failed
            ends = [*(ends if reached or run["status"] != "failed" else []), f"did not reach {', '.join(silent)}"]
        command = shlex.join(str(one) for one in run["arguments"]) or run["verb"]
        lines.append(f"{', '.join(ends)}: gpuadmin {command} (run {run['run']})")
    if len(runs) > _MOST_PENDING:
        lines.append(f"and {len(runs) - _MOST_PENDING} more: gpuadmin status --json")
    if runs:
        lines.append("to drop one of these: gpuadmin runs --dismiss RUN")
    mails = pending["mails"]
    for kind, what in (
        ("owed", "not mailed yet; run the verb again"),
        ("uncertain", "a mail may have been sent or not; --again NAME sends it"),
        ("refused", "the address was refused; correct it"),
    ):
        if mails[kind]:
            lines.append(f"{', '.join(mails[kind])}: {what}")
    lines += [f"unknown: {why}" for why in pending["unknown"]]
    return [f"Pending: {line}" for line in lines] or ["Pending: nothing"]
