"""`make demo`: where its parts run, what it says of them, and that its end names nothing that its site has not."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuadmin.lab.probe import Machine
from tests.support.machine import able
from tests.support.scripts import ROOT, load


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, with a site below a temporary directory and no lab on this machine."""
    script = load("demo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(script, "SITE", tmp_path / "demo-site")
    monkeypatch.setattr(script, "TIMES", tmp_path / "times.json")
    (tmp_path / "demo").mkdir()
    monkeypatch.setattr(script, "SHOWING", tmp_path / "demo/showing")
    monkeypatch.setattr(script.sys, "argv", ["demo.py"])
    monkeypatch.setattr(script.state, "load", lambda _lab: None)
    monkeypatch.setattr(script.probe, "look", able)
    return script


@pytest.mark.parametrize("measured", [True, False])
def test_its_end_says_how_to_open_the_dashboard(
    demo: Any, measured: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[tuple[str, ...]] = []
    monkeypatch.setattr(demo, "run", lambda *words: called.append(words[1:]))
    monkeypatch.setattr(demo, "all_measured", lambda: True)
    (demo.SITE / "inventory").mkdir(parents=True)
    if measured:
        (demo.SITE / demo.MONITOR_FILE).write_text(demo.MONITOR)
    demo.farewell(60.0)
    said = capsys.readouterr().out
    assert called == ([("top", "--once")] if measured else [])
    assert ("  gpuadmin dashboard" in said) is measured
    assert f"  . {shlex.quote(str(Path(demo.GPUADMIN).parent / 'activate'))}; cd " in said, (
        "make alone has gpuadmin in its PATH"
    )
    assert ("no web page" in said) is not measured


def test_its_end_after_images_alone_names_no_cluster_that_is_not_there(
    demo: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo.state, "load", lambda lab: lab == demo.MACHINES_LAB or None)
    demo.farewell(60.0)
    said = capsys.readouterr().out
    assert f"{shlex.quote(demo.GPUADMIN)} lab down --name demo-images --purge" in said, (
        "it is not in the PATH of who types that"
    )
    assert "--name demo " not in said


@pytest.mark.parametrize(
    ("machine", "fast", "begun", "light"),
    [
        (able(), False, None, True),
        (able(), True, None, False),
        (able("root"), False, None, False),
        (able("loop devices"), False, None, False),  # a container, with root's number and a cgroup v2
        (able("cgroup v2"), False, None, False),
        (able(), False, False, False),  # virtual machines are there
        (able(), True, True, True),
        (able(memory=2 << 30), True, None, True),  # too little for virtual machines
    ],
)
def test_light_hosts_are_shown_where_they_can_be_and_virtual_machines_are_slow(
    demo: Any, machine: Machine, fast: bool, begun: bool | None, light: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.probe, "look", lambda: machine)
    monkeypatch.setattr(demo, "fast_machines", lambda: fast)
    monkeypatch.setattr(demo.state, "load", lambda _lab: None if begun is None else SimpleNamespace(light=begun))
    assert demo.light_hosts() is light


def test_where_no_host_can_be_it_shows_what_needs_none(
    demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "PLANS_SITE", tmp_path / "my plans")
    monkeypatch.setattr(demo.probe, "look", lambda: able("loop devices", memory=1 << 30))
    monkeypatch.setattr(demo.sys, "argv", ["demo.py"])
    demo.main()
    said = capfd.readouterr().out
    assert said.startswith(
        "This machine can have no cluster of the lab's: no light hosts: no loop devices here; no virtual"
    )
    assert "2 people, 0 errors" in said
    assert "minji: note none → thesis until spring" in said
    assert "minji <minji@example.org>: minji ends on" in said
    assert said.splitlines()[-1].startswith("The rest of the demo was left out: no light hosts")
    assert said.splitlines()[-1].endswith(f"rm -r '{tmp_path}/my plans'")


def test_what_boots_is_left_out_where_nothing_can_boot(demo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.probe, "look", lambda: able(memory=2 << 30))
    parts, left_out = demo.possible(["accounts", "images"], True)
    assert parts == ["accounts"]
    assert left_out.startswith("Left out: images: no virtual machines: three hosts need 3.5 GiB")


def test_what_needs_light_hosts_is_left_out_on_virtual_machines_and_its_end_says_so(
    demo: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo.sys, "argv", ["demo.py"])
    monkeypatch.setattr(demo.probe, "look", lambda: able("mounts"))
    monkeypatch.setattr(demo, "fast_machines", lambda: False)
    shown: list[str] = []
    monkeypatch.setattr(demo, "SHOWS", {part: lambda _light, part=part: shown.append(part) for part in demo.PARTS})
    demo.main()
    assert shown == ["accounts", "semester", "images"]
    said = capsys.readouterr().out
    assert "some 0 min" not in said
    left_out = "Left out: a GPU given and taken back, slurm, adopt: no light hosts: no mounts here"
    assert said.splitlines()[0] == said.splitlines()[-1] == left_out
    monkeypatch.setattr(demo.sys, "argv", ["demo.py", "adopt"])
    with pytest.raises(SystemExit, match="Left out: adopt: no light hosts: no mounts here"):
        demo.main()


@pytest.mark.parametrize(("processors", "parts"), [(1, ["accounts"]), (2, ["accounts", "slurm"])])
def test_a_queue_is_shown_where_nodes_have_two_gpus(
    demo: Any, processors: int, parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.os, "cpu_count", lambda: processors)
    monkeypatch.setattr(demo.light_gpus, "_count_there", lambda: True)
    assert demo.possible(["accounts", "slurm"], True)[0] == parts


@pytest.mark.parametrize("light", [True, False])
def test_it_says_where_each_part_runs(
    demo: Any, light: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "fast_machines", lambda: False)
    demo.announce(list(demo.PARTS), light)
    demo.finished("accounts", light, 130.0, [])
    demo.announce(["accounts"], light)
    lines = capsys.readouterr().out.splitlines()
    places = [line.split(" on ")[1].split(":")[0] for line in lines if line.startswith("  ")]
    rest = "light hosts" if light else "virtual machines"
    assert places == [*4 * [rest], *2 * ["virtual machines"], rest]
    assert ["2 min the last time" in line for line in lines if line.startswith("  ")] == [*6 * [False], True]
    assert any("demo-images" in line for line in lines) is light
    assert any("a GPU given" in line for line in lines) is light
    # what was measured there says nothing of elsewhere
    assert demo.known_times() == {f"accounts on {rest}": 130}


def test_parts_are_chosen_by_name(demo: Any) -> None:
    usual = ["accounts", "slurm", "semester", "adopt", "images"]
    assert demo.chosen([]) == usual
    assert [*usual, "install"] == demo.chosen([*usual, "install"]) == list(demo.PARTS) == list(demo.SHOWS)
    assert demo.chosen(["images,accounts"]) == ["accounts", "images"]
    with pytest.raises(SystemExit, match=r"there is no image; there is accounts, .* images, install"):
        demo.chosen(["image"])


@pytest.mark.parametrize(
    ("parts", "light", "begins"),
    [("images", True, True), ("images", False, False), ("adopt", True, True), ("semester", True, False)],
)
def test_what_needs_accounts_begins_with_it(
    demo: Any, parts: str, light: bool, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(demo.sys, "argv", ["demo.py", parts])
    monkeypatch.setattr(demo, "light_hosts", lambda: light)
    monkeypatch.setattr(demo, "fast_machines", lambda: False)
    monkeypatch.setattr(demo, "SHOWS", {part: lambda _light, part=part: shown.append(part) for part in demo.PARTS})
    demo.main()
    assert shown == ([parts] if begins else ["accounts", parts])


def show_only(demo: Any, monkeypatch: pytest.MonkeyPatch, **shows: Callable[[bool], None]) -> None:
    """The usual demo, on light hosts, whose other parts show nothing."""
    monkeypatch.setattr(demo.sys, "argv", ["demo.py"])
    monkeypatch.setattr(demo, "fast_machines", lambda: False)
    monkeypatch.setattr(demo, "possible_gpus", lambda: 2)
    monkeypatch.setattr(demo, "SHOWS", {part: lambda _light: None for part in demo.PARTS} | shows)


@pytest.mark.parametrize("fails", [False, True])
def test_images_are_made_while_the_rest_is_shown(
    demo: Any, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What it prints comes in its turn, and where it fails so does the demo."""

    def images(_light: bool) -> None:
        (tmp_path / "begun").touch()
        # pytest has taken this process's own print: a command writes
        demo.run("sh", "-c", f"echo an image; echo a warning >&2; cat; nice; seq 20000; exit {int(fails)}")

    def adopt(_light: bool) -> None:
        demo.until((tmp_path / "begun").exists, "images have begun")

    show_only(demo, monkeypatch, adopt=adopt, images=images)
    if fails:
        with pytest.raises(SystemExit):
            demo.main()
    else:
        demo.main()
    said, _ = capfd.readouterr()
    assert said.index("✓ images have begun") < said.index("✓ adopt: done") < said.index("\nan image\n")
    assert ("✓ images: done" in said) != fails
    printed = said[said.index("\nan image\n") :].splitlines()
    assert printed[1:4] == ["an image", "a warning", str(min(19, os.nice(0) + 5))], "it reads nothing, and gives way"
    assert printed[4:20004] == [str(number + 1) for number in range(20000)], "all of it, once"


def test_what_is_killed_behind_is_named(demo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    show_only(demo, monkeypatch, images=lambda _light: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(SystemExit, match="signal 9 ended what ran behind"):
        demo.main()


def test_one_demo_at_a_time_sets_up_its_hosts(
    demo: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two checkouts have one lab."""
    monkeypatch.setattr(demo, "SHOWING", demo.SHOWING.parent / "not/there/showing")  # a person's first demo
    monkeypatch.setattr(demo, "main", lambda: demo.in_words(demo.run_alone))
    with pytest.raises(SystemExit, match=r"(?s)the demo stopped: .* runs make demo since .*Hint: wait for that run"):
        demo.in_words(demo.run_alone)
    monkeypatch.setattr(demo, "main", lambda: print("shown"))
    demo.in_words(demo.run_alone)
    assert capsys.readouterr().out == "shown\n"


@pytest.mark.parametrize(
    ("name", "place", "there", "own"),
    [
        ("demo", "demo-site", True, True),
        ("demo", "elsewhere/../demo-site", True, True),
        ("demo", None, True, True),  # it has none yet
        ("demo", "demo-site", False, False),
        ("demo", "other/demo-site", True, False),
        ("demo-images", "other/demo-site-images", True, False),
        ("demo-grown", "other/demo-grown-lab", True, False),
    ],
)
def test_hosts_of_another_checkout_are_let_be(
    demo: Any, name: str, place: str | None, there: bool, own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have people whom this one's site does not know, and would get another site's certificates."""
    monkeypatch.setattr(demo, "MACHINES_SITE", tmp_path / "demo-site-images")
    monkeypatch.setattr(demo, "main", lambda: None)
    monkeypatch.setattr(demo, "leave_stopped", lambda: None if own else pytest.fail("their hosts are removed"))
    lab = SimpleNamespace(site=place and str(tmp_path / place))
    monkeypatch.setattr(demo.state, "load", lambda asked: lab if asked == name else None)
    for site in ("demo-site", "demo-site-images", "demo-grown-lab") if there else ():
        (tmp_path / site).mkdir()
    if own:
        demo.in_words(demo.run_alone)
    else:
        hint = rf"Hint: go on there, or remove them: .* --name {name} "
        with pytest.raises(SystemExit, match=rf"belong to {tmp_path}/{place}, .*\n{hint}"):
            demo.in_words(demo.run_alone)


@pytest.mark.parametrize(
    ("part", "lab", "sites"),
    [
        ("slurm", "demo", ["demo-site"]),
        ("semester", "demo", ["demo-site"]),
        ("adopt", "demo-grown", ["demo-grown", "demo-grown-lab"]),
        ("accounts", "", []),
        ("images", "", []),
        ("\udcff", "", []),
        ("", "", []),
    ],
)
@pytest.mark.parametrize("up", [True, False])
def test_hosts_that_a_stopped_part_cannot_go_on_with_are_made_anew(
    demo: Any, part: str, lab: str, sites: list[str], up: bool,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A queue whose jobs have GPUs, a reset under way. The site is put aside, also where the hosts are gone already."""
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(demo, "run", lambda *words: ran.append(words[1:]))
    monkeypatch.setattr(demo.state, "load", lambda name: SimpleNamespace(site=None) if up and name == lab else None)
    monkeypatch.setattr(demo, "main", lambda: None)
    everything = {"demo-site", "demo-grown", "demo-grown-lab"}
    for site in everything:
        (tmp_path / site).mkdir()
        (tmp_path / site / "gpuadmin.yml").touch()
    if part:
        demo.SHOWING.write_text(part, errors="surrogateescape")
    demo.run_alone()
    assert ran == ([("lab", "down", "--name", lab, "--purge")] if lab and up else [])
    assert {path.name for path in tmp_path.iterdir()} & everything == everything - {*sites}
    kept = [line.partition("kept: ")[2] for line in capsys.readouterr().out.splitlines() if "kept: " in line]
    assert len(kept) == len(sites)
    assert all(Path(site, "gpuadmin.yml").exists() for site in kept)
    demo.run_alone()  # there is nothing more to put aside


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_the_demo_ends_what_it_has_begun(demo: Any, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dashboard that it has opened; a GPU that it has given is taken back."""

    def main() -> None:
        assert signal.getsignal(number) is signal.default_int_handler
        signal.raise_signal(number)

    monkeypatch.setattr(demo, "main", main)
    with pytest.raises(SystemExit, match="stopped"):
        demo.in_words(demo.run_alone)
    assert signal.getsignal(number) == signal.SIG_DFL


def test_the_dashboard_ends_with_the_demo(demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kill` reaches the demo alone."""
    gpuadmin = tmp_path / "gpuadmin"
    gpuadmin.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\necho begun\nexec sleep 20\n")
    gpuadmin.chmod(0o755)
    monkeypatch.setattr(demo, "GPUADMIN", str(gpuadmin))
    monkeypatch.setattr(demo, "main", demo.dashboard)

    def show(text: str, **_how: object) -> None:
        if text == "begun\n":
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(demo, "print", show, raising=False)
    with pytest.raises(SystemExit, match="stopped"):
        demo.in_words(demo.run_alone)
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_slip_removes_no_hosts(demo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.SHOWING.write_text("slurm")
    monkeypatch.setattr(demo.sys, "argv", ["demo.py", "slum"])
    monkeypatch.setattr(demo, "run", lambda *words: pytest.fail(f"{words}"))
    monkeypatch.setattr(demo.state, "load", lambda _lab: SimpleNamespace(site=None))
    with pytest.raises(SystemExit, match="there is no slum"):
        demo.in_words(demo.run_alone)


@pytest.mark.parametrize("name", ["", "a/b", "../x"])
def test_a_lab_s_name_that_is_none_is_refused_in_words(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, ROOT / "scripts/demo.py"), capture_output=True, text=True, check=False,
        env={**os.environ, "GPUADMIN_DEMO_LAB": name, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )  # fmt: skip
    assert done.stderr.startswith(f"the demo stopped: {name!r} is not a lab name\nHint: ")
    assert list(tmp_path.iterdir()) == []


def test_the_script_runs_alone() -> None:
    assert (ROOT / "scripts/demo.py").read_text().endswith("    in_words(run_alone)\n")


def test_a_cache_that_is_emptied_meanwhile_stops_nothing(demo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    show_only(demo, monkeypatch, adopt=lambda _light: shutil.rmtree(demo.SHOWING.parent))
    demo.main()
    assert not demo.SHOWING.exists()


@pytest.mark.parametrize("fails", [False, True])
def test_a_part_that_was_stopped_is_remembered(demo: Any, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def adopt(_light: bool) -> None:
        if fails:
            raise SystemExit(1)

    show_only(demo, monkeypatch, adopt=adopt)
    if fails:
        with pytest.raises(SystemExit):
            demo.main()
        assert demo.SHOWING.read_text() == "adopt"
    else:
        demo.main()
        assert not demo.SHOWING.exists()


def test_kill_ends_the_command_that_is_shown(tmp_path: Path) -> None:
    """It reaches the demo alone: Ctrl-C goes to the command, too. In a process without threads, as the demo is."""
    cleans = f"trap 'touch {tmp_path}/ended; exit 1' TERM"
    shown = ("sh", "-c", f"{cleans}; kill $PPID; timeout 20 sleep 20 & wait")
    script = f"import demo_steps, signal\ntry:\n    demo_steps.run(*{shown!r})\nexcept KeyboardInterrupt:\n"
    script += "    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n    print('interrupted')"
    done = subprocess.run(
        (sys.executable, "-c", script), cwd=ROOT / "scripts", capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("interrupted\n"), done.stderr
    assert (tmp_path / "ended").exists()


def test_what_the_demo_ignores_its_commands_ignore(demo: Any) -> None:
    """`nohup make demo` outlives its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        demo.run("sh", "-c", "kill -HUP $$")
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_command_that_is_not_there_leaves_signals_as_they_were(demo: Any) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(FileNotFoundError):
        demo.run("/no/such/command")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_demo_that_ignores_kill_goes_on(demo: Any) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        demo.run("sh", "-c", f"kill {os.getpid()}")
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_ends_the_demo_before_its_command_begins_ends_that(
    demo: Any, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is a signal lost, nor is one blocked afterwards."""

    class Begins(subprocess.Popen[bytes]):
        def __init__(self, command: tuple[str, ...], **how: Any) -> None:
            signal.raise_signal(number)
            super().__init__(command, **how)

    monkeypatch.setattr("demo_steps.subprocess.Popen", Begins)
    before, begun = signal.signal(number, signal.default_int_handler), time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            demo.run("sleep", "60")
    finally:
        signal.signal(number, before)
    assert time.monotonic() - begun < 30
    assert number not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_ends_the_demo_while_a_command_begins_waits_for_it(
    demo: Any, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Begun(subprocess.Popen[bytes]):
        def __init__(self, command: tuple[str, ...], **how: Any) -> None:
            super().__init__(command, **how)
            demo.until((tmp_path / "begun").exists, "it has begun")
            if number != signal.SIGTERM:
                self.send_signal(number)
            signal.raise_signal(number)

    monkeypatch.setattr("demo_steps.subprocess.Popen", Begun)
    cleans = f"trap 'sleep 1; touch {tmp_path}/ended; exit 1' INT TERM HUP"
    before = signal.signal(number, signal.default_int_handler)  # else it may end the test's own process
    try:
        with pytest.raises(KeyboardInterrupt):
            demo.run("sh", "-c", f"{cleans}; touch {tmp_path}/begun; timeout 9 sleep 9 & wait")
    finally:
        signal.signal(number, before)
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_made_meanwhile_ends_with_the_demo(
    demo: Any, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command, which needs a second for that, as well."""

    def images(_light: bool) -> None:
        cleans = f"trap 'sleep 1; touch {tmp_path}/ended; exit 1' INT; echo $$ >{tmp_path}/begun"
        demo.run("sh", "-c", f"{cleans}; timeout 60 sleep 60 & wait")

    def adopt(_light: bool) -> None:
        demo.until(lambda: (tmp_path / "begun").exists() and (tmp_path / "begun").read_text() != "", "it has begun")
        signal.raise_signal(number)

    show_only(demo, monkeypatch, adopt=adopt, images=images)
    with pytest.raises(SystemExit, match="stopped"):
        demo.in_words(demo.run_alone)
    assert (tmp_path / "ended").exists()
    demo.until(lambda: not Path("/proc", (tmp_path / "begun").read_text().strip()).exists(), "its command has ended")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
