"""rehearse: the twin first, and the real hosts only after it, with its plan."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.actions import rehearse
from gpuadmin.config.load import Site
from gpuadmin.lab import state
from gpuadmin.records import Record
from gpuadmin.rehearsed import VARIABLE
from tests.support.fake_ansible import USERS, Cli
from tests.support.sites import make_site

PACKAGE = Path(rehearse.__file__).parents[1]
STEP = {"host": "node1", "action": "lock minji"}


@dataclass
class Twin:
    """What was called, in order: a verb, on the twin or for real, with its arguments and the plan it is held to."""

    code: Mapping[tuple[str, str], int] = field(default_factory=dict)
    called: list[tuple[str, ...]] = field(default_factory=list)
    held_to: list[Any] = field(default_factory=list)
    meanwhile: Callable[[str], object] = lambda _: None  # what happens while a verb runs at a place


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Twin:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("GPUADMIN_SITE", str(make_site(tmp_path / "site", USERS)))
    twin = Twin()

    def up(name: str, real: Site) -> state.Lab:
        lab = state.load(name) or state.Lab(name, 1024, 5555, light=True, like=str(real.directory))
        lab = replace(lab, site=str(lab.directory / "site"))
        make_site(Path(str(lab.site)), (real.directory / "users.yml").read_text())
        state.save(lab)
        return lab

    def save(name: str, snapshot: str, *_: object, replace: bool) -> None:
        twin.called.append(("save", snapshot))
        state.save(state.existing(name).with_snapshot(snapshot))

    def run(verb: str, site: Path, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
        place = "twin" if "state" in site.parts else "real"
        twin.called.append((place, verb, *arguments))
        twin.meanwhile(place)
        if environment:
            twin.held_to.append(json.loads(Path(environment[VARIABLE]).read_text()))
        plan = {"title": "x", "steps": [STEP], "warnings": [], "destroys": False}
        Record.begin(site / "runs", verb, arguments=arguments, check=False, plan=plan)
        return twin.code.get((place, verb), 0)

    monkeypatch.setattr(rehearse, "up_twin", up)
    monkeypatch.setattr(rehearse.snapshots, "save", save)
    monkeypatch.setattr(
        rehearse.snapshots, "restore", lambda name, snapshot, _: twin.called.append(("restore", snapshot))
    )
    monkeypatch.setattr(rehearse, "_gpuadmin", run)
    return twin


def test_the_twin_comes_first_and_its_plan_holds(twin: Twin, cli: Cli) -> None:
    assert cli("rehearse", "lock-user", "minji")[0] == 0
    assert twin.called == [
        ("twin", "provision", "--yes"), ("save", "ready"), ("twin", "lock-user", "--yes", "minji"),
        ("real", "lock-user", "minji"),
    ]  # fmt: skip
    assert [plan["steps"] for plan in twin.held_to] == [[STEP]]


def test_a_second_time_it_is_as_it_was_unless_the_site_is_another(twin: Twin, cli: Cli, tmp_path: Path) -> None:
    cli("rehearse", "--twin-only", "lock-user", "minji")
    del twin.called[:]
    cli("rehearse", "--twin-only", "lock-user", "minji")
    assert twin.called == [("restore", "ready"), ("twin", "lock-user", "--yes", "minji")]
    users = tmp_path / "site/users.yml"
    users.write_text(users.read_text().replace("minji", "sora"))
    del twin.called[:]
    cli("rehearse", "--twin-only", "lock-user", "sora")
    assert twin.called[0] == ("twin", "provision", "--yes")


FAILS: dict[str, Callable[[], tuple[str, str]]] = {
    "the verb": lambda: ("twin", "lock-user"),
    "provision": lambda: ("twin", "provision"),
}


@pytest.mark.parametrize("what", FAILS.values(), ids=FAILS.keys())
def test_what_fails_on_the_twin_is_not_done_for_real(what: Callable[[], tuple[str, str]], twin: Twin, cli: Cli) -> None:
    twin.code = {what(): 3}
    code, _, err = cli("rehearse", "lock-user", "minji")
    assert code != 0
    assert "othing was done on the real hosts" in err
    assert not [call for call in twin.called if call[0] == "real"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["push-image", "x"], "cannot be rehearsed"),
        (["lock-usr", "minji"], "did you mean 'lock-user'"),
        (["xyzzy"], "there is no verb 'xyzzy'"),
        (["xyzzy"], "gpuadmin --help lists the verbs"),
        (["lock-user", "minji", "--yes"], "--yes has no meaning"),
        (["lock-user", "minji", "-y"], "--yes has no meaning"),
        (["lock-user", "-vy", "minji"], "--yes has no meaning"),
        (["lock-user", "--site=/x", "minji"], "--site has no meaning"),
        (["lock-user", "--untill", "tomorrow", "minji"], "--untill"),
        (["lock-user"], "Missing argument"),
        (["lock-user", "jiho", "mimji"], "not registered: 'mimji'"),
        (["remove-user", "mimji"], "did you mean 'minji'"),
        (["grant", "mimji", "node1", "--hours", "2"], "not registered: 'mimji'"),
        (["grant", "minji", "nod1", "--hours", "2"], "HOST nod1: names no host of this site"),
        (["reboot", "nod1"], "HOST nod1: names no host of this site"),
        (["lock-user", "minji", "--limit", "nod1"], "--limit nod1: names no host of this site"),
    ],
)
def test_what_is_refused(words: list[str], message: str, twin: Twin, cli: Cli) -> None:
    code, _, err = cli("rehearse", *words)
    assert code == 2
    assert message in err
    assert twin.called == []


@pytest.mark.parametrize(
    "words", [("remove-user", "old"), ("revoke", "a1b2c3"), ("add-user", "sora"), ("reboot", "node1"), ("provision",)]
)
def test_names_that_need_not_be_registered(words: tuple[str, ...], twin: Twin, cli: Cli) -> None:
    assert cli("rehearse", *words)[0] == 0
    assert twin.called[-1] == ("real", *words)


@pytest.mark.holds("a second rehearsal waits for no twin that a first one uses")
def test_two_at_once(twin: Twin, cli: Cli) -> None:
    with state.locked(rehearse.name_twin("test"), "rehearsal.lock"):
        code, _, err = cli("rehearse", "lock-user", "minji")
    assert code == 5
    assert "is being changed by process" in err
    assert twin.called == []


@pytest.mark.holds("a site that was changed meanwhile was not rehearsed")
@pytest.mark.parametrize("file", ["gpuadmin.yml", "users.yml", "inventory/hosts.yml"])
def test_a_site_that_is_changed_meanwhile(twin: Twin, cli: Cli, tmp_path: Path, file: str) -> None:
    """Another admin: of settings the plan of a provision says nothing."""
    path = tmp_path / "site" / file
    before, after = {
        "gpuadmin.yml": ("name: test", "name: test\nruns: {keep: 77}"),
        "users.yml": ("minji", "sora"),
        "inventory/hosts.yml": ("node1:", "node9:"),
    }[file]
    text = path.read_text()
    assert before in text
    twin.meanwhile = lambda _: path.write_text(text.replace(before, after))
    code, _, err = cli("rehearse", "provision")
    assert code == 5
    assert "was changed during the rehearsal; nothing was done on the real hosts" in err
    assert not [call for call in twin.called if call[0] == "real"]


def test_the_plan_stays_until_the_real_hosts_were_asked(twin: Twin, cli: Cli) -> None:
    found: list[int] = []

    def second(place: str) -> None:
        if place == "real":
            found.append(cli("rehearse", "--twin-only", "lock-user", "jiho")[0])

    twin.meanwhile = second
    assert cli("rehearse", "lock-user", "minji")[0] == 0
    assert found == [5]


def test_nothing_of_the_current_directory_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That may be somebody's home: `python -m` looks there first, and their json.py ran as the admin."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert rehearse._gpuadmin("check", tmp_path / "nowhere", []) != 0
    assert not (tmp_path / "ran").exists()
    for path in PACKAGE.rglob("*.py"):
        assert 'sys.executable, "-m"' not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--term", "a b"], (5, "a b ends on 2097-01-31; lock waits for that day")),
        (["--term", "a b"], (5, "add --twin-only, and --early")),
        (["--early"], (2, "add --term 'a b'")),
        (["--early", "--term", "2026-1"], (2, "add --term 'a b'")),
        (["--phase", "announce", "--term", "2026-1"], (2, "add --term 'a b'")),
        (["--phase", "wipe", "--early", "--term", "a b"], (2, "a twin has no reset that was begun")),
        (["--resume"], (2, "a twin has no reset that was begun")),
        (["--abort"], (2, "a twin has no reset that was begun")),
    ],
)
def test_a_reset_that_the_twin_would_refuse_is_refused_first(
    words: list[str], answer: tuple[int, str], twin: Twin, cli: Cli, tmp_path: Path
) -> None:
    settings = tmp_path / "site/gpuadmin.yml"
    settings.write_text(settings.read_text() + "term: {name: a b, deadline: 2097-01-31}\n")
    code, _, err = cli("rehearse", "--twin-only", "semester-reset", *words)
    assert (code, answer[1] in err) == (answer[0], True), err
    assert twin.called == []


@pytest.mark.parametrize(
    ("words", "deadline"),
    [
        (["--early", "--term", "2026-2"], "2097-01-31"),
        (["--term", "2026-2"], "2026-01-31"),
        (["--phase", "announce"], "2097-01-31"),
        (["--preview"], "2097-01-31"),
    ],
)
def test_a_reset_that_the_twin_does_is_rehearsed(words: list[str], deadline: str, twin: Twin, cli: Cli) -> None:
    settings = Path(os.environ["GPUADMIN_SITE"], "gpuadmin.yml")
    settings.write_text(settings.read_text() + f"term: {{name: 2026-2, deadline: {deadline}}}\n")
    assert cli("rehearse", "--twin-only", "semester-reset", *words)[0] == 0
    assert ("twin", "semester-reset", "--yes", *words) in twin.called
