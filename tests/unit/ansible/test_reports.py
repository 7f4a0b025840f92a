"""A host that lies in a field of a report: that is its failure, in words, and whoever reads reports goes on.

For each report that a verb reads there is one as an honest host gives it; one place of it becomes anything at all.
"""

import copy
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import answering
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import collect as node_diagnosis
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import subject
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import to_plain
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import look as node_gpus
from ansible_collections.gpuadmin.node.plugins.module_utils.host import shutdown as node_power
from ansible_collections.gpuadmin.node.plugins.module_utils.host import status as node_status
from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import term_facts
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuadmin import privileges
from gpuadmin.actions import disk, idle, list_backups, list_gpus, list_images, push_image, run, status
from gpuadmin.actions.shared import accounts, images, screen
from gpuadmin.actions.shared.welcome import with_account
from gpuadmin.ansible.events import Collector
from gpuadmin.ansible.reports import DEEPEST, REPORTS, OddError, of_text, parsed
from gpuadmin.answers import Answers
from gpuadmin.auditing.hardware import Seen, changes, merged
from gpuadmin.common.causes.judge import judge
from gpuadmin.common.cluster import of_texts
from gpuadmin.common.records.diagnosis import DiagnosisOrder
from gpuadmin.common.sections import SECTIONS
from gpuadmin.comparison.odd import compare
from gpuadmin.comparison.words import lines
from gpuadmin.config.memory import Memory
from gpuadmin.config.schema import Registry, User
from gpuadmin.diagnosis.bundle import make_files
from gpuadmin.diagnosis.looked import list_sound_things, list_unseen
from gpuadmin.diagnosis.restarting import plan_restarts
from gpuadmin.diagnosis.verdict import Asked, first_line, verdict
from gpuadmin.display import make_console
from gpuadmin.errors import ConfigError
from gpuadmin.images.install import choose_disk, describe_disk
from gpuadmin.images.prune import prune_store
from gpuadmin.images.push import plan_push
from gpuadmin.jsontext import json_text
from gpuadmin.power import Decision, Target, decide
from gpuadmin.results import HostResult, RunResult
from gpuadmin.semester.facts import Facts
from gpuadmin.takeover.adoption import home_plan, root_docker
from gpuadmin.takeover.adoption import page as adoption_page
from gpuadmin.takeover.adoption.proposal import propose
from gpuadmin.takeover.adoption.seen import Host as adoption_of
from gpuadmin.takeover.plans import renumber_plan, renumbering
from tests.support.adoptable import ANSWER
from tests.support.sites import SETTINGS

UUID = "aaaaaaaa-0000-0000-0000-000000000000"
PERSON = {"minji": {"status": "ok", "operations": ["create uid 20000"], "problem": None}}
HOME = {"uid": 20000, "files": 2, "bytes": 5005, "checksum": "c", "verified": None, "inode": 257}
BACKUP = {
    "name": "20261221T010203Z-manual", "path": "/srv/backups/x", "created": "2026-12-21T01:02:03Z",
    "homes": {"minji": HOME}, "problems": {}, "copies": {"bak": "2026-12-21T02:02:03Z"},
    "uncopied": {"bak": {"jiho": "its path is too long"}},
}  # fmt: skip
LAST = {"stage": "failed", "image": "b", "reason": "no sshd", "root": "b", "time": 1.0, "ended": 9.5, "uptime": 3}
GPU = {
    "index": 0, "address": "0000:01:00.0", "name": "NVIDIA H100", "uuid": "GPU-1", "serial": "165",
    "memory": 85520809984,
    "mig": True, "mig_pending": False, "lacks": [], "problem": None, "pcie_width": 16, "pcie_width_max": 16,
    "ecc": True,
    "ecc_pending": True, "ecc_uncorrected": 0,
    "mig_devices": [{"index": 0, "name": "1g", "uuid": "MIG-1", "memory": 9}],
}  # fmt: skip
BUS = {"address": "0000:01:00.0", "vendor": "0x10de", "device": "0x2330", "driver": "nvidia", "name": None, "width": 16,
       "width_max": 16}  # fmt: skip
