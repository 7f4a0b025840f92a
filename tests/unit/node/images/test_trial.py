"""What judges a trial: the built-in checks, a check that hangs, the deadline; and records that cannot be read."""

import errno
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Expected, Verdict
from ansible_collections.gpuadmin.node.plugins.module_utils.images import grubenv, health, identity, records, trial
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import ImageSettings, Places, Running
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished

from tests.support import role_variables
from tests.unit.node.images.conftest import fill

BEFORE = {"failed_units": ["old.service"], "gpus": ["GPU-1", "GPU-2"]}


def journal(places: Places, **changes: object) -> None:
    """Write the record of a switch that is being tried."""
    record = {
        "format": 1,
        "stage": "pending",
        "root": "one",
        "image": "one",
        "deadline": 7,
        "before": BEFORE,
        **changes,
    }
    Path(places.in_state("switch.json")).write_text(json.dumps(record))


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A node on the trial of `one`."""
    fill(tmp_path / "root", "node2")
    for directory in ("state", "boot"):
        (tmp_path / directory).mkdir()
    (tmp_path / "boot/grubenv").write_bytes(grubenv.render({"current": "base"}))
    made = Places(
        root=str(tmp_path / "root"), state=str(tmp_path / "state"), boot=str(tmp_path / "boot"),
        running=Running(300, "/roots/one"), boot_id="boot-2",
    )  # fmt: skip
    identity.capture(made.root, made.state)
    journal(made)
    return made


def test_the_built_in_checks(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finds what it is for; what was so before the switch is not a reason to go back."""
    settings = ImageSettings()
    monkeypatch.setattr(trial, "failed_units", lambda: ["old.service"])
    monkeypatch.setattr(trial.pci, "summary", lambda: ["GPU-2", "GPU-1", "GPU-3"])
    monkeypatch.setattr(health, "judge", lambda seen, expected: Verdict(3, (), ()))
    for what in ("root", "identity", "units", "gpus"):
        assert trial.check(places, settings, what) is None, what
    other = replace(places, running=Running(301, "/roots/base"))
    assert trial.check(other, settings, "root") == "base runs, but one was meant to be tried"
    monkeypatch.setattr(trial, "failed_units", lambda: ["old.service", "new.service"])
    assert trial.check(places, settings, "units") == "failed since the switch: new.service"
    monkeypatch.setattr(trial.pci, "summary", lambda: ["GPU-2"])
    assert trial.check(places, settings, "gpus") == "GPUs are not as before: GPU-1"
    (Path(places.root) / "etc/hostname").write_text("another\n")
    assert trial.check(places, settings, "identity") == "not this node's own: etc/hostname"
    monkeypatch.setattr(health, "sshd_problem", lambda: "nothing listens on port 22")
    assert trial.check(places, settings, "sshd") == "nothing listens on port 22"
    assert trial.check(places, settings, "nothing") == "there is no check nothing"


@pytest.mark.holds("GPUs that are less than expected refuse a trial where the site says so")
@pytest.mark.parametrize(
    ("setting", "broken", "worse", "refused"),
    [
        ("report", (), ("7 of 8",), None),
        ("refuse", (), ("7 of 8",), "7 of 8"),
        ("report", ("Xid 48",), ("7 of 8",), "Xid 48"),
        ("refuse", ("Xid 48",), ("7 of 8",), "Xid 48; 7 of 8"),
        ("refuse", (), (), None),
    ],
)
def test_gpus_that_are_less_than_expected_refuse_where_the_site_says_so(
    places: Places, monkeypatch: pytest.MonkeyPatch, setting: str, broken: tuple[str, ...], worse: tuple[str, ...],
    refused: str | None,
) -> None:  # fmt: skip
    asked: list[object] = []
    monkeypatch.setattr(trial.pci, "summary", lambda: ["GPU-1", "GPU-2"])
    monkeypatch.setattr(health, "judge", lambda seen, expected: asked.append(expected) or Verdict(7, broken, worse))
    settings = ImageSettings(gpus=8, gpu_model="H100", gpus_worse=setting)
    assert trial.check(places, settings, "gpus") == refused
    assert trial.check(places, settings, "gpus-worse") == ("; ".join(worse) or None)
    assert asked == [Expected(8, "H100")] * 2


def test_a_check_that_does_not_answer_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "10-hangs"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    monkeypatch.setattr(trial, "CHECK_SECONDS", 0.2)
    assert trial.run_checks([str(script)]) == {"10-hangs": "no answer in 0.2 s"}


