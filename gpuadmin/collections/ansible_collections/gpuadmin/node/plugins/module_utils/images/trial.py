"""What a node does by itself at boot: takes its identity, tries a new root, and confirms it or goes back."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from gpuadmin.common.records.images import ImageSettings

from .. import faults
from ..errors import NodeError, in_words
from ..files import read_bytes, sync_filesystem
from ..gpus import pci
from ..root.guard import open_root
from ..run import LateError, run_command
from . import grubenv, health, identity, subvolumes
from .places import Places, boot_id, write_json
from .prune import prune_node
from .records import journal, records
from .root_facts import failed_units

CHECK_SECONDS = 60
FACTORY = "usr/share/gpuadmin/factory-var"
WRITABLE = ("var", "local")  # what belongs to the node, below the root
NEW = ".gpuadmin-new"  # ends the names of what is not whole yet


def take_identity(places: Places, settings: ImageSettings) -> list[str]:
    """Bring the running root to the node's identity, and /var to having what the image's packages expect there.

    The root is opened only if it differs.
    """
    done = []
    if os.path.isdir(places.in_state("identity")) and identity.differences(
        places.root, places.state, settings.identity
    ):
        with open_root(places.root, state=places.state, run=places.run):
            done += [f"/{name}" for name in identity.apply(places.root, places.state, settings.identity)]
            sync_filesystem(places.root)
    done += fill_var(os.path.join(places.root, FACTORY), places.var)
    return done


def fill_var(factory: str, var: str) -> list[str]:
    """Copy what the image's packages put into /var and this node has not. What is there is never touched.

    It is whole and on the disk before it has its name: half of a file would count as the node's own from then on.
    """
    begun: list[tuple[str, str]] = []
    try:
        _fill(factory, var, begun)
    except OSError:  # guard: a /var that is full is not filled with what never gets a name -> ()
        for temporary, _target in begun:
            identity.remove(temporary)
        raise
    if not begun:
        return []
    sync_filesystem(var)  # guard: what comes into /var is on the disk before it has its name
    done = []
    for temporary, target in begun:
        if os.path.lexists(target):  # a service has made it meanwhile
            identity.remove(temporary)
            continue
        os.rename(temporary, target)
        done.append(target)
        for directory, names, files in os.walk(target):
            done += [os.path.join(directory, name) for name in sorted([*names, *files])]
    sync_filesystem(var)
    return done


def _fill(source: str, target: str, begun: list[tuple[str, str]]) -> None:
    """Copy what a directory lacks beside the names that it is to have; ``begun`` gets (where it is, its name)."""
    for name in sorted(os.listdir(source)) if os.path.isdir(source) else []:
        one, other = os.path.join(source, name), os.path.join(target, name)
        if os.path.lexists(other):  # guard: what is in /var is not replaced
            if os.path.isdir(one) and not os.path.islink(one) and os.path.isdir(other):
                _fill(one, other, begun)
            continue
        temporary = os.path.join(target, f".{name}{NEW}")
        identity.remove(temporary)  # left by a cut
        begun.append((temporary, other))
        _copy_tree(one, temporary)


def _copy_tree(source: str, target: str) -> None:
    """Copy a file, a link or a directory with owners, modes and times."""
    facts = os.lstat(source)
    if os.path.isdir(source) and not os.path.islink(source):
        os.mkdir(target, 0o700)
        for name in sorted(os.listdir(source)):
            _copy_tree(os.path.join(source, name), os.path.join(target, name))
        os.chown(target, facts.st_uid, facts.st_gid)
        shutil.copystat(source, target)
    else:
        shutil.copyfile(source, target, follow_symlinks=False)
        os.chown(target, facts.st_uid, facts.st_gid, follow_symlinks=False)
        shutil.copystat(source, target, follow_symlinks=False)


def on_trial(places: Places) -> bool:
    """Whether the root that runs is one that is being tried."""
    last = journal(places)
    return last.get("stage") == "pending" and subvolumes.running_root(places).name == last.get("root")


def checks(places: Places, kind: str) -> list[str]:
    """The scripts of required.d or wanted.d, in order of their names."""
    directory = places.in_state("checks", f"{kind}.d")
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return [path for path in (os.path.join(directory, name) for name in names) if os.access(path, os.X_OK)]


def run_checks(scripts: Sequence[str]) -> dict[str, str]:
    """Run scripts; return name → last line of output, of those that failed."""
    failed = {}
    for script in scripts:
        name = os.path.basename(script)
        try:
            done = run_command((script,), seconds=CHECK_SECONDS)
            if done.returncode != 0:
                output = (done.stdout + done.stderr).strip().splitlines()
                failed[name] = output[-1] if output else f"status {done.returncode}"
        except (LateError, OSError) as error:
            failed[name] = in_words(error)  # guard: a check that does not answer has failed
    return failed


def gate(places: Places, settings: ImageSettings) -> str:
    """At the end of every boot: judge a trial, or note that one did not come up. Returns what was found, in words.

    A trial that fails reboots at once.
    """
    last = journal(places)
    # guard: what was called off, or has ended, is not judged
    if last.get("stage") != "pending":
        return "no switch is going on"
    running = subvolumes.running_root(places).name
    if running != last.get("root"):  # guard: a trial that did not come up is not confirmed
        if last.get("boot_id") == boot_id(places):
            return f"{last.get('root')} waits for the reboot"
        reason = (
            last.get("reason") or f"{last.get('root')} did not come up, or was cut off; the node is back on {running}"
        )
        _finish(places, "failed", str(reason))
        return str(reason)
    if grubenv.read(places.boot).get("current") == running:  # cut between the commit and its record
        end_early_deadline(places)  # guard: what the initramfs left ends where a cut came after the commit
        _confirmed(places, running)
        return f"{running} is confirmed"
    faults.at("health:before")
    scripts = checks(places, "required")
    failed = (
        {}
        if scripts  # guard: a node with no required checks confirms nothing -> True
        else {"required.d": "this node has no required checks: run gpuadmin prepare-root"}
    )
    end = time.monotonic() + settings.settle
    while scripts:
        failed = run_checks(scripts)
        if not failed or time.monotonic() > end:
            break
        time.sleep(2)  # a service may still be starting
    if failed:  # guard: a failed check confirms nothing
        summary = "; ".join(f"{name}: {problem}" for name, problem in failed.items())
        give_up(places, f"a required check failed on {running}: {summary}")
        return f"{running} has failed: {summary}"
    faults.at("health:after")
    faults.at("commit:before")
    grubenv.write(places.boot, current=running)
    # guard: what the initramfs left ends with the commit
    end_early_deadline(places)  # before anything that a disk which people have filled can stop
    wanted = run_checks(checks(places, "wanted"))
    _confirmed(places, running, wanted)
    faults.at("commit:after")
    faults.at("prune:before")
    try:
        prune_node(places)
    except (NodeError, OSError) as error:
        print(f"pruning is left to the next time: {in_words(error)}", file=sys.stderr)
    faults.at("prune:after")
    return f"{running} is confirmed"


def _confirmed(places: Places, running: str, wanted: dict[str, str] | None = None) -> None:
    known = records(places)
    before = [name for name in known.confirmed if name != running]
    previous = str(journal(places).get("previous") or "")
    if previous and previous not in before and previous != running:
        before.insert(0, previous)
    image = str(journal(places).get("image"))
    # an attempt that a power cut ended counted as failed; this one says otherwise
    refused = {name: why for name, why in known.refused.items() if name != image}
    replace(known, confirmed=(running, *before), refused=refused).write(places)
    summary = "; ".join(f"{name}: {problem}" for name, problem in (wanted or {}).items())
    _finish(places, "confirmed", f"not as wanted: {summary}" if summary else "")


def _finish(places: Places, stage: str, reason: str) -> None:
    last = journal(places)
    # with the time since the kernel began: how long the trial took
    ended = {"ended": time.time(), "uptime": round(time.clock_gettime(time.CLOCK_BOOTTIME), 1)}
    write_json(places.in_state("switch.json"), {**last, "stage": stage, "reason": reason, **ended})
    if stage == "failed":
        known = records(places)
        replace(known, refused={**known.refused, str(last.get("image")): reason}).write(places)


def call_off(places: Places) -> str:
    """Undo what a switch has set for the next boot, on the root that it was made on. Returns what was done."""
    root = journal(places).get("root")
    grubenv.write(places.boot, trial="")
    _finish(places, "called off", "")
    return f"called off the switch to {root}"


def give_up(places: Places, reason: str, *, hard: bool = False) -> None:
    """Note why a trial failed and reboot; GRUB takes the confirmed root. ``hard``: without asking anything to stop."""
    print(reason, file=sys.stderr, flush=True)
    try:
        _finish(places, "failed", reason)
        sync_filesystem(places.state)
    except (
        NodeError,
        OSError,  # guard: a trial goes back although that cannot be written down
    ) as error:  # a full disk: the confirmed root finds an attempt that did not come up
        print(f"that could not be noted: {in_words(error)}", file=sys.stderr, flush=True)
    how = ("--force", "--force") if hard else ("--force",)
    print(run_command(("systemctl", *how, "reboot")).stderr, end="", file=sys.stderr, flush=True)


def deadline(places: Places, settings: ImageSettings) -> None:
    """Early at boot: wait for as long as a trial may take, and go back if it is not confirmed by then."""
    # guard: a deadline is of a trial
    if not on_trial(places) or grubenv_current(places) == subvolumes.running_root(places).name:
        return
    seconds = int(str(journal(places).get("deadline") or settings.deadline))
    time.sleep(seconds)  # this process is the deadline
    # what GRUB knows decides: the record of it may not have been written, on a disk that is full
    if (
        on_trial(places)  # guard: a trial that was confirmed is not rebooted at its deadline
        # guard: a deadline that waited asks GRUB what is confirmed
        and grubenv_current(places) != subvolumes.running_root(places).name
    ):
        give_up(places, f"{journal(places).get('root')} was not confirmed within {seconds} s", hard=True)


def end_early_deadline(places: Places, proc: str = "/proc") -> None:
    """End the process that the initramfs left to reboot a trial that is never confirmed. It has to go."""
    data = read_bytes(places.early_deadline)
    if data is None:
        return
    pid = int(data)
    with suppress(FileNotFoundError, ProcessLookupError):
        arguments = read_proc(f"{proc}/{pid}/cmdline")
        # guard: the early deadline kills no other process -> True
        if b"gpuadmin-trial" in arguments:  # another process may have the number now
            os.kill(pid, signal.SIGKILL)
    os.unlink(places.early_deadline)


def read_proc(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def grubenv_current(places: Places) -> str:
    """The confirmed root; empty if it cannot be read yet."""
    try:
        return grubenv.read(places.boot).get("current", "")
    except NodeError:
        return ""


def check(places: Places, settings: ImageSettings, what: str) -> str | None:
    """One of the built-in checks that the scripts call; None: all is well."""
    before = journal(places).get("before") or {}
    assert isinstance(before, dict)
    if what == "root":
        wanted, running = journal(places).get("root"), subvolumes.running_root(places).name
        # guard: a trial is of the root that was to be tried -> None
        return None if running == wanted else f"{running} runs, but {wanted} was meant to be tried"
    if what == "identity":
        wrong = identity.differences(places.root, places.state, settings.identity)
        return (
            f"not this node's own: {', '.join(wrong)}"
            if wrong  # guard: a trial keeps the node's identity
            else None
        )
    if what == "units":
        known = set(before.get("failed_units") or [])
        new = sorted(
            unit
            for unit in failed_units()
            if unit not in known
            and not health.of_people(unit)  # guard: a unit that a person made fail sends no node back
        )
        return (
            f"failed since the switch: {', '.join(new)}"
            if new  # guard: a trial has no new failed unit
            else None
        )
    if what == "gpus":
        wanted_gpus, now = list(before.get("gpus") or []), pci.summary()
        lost = [gpu for gpu in wanted_gpus if gpu not in now]
        # guard: a trial has all GPUs
        if lost:  # this root may be the cause, whatever is expected
            return f"GPUs are not as before: {', '.join(lost)}"
        return health.gpu_problem(settings)  # guard: a trial's GPUs work -> None
    if what == "gpus-worse":
        return health.gpus_worse(settings)
    if what == "writable":
        wrong = [problem for name in WRITABLE if (problem := health.cannot_write(os.path.join(places.root, name)))]
        return "; ".join(wrong) or None
    if what == "sshd":
        return health.sshd_problem()
    return f"there is no check {what}"