MANIFEST = {
    "name": "b", "uuid": UUID, "created": 1.0, "by": "somebody", "parent": {"name": "a", "uuid": UUID},
    "distribution": "debian", "version": "13", "machine": "x86_64", "kernel": "6.12", "size": 9,
    "packages": {"rsync": "3"}, "changes": {"added": {"rsync": "3"}, "changed": {}, "removed": {}},
    "streams": [{"bytes": 6, "file": "x", "parent": None, "sha256": "0"}],
}  # fmt: skip
NODE_HOME = {
    "device": 1, "inode": 2, "files": 3, "bytes": 4, "entries": 5, "before": ["before-gpu1"], "odd": ["a subvolume"],
}  # fmt: skip
MOVED = {
    "name": "minji", "uid": 20001, "host": "honest", "main": True, "there": False, "device": 1, "inode": 2,
    "step": "placed", "checksum": "c", "files": 3, "bytes": 4, "placed": True,
}  # fmt: skip
GOOD: dict[str, Any] = {
    "users": PERSON, "homes": PERSON, "scratch": PERSON, "login_access": PERSON, "sessions": PERSON,
    "problems": ["homes: not mounted"], "begun": False, "refused": {"bob": "uid 20005 was given to alice"},
    "uids": {"memory": {"20000": "minji"}, "seen": {"20003": "/srv/homes/ghost"}, "problem": None},
    "carried": {"ids": {"20004": "/local/ghost"}, "looked": ["/local (2 levels)"], "not_looked": []},
    "backup": BACKUP, "pruned": ["20261121T010203Z-daily"],
    "privileges": {
        "found": [{"key": "minji in group sudo", "words": "may become root by sudo", "rank": "root"}], "aside": ["x"],
        "sshd": {"usedns": ["no"]}, "keys": {"gpuadmin": ["SHA256:x"]}, "unknown": {"modes": "late"},
    },
    "settings": {
        "sections": {"ssh": {"clientaliveinterval": "300"}}, "unknown": {"firewall": "late"}, "names": ["gpu1"],
        "addresses": ["192.0.2.1"],
    },
    "hardware": {"found": {"gpu": [{"id": "GPU-1", "words": "H100"}]}, "unknown": {"disk": "late"}},
    "exposed": {
        "found": [{"path": "/home/minji/.env", "owner": "minji", "mode": "0644"}], "more": {"minji": 1},
        "unknown": {"/x": "late"},
    },
    "adoption": ANSWER,
    "restored": {"target": "/srv/x", "files": 1},
    "restored_homes": {"minji": "", "jiho": "there is a home that somebody has used"},
    "deleted": {"minji": {"kept": 1, "words": ["a"], "bytes": 9, "deleted": 3}},
    "cleared": {"x/minji": {"attic": "/y", "problem": None}},
    "facts": {
        "at": "2026-12-21T01:02:03Z", "boot": UUID, "processes": {"minji": 2}, "waiting": ["x/minji"], "free": 9,
        "homes": {"minji": {"kind": "directory", "uid": 20000, "problem": None, "of": "minji"}}, "backups": [BACKUP],
        "scratch": {"items": [{"user": "minji", "uid": 20000, "kind": "directory"}], "problems": {"/x": "why"}},
        "identities": {"minji": 20000},
    },
    "store": {"b": {"manifest": MANIFEST, "problem": None, "text": "{}"}, "c": {"manifest": None, "problem": "cut"}},
    "verified": {"b": ["x is missing"]}, "layout": {"disk": "vda"},
    "node": {
        "running": "a", "current": "a", "trial": "", "image": "a", "held": {"a": UUID}, "confirmed": ["a"],
        "last": LAST, "drift": ["x"],
        "receives": {"bytes": 6, "held": False, "parent": "a"}, "people": ["minji"], "gpu_work": [], "send_version": 2,
        "refused": {"b": "why"}, "prunable": {"images": ["a"], "roots": []}, "rollback": None, "problem": None,
    },
    "switch": {"seconds": {"fetch": 3.5}, "booted": True},
    "power": {"people": ["minji"], "clients": ["10.0.0.1"], "jobs": [], "unknown": {}, "claims": ["jiho (a grant)"]},
    "former_homes": {"answers": False, "mounts": ["/home"], "held": {"minji": ["vim (4711)"]}},
    "bmcs": {"gpu1": {"state": "on", "answers": False, "problem": "curl: (7) Failed to connect"}},
    "grants": {"access": "granted", "gpus": ["GPU-1"], "grants": [
        {"id": "a1", "user": "minji", "uid": 20000, "gpus": ["GPU-1"], "begin": 1, "until": 2, "who": "root@nas",
         "reason": "deadline", "source": "admin"}], "held": {"GPU-1": ["jiho"]}},
    "queue": {
        "jobs": [{"id": "4_[2-9]", "user": "minji", "group": "people", "gpus": 2, "nodes": "", "place": 1,
                  "asked": 1.8e9, "start": None, "end": None, "why": "others come first",
                  "exception": {"id": "ab", "who": "root@nas", "reason": "paper"}}],
        "nodes": [{"name": "gpu1", "state": "drained", "reason": "Prolog error"}],
        "reservations": [
            {"name": "gpu-book-minji-1", "nodes": ["gpu1"], "users": ["minji"], "begin": 1.8e9, "end": 1.81e9}],
        "version": [24, 11],
    },
    "mig": {"steps": [{"gpu": 0, "state": "waits", "words": "whole (now 7g.80gb)", "people": ["minji holds it"]}]},
    "gpus": {"pci": [BUS], "driver": {"module": "550"}, "nvml": {"driver": "550", "cuda": "12.4", "gpus": [GPU]},
             "answering": 1, "broken": [], "worse": ["x"], "closed": ["full disk: /"]},
    "diagnosis": {
        "node": True, "unknown": {"home": "late"}, "clock": {"seconds": 1.8e9, "service": None},
        "causes": [{"code": "shell", "cause": "its shell is gone", "remedy": "chsh", "evidence": ["/bin/x"]}],
        "docker": {"data": {"path": "/x"}}, "sessions": {"manager": "active"},
        "containers": {"asked": True, "running": 1},
        "keys": {"site": {"keys": [{"kind": "ssh-ed25519", "problem": None}]}}, "homes": {"mount": {"point": "/home"}},
        "trial": {"steps": {"home": {"code": ""}, "tmp": {"code": "session-tmp"}}, "done": True, "pam": None},
    },
    "docker_restart": "the socket is made again", "measured": {"text": "gpuadmin_gpus_on_bus 8\n"},
    "idle": {"stopped": [{"user": "minji", "uuid": "GPU-1", "status": "kept", "why": "used", "processes": 1,
                          "containers": ["ab"]}], "terminals": 1},
    "status": {
        "unknown": {"gpus": "no bus"}, "disks": {"homes": {"path": "/x", "mount": "/", "bytes": 9, "free": 3}},
        "people": ["minji"], "gpu_people": None, "gpus": ["0000:01:00.0 nvidia"], "gpu_gate": ["ssh.service: open"],
        "queue": {"gpu1": "new image"},
        "updates": {"security": 3, "since": 1795608428, "reboot": ["kernel 6.13"]},
        "timers": {"idle": "2026-12-21T01:02:03+00:00 failed"},
        "image": {"running": "a", "current": "b", "trial": "", "image": None, "last": LAST, "drift": ["x"]},
        "backup": {"name": "x", "created": "2026-12-21T01:02:03Z", "homes": 2, "verified": 1, "problems": 0,
                   "copies": {"backup1": "2026-12-21T01:02:03Z"}, "uncopied": {"backup1": ["jiho"]}},
    },
    "updates": {
        "packages": {"openssl": {"old": "3.0-1", "new": "3.0-2", "security": True}}, "held": ["libcuda1"],
        "reboot": ["kernel 6.13"], "interrupted": True, "problems": ["x.service has failed since the upgrade"],
    },
    "command": {"status": 1, "output": "a\n", "errors": "b"},
    "renumber": {
        "has": {"minji": 1001}, "problems": {"jiho": "shares uid 1001"}, "people": {"minji": [1001, 20001]},
        "under_way": False, "whole": False, "problem": "Input/output error", "closed": {"jiho": [1001, 20002]},
        "written": ["/etc/exports:3"], "seen": 99, "kept": {"jiho": "/: 'x' still has an old id"}, "staying": [1001],
        "rest": False,
        "renamed": {"minji": {"was": "Min.Ji", "homes": [["/home/Min.Ji", "/home/minji"]], "left": ["x stays"]}},
        "trees": {"/": {"minji": [12, 4096]}}, "notes": ["/: 1 ACL names them"], "unknown": ["/odd (orangefs)"],
    },
    "moving": {
        "uids": {"minji": 20001}, "elsewhere": {"jiho": "/data/jiho"}, "busy": {"minji": "runs sleep"},
        "closed": ["minji"], "working": False,
        "host_key": "", "homes": {"minji": NODE_HOME}, "problems": {"jiho": "is another's"},
        "free": 9, "there": {"minji": {"kind": "none", "before": ["before-x"]}}, "parts": [MOVED],
        "note": "x", "no_login": "x", "reached": {"honest": ""},
    },
    "moved": {"parts": [{"name": "minji", "host": "honest", "checksum": "c", "missing": 1}], "problems": {"jiho": "x"},
              "closed": ["minji"], "working": True},
    "move_key": "ssh-ed25519 " + "A" * 68,
    "machine": {
        "image": "one",
        "disks": [{"names": ["nvme-A_1"], "size": 9, "model": "A", "parts": ["sda1: ext4, 1 GB"], "busy": ""}],
    },
    "made": {"host_key": "ssh-ed25519 " + "A" * 68, "path": "/x", "bytes": 9, "sha256": "0" * 64},
    "root_docker": {
        "running": True, "problem": "",
        "containers": [{
            "id": "a" * 64, "name": "train", "image": "b" * 64, "running": False, "volumes": ["data"],
            "binds": ["/home/minji"], "labels": ["owner=minji"], "changes": -1, "command": "docker create x",
            "differs": ["--privileged"],
        }],
        "images": [{"id": "b" * 64, "tags": ["tiny:1"], "bytes": 5}],
        "volumes": [{"name": "data", "bytes": 5, "cannot": ""}],
        "moved": {
            "name": "minji", "images": {"b": ["tiny:1"]}, "containers": {"a": "train"},
            "volumes": {"data": {"step": "placed", "files": 1, "bytes": 5}},
        },
    },
    "docker_moved": {
        "parts": [{"kind": "volume", "name": "data", "words": "carried"}], "problems": {"x": "y"}, "notes": ["z"],
    },
    "disk": {"people": {"minji": {"homes": {"bytes": 5, "inodes": 1, "when": 1.8e9, "partial": True,
                                            "largest": [{"path": "/x", "bytes": 1, "inodes": 1}]}}}, "places": []},
}  # fmt: skip
ROOT = Path(__file__).resolve().parents[3]
HOSTS = ["liar", "honest"]
ME = Registry(users=[User(name="minji", uid=20000, keys=[])])


