"""What `lab status` and `lab logs` show."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from gpuadmin.lab import machines, ssh, state
from gpuadmin.lab.releases import RELEASES

Facts = Mapping[str, Any]


def facts(name: str) -> Facts:
    """Given a lab's name, return what is true of it now. `running` and `ssh` are looked up, not remembered."""
    lab = state.existing(name)
    hosts = []
    for host in lab.hosts:
        pid = machines.running_pid(lab, host)
        hosts.append({
            "name": host.name,
            "kind": host.kind,
            "golden": host.golden,
            "release": host.release,
            "running": pid is not None,
            "ssh": pid is not None and ssh.greets(host.ssh_port),
            "pid": pid,
            "ssh_port": host.ssh_port,
            "address": host.address,
        })  # fmt: skip
    return {
        "lab": lab.name,
        "directory": str(lab.directory),
        "site": lab.site,
        "ssh_key": str(lab.ssh_key),
        "memory_mib": lab.memory_mib,
        "firmware": lab.firmware,
        "light": lab.light,
        "gpus": lab.gpus,
        "hosts": hosts,
        "snapshots": {snapshot: list(names) for snapshot, names in lab.snapshots.items()},
    }


def as_json(found: Facts) -> str:
    """Return facts as one JSON document."""
    return json.dumps(found, indent=1)


def as_text(found: Facts) -> str:
    """Return facts for a person."""
    width = max((len(host["name"]) for host in found["hosts"]), default=4)
    uefi = "   light hosts" if found["light"] else "   boots by UEFI" if found["firmware"] == "uefi" else ""
    lines = [f"lab {found['lab']}   site {found['site'] or 'not written yet'}{uefi}", ""]
    for host in found["hosts"]:
        condition = "up" if host["ssh"] else "no ssh" if host["running"] else "off"
        role = "golden node" if host["golden"] else {"plain": "ordinary node"}.get(host["kind"], host["kind"])
        lines.append(
            f"{host['name']:<{width}}  {condition:<6}  {host['address']:<11}  127.0.0.1:{host['ssh_port']:<5}"
            f"  {RELEASES[host['release']].title}  {role}"
        )
    names = ", ".join(found["snapshots"]) or "none"
    return "\n".join([*lines, "", f"snapshots: {names}"])


def console(name: str, host_name: str, *, follow: bool) -> Iterator[str]:
    """Yield the text of a host's serial console; with `follow`, forever."""
    lab = state.existing(name)
    path = lab.host_directory(lab.host(host_name)) / "console.log"
    if not path.exists():
        return
    with path.open(errors="replace") as log:
        while True:
            text = log.read(65536)
            if text:
                yield text
            elif follow:
                time.sleep(0.2)  # a file tells nobody that it has grown
            else:
                return
