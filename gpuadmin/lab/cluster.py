"""Brings a lab up and down, cuts and starts hosts."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpuadmin.common.text import counted, listed
from gpuadmin.config.hosts_file import HOSTS_FILE
from gpuadmin.config.load import Site
from gpuadmin.errors import ConfigError
from gpuadmin.lab import accel, disk, hosts, image, machines, network, site, ssh, state, twin, twin_state
from gpuadmin.lab.commands import require, require_linux
from gpuadmin.lab.firmware import ovmf
from gpuadmin.lab.light.disk import require_light
from gpuadmin.lab.light.gpus import require as require_gpus
from gpuadmin.lab.light.host import remove_switch
from gpuadmin.lab.light.machine import allow_instances
from gpuadmin.lab.paths import state_directory
from gpuadmin.lab.progress import Progress
from gpuadmin.lab.state import Host, Lab

#: Seconds that `down` gives guests to shut down by themselves.
SHUTDOWN_LIMIT = 60.0
#: Layout and release → base image.
_Bases = dict[tuple[str, str], Path]


def up(
    name: str,
    *,
    wanted: Sequence[state.Wanted],
    memory_mib: int,
    firmware: disk.Firmware | None,
    site_directory: Path,
    progress: Progress,
    light: bool | None = None,
    gpus: int | None = None,
    twin_of: Site | None = None,
    releases: Mapping[str, str] | None = None,
    seen: Path | None = None,
) -> Lab:
    """Bring a lab up and return it: its hosts answer ssh, its site is written.

    What runs is kept, what is down is started, what is missing is added. `firmware` None: what the lab has, BIOS in a
    new one; `light` None: what the lab has, virtual machines in a new one; `gpus` of each node None: what the lab has,
    0 in a new one. `twin_of`: the site whose twin it is, of which `wanted` are the hosts; `seen`: what adopt wrote of
    it. `releases`: see `hosts.with_releases`. Raises ConfigError if it has the other.
    """
    require_linux()
    require("ssh", "ssh-keygen")
    with state.locked(name):
        there = state.load(name)
        crooked = twin_state.of(state_directory() / name, seen, new=there is None) if twin_of else None
        lab = there or _new_lab(name, memory_mib, firmware or "bios", bool(light), gpus or 0, twin_of)
        _refuse_another(lab, firmware, light, gpus, twin_of)
        wanted = hosts.with_releases(lab, wanted, releases or {})
        if lab.light:
            require_light()
            require_gpus(lab.gpus)
            if changed := allow_instances(sum(len(one.hosts) for one in state.all_labs()) + len(wanted)):
                progress.line(changed)
        else:
            require("qemu-system-x86_64", "qemu-img")
        if lab.firmware == "uefi":
            ovmf()
        bases, chosen = _ensure_base_images(lab, wanted, progress)
        taken = _foreign_ports(name)
        lab = hosts.with_hosts(lab, wanted, bases, taken)
        lab = hosts.with_free_ports(lab, taken)
        # Before anything is started: what runs can be found again, whenever this is interrupted.
        state.save(lab)
        if crooked:
            twin_state.keep(lab, crooked)
        ssh.make_key(lab.ssh_key, f"gpuadmin lab {name}")
        for host in lab.hosts:
            hosts.prepare(lab, host)
        (lab.directory / "known_hosts").write_text(ssh.known_hosts(lab))
        lab = _with_site(lab, site_directory, progress, twin_of)  # refused before minutes are spent
        if chosen is not None:
            progress.line(accel.explain_choice(chosen))
        start_all(lab, lab.hosts, chosen, progress)
        if twin_of and crooked:
            twin_state.plant(lab, twin_of, crooked, lab.hosts, progress)
    return lab


def _refuse_another(
    lab: Lab, firmware: disk.Firmware | None, light: bool | None, gpus: int | None, twin_of: Site | None
) -> None:
    """Raise ConfigError where a lab was made otherwise than it is wanted now, or cannot be made so."""
    problem = ""
    if light not in (None, lab.light):
        problem = f"the hosts of lab {lab.name} are {'light ones' if lab.light else 'virtual machines'}"
    elif firmware not in (None, lab.firmware):
        problem = f"lab {lab.name} boots by {lab.firmware.upper()}, not by {str(firmware).upper()}"
    elif gpus not in (None, lab.gpus):
        problem = f"the nodes of lab {lab.name} have {counted(lab.gpus, 'GPU')} each, not {gpus}"
    elif lab.like != (str(twin_of.directory) if twin_of else None):
        problem = f"lab {lab.name} is " + (f"the twin of {lab.like}" if lab.like else "no twin of a site")
    if problem:
        raise ConfigError(
            problem, hint=f"--name chooses another lab; gpuadmin lab down --purge --name {lab.name} deletes this one"
        )
    if lab.gpus and not lab.light:
        raise ConfigError("virtual machines have no GPUs", hint="--light --gpus N makes light hosts with some")


def _with_site(lab: Lab, directory: Path, progress: Progress, twin_of: Site | None = None) -> Lab:
    """Write the lab's site, and note where it is."""
    others = twin.write(lab, twin_of, directory) if twin_of else site.write(lab, directory)
    if others:
        progress.line(f"{directory}/{HOSTS_FILE} names hosts that this lab does not have; they stay: {listed(others)}")
    lab = replace(lab, site=str(directory))
    state.save(lab)
    return lab