def _reset(found: RunResult) -> None:
    facts = Facts.of(found.hosts, tuple(HOSTS), "")
    json_text(
        [facts.homes_unknown, facts.silent, facts.identities(), facts.backups(), facts.waiting(), facts.processes()]
    )
    for host in HOSTS:
        json_text([facts.scratch(host), facts.scratch_problems(host)])
    for listed in (facts.of_homes() or {}).values():
        assert listed["kind"] != listed["uid"]
    result = list_backups.rows(found, None, SETTINGS, HOSTS)
    list_backups._show(result, None)


def _images(found: RunResult) -> None:
    facts = images.facts(found, HOSTS, HOSTS)
    list_images._show(facts)
    prune_store(facts, 1)
    for manifest in facts.complete.values():
        list_images.describe(manifest)
    for node in facts.nodes.values():
        plan_push(node, "b", reboot=True)
    push_image._result(found, HOSTS)


def _power(found: RunResult) -> None:
    targets = [Target(name, name, people=True, serves=True) for name in HOSTS]
    decide("reboot", targets, Answers.of(found.hosts, HOSTS, "power").known, waits=False)


def _gpus(found: RunResult) -> None:
    answers = Answers.of(found.hosts, HOSTS, "gpus")
    list_gpus.show({name: {"expected": 8, **one} for name, one in answers.known.items()}, answers.unknown, whole=True)


