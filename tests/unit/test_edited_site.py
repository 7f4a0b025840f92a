"""Whatever a site's files say: an exit code of docs/exit-codes.md and a sentence, never a traceback."""

import contextlib
import ctypes
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.cli import VERBS
from gpuadmin.results import HostResult, RunResult
from tests.support.site_edits import CALLS, edit, good_site
from tests.support.sites import UIDS

Cli = Callable[..., tuple[int, str, str]]

EDITS = int(os.environ.get("GPUADMIN_EDITS", "2000"))
LOTS = 20
QUICK = 3  # lots that `make test` has time for
SEED = int(os.environ.get("GPUADMIN_EDITS_SEED", "20261122"))

NO_SITE = {"init", "lab", "schema", "completion", "man"}

#: What is Python's or a library's, and says nothing to an admin.
LIBRARY = re.compile(
    r"Traceback|NoneType|Commented|ruamel|pydantic|Errno|<class|object at 0x|yaml\.|datetime\.|DateTime|Validation"
    r"Error|[Ii]nput should|Scalar(Float|Int)|PosixPath|\[WARNING\]|codec can't|unhashable|not iterable|str object"
)


def test_every_verb_is_called() -> None:
    assert {call.split(" ")[0] for call in CALLS} | NO_SITE == set(VERBS)


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> dict[str, RunResult]:
    """Stands where ansible-runner is: nobody answers, or everybody does and has nothing to say."""
    answers = {
        "away": RunResult(dict.fromkeys(("storage1", "node1", "node2"), HostResult("unreachable", message="no route"))),
        "well": RunResult(
            {name: HostResult("ok", reports={"uids": dict(UIDS)}) for name in ("storage1", "node1", "node2")}
        ),
    }

    def run(_invocation: Invocation, **_callbacks: object) -> RunResult:
        return answers["now"]

    answers["now"] = answers["away"]
    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    monkeypatch.setattr("gpuadmin.actions.trust.fetch_host_keys", lambda hosts: [])
    return answers


@contextlib.contextmanager
def modes_that_hold() -> Iterator[None]:
    """Root reads and writes whatever it wants: without two capabilities it does what a mode says, as everybody else."""

    class Header(ctypes.Structure):
        _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))

    class Data(ctypes.Structure):
        _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))

    libc = ctypes.CDLL(None, use_errno=True)
    header, data = Header(0x20080522, 0), (Data * 2)()
    assert libc.capget(ctypes.byref(header), data) == 0
    before = data[0].effective
    data[0].effective &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: capabilities(7)
    assert libc.capset(ctypes.byref(header), data) == 0
    try:
        yield
    finally:
        data[0].effective = before
        assert libc.capset(ctypes.byref(header), data) == 0


def delete(site: Path) -> None:
    """Delete a site whose modes may forbid it."""
    for directory, _, _ in os.walk(site, onerror=None):
        Path(directory).chmod(0o700)
    for directory, _, _ in os.walk(site):
        Path(directory).chmod(0o700)
    shutil.rmtree(site, ignore_errors=True)


@pytest.mark.parametrize(
    "lot", [*range(QUICK), *(pytest.param(lot, marks=pytest.mark.slow) for lot in range(QUICK, LOTS))]
)
def test_no_edit_gives_a_traceback(
    lot: int, cli: Cli, hosts: dict[str, RunResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUADMIN_SITE", raising=False)
    good = good_site(tmp_path / "good")
    calls = list(CALLS)
    fallen = []
    for number in range(lot, EDITS, LOTS):
        seed = SEED * 1_000_000 + number
        chance = random.Random(seed)
        site = tmp_path / f"site{number}"  # Ansible remembers which files it found
        shutil.copytree(good, site)
        done = edit(site, chance)
        hosts["now"] = hosts[chance.choice(("away", "well"))]
        # check is what an admin runs after an edit: every fourth time, too
        for call in dict.fromkeys((*(("check",) if number % 4 == 0 else ()), calls[number % len(calls)])):
            arguments = [call.split(" ")[0], *(part.format(site=site) for part in CALLS[call]), "--site", str(site)]
            arguments += ["--json"] if chance.random() < 0.3 and "--preview" not in arguments else []
            fault = _fault(cli, arguments)
            if fault:
                fallen.append(f"seed {seed}: {done}\n  gpuadmin {' '.join(arguments)}\n  {fault}")
        delete(site)
    assert not fallen, f"{len(fallen)} of {EDITS // LOTS}:\n" + "\n".join(fallen)


def _fault(cli: Cli, arguments: list[str]) -> str | None:
    """What is wrong with how a verb ended, if anything."""
    try:
        with modes_that_hold():
            code, out, err = cli(*arguments)
    except Exception as error:
        import traceback

        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/gpuadmin/" in frame.filename][-1]
        return f"{type(error).__name__}: {error} ({ours.filename}:{ours.lineno}; {last.filename}:{last.lineno})"
    output = out + err
    if code not in (0, 1, 2, 3, 4, 5, 6):
        return f"exit code {code}: {output[-300:]}"
    found = LIBRARY.search(output)
    if found:
        return f"speaks of {found[0]!r}: {output[max(0, found.start() - 150) : found.end() + 150]}"
    if code in (1, 2, 5) and "--json" not in arguments and not re.search(r"(?im)^error: \S.*\w", output):
        return f"exit code {code} without a sentence: {output[-300:]}"
    if "--json" in arguments:
        try:
            json.loads(out)
        except ValueError:
            return f"is not JSON: {out[:200]!r} {err[:200]!r}"
    return None