@pytest.mark.parametrize(
    ("running", "current", "meanwhile", "gives_up"),
    [
        ("one", "base", "pending", True), ("one", "base", "confirmed", False), ("one", "one", "pending", False),
        ("base", "base", "pending", False),
    ],
    ids=["never confirmed", "confirmed meanwhile", "confirmed, its record lost", "another root"],
)  # fmt: skip
def test_the_deadline_ends_a_trial_and_nothing_else(
    places: Places, monkeypatch: pytest.MonkeyPatch, running: str, current: str, meanwhile: str, gives_up: bool
) -> None:
    """A node that works must not be rebooted by what was to save one that hangs."""
    given_up, slept = [], []
    grubenv.write(places.boot, current=current)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        journal(places, stage=meanwhile)

    monkeypatch.setattr(trial.time, "sleep", sleep)
    monkeypatch.setattr(trial, "give_up", lambda places, reason, *, hard: given_up.append((reason, hard)))
    trial.deadline(replace(places, running=Running(300, f"/roots/{running}")), ImageSettings())
    assert given_up == ([("one was not confirmed within 7 s", True)] if gives_up else [])
    assert slept == ([7] if (running, current) == ("one", "base") else [])


@pytest.mark.holds("a record that cannot be read is not an empty one")
@pytest.mark.parametrize("text", ["", "{", "[]", "\0\0", '{"format": 2}'])
def test_a_damaged_record_is_not_an_empty_one(places: Places, text: str) -> None:
    """Else a root that was confirmed, or a switch that waits, would be forgotten and pruned."""
    for name, read in (("roots.json", records.records), ("switch.json", records.journal)):
        path = Path(places.in_state(name))
        path.write_text(text)
        with pytest.raises(NodeError, match=name):
            read(places)
        path.unlink()
    assert records.records(places).confirmed == ()


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_trial_goes_back_on_a_disk_that_people_have_filled(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That it failed cannot be written down there; the machine reboots all the same."""
    called: list[tuple[str, ...]] = []

    def note(command: tuple[str, ...]) -> Finished:
        called.append(command)
        return subprocess.CompletedProcess(command, 1, "", "it does not\n")

    monkeypatch.setattr(trial, "write_json", full)
    monkeypatch.setattr(trial, "run_command", note)
    trial.give_up(places, "sshd does not greet", hard=True)
    assert called == [("systemctl", "--force", "--force", "reboot")]
    said = capsys.readouterr().err
    assert "No space left" in said
    assert said.endswith("it does not\n")


@pytest.mark.parametrize("current", ["base", "one"], ids=["just committed", "committed before a cut"])
def test_a_root_that_is_committed_is_not_rebooted_because_the_disk_is_full(
    places: Places, monkeypatch: pytest.MonkeyPatch, current: str
) -> None:
    """What the initramfs left ends with the commit, not with the record of it; the deadline asks GRUB, too."""
    ended: list[str] = []
    grubenv.write(places.boot, current=current)
    monkeypatch.setattr(trial, "write_json", full)
    monkeypatch.setattr(trial, "checks", lambda places, kind: ["10-yes"])
    # what was committed is not judged once more
    monkeypatch.setattr(trial, "run_checks", lambda scripts: {} if current == "base" else {"10-yes": "no"})
    monkeypatch.setattr(trial, "end_early_deadline", lambda places: ended.append("early"))
    monkeypatch.setattr(trial, "give_up", lambda *_, **__: ended.append("given up"))
    with pytest.raises(OSError, match="No space left"):
        trial.gate(places, ImageSettings())
    assert grubenv.read(places.boot)["current"] == "one"
    assert ended == ["early"]


def test_the_root_before_is_confirmed_as_well(places: Places) -> None:
    """Also where no record has it: pruning deletes what is not confirmed, and it is the way back."""
    assert records.records(places).confirmed == ()
    journal(places, previous="base")
    grubenv.write(places.boot, current="one")
    assert trial.gate(places, ImageSettings()) == "one is confirmed"
    assert records.records(places).confirmed == ("one", "base")


@pytest.mark.parametrize(
    ("rounds", "settle", "current"), [(3, 60, "one"), (1, 0, "one"), (2, 0, "base"), (40, 60, "base")]
)
def test_a_check_that_fails_is_tried_again_until_it_has_settled(
    places: Places, monkeypatch: pytest.MonkeyPatch, rounds: int, settle: int, current: str
) -> None:
    """A service may still be starting; one that does not start in that time is a reason to go back."""
    clock, seen, ended = [100.0], [0], []

    def look(_scripts: object) -> dict[str, str]:
        seen[0] += 1
        clock[0] += 1
        return {} if seen[0] >= rounds else {"50-sshd": "nobody listens"}

    monkeypatch.setattr(trial, "checks", lambda _places, kind: ["50-sshd"] if kind == "required" else [])
    monkeypatch.setattr(trial, "run_checks", lambda scripts: look(scripts) if scripts else {})
    monkeypatch.setattr(trial, "give_up", lambda _places, why, **_: ended.append(why))
    monkeypatch.setattr(trial, "prune_node", lambda _places: None)
    monkeypatch.setattr(trial.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(trial.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    trial.gate(places, ImageSettings(settle=settle))
    assert grubenv.read(places.boot)["current"] == current
    assert seen[0] == rounds or current == "base"  # what is well is not asked again
    assert len(ended) == (current == "base")
    assert all("nobody listens" in why for why in ended)


def test_the_deadline_that_waited_asks_grub(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit came while it waited, and its record did not: the disk is full."""
    monkeypatch.setattr(trial, "give_up", lambda *_, **__: pytest.fail("a confirmed root is rebooted"))
    monkeypatch.setattr(trial.time, "sleep", lambda _: grubenv.write(places.boot, current="one"))
    trial.deadline(places, ImageSettings())


@pytest.mark.parametrize(
    ("said", "status", "passes"),
    [
        ("the accounts are as they should be", 0, True),
        ("the accounts are as they should be\nWarning: user minji: theirs is odd", 0, True),
        ("Warning: /etc/subuid line 3 is odd\nno accounts are recorded on this node", 0, True),
        ("user minji: create uid 20001\nWarning: theirs is odd", 0, False),
        ("Warning: theirs is odd\nuser minji: create uid 20001", 0, False),
        ("the accounts are as they should be\nError: user minji: uid 20001 belongs to 'x' here", 3, False),
    ],
)
def test_what_is_odd_about_one_person_is_no_difference(tmp_path: Path, said: str, status: int, passes: bool) -> None:
    command, script = tmp_path / "command", tmp_path / "80-accounts"
    command.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\nexit {status}\n")
    command.chmod(0o755)
    (tmp_path / "accounts.json").touch()
    text = role_variables.rendered(
        "btrfs_root", "checks/required.d/80-accounts.j2", {"_btrfs_root_command": str(command)}
    )
    script.write_text(text.replace("/var/lib/gpuadmin", str(tmp_path)))
    assert (subprocess.run(["sh", str(script)], check=False, capture_output=True).returncode == 0) == passes


@pytest.mark.parametrize(
    ("enabled", "there", "passes"), [(True, True, True), (True, False, False), (False, False, True)]
)
def test_the_homes_are_looked_for_where_this_site_mounts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: bool, there: bool, passes: bool
) -> None:
    homes, programs, script = tmp_path / "data/our-homes", tmp_path / "bin", tmp_path / "10-homes"
    programs.mkdir()
    for name, text in (
        ("systemctl", f'echo "$*" >>{tmp_path}/asked; exit {0 if enabled else 1}'),
        ("systemd-escape", '[ "$1 $2" = "--path --suffix=automount" ] && echo "escaped$3.automount"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    if there:
        homes.mkdir(parents=True)
    values = {"btrfs_root_homes": str(homes)}
    script.write_text(role_variables.rendered("btrfs_root", "checks/wanted.d/10-homes.j2", values))
    done = subprocess.run(["sh", str(script)], check=False, capture_output=True, text=True)
    assert (done.returncode == 0) == passes, done.stderr
    assert (tmp_path / "asked").read_text() == f"--quiet is-enabled escaped{homes}.automount\n"


def test_the_early_deadline_is_ended_and_no_other_process(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = replace(places, early_deadline=str(tmp_path / "pid"))
    killed: list[int] = []
    monkeypatch.setattr(trial.os, "kill", lambda pid, number: killed.append(pid))
    for pid, words in ((41, b"/bin/sh\0/scripts/init-top/gpuadmin-trial\0"), (42, b"/usr/bin/python3\0train.py\0")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes(words)
        Path(places.early_deadline).write_text(f"{pid}\n")
        trial.end_early_deadline(places, proc=str(tmp_path))
        assert not Path(places.early_deadline).exists()
    Path(places.early_deadline).write_text("43\n")
    trial.end_early_deadline(places, proc=str(tmp_path))
    trial.end_early_deadline(places, proc=str(tmp_path))
    assert killed == [41]