def _diagnosis(found: RunResult) -> None:
    answers = Answers.of(found.hosts, HOSTS, "diagnosis")
    asked = Asked("minji", ME, date(2026, 12, 21), "nas", "/srv")
    listed = verdict(asked, answers.known, answers.unknown, dict.fromkeys(HOSTS, time.time()))
    first_line(asked, listed, answers.known)
    list_sound_things("minji", answers.known, listed)
    list(list_unseen("minji", answers.known, answers.unknown, None))
    plan_restarts("minji", answers.known)
    make_files("minji", listed, answers.known, ["minji", "jiho"])


def _status(found: RunResult) -> None:
    answers = Answers.of(found.hosts, HOSTS, "status")
    for answer in answers.known.values():
        entry = {"state": "up", "gpus_expected": 8, **status._parts(answer, node=True)}
        list(screen.cells(status._without_unmounted(entry, SETTINGS)))
        newest = entry["backup"] and {
            **entry["backup"],
            "host": "x",
            "age_hours": status._hours(entry["backup"]["created"]),
        }
        screen.backup_lines({"newest": newest, "asked": [], "unknown": {}, "second": {"x": entry["backup"]}})


def _people(found: RunResult) -> None:
    json_text(accounts.account_result(found))
    with_account(found, ME.users)
    for answer in Answers.of(found.hosts, HOSTS, "uids").known.values():
        assert all(int(uid) >= 0 for uid in answer["seen"])
        if answer["memory"] is not None:
            Memory.parse(answer["memory"]).contradictions(ME)


