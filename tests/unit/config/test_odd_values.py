"""Each value of what people edit, and of what is recorded, in turn is of another type: an exit code, no exception."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.results import HostResult, RunResult
from gpuadmin.who import who
from tests.support.site_edits import RESULT, RUN, good_site

Cli = Callable[..., tuple[int, str, str]]
At = tuple[str | int, ...]

ODD = (3, None, [], {}, "x", True)
HOSTS_FILE, RECORD, JOURNAL = "inventory/hosts.yml", f"runs/{RUN['id']}", "runs/term-2026-2/journal.jsonl"
HOSTS = {
    "all": {
        "vars": {"rack": 1},
        "children": {
            "gpu": {"vars": {"x": 1}, "hosts": {"node1": {"gpus": 2, "ansible_host": "127.0.0.1"}, "node2": None}},
            "storage": {"hosts": {"storage1": {"ansible_host": "127.0.0.1", "ansible_port": 3}}},
        },
    }
}  # fmt: skip
ANNOUNCED = {
    "event": "announced", "id": "a1", "begin": "2026-11-01", "until": "2030-11-02", "texts": {"en": "x"},
    "hosts": ["node1"], "reached": ["node1"], "at": "2026-11-01T01:02:03+00:00", "who": "a@b",
}  # fmt: skip
LEAVER = {
    "name": "minji", "uid": 20000, "subid_start": 1, "subid_count": 2, "email": "m@x.org", "home": True,
    "beside": ["minji.before-x"],
}  # fmt: skip
DECISION = {
    "term": "2026-2", "backup": "b", "at": "2026-11-01T01:03:03+00:00", "leaving": [LEAVER], "staying": {"jiho": "x"},
    "kept": {"a": "b"}, "scratch": {"node1": [{"user": "minji", "uid": 20000, "path": "/x"}]}, "silent": {"node2": "x"},
}  # fmt: skip
AT = {"at": "2026-11-01T01:03:03+00:00", "who": "a@b"}
LOCKED = {"result": {"mailed": ["minji"]}, "pending": {"node1": "x"}}
BEGUN = [
    {**AT, "event": "decided", "decision": DECISION},
    {**AT, "event": "unlocked-before", "names": ["jiho"]},
    {**AT, "event": "begin", "phase": "lock"},
    {**AT, "event": "done", "phase": "lock", **LOCKED},
]
FORM = {"email": "yuna@example.org", "time": "2026-11-01T13:02:03", "line": 2, "present": False, "x": 1}
GPUS = {"gpus": [{"name": "H100", "memory": 1}], "driver": "580", "cuda": "13.0"}


def record(verb: str, result: object, *arguments: str) -> dict[str, Any]:
    """The files of a run."""
    hosts = {"node1": {"status": "ok", "changed": ["x"], "message": "y", "obstacles": ["z"]}}
    run = {**RUN, "verb": verb, "arguments": list(arguments), "who": who()}
    return {
        f"{RECORD}/run.json": run,
        f"{RECORD}/result.json": {**RESULT, "hosts": hosts, "result": result, "reached": "sent"},
    }


GRANT = ("grant", "minji", "node1", "--hours", "1")
IMPORT = ("import-applications", "{site}/form.csv", "--since-last", "--check")
RESULTS = f"{RECORD}/result.json"
#: What is changed, the files that are there, and what reads them.
CASES: dict[str, tuple[str, dict[str, Any], tuple[tuple[str, ...], ...]]] = {
    "settings": ("gpuadmin.yml", {}, (("check",),)),
    "people": ("users.yml", {}, (("check",),)),
    "hosts": (HOSTS_FILE, {}, (("check",),)),
    "variables of a group": ("inventory/group_vars/gpu.yml", {}, (("check",),)),
    "variables of a host": ("inventory/host_vars/node1.yml", {}, (("check",),)),
    "uids": ("runs/uids.json", {}, (("check",),)),
    "a list of people": ("people.yml", {}, (("add-user", "--from", "{site}/people.yml", "--check"),)),
    "a run": (f"{RECORD}/run.json", {}, (("runs",), ("runs", RUN["id"]), ("status",))),
    "a result": (RESULTS, record("provision", {"error": "x"}), (("runs", RUN["id"]), ("status",))),
    "a look for drift": (
        RESULTS, record("drift", {"differing": ["node1"], "privileges": {"silent": {"node2": "x"}}}), (("status",),),
    ),
    "a look at GPUs": (
        RESULTS, record("list-gpus", {"nodes": {"node1": {"nvml": GPUS, "pci": [{"name": "x"}]}}}), (("user-guide",),),
    ),
    "a grant": (RESULTS, record("grant", {"grant": {"id": "x"}}, *GRANT), ((*GRANT, "--check"),)),
    "an import": (
        RESULTS, record("import-applications", {"ready": [FORM], "incomplete": [FORM], "unknown": []}), (IMPORT,),
    ),
    "mails": ("mails.jsonl", {}, (("status",), ("notify", "--check"))),
    "announcements": ("announcements.jsonl", {"announcements.jsonl": ANNOUNCED}, (("announce", "--list"),)),
    "hardware": (
        "hardware.json", {"hardware.json": {"format": 1, "hosts": {"node1": {"gpu": {"GPU-1": "H100"}}}}},
        (("audit",),),
    ),
    "a reset": (JOURNAL, {JOURNAL: BEGUN}, (("status",), ("semester-reset", "--resume", "--check"))),
}  # fmt: skip
LONG = {"a reset"}


def paths(value: object, above: At = ()) -> Iterator[At]:
    yield above
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(one, (*above, key))


def with_odd(value: Any, path: At, odd: object) -> Any:
    if not path:
        return odd
    copy = value.copy()
    copy[path[0]] = with_odd(value[path[0]], path[1:], odd)
    return copy


def render_text(name: str, content: object) -> str:
    lines = content if name.endswith(".jsonl") and isinstance(content, list) else [content]
    return "".join(f"{json.dumps(one, default=str)}\n" for one in lines)


@pytest.mark.parametrize("case", [pytest.param(one, marks=[pytest.mark.slow] * (one in LONG)) for one in CASES])
def test_a_value_of_another_type_gives_no_traceback(
    case: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUADMIN_SITE", raising=False)
    away = RunResult(dict.fromkeys(("storage1", "node1", "node2"), HostResult("unreachable", message="no route")))
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda _invocation, **_callbacks: away)
    name, files, verbs = CASES[case]
    good = good_site(tmp_path / "good")
    for path, content in {HOSTS_FILE: HOSTS, **files}.items():
        (good / path).write_text(render_text(path, content))
    text = (good / name).read_text()
    data = [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else yaml.safe_load(text)
    top = "result" if name == RESULTS and case != "a result" else ""  # the rest of it is that of any run
    fallen = []
    for number, (at, odd) in enumerate(
        [((), data), *((one, odd) for one in paths(data) if top in ("", *one[:1]) for odd in ODD)]
    ):
        site = tmp_path / f"site{number}"  # Ansible remembers which files it found
        shutil.copytree(good, site)
        (site / name).write_text(render_text(name, with_odd(data, at, odd)))
        for verb in verbs:
            try:
                code, _, err = cli(*(one.format(site=site) for one in verb), "--site", str(site))
            except Exception as error:  # which values they are is of interest, all of them
                fallen.append(f"{at} = {odd!r}: {verb[0]}: {error!r}")
            else:
                # as it is, the file is read and nothing is wrong with it
                if code not in ((0, 4) if number == 0 else range(7)) or "damaged" in (err if number == 0 else ""):
                    fallen.append(f"{at} = {odd!r}: {verb[0]} ended with {code}: {err}")
        shutil.rmtree(site)
    assert not fallen, "\n".join(fallen)
