"""From an empty machine to a node: a stick for the site, and a disk that is made from it."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuadmin.actions.bootstrap import find_public_key
from gpuadmin.actions.shared.images import facts, require_storage, signers, variables
from gpuadmin.ansible import connections
from gpuadmin.common.text import size_words
from gpuadmin.config.inventory import Host
from gpuadmin.config.known_hosts import known_as, pinned_keys, read_known_hosts, with_lines
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.console import ask, echo
from gpuadmin.errors import ConfigError, GpuadminError, RefusedError, UnreachableError
from gpuadmin.host_keys import fetch_host_keys
from gpuadmin.images.install import choose_disk, choose_image, describe_disk
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.reading import read_text
from gpuadmin.session import Session, opened

#: By which name known_hosts has the key of the site's stick.
STICK = "gpuadmin-stick"
_BOOT = 1800.0  # seconds in which a machine comes up; servers count their memory for minutes
_AGAIN = "boot the machine from the stick again and run the same; it begins anew, and only that disk is written"


@dataclass(frozen=True)
class Install:
    """What the command line asks for. `erase`: the host's name, for a disk that is not empty, with --yes."""

    host: str
    mac: str
    disk: str | None
    address: str | None
    network: Sequence[str]
    erase: str | None


def make_stick(options: Options, file: Path, image: str | None, arguments: str) -> int:
    """Make a stick of an image, None for the newest, and bring it here as a file. Returns the exit code."""
    with opened("install", options) as session:
        require_storage(session)
        if file.exists():  # guard: a stick replaces no file
            raise RefusedError(f"{file} is there already", hint="name another file, or move it away")
        names = [host.name for host in session.site.inventory.group("storage")]
        found = facts(session.look("list-images", names, variables(session.site)), names, ())
        found.store_known.require("which images the store has")
        name, server = choose_image(found.complete, image), session.site.settings.images.server or names[0]
        builder = PlanBuilder(f"Make a stick that installs {name}")
        builder.add(server, f"make a bootable disk of {name} beside the store, with GRUB for BIOS and UEFI")
        builder.add("site", f"copy it to {file}; its host key takes the place of the earlier stick's")
        session.plan(builder.build())
        session.confirm()  # guard: a stick is made once that is confirmed
        order = {"name": name, "arguments": arguments, "admin": _admin(session)}
        run = session.run("install", [server], {"gpuadmin_stick": order}, check=session.check)
        made = run.hosts[server].reports.get("made")
        if made is not None:
            _copy(session, server, made, file)
            _pin(session, STICK, made["host_key"])
            echo(f"{file} is made. To write it to a stick: dd if={file} of=/dev/disk/by-id/STICK bs=4M", err=True)
        return report(session, run, {"stick": made and {"image": name, "bytes": made["bytes"]}})


def install(options: Options, wanted: Install) -> int:
    """Install one node on a machine that runs from the stick. Returns the exit code."""
    with opened("install", options) as session:
        (host,) = session.site.inventory.named([wanted.host])
        if "gpu" not in host.groups:
            raise ConfigError(f"{host.name} is in no group of nodes", hint="put it into gpu in inventory/hosts.yml")
        if STICK not in read_known_hosts(session.site.known_hosts):
            raise ConfigError("this site has no stick", hint="gpuadmin install --stick FILE makes one")
        network = {Path(name).name: read_text(Path(name)) for name in wanted.network}
        order = {
            "host": host.name,
            "mac": wanted.mac.lower().replace("-", ":"),
            "disk": wanted.disk or "",
            "network": network,
        }
        login = _login(host, wanted)
        given = {**login, "gpuadmin_install": {**order, "admin": _admin(session)}}
        connections.close(session.site.known_hosts, at_once=True)  # one to a host that had this address is of no use
        found = session.look("install", [host.name], given)
        machine = found.hosts[host.name].reports.get("machine")
        if machine is None:
            return report(session, found, advice="boot it from the site's newest stick; --address says where it is")
        disk = choose_disk(machine, wanted.disk)
        if found.bad:  # guard: what a machine refuses is not asked about
            return report(session, found)
        builder = PlanBuilder(f"Install {host.name}: everything on one disk goes", destroys=True)
        builder.add_all([host.name], [f"erase {line.strip()}" for line in describe_disk(disk)])
        builder.add_all([host.name], found.hosts[host.name].changed)
        pattern = known_as(host.address, host.port)
        if pinned_keys(read_known_hosts(session.site.known_hosts), pattern):
            builder.warn(f"{host.name} has a host key that is pinned; the new one takes its place")
        session.plan(builder.build())
        if session.check:
            return report(session, found)
        _confirm(session, disk, wanted)
        run = session.run("install", [host.name], given, check=False)
        made = run.hosts[host.name].reports.get("made")
        if made is None:
            return report(session, run, advice=_AGAIN)
        _pin(session, pattern, made["host_key"])
        booted = session.run("install", [host.name], {**login, "gpuadmin_install_reboot": True}, check=False)
        connections.close(session.site.known_hosts, at_once=True)
        if booted.bad:
            return report(session, booted, advice="switch it off and on; it boots from its disk")
        session.console.print(f"Waiting until {host.name} has booted from its disk…")
        _await(host, made["host_key"])
        echo(f"Next: gpuadmin provision --limit {host.name}; gpuadmin prepare-root --limit {host.name}", err=True)
        return report(session, run, {"image": machine["image"], "disk": wanted.disk})


