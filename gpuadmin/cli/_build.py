"""Building an image: in one run of the playbook, or in two with the admin's own changes between them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuadmin.cli._images import NOTICE, only, signing_key, variables
from gpuadmin.cli._verb import Verb, Work, perform
from gpuadmin.errors import ConfigError, RefusedError, UnreachableError
from gpuadmin.images import BuildRequest, Facts, build_phases, build_plan, choose_parent, without
from gpuadmin.plan import Plan
from gpuadmin.who import who

if TYPE_CHECKING:
    from gpuadmin.config.inventory import Host

#: Where the node-side code mounts the root that is being built (build.point).
BUILD_ROOT = "/run/gpuadmin/build"
#: Puts whatever sudo runs into that root; the node's own packages start nothing there.
ENTER = f"sudo -n chroot {BUILD_ROOT} /usr/bin/env SYSTEMD_OFFLINE=1 GPUADMIN_BUILD=1"


def build(verb: Verb, found: Facts, request: BuildRequest) -> int:
    """Do what of a build is still to be done. Returns the exit code."""
    host, node = golden_node(verb, found)
    key = signing_key(verb.site)
    if not key.exists():
        raise ConfigError(f"{key}: there is no key to sign images with", hint="gpuadmin prepare-root makes it")
    phases = build_phases(node, request.name)
    targets = [report for name, report in found.nodes.items() if name != host.name]
    stored = (found.store.get(request.name) or {}).get("manifest")
    parent = (
        (stored["parent"] or {}).get("name")
        if stored
        else choose_parent(without(node, request.name), [without(one, request.name) for one in targets], found)
    )
    plan = build_plan(host.name, node, request, phases, parent, found.silent)
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
    limited = only(verb, [host.name])
    by_hand = request.playbook is not None or request.shell
    if not (by_hand and "main" in phases):
        return perform(limited, _work(verb, plan, phases, given, request))
    code = perform(limited, replace(_work(verb, plan, ["main"], given, request), last=verb.options.check))
    if code or verb.options.check:
        return code
    confirmed = replace(limited, options=replace(limited.options, yes=True))
    if request.playbook is not None:
        code = perform(confirmed, _own_work(plan, request))
    elif request.shell and subprocess.run(shell_command(verb, host), check=False).returncode:
        raise RefusedError(
            f"the shell did not end with 0: {request.name} is not built", hint="run it again to begin anew"
        )
    return code or perform(confirmed, replace(_work(verb, plan, ["finish", "seal"], given, request), shown=True))


def golden_node(verb: Verb, found: Facts) -> tuple[Host, Any]:
    """The one host on which images are built, and its report."""
    golden = verb.site.inventory.group("golden")
    if len(golden) != 1:
        raise ConfigError(
            f"{len(golden)} hosts are in the group golden; images are built on one",
            hint="choose it in inventory/hosts.yml",
        )
    node = found.nodes.get(golden[0].name)
    if node is None:
        why = found.silent.get(golden[0].name, "it was not asked")
        raise UnreachableError(f"the golden node {golden[0].name} is not to be had: {why}")
    return golden[0], node


def _work(verb: Verb, plan: Plan, phases: list[str], given: dict[str, Any], request: BuildRequest) -> Work:
    return Work(
        plan=plan,
        variables=variables(verb.site, gpuadmin_phases=phases, **given),
        result=lambda run: {"image": request.name},
    )


def _own_work(plan: Plan, request: BuildRequest) -> Work:
    """The admin's playbook, in the new root: sudo itself is what enters it, so that modules need not know."""
    return Work(
        plan=replace(plan, title=f"Run {request.playbook} in the new root {request.name}"),
        variables={"ansible_become": True, "ansible_become_method": "ansible.builtin.sudo",
                   "ansible_become_exe": f"{ENTER} sudo"},
        playbook=request.playbook,
        shown=True,
        last=False,
    )  # fmt: skip


def shell_command(verb: Verb, host: Host) -> tuple[str, ...]:
    """The ssh command that opens a shell in the root that is being built."""
    admin = verb.site.settings.admin
    key = ("-i", str(admin.ssh_key)) if admin.ssh_key else ()
    return (
        "ssh", "-t", "-p", str(host.port), *key, "-o", "StrictHostKeyChecking=yes",
        "-o", f"UserKnownHostsFile={verb.site.known_hosts}", f"{admin.user}@{host.address}", "--",
        f"{ENTER} /bin/bash -l",
    )  # fmt: skip