def _idle(found: RunResult) -> None:
    answers = Answers.of(found.hosts, HOSTS, "idle")
    idle._sentences(answers)
    idle._agreed({"liar": [{"user": "minji", "uuid": "GPU-1"}]}, answers)


def _disk(found: RunResult) -> None:
    answers = Answers.of(found.hosts, HOSTS, "disk")
    disk.show(answers.known, answers.unknown, "minji")


def _command(found: RunResult) -> None:
    session: Any = SimpleNamespace(console=make_console(json=False), check=True)
    run._show(session, found, dict(found.reported("command")))


def _measured(found: RunResult) -> None:
    answers = Answers.of(found.hosts, HOSTS, "measured")
    of_texts({name: one["text"] for name, one in answers.known.items()}, answers.unknown, HOSTS, time.time())


def _adoption(found: RunResult) -> None:
    answers = Answers.of(found.hosts, HOSTS, "adoption")
    hosts = [adoption_of(name, answer) for name, answer in answers.known.items()]
    proposal = propose("lab", hosts, login="root", silent=answers.unknown)
    when = datetime(2026, 12, 1)
    text = adoption_page.page(proposal, when)
    json_text(adoption_page.document(proposal, when, text))


def _privileges(found: RunResult) -> None:
    answers = found.reported("privileges")
    json_text([one.document() for one in privileges.findings(answers, {"gpu": HOSTS})])


def _settings(found: RunResult) -> None:
    answers = {host: one for host, one in found.reported("settings").items() if one}
    compared = compare(answers, {host: {"gpu"} for host in HOSTS}, SECTIONS)
    json_text([one.document() for one in compared.found])
    lines(compared, {}, ["ssh"])


def _audit(found: RunResult) -> None:
    seen = {host: Seen.of(one) for host, one in found.reported("hardware").items() if one}
    record = merged({}, seen, list(HOSTS))
    json_text([record, [one.document() for one in changes(record, seen)]])
    json_text(found.reported("exposed"))


def _renumber(found: RunResult) -> None:
    answers = Answers.of(found.hosts, HOSTS, "renumber")
    known = dict(answers.known)
    wanted = {"minji": 20001, "jiho": 20002}
    moves = renumbering.decide(known, list(known), wanted)
    renumber_plan.agree(known, moves)
    renumbering.shut_out(known, moves)
    renumbering.assumed(known, list(known), wanted)
    for host, of in moves.hosts.items():
        renumber_plan.steps(known[host], of)
    for host, answer in known.items():
        renumber_plan.notes(host, answer)
    renumbering.reboots(known, moves, list(known))
    renumbering.find_kept(known, wanted)
    renumber_plan.plan(known, moves, list(known), {}, Decision((), {}))


def _move_homes(found: RunResult) -> None:
    answers = Answers.of(found.hosts, HOSTS, "moving")
    known = dict(answers.known)
    for host, answer in known.items():
        cluster = home_plan.Cluster({one: said for one, said in known.items() if one != host}, host, answer)
        decision = home_plan.decide({"minji": 20001, "jiho": 20002}, cluster)
        json_text([home_plan.steps(one, decision.why.get(one.name, "")) for one in decision.fetch])
        json_text([vars(one) for one in (*decision.fetch, *decision.finish, *map(home_plan.get_home, answer["parts"]))])
    json_text([dict(found.reported("moved")), dict(found.reported("move_key"))])


def _install(found: RunResult) -> None:
    for machine in Answers.of(found.hosts, HOSTS, "machine").known.values():
        with suppress(ConfigError):
            json_text(describe_disk(choose_disk(machine, "nvme-A_1")))
    json_text([dict(made) for made in Answers.of(found.hosts, HOSTS, "made").known.values()])


def _move_docker(found: RunResult) -> None:
    answers = Answers.of(found.hosts, HOSTS, "root_docker")
    for host, look in answers.known.items():
        json_text(list(root_docker.lines(host, look, ["minji"], "/home")))
        named = [one["name"] for one in look["containers"]], [one["name"] for one in look["volumes"]], ["tiny"]
        with suppress(ConfigError):
            chosen = root_docker.choose({host: look}, named)
            json_text([*root_docker.obstacles(look, chosen), *root_docker.steps(look, chosen, "minji")])
    json_text(dict(found.reported("docker_moved")))


