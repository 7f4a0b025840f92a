"""The image switch on real btrfs: every step cut off, everything damaged that can be, and never a root lost."""

import json
import os
import re
import shutil
import signal
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, faults
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import (
    grubenv,
    identity,
    jobs,
    preflight,
    prune,
    records,
    root_facts,
    stream,
    subvolumes,
    switch,
    trial,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.images.manifest import render
from ansible_collections.gpuadmin.node.plugins.module_utils.root import guard
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished

from gpuadmin.common.records.images import ImageOrder
from tests.unit.node.images.conftest import PASSWD, PERSON, Node, World, confirm, run, sign

pytestmark = pytest.mark.btrfs


def names(directory: str) -> list[str]:
    return [path.name for path in Path(directory).iterdir()]


class Cut(BaseException):
    """The power goes."""


def arm(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    def at(reached: str) -> None:
        if reached == point:
            raise Cut

    monkeypatch.setattr(faults, "at", at)


def manifest_of(node: Node, name: str) -> Path:
    return Path(node.places.store) / name / "manifest.json"


def change_manifest(node: Node, name: str, key: Path | None, **changes: object) -> None:
    """Change fields of a manifest in the store; sign it anew, or not."""
    path = manifest_of(node, name)
    text = render({**json.loads(path.read_text()), **changes}).decode()
    path.write_text(text)
    if key is not None:
        path.with_suffix(".json.sig").write_text(sign(key, text))


def test_a_full_image_and_then_a_difference(node: Node) -> None:
    done = node.push("one")
    assert any("in full" in words or "full" in words for words in done.done)
    assert node.grub == {"current": "base", "trial": "one", "deadline": "720"}
    node.intact()
    after = node.boot()
    confirm(after)
    assert after.grub["current"] == "one"
    one = btrfs.inspect(after.places.in_top("images/one"))
    assert one is not None
    assert one.received_uuid == json.loads(manifest_of(node, "one").read_text())["uuid"]
    root = Path(after.places.root)
    assert "minji" not in (root / "etc/passwd").read_text()
    again = after.push("two")
    assert any("difference to one" in words for words in again.done)
    last = after.boot("boot-3")
    confirm(last)
    assert (Path(last.places.root) / "usr/lib/file1").read_text() == "changed"
    last.intact()
    assert records.records(last.places).confirmed[:3] == ("two", "one", "base")


def test_an_image_holds_nothing_of_the_golden_node(world: World) -> None:
    image = world.golden.top / "images/one"
    assert (image / "etc/machine-id").read_bytes() == b""
    assert not (image / "etc/hostname").exists()
    assert not list((image / "etc/ssh").glob("ssh_host_*"))
    for name in ("passwd", "shadow", "group", "subuid"):
        assert "minji" not in (image / "etc" / name).read_text()
    assert (world.golden.top / "roots/base/etc/hostname").read_text() == "node1\n"


@pytest.mark.parametrize("point", switch.fault_points("engine"))
def test_cut_at_each_step_leaves_a_node_that_boots_and_a_second_push_completes(
    node: Node, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        arm(patched, point)
        with pytest.raises(Cut):
            node.push("one")
    node.intact()
    after = node.boot()
    after.intact()
    confirm_or_note(after)
    if after.grub["current"] != "one":
        assert after.places.running is not None
        assert after.places.running.name == "base"
        after.push("one")
        after.intact()
        after = after.boot("boot-3")
        confirm(after)
    assert after.grub["current"].startswith("one")
    assert not names(after.places.in_top("incoming"))
    assert not [name for name in names(after.places.in_top("roots")) if name.endswith(".new")]


def confirm_or_note(node: Node) -> None:
    """What the boot unit does: with checks that pass."""
    checks = Path(node.places.state) / "checks/required.d"
    checks.mkdir(parents=True, exist_ok=True)
    (checks / "10-yes").write_text("#!/bin/sh\nexit 0\n")
    (checks / "10-yes").chmod(0o755)
    trial.gate(node.places, node.settings)


@pytest.mark.parametrize("point", switch.fault_points("boot"))
def test_cut_at_each_step_of_the_trial(node: Node, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node.push("one")
    tried = node.boot()
    with monkeypatch.context() as patched:
        arm(patched, point)
        with pytest.raises(Cut):
            confirm(tried)
    after = tried.boot("boot-3")
    after.intact()
    confirm_or_note(after)
    assert records.journal(after.places)["stage"] in ("confirmed", "failed")
    if after.grub["current"] == "base":
        after.push("one")
        after = after.boot("boot-4")
        confirm(after)
    assert after.grub["current"].startswith("one")


@pytest.mark.holds("a manifest's signature is checked")
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("truncated", "its manifest says"),
        ("flipped", "another sha256"),
        ("unsigned", "is not signed"),
        ("changed", "signature is not by one"),
        ("foreign key", "signature is not by one"),
        ("distribution", "is an image of plan9"),
        ("machine", "is for vax machines"),
        ("future", "clock is wrong"),
        ("gone", "went away|cannot be read|has no complete image"),
    ],
)
def test_damage_is_refused_in_words_and_the_root_untouched(
    node: Node, world: World, tmp_path: Path, damage: str, words: str
) -> None:
    file = Path(node.places.store) / "one/full.btrfs.zst"
    if damage == "truncated":
        os.truncate(file, file.stat().st_size - 1000)
    elif damage == "flipped":
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif damage == "unsigned":
        manifest_of(node, "one").with_suffix(".json.sig").unlink()
    elif damage == "changed":
        change_manifest(node, "one", None, kernel="6.6.6")
    elif damage == "foreign key":
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "foreign")
        change_manifest(node, "one", tmp_path / "foreign")
    elif damage == "distribution":
        change_manifest(node, "one", world.key, distribution="plan9")
    elif damage == "machine":
        change_manifest(node, "one", world.key, machine="vax")
    elif damage == "future":
        change_manifest(node, "one", world.key, created=4e9)
    else:
        file.unlink()
    with pytest.raises(NodeError, match=words):
        node.push("one")
    node.intact()
    assert node.grub == {"current": "base"}
    assert not names(node.places.in_top("images"))
    assert not [name for name in names(node.places.in_top("incoming")) if not name.endswith(".part")]


def test_a_missing_parent_and_one_of_another_uuid(node: Node) -> None:
    with pytest.raises(NodeError, match=r"the parent of two .* is not on this node"):
        node.push("two")
    run("btrfs", "subvolume", "snapshot", "-r", node.top / "roots/base", node.top / "images/one")
    with pytest.raises(NodeError, match="is another one"):
        node.push("two")
    with pytest.raises(NodeError, match="another image of the name one"):
        node.push("one")
    node.intact()


def test_a_wrong_uuid_in_the_stream_is_found_after_receiving(node: Node, world: World) -> None:
    change_manifest(node, "one", world.key, uuid="00000000-0000-0000-0000-000000000001")
    with pytest.raises(NodeError, match="was received with uuid"):
        node.push("one")
    node.intact()
    assert not names(node.places.in_top("images"))


def fill_up(filler: Path) -> int:
    """Make a file as large as the disk allows; return its size."""
    size = filler.stat().st_size if filler.exists() else 0
    with filler.open("ab") as handle:
        try:
            while True:
                os.posix_fallocate(handle.fileno(), size, 1 << 20)
                size += 1 << 20
        except OSError:
            return size


def fill_up_metadata(directory: Path) -> None:
    """Make as many files as the disk has metadata for; their attributes lie in it."""
    directory.mkdir()

    def fill() -> None:
        for number in range(1 << 20):
            path = directory / str(number)
            path.touch()
            os.setxattr(path, "user.filler", b"x" * 15000)

    with pytest.raises(OSError, match="No space left"):
        fill()


def test_a_full_disk(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    # A new file system has 8 MiB for metadata. Files that lie in it make it grow, so that data is what gets full.
    many = node.top / "many"
    many.mkdir()
    for number in range(6000):
        (many / str(number)).write_bytes(b"x" * 2000)
    guard.sync(str(node.top))
    shutil.rmtree(many)
    filler = node.top / "filler"
    size = fill_up(filler)
    os.truncate(filler, size - (200 << 20))
    guard.sync(str(node.top))
    with pytest.raises(NodeError, match="are free"):
        node.push("one")
    # and when the check is wrong: full while it receives
    monkeypatch.setattr(preflight, "free_bytes", lambda top: {"data": 1 << 40, "metadata": 1 << 40})
    size = fill_up(filler)
    os.truncate(filler, size - (4 << 20))  # the stream fits, the image does not
    guard.sync(str(node.top))
    with pytest.raises(NodeError, match=r"disk is full|became full|could not be received"):
        node.push("one")
    node.intact()
    filler.unlink()
    guard.sync(str(node.top))
    node.push("one")
    assert node.grub["trial"] == "one"


def test_a_disk_that_is_full_of_metadata(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the disk is free for data, and nothing for metadata: every block group is taken."""
    filler, small = node.top / "filler", node.top / "small"
    for start in range(0, fill_up(filler) >> 20, 64):
        run("fallocate", "--punch-hole", "--offset", f"{start}MiB", "--length", "32MiB", filler)
    fill_up_metadata(small)
    guard.sync(str(node.top))
    free = root_facts.free_bytes(str(node.top))
    assert free["metadata"] < 64 << 20
    assert free["data"] > 512 << 20
    with pytest.raises(NodeError, match="are left for metadata"):
        node.push("one")
    # and when the check is wrong: full while it receives
    monkeypatch.setattr(preflight, "free_bytes", lambda top: {"data": 1 << 40, "metadata": 1 << 40})
    with pytest.raises(NodeError, match=r"disk is full|became full"):
        node.push("one")
    node.intact()
    shutil.rmtree(small)
    filler.unlink()
    guard.sync(str(node.top))
    node.push("one")
    assert node.grub["trial"] == "one"


def test_a_store_that_goes_away_is_gone_on_from(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK", 1 << 16)
    with monkeypatch.context() as patched:

        def away(point: str) -> None:
            if point == "fetch:middle":
                raise OSError(5, "Input/output error")

        patched.setattr(faults, "at", away)
        with pytest.raises(NodeError, match="went away"):
            node.push("one")
    (part,) = names(node.places.in_top("incoming"))
    assert part.endswith(".part")
    got = (node.top / "incoming" / part).stat().st_size
    assert got > 0
    node.push("one")
    assert node.grub["trial"] == "one"


def test_pushing_twice_without_a_reboot_is_refused(node: Node) -> None:
    node.push("one")
    again = node.push("one")
    assert (again.done, again.next_root, again.booted) == ([], "one", False), (
        "it is ready already; only the reboot is left"
    )
    with pytest.raises(NodeError, match="waits for this node's reboot"):
        node.push("two")
    node.intact()
    tried = node.boot()
    waited = tried.push("one")
    assert (waited.done, waited.next_root, waited.booted) == ([], "one", True)
    with pytest.raises(NodeError, match="is still going on"):
        tried.push("two")


def test_what_runs_is_not_there_already_while_the_next_boot_takes_another(holding_one: Node) -> None:
    holding_one.push("two")
    with pytest.raises(NodeError, match="a switch to two waits for this node's reboot"):
        holding_one.push("one")
    assert holding_one.grub["trial"] == "two"


def test_a_further_root_of_an_image_is_known_by_its_image(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        arm(patched, "root:after")
        with pytest.raises(Cut):
            node.push("one")
    node.push("one")
    after = node.boot()
    confirm(after)
    assert after.grub["current"] == "one+2"
    assert records.find_image(after.places, "one+2") == "one"
    assert names(after.places.in_top("images")) == ["one"]
    assert after.push("one").done == []


def test_another_image_of_the_name_that_runs_is_not_there_already(holding_one: Node, world: World) -> None:
    change_manifest(holding_one, "one", world.key, uuid="11111111-2222-3333-4444-555555555555")
    with pytest.raises(NodeError, match="another image of the name one"):
        holding_one.push("one")
    holding_one.intact()


def test_another_image_of_the_name_that_waits_is_not_on_its_way(node: Node, world: World) -> None:
    node.push("one")
    assert node.push("one").next_root == "one"
    change_manifest(node, "one", world.key, uuid="11111111-2222-3333-4444-555555555555")
    with pytest.raises(NodeError, match="a switch to one waits for this node's reboot"):
        node.push("one")


def test_a_switch_that_waits_is_called_off(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "mounted", lambda *arguments, **more: nullcontext())
    node.push("one")
    done = jobs.carry_out(ImageOrder("rollback", ""), node.places, lambda text: None)
    assert done["operations"] == ["called off the switch to one"]
    assert node.grub.get("trial", "") == ""
    node.push("one")
    assert node.grub["trial"] == "one+2"
    node.intact()


@pytest.mark.holds("what was called off, or has ended, is not judged")
def test_what_was_called_off_has_not_failed(node: Node) -> None:
    assert trial.gate(node.places, node.settings) == "no switch is going on"
    node.push("one")
    trial.call_off(node.places)
    after = node.boot()
    assert trial.gate(after.places, after.settings) == "no switch is going on"
    assert records.journal(after.places)["stage"] == "called off"
    assert records.records(after.places).refused == {}


def test_killed_between_the_record_and_the_trial(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reboot came between: the next push goes on all the same."""
    with monkeypatch.context() as patched:
        arm(patched, "record:after")
        with pytest.raises(Cut):
            node.push("one")
    node.push("one")
    assert node.grub["trial"] == "one+2"


def test_an_account_that_gpuadmin_does_not_know_is_not_lost(node: Node) -> None:
    root = node.top / "roots/base"
    run("btrfs", "property", "set", "-ts", root, "ro", "false")
    (root / "etc/passwd").write_text(PASSWD + PERSON + "byhand:x:20007:20007::/home/byhand:/bin/bash\n")
    run("btrfs", "property", "set", "-ts", root, "ro", "true")
    with pytest.raises(NodeError, match="byhand on this node: gpuadmin does not know these accounts"):
        node.push("one")
    node.intact()


def test_what_a_relay_left_is_used_or_fetched_anew(node: Node) -> None:
    stored = records.load_manifest(node.places, "one", node.settings).streams[0]
    part = Path(stream.stream_path(node.places, stored) + ".part")
    whole = (Path(node.places.store) / "one" / stored.file).read_bytes()
    part.write_bytes(b"\0" * len(whole))
    node.push("one")
    assert node.grub["trial"] == "one"


@pytest.mark.holds("a failed check confirms nothing")
def test_a_trial_that_fails_goes_back_and_is_reported(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.push("one")
    tried = node.boot()
    checks = Path(node.places.state) / "checks/required.d"
    checks.mkdir(parents=True)
    (checks / "50-sshd").write_text("#!/bin/sh\necho sshd does not greet\nexit 1\n")
    (checks / "50-sshd").chmod(0o755)
    calls: list[tuple[str, ...]] = []
    real = trial.run_command

    def fake(command: tuple[str, ...], **more: float) -> Finished:
        if command[0] == "systemctl":
            calls.append(tuple(command))
            return subprocess.CompletedProcess(command, 0, "", "")
        return real(command, **more)

    monkeypatch.setattr(trial, "run_command", fake)
    trial.gate(tried.places, tried.settings)
    assert ("systemctl", "--force", "reboot") in calls
    assert tried.grub["current"] == "base"
    back = tried.boot("boot-3")
    trial.gate(back.places, back.settings)
    last = records.journal(back.places)
    assert last["stage"] == "failed"
    assert "sshd does not greet" in str(last["reason"])
    assert "one" in records.records(back.places).refused


@pytest.mark.holds("a trial that did not come up is not confirmed")
def test_a_root_that_never_comes_up_counts_as_failed(node: Node) -> None:
    node.push("one")
    grubenv.write(node.places.boot, trial="")  # GRUB tried it
    back = node.running("base", "boot-3")
    trial.gate(back.places, back.settings)
    assert records.journal(back.places)["stage"] == "failed"
    assert "one" in records.records(back.places).refused
    back.push("one")
    assert back.grub["trial"] == "one+2"
    again = back.boot("boot-4")
    confirm(again)
    assert records.records(again.places).refused == {}, "what has been confirmed is not refused any more"


@pytest.mark.holds("a node with no required checks confirms nothing")
def test_without_required_checks_nothing_is_confirmed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.push("one")
    tried = node.boot()
    monkeypatch.setattr(trial, "give_up", lambda places, reason, **more: None)
    assert "has failed" in trial.gate(tried.places, tried.settings)
    assert tried.grub["current"] == "base"


def test_no_push_onto_an_image_that_runs(holding_one: Node) -> None:
    done = holding_one.push("one")
    assert done.done == []
    assert holding_one.grub.get("trial", "") == ""


def test_what_a_node_would_receive_is_what_it_is_sent(holding_one: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with --full: as a plan has it, and as the chains are made from it."""
    from ansible_collections.gpuadmin.node.plugins.module_utils.images import observe as observing

    observe = observing.observe
    for who in ("people", "gpu_users"):
        monkeypatch.setattr(observing, who, lambda *_: [])
    places, settings = holding_one.places, holding_one.settings
    two = records.load_manifest(places, "two", settings)
    assert observe(places, settings, two)["receives"]["parent"] == "one"
    whole = observe(places, settings, two, full=True)
    assert "receives" not in whole
    with pytest.raises(NodeError) as refused:
        holding_one.push("two", full=True)
    assert whole["problem"] == str(refused.value)


def test_rollback_and_forth(holding_one: Node) -> None:
    from ansible_collections.gpuadmin.node.plugins.module_utils.images.observe import rollback_target

    target = rollback_target(holding_one.places)
    assert target == "base"
    switch.run_switch(switch.Switch(holding_one.places, holding_one.settings, target=target, kind="rollback"))
    back = holding_one.boot("boot-3")
    confirm(back)
    assert back.grub["current"] == "base"
    assert rollback_target(back.places) == "one"


def test_pruning_a_node(holding_one: Node) -> None:
    holding_one.push("two")
    last = holding_one.boot("boot-3")
    confirm(last)  # prunes
    assert sorted(names(last.places.in_top("roots"))) == ["one", "two"]
    assert sorted(names(last.places.in_top("images"))) == ["one", "two"]
    assert prune.prune_node(last.places) == []


def test_kill_9_of_a_receive_is_cleaned(node: Node) -> None:
    child = os.fork()
    if child == 0:
        faults.at = lambda point: os.kill(os.getpid(), signal.SIGKILL) if point == "receive:moved" else None
        node.push("one")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert "one" in names(node.places.in_top("incoming"))
    node.push("one")
    assert not names(node.places.in_top("incoming"))
    node.intact()


def test_faults_are_armed_in_a_lab_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, said = tmp_path / "fault", []
    fault.write_text("root:after kill")
    monkeypatch.setattr(faults, "_announce", said.append)
    monkeypatch.setattr(faults.os, "kill", lambda pid, number: said.append((pid, number)))
    faults.at("root:after", lab=str(tmp_path / "no-such"), fault=str(fault))
    faults.at("root:before", lab=str(tmp_path), fault=str(fault))
    faults.at("root:after", lab=str(tmp_path), fault=str(tmp_path / "not-armed"))
    assert said == []
    faults.at("root:after", lab=str(tmp_path), fault=str(fault))
    assert said == ["gpuadmin-fault: root:after kill", (os.getpid(), signal.SIGKILL)]


def test_a_root_that_runs_unconfirmed_is_not_pushed_over(node: Node) -> None:
    grubenv.write(node.places.boot, current="other")
    with pytest.raises(NodeError, match="other is confirmed"):
        node.push("one")
    odd = replace(node, places=replace(node.places, running=replace(node.places.running, id=9999)))
    with pytest.raises(NodeError, match="is not one of roots/"):
        odd.push("one")


def test_a_disk_with_errors_gets_no_image(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    real = preflight.run

    def counted(command: tuple[str, ...], **more: object) -> str:
        said = real(command, **more)
        return re.sub(r"(read_io_errs +)0", r"\g<1>3", said) if command[1:3] == ("device", "stats") else said

    monkeypatch.setattr(preflight, "run", counted)
    with pytest.raises(NodeError, match=r"disk has errors \(\S*read_io_errs 3\)"):
        node.push("one")
    node.intact()
    assert not names(node.places.in_top("images"))


def test_a_root_that_does_not_read_back_is_not_booted(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    real = identity.apply

    def lossy(root: str, *arguments: object) -> list[str]:
        done = real(root, *arguments)
        (Path(root) / "etc/hostname").write_text("another\n")
        return done

    monkeypatch.setattr(identity, "apply", lossy)
    with pytest.raises(NodeError, match="does not read back with this node's identity: etc/hostname"):
        node.push("one")
    node.intact()
    assert node.grub == {"current": "base"}


def test_a_rollback_to_a_root_that_is_gone_is_refused(holding_one: Node) -> None:
    subvolumes.delete(holding_one.places.in_top("roots/base"), holding_one.places)
    with pytest.raises(NodeError, match="has no root base any more"):
        switch.run_switch(switch.Switch(holding_one.places, holding_one.settings, target="base", kind="rollback"))
    assert holding_one.grub.get("trial", "") == ""


@pytest.mark.holds("a manifest is under its own name")
def test_a_manifest_of_another_image_is_refused(node: Node) -> None:
    """Signed, but of another image: an old one cannot be put in a new one's place."""
    store = Path(node.places.store)
    (store / "one").rename(store / "two.old")
    (store / "two").rename(store / "one")
    with pytest.raises(NodeError, match="is the manifest of two; the store was changed by hand"):
        node.push("one")
    node.intact()


@pytest.mark.holds("nothing is pruned while a switch is going on")
def test_nothing_is_pruned_while_a_switch_is_going_on(holding_one: Node) -> None:
    run("btrfs", "subvolume", "create", holding_one.top / "roots/odd")
    holding_one.push("two")
    assert prune.plan_node(holding_one.places) == ([], [])
    assert prune.prune_node(holding_one.places) == []
    assert {"base", "odd", "two"} <= set(names(holding_one.places.in_top("roots")))
