"""Saves a running lab and brings it back: memory, disks and clocks of all hosts, consistent with each other."""

from __future__ import annotations

from pathlib import Path

from gpuadmin.ansible import connections
from gpuadmin.errors import ConfigError
from gpuadmin.lab import clock, machines, qemu, state
from gpuadmin.lab.cluster import chosen_accel, on_each, start_all
from gpuadmin.lab.light import snapshots as light
from gpuadmin.lab.progress import Progress
from gpuadmin.lab.qmp import Qmp
from gpuadmin.lab.state import Host, Lab


def save(name: str, snapshot: str, progress: Progress, *, replace: bool) -> None:
    """Save all hosts of a running lab under a name. `replace`: also where one of that name is there.

    All hosts are paused while each is saved, so none has answered what another has not asked.
    """
    state.check_name(snapshot, "snapshot")
    with state.locked(name):
        lab = state.existing(name)
        if snapshot in lab.snapshots and not replace:  # guard: a saved state is not replaced unasked
            raise ConfigError(f"{snapshot} is saved already", hint="another name, or --replace")
        off = [host.name for host in lab.hosts if machines.running_pid(lab, host) is None]
        if off:
            raise ConfigError(
                f"{', '.join(off)} is off, and only a running lab can be saved", hint="gpuadmin lab up starts it"
            )
        if lab.light:
            with progress.phase(f"saving {snapshot}"):
                light.save(lab, snapshot)
            state.save(lab.with_snapshot(snapshot))
            return
        with progress.phase(f"saving {snapshot}"):
            # What the guests hold in memory is saved with them; this only keeps the disks from lagging far behind.
            try:
                on_each(lab.hosts, lambda host: _run_monitor(lab, host, "stop"))
                on_each(lab.hosts, lambda host: _run_monitor(lab, host, f"savevm {snapshot}"))
            finally:
                on_each(lab.hosts, lambda host: _run_monitor(lab, host, "cont"))
        state.save(lab.with_snapshot(snapshot))


def restore(name: str, snapshot: str, progress: Progress) -> None:
    """Bring all hosts back to a snapshot, whether they run or not; their clocks are right afterwards.

    A host that was added since is switched off: it is not part of that past.
    """
    with state.locked(name):
        lab = state.existing(name)
        if snapshot not in lab.snapshots:
            there = ", ".join(sorted(lab.snapshots)) or "none"
            raise ConfigError(f"lab {name} has no snapshot {snapshot!r}", hint=f"there is: {there}")
        saved = [host for host in lab.hosts if host.name in lab.snapshots[snapshot]]
        for host in lab.hosts:
            if host not in saved and machines.kill(lab, host):
                progress.line(f"{host.name} is not in {snapshot}: switched off")
        if lab.site is not None:
            connections.close(Path(lab.site) / "known_hosts", at_once=True)
        if lab.light:
            with progress.phase(f"restoring {snapshot}"):
                light.restore(lab, saved, snapshot)
                start_all(lab, saved, None, progress)
            return
        running = {host.name for host in saved if machines.running_pid(lab, host) is not None}
        chosen = chosen_accel(lab, progress) if len(running) < len(saved) else None

        def bring_back(host: Host) -> None:
            if host.name in running:
                _run_monitor(lab, host, f"loadvm {snapshot}")
            else:
                assert chosen is not None
                qemu.start(lab, host, chosen, load=snapshot, paused=True)

        with progress.phase(f"restoring {snapshot}"):
            on_each([host for host in saved if host.name in running], lambda host: _run_monitor(lab, host, "stop"))
            on_each(saved, bring_back)
            on_each(saved, lambda host: _run_monitor(lab, host, "cont"))
            on_each(saved, lambda host: clock.set_clock(lab, host))


def _run_monitor(lab: Lab, host: Host, line: str) -> None:
    with Qmp(lab.host_directory(host)) as monitor:
        monitor.monitor(line)
