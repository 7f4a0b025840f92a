"""The user's guide, written for a site: its nodes and addresses, paths, dates, and whom to ask."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from gpuadmin.common.amounts import UNLIMITED
from gpuadmin.config.fields import key_fingerprint
from gpuadmin.config.inventory import Host
from gpuadmin.config.known_hosts import known_as, pinned_keys, read_known_hosts
from gpuadmin.config.load import KNOWN_HOSTS
from gpuadmin.config.login import Node
from gpuadmin.config.queue import any_granted, find_self_service, saved, takes_jobs
from gpuadmin.config.schema import Settings
from gpuadmin.config.schema.limits import AMOUNTS, any_amount
from gpuadmin.config.schema.shared import PLACE
from gpuadmin.config.schema.slurm import EVERYBODY
from gpuadmin.pages.gpus import Gpus, cuda_values
from gpuadmin.pages.render import markdown

NAME = "user-guide"
#: The section of the rules, which the dashboard has at the top of its page of them.
RULES = {"en": "The rules", "ko": "이용 규칙"}


def contact(settings: Settings) -> str | None:
    """Whom people ask, if the site has an address."""
    return None if settings.mail is None else settings.mail.reply_to or settings.mail.sender


def values(
    settings: Settings,
    nodes: Sequence[Node],
    gpus: Sequence[Gpus] = (),
    *,
    dashboard: bool = False,
    hosts: Sequence[Host] = (),
    site: Path | None = None,
    projects: Sequence[str] = (),
) -> dict[str, Any]:
    """What the templates of the guide are given. `hosts`: the inventory, which may say otherwise for some of them.

    `site`: a site's directory, which has the keys of its hosts.
    """
    own = [host.variables for host in hosts]
    beside = _beside_queue(settings, hosts)
    queued = [host.name for host in hosts if takes_jobs(settings, hosts, host)]
    term, docker = settings.term, settings.docker
    owned = [] if settings.slurm is None else [one.owns for one in settings.slurm.groups if one.owns is not None]
    reminders = [] if term is None else sorted((day for day in term.reminders if day), reverse=True)
    return {
        "cluster": settings.name,
        "head": "",
        "nodes": [asdict(node) for node in nodes],
        "first": asdict(nodes[0]),
        "gpus": [asdict(one) for one in gpus],
        "cuda": cuda_values(gpus),
        # nobody logs in to the monitor host to reach one that listens there alone
        "dashboard": dashboard and settings.metrics.dashboard.listen == "all",
        "granted": any_granted(settings, hosts),
        "queue": settings.slurm is not None,
        "self_service": find_self_service(settings, hosts),
        "job_mails": [] if settings.slurm is None or settings.mail is None else list(settings.slurm.mail),
        "owned": settings.slurm if owned else None,
        "lent": any(one.others == "preempted" for one in owned),
        "extend": None if settings.slurm is None else settings.slurm.extend,
        "beside_queue": beside,
        "beside": sorted(set(beside.values())),  # how GPUs are given there
        "queue_nodes": queued,
        "queue_node": queued[0] if queued else nodes[0].name,
        "start": asdict(
            next((node for node in nodes if node.name in queued or (beside and node.name not in beside)), nodes[0])
        ),
        **_queue_limits(settings, len(queued)),
        **_queue_gpus(settings, [host.variables for host in hosts if host.name in queued]),
        "node_limits": _node_limits(settings, own),
        "fingerprints": _fingerprints(nodes, hosts, site),
        "backups": _backups(settings, hosts),
        "book": _book(settings),
        "buttons": dashboard and settings.metrics.dashboard.wants_buttons and saved(settings, hosts),
        "project": min(projects, default=None),
        "notebooks": settings.slurm is not None and settings.notebooks is not None,
        "code_server": settings.notebooks is not None and settings.notebooks.code_server,
        "picture": None,
        "homes": settings.homes.path,
        "scratch": list(settings.reset.scratch),
        "own_scratch": settings.reset.own_scratch,
        "of_scratch": bool(settings.reset.own_scratch) and any(one["scratch"] for one in _node_limits(settings, own)),
        "shared": [{**one.model_dump(), "place": f"{PLACE}/{one.name}"} for one in settings.shared],
        "mounts": [
            one.model_dump() for one in settings.mounts if {"gpu", "all", *(node.name for node in nodes)} & {*one.hosts}
        ],
        "images": [one.model_dump() for one in docker.images],
        "mirror": bool(docker.mirror),
        "docker": docker.enabled,
        "docker_data": docker.data if docker.enabled else None,
        "directory": settings.accounts.source == "directory",
        "term": None if term is None else term.name,
        "deadline": None if term is None else str(term.deadline),
        "reminders": ", ".join(map(str, reminders)),
        "contact": contact(settings),
        "amounts": settings.limits is not None and any(any_amount(settings.limits, own, place) for place in AMOUNTS),
        # `idle --act` needs both: who is not mailed keeps what they hold
        "ended": settings.mail is not None and any("monitor" in host.groups for host in hosts),
        "notice_hours": settings.metrics.idle_notice_hours,
        "idle_hours": settings.metrics.idle_hours,
        "idle_stop": settings.metrics.idle_stop,
    }


#: What one person may have of each node, in the order in which the guide shows it.
_OF_NODE = ("memory", "processors", "tasks", *AMOUNTS)


def _queue_limits(settings: Settings, nodes: int) -> dict[str, Any]:
    """The queue's limits by group (None: everybody), and examples that fit the least of them. `nodes`: 0: unknown."""
    every = [] if settings.slurm is None else settings.slurm.list_groups()
    rows = [{**one, "group": None if one["name"] == EVERYBODY else one["name"]} for one in every]

    def least(name: str, otherwise: int) -> int:
        return min((row[name] for row in rows if row[name] is not None), default=otherwise)

    hours = least("hours", 24)
    return {
        "queue_limits": rows,
        "hours": min(8, hours),
        "more_hours": min(2, hours - 1),  # what `gpu extend` can add to the hour that `gpu get` gives
        "several": least("gpus", 2) > 1,
        "over_two": least("gpus", 4) >= 4 and least("nodes", 2) > 1 and nodes != 1,
        "array": min(10, least("queued", 10)),
    }