def _admin(session: Session) -> dict[str, str]:
    key = " ".join(find_public_key(session.site).split()[:2])
    return {"user": session.site.settings.admin.user, "key": key, "signers": signers(session.site)}


def _login(host: Host, wanted: Install) -> dict[str, Any]:
    """How the stick is reached: at the host's address or another, and by the stick's own key alone."""
    known = f"-o HostKeyAlias={STICK}"  # guard: a machine that does not show the stick's key is told nothing -> ""
    return {"ansible_ssh_extra_args": known, "ansible_host": wanted.address or host.address}


def _confirm(session: Session, disk: Mapping[str, Any], wanted: Install) -> None:
    """Ask; where something is on the disk the host's name has to be typed, or given by --erase together with --yes."""
    if disk["parts"] and session.options.yes and wanted.erase != wanted.host:  # guard: --yes alone erases nothing
        raise RefusedError("erasing a disk is not confirmed by --yes alone", hint=f"give --erase {wanted.host} too")
    session.confirm()  # guard: a disk is written once that is confirmed
    if disk["parts"] and not session.options.yes:
        typed = ask(f"Type the host's name ({wanted.host}) to erase that disk", default="")
        if typed != wanted.host:  # guard: the host's name is typed before its disk is erased
            raise RefusedError("not confirmed; nothing was written")


def _pin(session: Session, name: str, key: str) -> None:
    path = session.site.known_hosts
    write_atomically(path, with_lines(read_known_hosts(path), [f"{name} {key}"]))


def _copy(session: Session, server: str, made: Mapping[str, Any], file: Path) -> None:
    """Bring a stick's file from the storage host, for its owner alone: it holds the stick's host key."""
    site, part = session.site, file.with_name(f"{file.name}.part")
    (host,) = site.inventory.named([server])
    cat = ["cat", made["path"]] if site.settings.admin.user == "root" else ["sudo", "-n", "cat", made["path"]]
    line = cat if host.local else connections.command_line(site, server, [shlex.join(cat)])
    session.console.print(f"Copying {size_words(made['bytes'])} from {server}…")
    part.unlink(missing_ok=True)
    part.touch(0o600, exist_ok=False)  # guard: a stick's file is its owner's alone -> part.touch(0o644)
    with part.open("wb") as target:
        code = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=target, check=False).returncode
    # guard: half of a stick is none
    if code != 0 or hashlib.file_digest(part.open("rb"), "sha256").hexdigest() != made["sha256"]:
        part.unlink()
        raise GpuadminError(f"{made['path']} could not be copied from {server}", hint="run it again")
    part.rename(file)


def _await(host: Host, key: str) -> None:
    """Wait until a host shows its new key. Raises UnreachableError."""
    end = time.monotonic() + _BOOT
    while time.monotonic() < end:
        (found,) = fetch_host_keys([host])
        if f"{found.kind} {found.blob}" == key:  # guard: a node is there when it shows the key that it made
            return
        time.sleep(3)  # nothing tells of a machine that comes up
    raise UnreachableError(
        f"{host.name} is installed, and does not answer at {host.address} with its new host key",
        hint="its console says why; the stick may have booted again (take it out), or DHCP gives another address",
    )