READERS: tuple[Callable[[RunResult], None], ...] = (
    _reset, _images, _power, _gpus, _diagnosis, _status, _people, _idle, _disk, _command, _measured, _privileges,
    _settings, _audit,
    _adoption, _install,
    _renumber,
    _move_homes,
    _move_docker,
)  # fmt: skip


def collected(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, HostResult]:
    """Host → a module's result, as Ansible's events bring it."""
    collector = Collector(on_task=lambda name: None, on_host=lambda host, outcome, detail: None)
    for host, answer in answers.items():
        data = {"host": host, "task": "Look", "res": answer}
        collector.event({"event": "runner_on_ok", "event_data": data})
    return collector.hosts


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: object) -> Any:
    if not path:
        return new
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return changed


def without(value: Any, path: tuple[Any, ...]) -> dict[str, Any]:
    """The mapping around a place, without that."""
    for key in path[:-1]:
        value = value[key]
    return {key: inner for key, inner in value.items() if key != path[-1]}


PLACES = [(name, path) for name, value in GOOD.items() for path in places(value)]
NUMBERS = st.sampled_from([-1, -1e12, 1e300, 1e12, 2**63, 2**64, 10**30, -(2**63), float("inf"), float("nan"), True])
TIMES = ["2026-99-99T99:99:99Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-12-21", "2026-12-21T01:02:03Z\n"]
TEXTS = st.sampled_from([*TIMES, "", "\0", "\x1b[2J", "x" * 5000, "../..", "\u202e", "{{ 1 }}"])
SMALL = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | NUMBERS | TEXTS
ANYTHING = st.recursive(
    SMALL,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | TEXTS, inner, max_size=4),
    max_leaves=10,
)


KEYS = ["report", "each", "operations", "remarks", "progress", "changed", "msg", "stderr", "cmd", "rc"]


def test_every_report_has_an_honest_one() -> None:
    assert GOOD.keys() == REPORTS.keys()
    assert all(parsed(name, value) == value for name, value in GOOD.items())


def test_a_size_that_is_only_a_number_is_understood() -> None:
    """Some sparse files of 8 EiB are more than 2**63 bytes: one person's home must not keep a host from answering."""
    home = {**HOME, "bytes": 200_000 * (2**63 - 1)}
    assert parsed("facts", {**GOOD["facts"], "backups": [{**BACKUP, "homes": {"minji": home}}]})
    assert parsed("homes", {"minji": {"status": "ok", "bytes": home["bytes"]}})
    assert parsed("deleted", {"minji": {"kept": 0, "words": [], "bytes": home["bytes"]}})


def test_everybody_who_reads_understands_an_honest_one() -> None:
    found = RunResult(collected({host: {"report": GOOD} for host in HOSTS}))
    assert found.bad == {}
    for read in READERS:
        read(found)


@pytest.mark.parametrize("lie", TIMES)
@pytest.mark.parametrize(
    ("name", "path"),
    [("facts", ("backups", 0, "created")), ("backup", ("created",)), ("status", ("backup", "created"))],
)
def test_a_time_that_is_none(name: str, path: tuple[Any, ...], lie: str) -> None:
    found = RunResult(
        collected({"liar": {"report": {name: replaced(GOOD[name], path, lie)}}, "honest": {"report": GOOD}})
    )
    assert "its answer is not understood" in str(found.hosts["liar"].message)
    for read in READERS:
        read(found)


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(PLACES), ANYTHING, st.booleans())
@example(("adoption", ("keys", "jiho", "plain")), ["", "key"], False)
def test_a_lie_in_a_field_is_its_host_s_failure_and_no_other_s(place: tuple[str, Any], lie: Any, each: bool) -> None:
    name, path = place
    value = replaced(GOOD[name], path, lie)
    answer: dict[str, Any] = {"each": {name: json.dumps(value)}} if each else {"report": {name: value}}
    found = RunResult(collected({"liar": answer, "honest": {"report": GOOD}}))
    assert found.hosts["honest"].reports == GOOD
    assert not found.hosts["honest"].bad
    liar = found.hosts["liar"]
    if liar.bad:
        assert liar.message is not None
        assert liar.message.startswith("its answer is not understood: ")
        assert name not in liar.reports
    for read in READERS:
        read(found)


def test_whoever_reads_goes_on_without_what_may_be_left_out_or_null() -> None:
    for name, path in PLACES:
        lies = [replaced(GOOD[name], path, None)]
        if path and isinstance(path[-1], str):
            lies.append(replaced(GOOD[name], path[:-1], without(GOOD[name], path)))
        for lie in lies:
            found = RunResult(collected({"liar": {"report": {name: lie}}, "honest": {"report": GOOD}}))
            for read in READERS if not found.hosts["liar"].bad else ():
                read(found)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING))
