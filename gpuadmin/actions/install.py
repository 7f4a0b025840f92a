"""From an empty machine to a node: a stick for the site, and a disk that is made from it."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuadmin.actions.bootstrap import find_public_key
from gpuadmin.actions.shared.answer_files import require_writable, write_answer_files
from gpuadmin.actions.shared.images import facts, require_storage, signers, variables
from gpuadmin.ansible import connections
from gpuadmin.common.records.installs import MAC
from gpuadmin.common.text import counted, size_words
from gpuadmin.config.find import find_site
from gpuadmin.config.inventory import Host, find_storage
from gpuadmin.config.known_hosts import known_as, read_known_hosts, with_lines
from gpuadmin.config.load import load_site
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.console import ask, echo
from gpuadmin.errors import ConfigError, GpuadminError, RefusedError, UnreachableError
from gpuadmin.host_keys import fetch_host_keys
from gpuadmin.images.install import choose_disk, choose_image, describe_disk, describe_disks
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.reading import expanded, is_absent, read_text
from gpuadmin.results import OTHER_KEY
from gpuadmin.session import Session, opened

#: By which name known_hosts has the key of the site's stick.
STICK = "gpuadmin-stick"
_BOOT = 1800.0  # seconds in which a machine comes up; servers count their memory for minutes


def make_stick(options: Options, file: Path, image: str | None, arguments: str) -> int:
    """Make a stick of an image, None for the newest, and bring it here as a file. Returns the exit code."""
    with opened("install", options) as session:
        server = _choose_server(session)
        _refuse_existing(file)
        found = facts(session.look("list-images", [server], variables(session.site)), [server], ())
        found.store_known.require("which images the store has")
        name = choose_image(found.complete, image)
        builder = PlanBuilder(f"Make a stick that installs {name}")
        builder.add(
            server,
            f"make a bootable disk of {name} beside the store, with GRUB for BIOS and UEFI, and the packages for that",
        )
        builder.add("site", f"copy it to {file}; its host key takes the place of the earlier stick's")
        session.plan(builder.build())
        session.confirm()  # guard: a stick is made once that is confirmed
        order = {"name": name, "arguments": arguments, "admin": _admin(session)}
        run = session.run("make-stick", [server], {"gpuadmin_stick": order}, check=session.check)
        made = run.hosts[server].reports.get("made")
        if made is not None:
            _copy(session, server, made, file)
            _pin(session, STICK, made["host_key"])
            echo(f"{file} is made. Next: dd if={file} of=/dev/disk/by-id/STICK bs=4M conv=fsync", err=True)
        return report(session, run, {"stick": made and {"image": name, "bytes": made["bytes"]}})


def serve_stick(options: Options, macs: Sequence[str], hours: int) -> int:
    """Have the storage host boot machines, by MAC address, from the network as from a stick. Returns the exit code."""
    for mac in macs:
        _require_mac("--serve", mac)
    with opened("install", options) as session:
        server = _choose_server(session)
        given = {"gpuadmin_netboot": {"macs": list(macs), "hours": hours}}
        found = session.look("serve-stick", [server], given)
        if found.bad:  # guard: what nobody could boot from is not served
            return report(session, found)
        builder = PlanBuilder(f"Boot {counted(len(macs), 'machine')} from the network, as from the stick")
        builder.add_all([server], found.hosts[server].changed)
        session.plan(builder.build())
        if session.check:
            return report(session, found)
        session.confirm()  # guard: machines are booted from the network once that is confirmed
        return report(session, session.run("serve-stick", [server], given, check=False))


def write_answers(options: Options, directory: Path) -> int:
    """Write what installers of ordinary roots take into a directory. Returns the exit code."""
    site = load_site(str(find_site(options.site)))
    return write_answer_files(site, find_public_key(site), options, directory)


def install(
    options: Options, name: str, mac: str, disk: str, address: str | None, network: Sequence[str], erase: str | None
) -> int:
    """Install one node on a machine that runs from the stick. `disk`: its name, empty to see which there are; `erase`:
    the host's name, for a disk that is not empty, with --yes. Returns the exit code.
    """
    _require_mac("--mac", mac)
    with opened("install", options) as session:
        (host,) = session.site.inventory.named([name])
        if "gpu" not in host.groups:
            raise ConfigError(f"{name} is in no group of nodes", hint="put it into gpu in inventory/hosts.yml")
        if STICK not in read_known_hosts(session.site.known_hosts):
            raise ConfigError("this site has no stick", hint="gpuadmin install --stick FILE makes one")
        login = {
            "ansible_host": address or host.address,
            # guard: a machine that does not show the stick's key is told nothing
            "ansible_ssh_extra_args": f"-o HostKeyAlias={STICK}",
            # not the connection of a host that had this address
            "ansible_control_path": f"%(directory)s/stick-{session.run_id[:4]}",
        }
        files = _read_network(network)
        order = {"host": name, "mac": mac, "disk": disk, "network": files, "admin": _admin(session), "shown": None}
        given = {**login, "gpuadmin_install": order}
        found = session.look("install", [name], given)
        machine = found.hosts[name].reports.get("machine")
        if machine is None:
            if found.hosts[name].message == OTHER_KEY:  # to trust that key would not help
                found.hosts[name].message = "what answers there is a node, or another stick than the site's newest"
            return report(session, found, advice="boot it from the site's newest stick; --address says where it is")
        if session.check and not disk:
            for line in (f"{name} has these disks; --disk takes the name before the colon:", *describe_disks(machine)):
                session.console.print(line)
            return report(session, found, {"disks": machine["disks"]}, show=None if found.bad else lambda: None)
        chosen = choose_disk(machine, disk)
        if found.bad:  # guard: what a machine refuses is not asked about
            return report(session, found)
        builder = PlanBuilder(f"Install {name}: everything on one disk goes", destroys=True)
        builder.add_all([name], ["erase this disk", *describe_disk(chosen), *found.hosts[name].changed])
        if chosen["parts"]:
            builder.add_all([name], ["with it goes what a node keeps on its disk: /local, /var, its keys; homes stay"])
        builder.add("site", f"pin the host key of {name}, which it makes; one that is pinned now goes")
        session.plan(builder.build())
        if session.check:
            return report(session, found)
        if chosen["parts"] and session.options.yes and erase != name:  # guard: --yes alone erases nothing
            raise RefusedError("erasing a disk is not confirmed by --yes alone", hint=f"give --erase {name} too")
        session.confirm()  # guard: a disk is written once that is confirmed
        asked = chosen["parts"] and not session.options.yes
        # guard: the host's name is typed before its disk is erased
        if asked and ask(f"Type the host's name ({name}) to erase that disk", default="") != name:
            raise RefusedError("not confirmed; nothing was written")
        # guard: a disk that has something else on it by then is not written -> order
        shown = {**order, "shown": chosen["parts"]}
        return _write(session, host, login, shown, machine["image"])


def _write(session: Session, host: Host, login: Mapping[str, str], order: Mapping[str, Any], image: str) -> int:
    """Write a disk, boot the node from it, and wait for its key. Returns the exit code."""
    run = session.run("install", [host.name], {**login, "gpuadmin_install": order}, check=False)
    made = run.hosts[host.name].reports.get("made")
    if made is None:
        return report(session, run, advice="boot the stick again and run the same: it starts over")
    _pin(session, known_as(host.address, host.port), made["host_key"])
    booted = session.run("install", [host.name], {**login, "gpuadmin_install_reboot": True}, check=False)
    if booted.bad:
        return report(session, booted, advice="switch it off and on; it boots from its disk")
    session.console.print(f"Waiting until {host.name} has booted from its disk…")
    _await(host, made["host_key"])
    # without --limit: storage hosts and the queue serve nodes that they were told of
    echo("Next: gpuadmin provision; gpuadmin prepare-root", err=True)
    return report(session, run, {"image": image, "disk": order["disk"]})


def _choose_server(session: Session) -> str:
    """The storage host that has the images. Raises ConfigError where the site has none, or names another host."""
    require_storage(session)
    named = session.site.settings.images.server
    server = find_storage(session.site.inventory.group("storage"), named)
    if server is None:
        why = f"gpuadmin.yml: images.server: '{named}' is not a host of group storage"
        raise ConfigError(why, hint="name one of that group")
    return server.name


def _require_mac(option: str, mac: str) -> None:
    if not re.fullmatch(MAC, mac):
        raise ConfigError(f"{option} {mac!r}: is not a MAC address", hint="such as 3c:ec:ef:12:34:56")


def _read_network(paths: Sequence[str]) -> dict[str, str]:
    """Given files of systemd.network(5), return name → text. Raises ConfigError: a node without them is lost."""
    files = [expanded(path) for path in paths]
    names = [path.name for path in files]
    for path in files:
        if path.suffix != ".network":
            raise ConfigError(f"--network: {path.name!r} does not end in .network", hint="networkd would not read it")
        if names.count(path.name) > 1:  # guard: no file of a network takes another one's place
            raise ConfigError(f"--network: two files are called {path.name}", hint="rename one of them")
        if is_absent(path):  # guard: a network's file that is not there is not an empty one
            raise ConfigError(f"--network: {path}: No such file or directory")
    return {path.name: read_text(path) for path in files}


def _admin(session: Session) -> dict[str, str]:
    key = " ".join(find_public_key(session.site).split()[:2])
    return {"user": session.site.settings.admin.user, "key": key, "signers": signers(session.site)}


def _pin(session: Session, name: str, key: str) -> None:
    path = session.site.known_hosts
    write_atomically(path, with_lines(read_known_hosts(path), [f"{name} {key}"]))


def _copy(session: Session, server: str, made: Mapping[str, Any], file: Path) -> None:
    """Bring a stick's file from the storage host, for its owner alone: it holds the stick's host key."""
    site, size = session.site, made["bytes"]
    if size > shutil.disk_usage(file.parent).free:  # guard: a host that claims a huge stick fills no disk
        raise GpuadminError(f"{file.parent} has no room for the {size_words(size)} of {made['path']}")
    sudo = () if site.settings.admin.user == "root" else ("sudo", "-n")
    line = connections.command_line(site, server, [shlex.join((*sudo, "cat", made["path"]))])
    session.console.print(f"Copying {size_words(size)} from {server}…")
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # for its owner alone
    part, total = Path(name), hashlib.sha256()
    try:
        command = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        with os.fdopen(handle, "wb") as target, command as sender:
            assert sender.stdout is not None
            while block := sender.stdout.read(min(1 << 20, size)):
                size -= len(block)  # guard: no more is taken than the host has announced
                total.update(block)
                target.write(block)
            sender.stdout.close()
        # guard: half of a stick is none
        if sender.returncode != 0 or total.hexdigest() != made["sha256"]:
            raise GpuadminError(f"{made['path']} could not be copied from {server}", hint="run it again")
        _refuse_existing(file)  # somebody may have made one meanwhile
        part.rename(file)
    except BaseException:
        part.unlink()
        raise


def _refuse_existing(file: Path) -> None:
    if os.path.lexists(file):  # guard: a stick replaces no file
        raise RefusedError(f"{file} is there already", hint="name another file, or move it away")
    require_writable(file.parent, hint="name another file")


def _await(host: Host, key: str) -> None:
    """Wait until a host shows its new key. Raises UnreachableError."""
    end = time.monotonic() + _BOOT
    while time.monotonic() < end:
        (found,) = fetch_host_keys([host])
        if f"{found.kind} {found.blob}" == key:  # guard: a node is there when it shows the key that it made
            return
        time.sleep(3)  # nothing tells of a machine that comes up
    hint = "its console says why: the stick has booted again (take it out), or DHCP gives it another address"
    raise UnreachableError(
        f"{host.name} is installed, and does not answer at {host.address} with its new key", hint=hint
    )
