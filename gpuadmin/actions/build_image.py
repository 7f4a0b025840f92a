"""Build an image: in one run of the playbook, or in two with the admin's own changes between them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuadmin.actions.shared.images import NOTICE, look, require_storage, signing_key, variables
from gpuadmin.ansible.connections import command_line
from gpuadmin.config.inventory import Host
from gpuadmin.display import show_hosts
from gpuadmin.errors import ConfigError, GpuadminError, UnreachableError
from gpuadmin.images.build import BuildRequest, build_phases, build_plan, choose_parent, without
from gpuadmin.images.facts import Facts, check_name, new_name
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened
from gpuadmin.who import who

#: Where the node-side code mounts the root that is being built (build.point).
BUILD_ROOT = "/run/gpuadmin/build"
#: Puts whatever sudo runs into that root; the node's own packages start nothing there.
ENTER = f"sudo -n chroot {BUILD_ROOT} /usr/bin/env SYSTEMD_OFFLINE=1 GPUADMIN_BUILD=1"


def build_image(
    options: Options,
    name: str | None,
    *,
    upgrade: bool,
    packages: Sequence[str],
    playbook: Path | None,
    shell: bool,
    full: bool,
    trial: bool,
) -> int:
    """Build an image, or do what of one is still to be done. Returns the exit code."""
    with opened("build-image", options) as session:
        require_storage(session)
        found = look(session)
        found.store_known.require("which images the store has")
        chosen = check_name(name) if name else new_name([*found.store])
        return build(session, found, BuildRequest(chosen, upgrade, tuple(packages), playbook, shell, full, trial))


def build(session: Session, found: Facts, request: BuildRequest) -> int:
    """Plan, ask, and do what of a build is still to be done. Returns the exit code."""
    host, node = golden_node(session, found)
    key = signing_key(session.site)
    if not key.exists():
        raise ConfigError(f"{key}: there is no key to sign images with", hint="gpuadmin prepare-root makes it")
    phases = build_phases(node, request.name)
    targets = [other for name, other in found.nodes.items() if name != host.name]
    stored = (found.store.get(request.name) or {}).get("manifest")
    parent = (
        (stored["parent"] or {}).get("name")
        if stored
        else choose_parent(without(node, request.name), [without(one, request.name) for one in targets], found)
    )
    given = {
        "gpuadmin_image": request.name,
        "gpuadmin_packages": list(request.packages),
        "gpuadmin_upgrade": request.upgrade,
        "gpuadmin_full": request.full or not parent,
        "gpuadmin_trial": request.trial,
        "gpuadmin_parents": [parent] if parent else [],
        "gpuadmin_protocol": min(int(one.get("send_version", 1)) for one in (node, *targets)),
        "gpuadmin_who": who(),
        "gpuadmin_signing_key": str(key),
        "gpuadmin_force": True,
        "gpuadmin_reason": NOTICE.format(name=request.name),
    }
    if not session.plan(build_plan(host.name, node, request, phases, parent, found.silent)):
        return nothing(session)
    session.confirm()  # guard: build-image asks before it does something
    result = {"image": request.name}
    by_hand = request.playbook is not None or request.shell
    if not (by_hand and "main" in phases):
        return report(session, _phases(session, host, phases, given), result)
    run = _phases(session, host, ["main"], given)
    if run.code or session.check:
        return report(session, run, result)
    show_hosts(session.console, run.hosts, check=False, run=session.begun().id)
    if request.playbook is not None:
        run = _own(session, host, request.playbook)
        if run.code:
            return report(session, run)
        show_hosts(session.console, run.hosts, check=False, run=session.begun().id)
    elif subprocess.run(shell_command(session, host), check=False).returncode:
        raise GpuadminError(  # no refusal: the changed root is there
            f"the shell did not end with 0: {request.name} is not built", hint="run it again to start over"
        )
    return report(session, _phases(session, host, ["finish", "seal"], given), result)


def golden_node(session: Session, found: Facts) -> tuple[Host, Any]:
    """The one host on which images are built, and its report."""
    golden = session.site.inventory.group("golden")
    if len(golden) != 1:
        raise ConfigError(
            f"{len(golden)} hosts are in the group golden; images are built on one",
            hint="choose it in inventory/hosts.yml",
        )
    node = found.nodes.get(golden[0].name)
    if node is None:
        why = found.silent.get(golden[0].name, "it was not asked")
        raise UnreachableError(f"the golden node {golden[0].name} is not available: {why}")
    return golden[0], node


def _phases(session: Session, host: Host, phases: Sequence[str], given: Mapping[str, Any]) -> RunResult:
    asked = variables(session.site, gpuadmin_phases=list(phases), **given)
    return session.run("build-image", [host.name], asked, check=session.check, label=f"build: {', '.join(phases)}")


def _own(session: Session, host: Host, playbook: Path) -> RunResult:
    """Run the admin's playbook in the new root: sudo itself is what enters it, so that modules need not know."""
    enter = {
        "ansible_become": True,
        "ansible_become_method": "ansible.builtin.sudo",
        "ansible_become_exe": f"{ENTER} sudo",
    }
    return session.run(playbook, [host.name], enter, check=False)


def shell_command(session: Session, host: Host) -> tuple[str, ...]:
    """The ssh command that opens a shell in the root that is being built."""
    return tuple(command_line(session.site, host.name, ("-t", "--", f"{ENTER} /bin/bash -l")))