def _queue_gpus(settings: Settings, nodes: Sequence[Mapping[str, Any]]) -> dict[str, str | None]:
    """What `gpu get --type` and `--mig` can be given on this site; a word to replace, or None, where it is not known.

    `nodes`: the inventory's variables of each node of the queue. `gpu get` takes any part of a type that one type has.
    """
    models = {str(one.get("gpu_model") or "").lower() for one in nodes}
    words = [word for model in sorted(models) for word in re.findall("[a-z]*[0-9]+[a-z]*", model)]
    clear = [word for word in words if sum(word in model for model in models) == 1]
    layouts = [one.get("gpus_mig") or settings.gpus.mig for one in nodes]
    profiles = [name for layout in layouts if isinstance(layout, Mapping) for some in layout.values() for name in some]
    return {"type": clear[0] if clear else "TYPE", "mig": next((str(one) for one in profiles), None)}


def _node_limits(settings: Settings, own: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What one person may have of each node, by groups (none: everybody). None: hosts differ, or there is no limit."""
    limits = settings.limits
    if limits is None:
        return []
    shown = [name for name in _OF_NODE if not any(f"limits_{name}" in one for one in own)]
    rows: list[dict[str, Any]] = []
    for one in (limits, *(entry for entry in limits.people if entry.groups)):
        everybody = rows[0] if rows else dict.fromkeys(_OF_NODE)
        found = {name: value for name in shown if (value := getattr(one, name)) is not None}
        rows.append({**everybody, **found, "groups": list(getattr(one, "groups", ()))})
    return [{name: None if value == UNLIMITED else value for name, value in row.items()} for row in rows]


def _fingerprints(nodes: Sequence[Node], hosts: Sequence[Host], site: Path | None) -> list[dict[str, str]]:
    """The fingerprints that ssh shows of the nodes, from the site's known_hosts. Raises ConfigError."""
    text = "" if site is None else read_known_hosts(site / KNOWN_HOSTS)
    rows = []
    for node in nodes:
        names = {known_as(node.address, node.port)}
        # several may be behind one address
        found = [host for host in hosts if host.port == node.port or host.name == node.address]
        names |= {known_as(host.address, host.port) for host in found if node.address in (host.name, host.address)}
        pinned = [pinned_keys(text, name) for name in names]
        for kind, key in sorted({(kind, key) for one in pinned for kind, keys in one.items() for key in keys}):
            with suppress(ValueError):  # `check` names a line that holds no key
                short = kind.removeprefix("ssh-").partition("-")[0].upper()
                rows.append({"node": node.name, "kind": short, "fingerprint": key_fingerprint(key)})
    return rows


def _backups(settings: Settings, hosts: Sequence[Host]) -> dict[str, Any] | None:
    """The backups that a timer makes of the homes; None where gpuadmin has no storage host to make them on."""
    if not any("storage" in host.groups for host in hosts):
        return None
    return {"schedule": settings.backups.schedule, "stay": settings.backups.ordinary}


def _beside_queue(settings: Settings, hosts: Sequence[Host]) -> dict[str, str]:
    """Nodes that the queue does not have, each with how its GPUs are given: `open`, `granted`, or `taken` by people
    themselves. Empty: it has all. Without a queue: those that are open beside others that are not."""
    ways = {"granted": "taken"} if settings.gpus.self_service else {}
    access = {host.name: str(host.variables.get("gpus_access") or settings.gpus.access) for host in hosts}
    if settings.slurm is None:
        nodes = [host.name for host in hosts if "gpu" in host.groups] if any_granted(settings, hosts) else []
        return {name: "open" for name in nodes if access[name] == "open"}
    return {
        host.name: ways.get(access[host.name], access[host.name])
        for host in hosts
        if "gpu" in host.groups and not takes_jobs(settings, hosts, host)
    }


def _book(settings: Settings) -> dict[str, int] | None:
    """What everybody who may book may: hours and GPUs of a booking, and how many hours ahead; None: nobody may."""
    section = settings.slurm
    every = [] if section is None else [section.book, *(group.book for group in section.groups)]
    found = [one for one in every if one is not None]
    if not found:
        return None
    least = {name: min(getattr(one, name) for one in found) for name in ("hours", "gpus")}
    return {**least, "lead": max(one.lead for one in found)}


def guide(
    language: str,
    settings: Settings,
    nodes: Sequence[Node],
    *,
    gpus: Sequence[Gpus] = (),
    site: Path | None = None,
    dashboard: bool = False,
    hosts: Sequence[Host] = (),
    projects: Sequence[str] = (),
) -> str:
    """Given a language (`ko`, `en`), settings and nodes, return the guide as Markdown.

    `gpus`: what is known of them; without it people are told how to look. `site`: whose own templates come first.
    `dashboard`: whether the site has one. `hosts`: all of the inventory. `projects`: those that people are in.
    Raises ConfigError.
    """
    given = values(settings, nodes, gpus, dashboard=dashboard, hosts=hosts, site=site, projects=projects)
    return markdown("guide", f"{NAME}.{language}.md.j2", given, site)


_EXAMPLE = Settings.model_validate(
    {
        "name": "GPU cluster",
        "term": {"name": "2026-2", "deadline": date(2026, 12, 31)},
        "mail": {"host": "smtp.example.org", "sender": "gpu@example.org"},
    }
)
_HEAD = {
    "en": "[한국어](user-guide.ko.md)\n\n*Made for an example by `make docs`; "
    "`gpuadmin user-guide` writes it for your site.*\n",
    "ko": "[English](user-guide.md)\n\n*`make docs`가 만든 예시입니다. "
    "`gpuadmin user-guide`는 실제 클러스터에 맞게 작성합니다.*\n",
}


def example(language: str) -> str:
    """The guide of an example, for docs/."""
    nodes = tuple(Node(name, f"{name}.example.org") for name in ("gpu1", "gpu2"))
    given = values(_EXAMPLE, nodes, dashboard=True) | {"head": _HEAD[language], "picture": "dashboard-phone.png"}
    return markdown("guide", f"{NAME}.{language}.md.j2", given)
