"""A notebook: JupyterLab of a person, as a job of theirs. This runs in that job, as them.

It is asked on a unix socket in a directory that they alone enter, and its kernels on others beside it: on no port, so
there is no password that a list of processes could show. notebook_front.py leads there.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, NoReturn

from ..bounded import read_small
from ..errors import NodeError, in_words
from ..paths import STATE
from .queue import IS_OPEN
from .turn import JobScript

#: JupyterLab of a job has its socket in /tmp/gpuadmin-notebook-JOB-…/: /tmp, since people must not fill /run.
PLACE, PREFIX, SOCKET = "/tmp", "gpuadmin-notebook", "socket"
#: What the site says of notebooks, on nodes that have them.
SETTINGS = os.path.join(STATE, "notebooks.json")
#: Where the site's settings of Jupyter are. The debugger is off there: it listens on a port, for everybody on the node.
CONFIG = "/etc/gpuadmin/notebooks"
#: What the job is called, and where in its person's home JupyterLab writes what it does.
NAME, LOG = "gpu-jupyter", ".gpu-jupyter.log"
PROGRAM = "jupyter-lab"
#: Its person's login shell runs JupyterLab, and takes its directory away once it has ended, also where Slurm ends it.
_SCRIPT = """d=$1; shift; export JUPYTER_RUNTIME_DIR="$d"; trap : TERM; "$@"; code=$?; rm -rf -- "$d"; exit $code"""


def load_settings(path: str = SETTINGS) -> dict[str, Any] | None:
    """None: this node has no notebooks. Raises NodeError."""
    try:
        found = json.loads(read_small(path))
        return {"node": str(found["node"]), "port": int(found["port"]), "idle": int(found["idle"]),
                "programs": str(found["programs"])}  # fmt: skip
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NodeError(f"{path} cannot be read ({in_words(error)}): tell your admins") from None


def find_own(environment: Mapping[str, str]) -> str:
    """The directory of programs of the environment that somebody has activated, if JupyterLab is in it; else ""."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        programs = os.path.join(environment.get(name, ""), "bin")
        if os.path.isabs(programs) and os.access(os.path.join(programs, PROGRAM), os.X_OK):
            return programs
    return ""


def build_script(home: str, own: str) -> JobScript:
    """What the job does. ``own``: as find_own says."""
    cli = os.path.join(STATE, "lib/gpuadmin_node/cli.py")
    does = f"{IS_OPEN}; exec {shlex.join([sys.executable, '-IB', cli, 'notebook', own])}"
    return JobScript(NAME, does, (f"--chdir={home}", f"--output={LOG}", "--export=NIL"))


def build_jupyter_command(program: str, directory: str, base: str, home: str, idle: int) -> list[str]:
    """JupyterLab's command line. Everybody on the node can read it. ``idle``: seconds without anything that runs."""
    return [
        program, "--no-browser", f"--ServerApp.sock={directory}/{SOCKET}",
        "--ServerApp.sock_mode=0600",  # guard: nobody else opens a notebook's socket -> "--ServerApp.sock_mode=0666"
        "--KernelManager.transport=ipc",  # guard: a notebook's kernels are asked on no port -> "--debug"
        f"--ServerApp.base_url={base}", f"--ServerApp.root_dir={home}",
        # nginx has asked who it is, and lets in no page from elsewhere; it passes on no cookie
        "--ServerApp.token=", "--ServerApp.password=", "--ServerApp.disable_check_xsrf=True",
        "--ServerApp.allow_remote_access=True",
        # a GPU that nobody uses is given back, also where a page is still open
        f"--ServerApp.shutdown_no_activity_timeout={idle}", f"--MappingKernelManager.cull_idle_timeout={idle}",
        "--MappingKernelManager.cull_connected=True",
    ]  # fmt: skip


def main(own: str, settings: str = SETTINGS, place: str = PLACE) -> NoReturn:
    """Become the shell that runs JupyterLab. ``own``: where its program is; "": the site's. Raises NodeError."""
    site, job, person = load_settings(settings), os.environ.get("SLURM_JOB_ID", ""), pwd.getpwuid(os.getuid())
    if site is None or not job.isdecimal():
        raise NodeError("this is started by `gpu jupyter`, on a node that has notebooks")
    program = os.path.join(own or site["programs"], PROGRAM)
    if not os.access(program, os.X_OK):
        raise NodeError(f"{program} is missing on {site['node']}: tell your admins (gpuadmin provision)")
    directory = tempfile.mkdtemp(prefix=f"{PREFIX}-{job}-", dir=place)  # theirs alone: 0700
    base = f"/{site['node']}/{person.pw_name}/{job}/"
    command = build_jupyter_command(program, directory, base, person.pw_dir, site["idle"])
    environment = {
        **os.environ, "HOME": person.pw_dir, "USER": person.pw_name, "LOGNAME": person.pw_name,
        "SHELL": person.pw_shell or "/bin/sh", "JUPYTER_CONFIG_PATH": CONFIG,
    }  # fmt: skip
    os.execve("/bin/bash", ["bash", "-lc", _SCRIPT, "bash", directory, *command], environment)