@pytest.mark.parametrize("kind", ["ok", "failed", "unreachable", "retry", "item_on_failed"])
def test_whatever_is_around_a_report(kind: str, answer: dict[str, Any]) -> None:
    said: list[str] = []
    collector = Collector(on_task=lambda name: None, on_host=lambda host, outcome, detail: said.append(detail))
    collector.event(
        {"event": f"runner_on_{kind}".replace("on_item", "item"), "event_data": {"host": "n", "res": answer}}
    )
    collector.event({"event": f"runner_{kind}", "event_data": {"host": "n", "res": answer}})
    host = collector.hosts["n"]
    assert all(isinstance(one, str) for one in (*host.changed, *said))
    json_text([host.changed, host.message, host.reports])


def test_every_report_that_is_read_has_a_shape() -> None:
    """By a verb of its name; and each shape has a reader, or is shown as it is."""
    reads = re.compile(r"""(?:Answers\.of\([^)]*, |reported\(|reports\.get\(|reports\[)"([a-z_]+)\"""")
    text = "".join(path.read_text() for path in (ROOT / "gpuadmin").rglob("*.py") if "collections" not in path.parts)
    read = set(reads.findall(text))
    assert {"users", "facts", "status", "command", "pruned"} <= read
    assert read <= REPORTS.keys()


def test_what_this_very_machine_says_is_understood() -> None:
    """Node code, run here: no report of an honest host is refused for a field that only tests have."""
    look: Any = {"uid_first": 20000, "uid_last": 29999}
    parsed("status", to_plain(node_status.collect(**look, disks={"homes": "/"}, node=True)))
    parsed("power", to_plain(node_power.collect(node=True, **look)))
    parsed("command", answering.answer("echo a; exit 3"))
    seen = node_gpus.look(seconds=5)
    parsed("gpus", {**seen.to_report(), "answering": 0, "broken": [], "worse": [], "closed": []})
    people = [Person("minji", 20000)]
    parsed("facts", to_plain(term_facts.collect(people, directories=["/nonexistent"], names=["root"])))
    facts = node_diagnosis.collect(subject.build_subject(DiagnosisOrder()))
    parsed("diagnosis", {**facts, "causes": [one.document() for one in judge(facts)]})


def test_what_is_too_deep_or_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)
    for text in (f'{{"x": {deep}}}', '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}", '{"x": 1e999}', '{"x": NaN}'):
        with pytest.raises(OddError):
            of_text("layout", text)
    for number in (2**100, -(2**100)):
        assert parsed("layout", {"x": number - number // abs(number)})
        with pytest.raises(OddError, match="too large"):
            parsed("layout", {"x": number})
    monkeypatch.setattr("gpuadmin.ansible.reports.MOST_VALUES", 10)
    assert parsed("layout", {"x": [0] * 9})
    with pytest.raises(OddError, match="more than 10 values"):
        parsed("layout", {"x": [0] * 10})


@pytest.mark.parametrize("name", ["layout", "people"])
@pytest.mark.parametrize("text", [5, None, ["{}"], {"x": 1}, b"{}"])
def test_what_is_no_text_is_no_report(name: str, text: object) -> None:
    with pytest.raises(OddError, match=f"{name} is not text"):
        of_text(name, text)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("layout", "{", "layout is not JSON"),
        ("layout", '{"x": ' + "9" * 5000 + "}", "layout is not JSON"),  # Python reads no number of so many digits
        ("users", "{", "users is not JSON"),
        ("users", '{"minji": 5}', "users.minji: "),
        ("power", '{"people": 5}', "power.people: "),
        ("layout", '{"x": ' + "[" * DEEPEST + "]" * DEEPEST + "}", "layout is nested too deep"),
    ],
)
def test_a_text_that_is_no_report_is_refused_in_words(name: str, text: str, words: str) -> None:
    with pytest.raises(OddError, match=f"^{words}"):
        of_text(name, text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("facts", replaced(GOOD["facts"], ("homes", "minji", "uid"), "9" * 4000)),  # as a number it has no end
        ("status", replaced(GOOD["status"], ("disks", "homes", "free"), "3")),
        ("users", {"minji": {"status": "ok", "files": "5"}}),
    ],
)
def test_a_number_in_a_text_is_no_number(name: str, value: object) -> None:
    with pytest.raises(OddError):
        parsed(name, value)