def _new_lab(name: str, memory_mib: int, firmware: disk.Firmware, light: bool, gpus: int, twin_of: Site | None) -> Lab:
    port = network.free_multicast_port({other.cluster_port for other in state.all_labs()})
    lab = Lab(name, memory_mib, port, firmware=firmware, light=light, gpus=gpus)
    return replace(lab, data=twin.place_of_data(twin_of), like=str(twin_of.directory)) if twin_of else lab


def _ensure_base_images(
    lab: Lab, wanted: Sequence[state.Wanted], progress: Progress
) -> tuple[_Bases, accel.Accel | None]:
    """Return the base images that new hosts need, and the accelerator."""
    known = {host.name for host in lab.hosts}
    new = sorted({(lab.layout(one.kind).name, one.release) for one in wanted if one.name not in known})
    image.check_machine(new, light=lab.light)
    if lab.light:
        return {(layout, release): image.ensure_light(progress, release) for layout, release in new}, None
    bases = {(layout, release): image.ensure(disk.LAYOUTS[layout], progress, release).disk for layout, release in new}
    return bases, chosen_accel(lab, progress)


def chosen_accel(lab: Lab, progress: Progress) -> accel.Accel | None:
    """Return what guests run with; None if there are none."""
    if lab.light:
        return None
    with progress.phase("trying KVM"):
        return accel.choose(image.kernel())


def _foreign_ports(name: str) -> set[int]:
    return {host.ssh_port for lab in state.all_labs() if lab.name != name for host in lab.hosts}


def start_all(lab: Lab, which: Sequence[Host], chosen: accel.Accel | None, progress: Progress) -> None:
    """Start those of the given hosts that are down, and wait until every one of them answers ssh."""
    for host in which:
        if machines.running_pid(lab, host) is None:
            machines.start(lab, host, chosen)
    names = ", ".join(host.name for host in which)
    with progress.phase(f"waiting for {names}"):
        on_each(which, lambda host: ssh.wait(lab, host))


def on_each(which: Sequence[Host], action: Callable[[Host], object]) -> None:
    """Do something with every host at the same time. Raises the first error, after all have ended.

    Daemon threads and not a pool: Ctrl-C must not wait for those that wait for a guest.
    """
    errors: dict[str, Exception] = {}

    def run(host: Host) -> None:
        try:
            action(host)
        except Exception as error:
            errors[host.name] = error

    threads = [threading.Thread(target=run, args=(host,), daemon=True) for host in which]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for host in which:
        if host.name in errors:
            raise errors[host.name]


def start(name: str, host_name: str, progress: Progress) -> None:
    """Start one host and wait until it answers ssh; the site is refreshed if its port had to change."""
    with state.locked(name):
        lab = state.existing(name)
        lab.host(host_name)
        moved = hosts.with_free_ports(lab, _foreign_ports(name))
        if moved != lab:
            lab = moved
            state.save(lab)
            (lab.directory / "known_hosts").write_text(ssh.known_hosts(lab))
            if lab.site:
                _with_site(lab, Path(lab.site), progress)
        start_all(lab, [lab.host(host_name)], chosen_accel(lab, progress), progress)


def power_cut(name: str, host_name: str) -> bool:
    """Cut a host's power. Returns False if it was off already."""
    lab = state.existing(name)
    return machines.kill(lab, lab.host(host_name))


def down(name: str, *, purge: bool, progress: Progress) -> None:
    """Shut a lab down; with `purge`, without waiting for it, and delete its disks and keys."""
    directory = state_directory() / state.check_name(name)
    if not directory.exists():
        return
    with state.locked(name):
        lab = state.load(name)
        if lab:
            if not purge:
                with progress.phase(f"shutting down {', '.join(host.name for host in lab.hosts)}"):
                    on_each(lab.hosts, lambda host: _shut_down(lab, host))
            for host in lab.hosts:
                machines.kill(lab, host)
            if lab.light:
                remove_switch(lab)
        if purge:
            shutil.rmtree(directory)


def _shut_down(lab: Lab, host: Host) -> None:
    """Have a host shut down and wait until it has ended, within limits."""
    machines.power_off(lab, host)
    deadline = time.monotonic() + SHUTDOWN_LIMIT
    while machines.running_pid(lab, host) is not None and time.monotonic() < deadline:
        time.sleep(0.2)  # no child of this process: nothing tells of its end
