"""What `gpu run` does: it queues, runs a command when the turn comes, and gives the GPUs back when that has ended. It
runs as whoever calls it.

The job is on the GPUs' node, where a directory says whether the command runs: who runs it has it locked, so that the
kernel says how it ended, whatever killed whom. The job waits for that lock, and ends. Everybody can read the
directory's name in command lines; only the person may open it, so nobody else can lock it and keep the job.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from ..errors import NodeError
from ..files import read_bytes
from ..gpus.grants import OF_JOBS, SOURCE
from ..paths import RUN
from ..run import LateError, run_command
from . import owned, queue, turn
from .foreground import GRACE, interruptible, run_foreground
from .gpu_words import Asked, had
from .texts import TEXTS

NAME = "gpu-run"
BEGINS = 120  # seconds from a job's start in which its command has to begin
_PLAIN = ("--chdir=/", "--output=/dev/null", "--export=NIL", "--no-requeue")
#: What the job does. A directory that cannot be locked says nothing of its command: then the job has its whole time.
_DOES = """scontrol update JobId=$SLURM_JOB_ID Comment={open}
for second in $(seq {begins}); do [ -e {lock} ] && break; sleep 1; done
[ ! -O {lock} ] || flock --shared {lock} true || exec sleep infinity
[ ! -O {lock} ] || rmdir {lock}"""
PROGRAM = "/usr/local/bin/gpu"
#: What this program is called with, on the job's node, where that is another one.
IN_JOB = "in-job"


def run(asked: Asked, sleep: Callable[[float], None]) -> int:
    """The exit status of the command; 130 for who stops waiting, 127 where there is no such command."""
    words, say = TEXTS[asked.language], partial(print, file=sys.stderr, flush=True)
    if shutil.which(asked.command[0]) is None:
        say(words["no-such-command"].format(asked.command[0][:60]))
        return 127
    if asked.detach:
        return _detach(asked, say)
    lock = f"/tmp/gpu-run-{secrets.token_hex(16)}"
    does = _DOES.format(open=queue.OPEN, begins=BEGINS, lock=lock)
    job = None
    try:
        with interruptible():
            job = turn.submit(asked, say, turn.JobScript(NAME, does, _PLAIN))
            if job is None:
                return 1
            mine = turn.wait_for_turn(job, asked, sleep, say)
        if mine is None:
            say(words["ended"].format(job))
            return 1
        say("\n".join([had(mine, words)[0], *owned.describe_guests([mine], asked.language)]))
        if socket.gethostname() in mine["nodes"].split(","):
            status = run_here(job, lock, asked.command, asked.language)
        else:
            status = run_foreground(build_srun_command(asked.command, job, lock), os.environ, lambda: 0)
    except KeyboardInterrupt:
        say(f"\n{words['given-up']}")
        return 130
    finally:
        if job is not None:
            with suppress(NodeError):  # the job ends by itself: nobody has the lock
                queue.ask(("scancel", job))
    say(words["released"].format(job))
    return status


def run_here(job: str, lock: str, command: Sequence[str], language: str) -> int:
    """Run the command on the job's node, with the job's GPUs alone."""
    try:
        os.mkdir(f"{lock}.new", 0o700)
        fresh = os.open(f"{lock}.new", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fresh, fcntl.LOCK_EX)
        os.rename(f"{lock}.new", lock)  # the job sees it locked, or not at all
    except OSError as error:  # a full disk, or somebody else's file
        raise NodeError(f"{lock}: {error.strerror}: nothing was run; try again") from None
    grant = f"{RUN}{OF_JOBS}/{SOURCE}-{job}.json"
    try:
        guest = bool(owned.look_guests([{"id": job}]))
    except NodeError:
        guest = True  # asked each time

    def seconds_left() -> float:
        if os.path.exists(grant) and not guest:  # nobody preempts it: slurmctld is not asked every half minute
            return 0
        try:
            mine = [one for one in queue.ask_jobs() if one["id"] == job]
            ended = not os.path.exists(grant) and not mine
            leaving = [] if ended else [one for one in owned.look_guests(mine) if one[1]]
        except NodeError:  # guard: a queue that does not answer ends nobody's command
            return 0
        for one, until, found in leaving:
            print(owned.format_leave(one, until, found, language), file=sys.stderr)
            return max(1, until - time.time())
        if ended:
            print(TEXTS[language]["run-over"].format(job), file=sys.stderr)
        return GRACE if ended else 0

    gpus = read_gpus(grant)
    try:
        # a command that outlives us keeps its GPUs: it inherits the lock
        return run_foreground(with_devices(command, gpus), {**os.environ, **visible(gpus)}, seconds_left, (fresh,))
    finally:
        with suppress(FileNotFoundError):  # /tmp is tidied in days
            os.rmdir(lock)


def build_srun_command(command: Sequence[str], job: str, lock: str) -> list[str]:
    """What runs a command in a job on its node, with this terminal where there is one."""
    terminal = ["--pty"] if all(os.isatty(one) for one in (0, 1, 2)) else []
    step = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--chdir={os.getcwd()}", *terminal]
    return [*step, PROGRAM, IN_JOB, job, lock, *command]


def _detach(asked: Asked, say: turn.Say) -> int:
    """A job that is the command itself: Slurm has all of its ends. Its output is where everybody's nodes have it."""
    words, home, here = TEXTS[asked.language], os.path.expanduser("~"), os.getcwd()
    place = here if f"{here}/".startswith(f"{home}/") else home
    options = (f"--chdir={here}", f"--output={place}/{NAME}-%j.out", "--export=ALL")
    name = os.path.basename(asked.command[0])
    job = turn.submit(asked, say, turn.JobScript(name, f"exec {shlex.join(asked.command)}", options))
    if job is not None:
        say(words["detached"].format(job, f"{place}/{NAME}-{job}.out"))
    return int(job is None)


def read_gpus(grant: str) -> list[str]:
    """The GPUs of a grant, by its file; none where GPUs are everybody's."""
    try:
        return [str(one) for one in json.loads(read_bytes(grant) or b"{}").get("gpus", ())]
    except (NodeError, OSError, ValueError):
        return []


def visible(gpus: Sequence[str]) -> dict[str, str]:
    """What CUDA programs take for all that there are: of two runs on one node each has its own."""
    named = bool(gpus) and all(one.startswith(("GPU-", "MIG-")) for one in gpus)
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if named else {}


def with_devices(command: Sequence[str], gpus: Sequence[str]) -> Sequence[str]:
    """A `docker run` that names no device gets these GPUs, by the names of CDI; before Docker 25
    by the runtime that dockerd-rootless knows there."""
    wanted = os.path.basename(command[0]) in ("docker", "podman") and command[1:2] == ["run"] and visible(gpus)
    if not wanted or any(one.startswith(("--device", "--gpus")) for one in command):
        return command
    names = [f"nvidia.com/gpu={one}" for one in gpus]
    if os.path.basename(command[0]) == "docker" and _knows_no_names(command[0]):
        # the toolkit's own runtime takes the same names
        devices = ["--runtime=nvidia", f"--env=NVIDIA_VISIBLE_DEVICES={','.join(names)}"]
    else:
        devices = [f"--device={one}" for one in names]
    return [*command[:2], *devices, *command[2:]]


def _knows_no_names(docker: str) -> bool:
    """Whether it is a Docker before 25, which knows no devices by name."""
    try:
        done = run_command((docker, "--version"), seconds=queue.ALIVE)
    except (LateError, OSError):
        return False
    match = re.search(r"version (\d+)\.", done.stdout)
    return match is not None and int(match[1]) < 25
