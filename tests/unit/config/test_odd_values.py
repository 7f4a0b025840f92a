"""Each value of a good site in turn is of another type: a sentence and a way out, never another exception."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.results import HostResult, RunResult
from tests.support.site_edits import RUN, good_site

Cli = Callable[..., tuple[int, str, str]]

ODD = (3, None, [], {}, "x", True)
HOSTS = {
    "all": {
        "vars": {"rack": 1},
        "children": {
            "gpu": {"vars": {"x": 1}, "hosts": {"node1": {"gpus": 2, "ansible_host": "127.0.0.1"}, "node2": None}},
            "storage": {"hosts": {"storage1": {"ansible_host": "127.0.0.1", "ansible_port": 3}}},
        },
    }
}  # fmt: skip
#: File of a site → what reads it.
READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "gpuadmin.yml": (("check",),),
    "users.yml": (("check",),),
    "inventory/hosts.yml": (("check",),),
    "inventory/group_vars/gpu.yml": (("check",),),
    "inventory/host_vars/node1.yml": (("check",),),
    "runs/uids.json": (("check",),),
    f"runs/{RUN['id']}/run.json": (("runs",), ("runs", RUN["id"]), ("status",)),
    f"runs/{RUN['id']}/result.json": (("runs",), ("runs", RUN["id"]), ("status",)),
    "mails.jsonl": (("status",), ("notify", "--check")),
    "runs/term-2026-2/journal.jsonl": (("status",), ("semester-reset", "--check")),
}


def paths(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield above
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(one, (*above, key))


def with_odd(value: Any, path: tuple[str | int, ...], odd: object) -> Any:
    if not path:
        return odd
    copy = value.copy()
    copy[path[0]] = with_odd(value[path[0]], path[1:], odd)
    return copy


@pytest.mark.parametrize("name", READERS)
def test_no_value_of_another_type_gives_a_traceback(
    name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUADMIN_SITE", raising=False)
    away = RunResult(dict.fromkeys(("storage1", "node1", "node2"), HostResult("unreachable", message="no route")))
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda _invocation, **_callbacks: away)
    good = good_site(tmp_path / "good")
    (good / "inventory/hosts.yml").write_text(json.dumps(HOSTS))
    data = yaml.safe_load((good / name).read_text())
    fallen = []
    for path in paths(data):
        for odd in ODD:
            site = tmp_path / f"{len(fallen)}-{abs(hash((path, str(odd))))}"  # Ansible remembers which files it found
            shutil.copytree(good, site)
            (site / name).write_text(json.dumps(with_odd(data, path, odd), default=str) + "\n")
            for verb in READERS[name]:
                try:
                    code, out, err = cli(*verb, "--site", str(site))
                except Exception as error:
                    import traceback
                    frame = [one for one in traceback.extract_tb(error.__traceback__) if "/gpuadmin/" in one.filename][-1]
                    fallen.append(f"{path} = {odd!r}: {' '.join(verb)}: {type(error).__name__}: {error} {frame.filename}:{frame.lineno}")
                    continue
                if "Traceback" in out + err or not 0 <= code <= 6:
                    fallen.append(f"{path} = {odd!r}: {' '.join(verb)}: {code} {out + err}")
            shutil.rmtree(site)
    assert not fallen, "\n".join(fallen)
