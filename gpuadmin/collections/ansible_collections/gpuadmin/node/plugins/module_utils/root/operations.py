"""Operations on what is in the root file system: code, files and packages; and any command of root's."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Optional

from gpuadmin.common.records.files import FilesOrder

from .. import code_cache, compiled, followed
from ..answer import Answer
from ..answering import answer
from ..errors import NodeError
from ..operation import operation
from ..paths import STATE
from ..run import run
from ..system import installed_packages, is_debian, os_release
from .session import opened
from .tree import enabled, execute, masked, plan, run_after, validate


@dataclass(frozen=True)
class CodeOrder:
    """The node code on a host, as this controller has it.

    All code of this collection, and what it needs of Ansible's, is in a directory that bears the code's digest. It has
    its name when all of it is on disk, and no source is written again. What units run is compiled, and nobody waits for
    that. Operations are run from it, and so is what units start, through a link. An action plugin gives ``digest``, and
    sends the code where it is missing. Having the directory is not a change of the host, because any module's call may
    have brought it. Running it at boot is.
    """

    #: sha256 of the code, in hex.
    digest: Optional[str] = None
    #: Whether units run this code from now on.
    link: bool = False
    #: Whether it is the code with that of the take-over, for units of its own.
    takeover: bool = False
    #: Directory of this node's own state.
    state_directory: str = STATE


@operation("code", CodeOrder)
def ensure_code(document: CodeOrder, check: bool) -> Answer:
    digest, state = str(document.digest), document.state_directory
    name = code_cache.TAKEOVER_LINK if document.takeover else code_cache.LINK
    missing = not code_cache.has(digest, state)
    linking = document.link and not code_cache.linked(digest, state, name)
    if (
        document.link  # guard: units run other code only where somebody asks for that
        and not missing  # guard: units are not led to code that is not there
        and not check  # guard: a look lets units run what they ran
    ):
        code_cache.link(digest, state, name=name)
        place = code_cache.place(digest, state)
        compiled.later(place, lambda: compiled.every(place))
    operations = [f"install the node code {digest[:12]}"] if linking else []
    return Answer(operations, more={"missing": missing})


@dataclass(frozen=True)
class CommandOrder:
    """Run an admin's own command.

    Runs a line of shell as root, from ``/`` and with nothing on its input, and reports its exit status and its
    output.
    Of long output the beginning and the end are reported.
    """

    #: The line, as ``/bin/sh -c`` takes it.
    line: str


@operation("command", CommandOrder)
def run_command(document: CommandOrder, check: bool) -> Answer:
    operations = [f"run: {document.line}"]
    if check:  # guard: a check runs no command
        return Answer(operations)
    answered = answer(document.line)
    report = {"command": answered}
    if answered["status"] != 0:  # guard: a command that failed has failed
        return Answer(operations, report, problem=f"ended with {answered['status']}")
    return Answer(operations, report)


@operation("files", FilesOrder)
def ensure_files(document: FilesOrder, check: bool) -> Answer:
    links = [*document.links, *enabled(document.enable, document.files), *masked(document.mask)]
    steps = plan(replace(document, links=links))
    validate(steps.operations, check=check)
    paths = [one.path for one in steps.operations]
    name = document.follows or (followed.make_name(_named(document)) if document.after else "")  # "": nothing follows
    # guard: what has to follow a change follows it after a run that was cut off, too -> []
    left = followed.left(name) if name else []
    if not check:
        if steps.operations:
            if name:
                followed.remember(name, {*left, *paths})
            execute(steps)
        if document.after and (steps.operations or left):
            run_after(document.after)
            if not document.follows:
                followed.forget(name)
        for one in document.followed:
            followed.forget(one)
    again = [f"finish what an earlier change needs ({', '.join(left)})"] if left and not steps.operations else []
    return Answer(
        [*steps.summaries, *again], changed=bool(steps.operations or left), diff=steps.diff(),
        more={"paths": sorted({*left, *paths})},
    )  # fmt: skip


def _named(document: FilesOrder) -> list[str]:
    there = [one.path for one in document.directories] + [one.path for one in document.files]
    return [*there, *(one.path for one in document.links), *document.enable, *document.mask, *document.absent]


@dataclass(frozen=True)
class PackagesOrder:
    """Install packages of the distribution.

    Installs what is missing by apt-get, never upgrades or removes.
    A root that is read-only by its btrfs property is opened for it, and closed again.
    The installation runs in the unit ``gpuadmin-packages.service``, so it is not cut in the middle when the
    controller is interrupted; the next run waits for it.
    """

    #: Names of the packages to have.
    names: Sequence[str]
    #: Whether to fetch the index of packages first. It is always fetched if there is none.
    refresh: bool = False
    #: Whether what they recommend comes, too: `cron` recommends a mail server.
    recommended: bool = True
    #: Units of these packages that start at boot. Nothing is started now.
    enable: Sequence[str] = ()
    #: Seconds that the installation may take.
    timeout: int = 1800


@operation("packages", PackagesOrder)
def ensure_packages(document: PackagesOrder, check: bool) -> Answer:
    from . import packages  # what it imports is nothing that `files` waits for

    if not is_debian(os_release()):
        raise NodeError("gpuadmin does not know this distribution")
    if not check:
        packages.wait_for_another(document.timeout)
    installed = set(installed_packages())
    missing = [name for name in dict.fromkeys(document.names) if name not in installed]
    # an installation includes it, and some distributions enable what they install
    sleeping = [] if missing else packages.disabled(document.enable)
    if (missing or sleeping) and not check:
        with opened(document.timeout + 60):
            if missing:
                packages.install(missing, refresh=document.refresh, timeout=document.timeout,
                                 bare=not document.recommended)  # fmt: skip
            if late := packages.disabled(document.enable):
                packages.enable(late)
    elif missing and not document.refresh:
        packages.simulate(missing)
    done = [f"install {name}" for name in missing] + [f"enable {name}" for name in sleeping]
    return Answer(done, diff={"before": "", "after": "".join(f"{name}\n" for name in [*missing, *sleeping])})


@dataclass(frozen=True)
class RootCommand:
    """Run a program that writes to the root.

    A root that is read-only by its btrfs property is opened for it, and closed again (sync, read-only, sync). If the
    call is killed, the root closes by itself.
    """

    #: The program, and its arguments.
    argv: Sequence[str]
    #: Seconds that it may take.
    timeout: int = 1800


@operation("root_command", RootCommand)
def run_in_root(document: RootCommand, check: bool) -> Answer:
    if not check:  # guard: a check runs no program in the root
        with opened(document.timeout + 60):
            run(document.argv, seconds=document.timeout)
    return Answer([f"run {shlex.join(document.argv)}"])


@dataclass(frozen=True)
class PythonEnvironmentOrder:
    """Have an environment of Python packages that everybody can run.

    Makes ``path/current`` by ``venv`` and ``pip``, of wheels alone. It is made again when another set of packages is
    wanted, or the host has another Python; what runs from the one before goes on.
    A root that is read-only by its btrfs property is opened for it, and closed again.
    """

    #: Directory of these environments, in the root.
    path: str
    #: What pip installs, such as ``jupyterlab==4.6.6``.
    packages: Sequence[str]
    #: Address of the package index; PyPI, or what the host's pip.conf says, without one.
    index: Optional[str] = None
    #: Seconds that the installation may take.
    timeout: int = 1800


@operation("python_environment", PythonEnvironmentOrder)
def ensure_python_environment(document: PythonEnvironmentOrder, check: bool) -> Answer:
    from . import environments, packages

    if not check:
        packages.wait_for_another(document.timeout)
    if environments.is_current(document.path, document.packages):
        return Answer([])
    if not check:
        with opened(document.timeout + 60):
            environments.make(document.path, document.packages, document.index, document.timeout)
    return Answer([f"install {one} in {document.path}" for one in document.packages])