FOUND = GOOD["privileges"]["found"]
#: A place of a report, the last value that it may have there, and the first that it may not.
ENDS: list[tuple[str, tuple[Any, ...], Any, Any]] = [
    ("homes", ("minji", "files"), 0, -1),
    ("homes", ("minji", "bytes"), 2**100 - 1, 2**100),
    ("status", ("disks", "homes", "free"), 0, -1),
    ("diagnosis", ("clock", "seconds"), 0, -1),
    ("diagnosis", ("clock", "seconds"), 253_369_999_999, 253_370_000_000),
    ("switch", ("seconds", "fetch"), 0, -1),
    ("switch", ("seconds", "fetch"), 999_999_999, 10**9),
    ("node", ("send_version",), 1, 0),
    ("node", ("send_version",), 999, 1000),
    ("command", ("status",), -(2**31), -(2**31) - 1),
    ("command", ("status",), 2**31 - 1, 2**31),
    ("facts", ("identities", "minji"), 0, -1),
    ("facts", ("identities", "minji"), 2**32 - 1, 2**32),
    ("facts", ("backups", 0, "created"), "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z"),
    ("facts", ("backups", 0, "created"), "8999-12-31T23:59:59Z", "9000-01-01T00:00:00Z"),
    ("store", ("b", "manifest", "streams"), MANIFEST["streams"], []),
    ("renumber", ("kept", "jiho"), "x" * 1000, "x" * 1001),
    ("renumber", ("staying",), [2**32 - 1], [2**32]),
    ("renumber", ("rest",), True, "yes"),
    ("uids", ("seen",), {"9" * 10: "x"}, {"9" * 11: "x"}),
    ("uids", ("memory",), {"0": "x"}, {"": "x"}),
    ("carried", ("ids",), {"9" * 10: "x"}, {"x": "x"}),
    ("adoption", ("accounts",), ANSWER["accounts"][:1] * 5000, ANSWER["accounts"][:1] * 5001),
    ("adoption", ("accounts", 0, "gecos"), "x" * 400, "x" * 401),
    ("adoption", ("accounts", 0, "uid"), 10**10 - 1, 10**10),
    (
        "adoption",
        ("keys",),
        {str(one): ANSWER["keys"]["jiho"] for one in range(5000)},
        {str(one): ANSWER["keys"]["jiho"] for one in range(5001)},
    ),
    ("adoption", ("keys", "jiho", "plain"), ["x" * 16384] * 50, ["x"] * 51),
    ("privileges", ("found",), FOUND * 1000, FOUND * 1001),
    ("privileges", ("found", 0, "key"), "x" * 400, "x" * 401),
    ("privileges", ("aside",), ["x"] * 100, ["x"] * 101),
    ("settings", ("sections", "ssh", "clientaliveinterval"), "x" * 8200, "x" * 8201),
    ("settings", ("names",), ["x"] * 10, ["x"] * 11),
    ("hardware", ("found", "gpu", 0, "id"), "x" * 100, "x" * 101),
    ("exposed", ("found", 0, "owner"), "x" * 400, "x" * 401),
    ("privileges", ("sshd",), {str(one): [] for one in range(100)}, {str(one): [] for one in range(101)}),
    ("privileges", ("keys",), {str(one): [] for one in range(10)}, {str(one): [] for one in range(11)}),
    ("privileges", ("unknown",), {str(one): "" for one in range(100)}, {str(one): "" for one in range(101)}),
    ("former_homes", ("held", "minji"), ["x"] * 20, ["x"] * 21),
    ("former_homes", ("mounts",), ["x"] * 1000, ["x"] * 1001),
]


@pytest.mark.holds("a count has bounds", "a time is one that dates can say", "a duration has bounds")
@pytest.mark.parametrize(("name", "path", "last", "beyond"), ENDS)
def test_what_a_report_says_is_within_its_bounds(name: str, path: tuple[Any, ...], last: Any, beyond: Any) -> None:
    assert parsed(name, replaced(GOOD[name], path, last))
    with pytest.raises(OddError):
        parsed(name, replaced(GOOD[name], path, beyond))


def test_a_million_lines() -> None:
    """Of operations; of an answer's text: both end, and soon."""
    began = time.monotonic()
    found = collected({"liar": {"changed": True, "operations": ["x"] * 10**6}, "honest": {"report": GOOD}})
    assert found["liar"].bad
    assert not found["honest"].bad
    assert len(found["liar"].changed) < 10**6
    assert time.monotonic() - began < 20
