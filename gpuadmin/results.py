"""What came of a run: a result for each host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuadmin.errors import ExitCode

#: What a run says of hosts that ssh could not log in to, where the same again would end the same.
UNPINNED = "its ssh host key is not known yet: gpuadmin trust HOST"
OTHER_KEY = "its ssh host key is not the pinned one; see: gpuadmin trust HOST"
DENIED = "refuses our login (permission denied)"
UNRESOLVED = "its name cannot be resolved: give ansible_host in inventory/"
#: How the message of a host begins whose refusal is the fault of this machine's key; `gpuadmin check` says the way out.
BY_KEY = f"{DENIED}: the key"


def way_out(reasons: Mapping[str, str]) -> str | None:
    """Given hosts that did not answer, and why, return what to do before running the same again; None for nothing."""

    def of(*words: str) -> str:
        return " ".join(name for name, why in reasons.items() if why in words)

    ways = []
    if of(UNPINNED):
        ways.append("gpuadmin trust --all pins host keys that are not known yet")
    if other := of(OTHER_KEY):
        ways.append(f"find out why the host key changed; after a reinstallation: gpuadmin trust --replace {other}")
    if any(why.startswith(BY_KEY) for why in reasons.values()):
        ways.append("gpuadmin check says what to do about the key")
    elif denied := of(DENIED):
        ways.append(
            f"gpuadmin check tries the admin's key; one that a host lacks: gpuadmin bootstrap {denied} --as USER"
        )
    if of(UNRESOLVED):
        ways.append("correct the name in inventory/, or give ansible_host there")
    return "; ".join(ways) or None


@dataclass
class HostResult:
    """What a run did on one host."""

    status: str = "skipped"  # ok | changed | failed | interrupted | unreachable | not run | skipped
    changed: list[str] = field(default_factory=list)
    message: str | None = None
    reports: dict[str, Any] = field(default_factory=dict)
    obstacles: list[str] = field(default_factory=list)  # why it was left as it is; `message` has them, too
    refused: bool = False  # it failed before it began anything, as it says

    @property
    def bad(self) -> bool:
        return self.status in ("failed", "interrupted") or self.silent

    @property
    def untouched(self) -> bool:
        """Whether a host had obstacles, or refused, and was left unchanged: gpuadmin only looked at it."""
        return (
            (bool(self.obstacles) or self.refused)
            # guard: a host that was changed was touched
            and not self.changed
        )

    @property
    def silent(self) -> bool:
        """Whether it said nothing: it did not answer, or its turn did not come."""
        return self.status in ("unreachable", "not run")


@dataclass(frozen=True)
class RunResult:
    """What came of a run. `error`: why Ansible itself ended badly, where no host is to blame."""

    hosts: dict[str, HostResult]
    interrupted: bool = False
    error: str | None = None

    @property
    def bad(self) -> dict[str, str]:
        """The hosts that did not succeed, and why."""
        return {name: host.message or host.status for name, host in self.hosts.items() if host.bad}

    @property
    def refused(self) -> bool:
        """Whether nothing was begun on any host: they refused it, or their turn did not come."""
        return (
            not self.interrupted  # guard: of an interrupted run nobody knows what it began
            and any(host.refused for host in self.hosts.values())
            # guard: what one host began is not forgotten
            and all((host.refused and host.untouched) or host.status == "not run" for host in self.hosts.values())
        )

    @property
    def code(self) -> ExitCode:
        """The exit code that docs/exit-codes.md promises."""
        states = {host.status for host in self.hosts.values()}
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if "failed" in states:
            return ExitCode.HOST_FAILED
        if "unreachable" in states:
            return ExitCode.HOST_UNREACHABLE
        if self.error:
            return ExitCode.ERROR
        return ExitCode.HOST_UNREACHABLE if self.bad else ExitCode.DONE

    def then(self, later: RunResult) -> RunResult:
        """This run, and one that came after it, as one."""
        # guard: of two runs neither interruption is forgotten -> later.interrupted
        interrupted = self.interrupted or later.interrupted
        return RunResult({**self.hosts, **later.hosts}, interrupted, self.error or later.error)

    def reported(self, name: str) -> Mapping[str, Any]:
        """The reports of that name, by host."""
        return {host: result.reports[name] for host, result in self.hosts.items() if name in result.reports}


def with_all(run: RunResult, asked: Sequence[str]) -> RunResult:
    """Given a run, and the hosts that it was for, return it with a result for each of them.

    A run can end before the turn of a host comes: nothing was done there, and nothing is known of it.
    """
    if run.interrupted:
        # of one that only skipped tasks so far, nothing was heard
        heard = {name for name, host in run.hosts.items() if host != HostResult()}
        why = "interrupted before it answered"
    else:
        heard = set(run.hosts)
        causes = ", ".join(run.bad)
        why = f"nothing was done there: the run ended after {causes}" if causes else "the run did nothing there"
        if run.error:
            why = "nothing was done there: the run ended with an error"
    missing = {name: HostResult("not run", message=why) for name in asked if name not in heard}
    return (
        replace(run, hosts={**run.hosts, **missing})
        if missing  # guard: a host whose turn did not come is in the result
        else run
    )
