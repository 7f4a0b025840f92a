"""What came of a run: a result for each host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.errors import ExitCode


@dataclass
class HostResult:
    """What a run did on one host."""

    status: str = "skipped"  # ok | changed | failed | unreachable | skipped
    changed: list[str] = field(default_factory=list)
    message: str | None = None
    reports: dict[str, Any] = field(default_factory=dict)

    @property
    def bad(self) -> bool:
        return self.status in ("failed", "unreachable")


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
    def code(self) -> ExitCode:
        """The exit code that docs/exit-codes.md promises."""
        states = {host.status for host in self.hosts.values()}
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if "failed" in states:
            return ExitCode.HOST_FAILED
        if "unreachable" in states:
            return ExitCode.HOST_UNREACHABLE
        return ExitCode.ERROR if self.error else ExitCode.DONE

    def reported(self, name: str) -> Mapping[str, Any]:
        """The reports of that name, by host."""
        return {host: result.reports[name] for host, result in self.hosts.items() if name in result.reports}
