"""What a phase of a reset is: one object that plans it, does it, and knows what came of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from gpuadmin.actions.semester.closing import Closing
from gpuadmin.actions.semester.reset import Reset
from gpuadmin.errors import ExitCode
from gpuadmin.plan import Plan
from gpuadmin.results import HostResult, RunResult


@dataclass(frozen=True)
class Outcome:
    """What a phase came to. `pending`: hosts where it is not done, and why; a `code` ends the reset for now.

    `hosts`: what each host answered, where that is all: in check mode.
    """

    result: Mapping[str, Any] = field(default_factory=dict)
    pending: Mapping[str, str] = field(default_factory=dict)
    code: int = ExitCode.DONE
    hosts: Mapping[str, HostResult] = field(default_factory=dict)


class Phase(ABC):
    """One phase of a reset in progress. Check mode is `run(check=True)`: the same hosts are asked the same things.

    `does` and `proof` are its row in docs/semester.md. `plays`: what playbooks/semester-reset.yml calls what hosts are
    asked to do; the first is what `run` asks for.
    """

    name: ClassVar[str]
    does: ClassVar[str] = ""
    proof: ClassVar[str] = ""
    plays: ClassVar[tuple[str, ...]]

    def __init__(self, reset: Reset) -> None:
        self.reset = reset

    def require(self) -> None:  # noqa: B027 - most phases need nothing but those before them
        """Raise RefusedError or UnreachableError if it cannot be done now; a check leaves this out."""

    @abstractmethod
    def plan(self) -> Plan:
        """What it is about to do, in names of hosts, people and files."""

    def hosts(self, *, check: bool) -> list[str]:
        """Whom `run` asks."""
        return self.reset.named("gpu", "storage")

    def variables(self, *, check: bool) -> Mapping[str, Any]:
        """The variables of the playbook."""
        return {}

    def prepare(self) -> None:  # noqa: B027 - most phases write nothing on this machine
        """What is written on this machine before hosts are asked; a check leaves this out."""

    def run(self, *, check: bool) -> Outcome:
        """Do it; or ask the hosts what it would change, and change nothing."""
        if not check:  # guard: a phase in check mode writes nothing on this machine -> True
            self.prepare()
        hosts, variables = self.hosts(check=check), self.variables(check=check)
        run = self.reset.play(
            self.plays[0],
            hosts=hosts,
            check=check,  # guard: a phase in check mode changes nothing on hosts -> False
            **variables,
        )
        return Outcome(hosts=run.hosts) if check else self.result(run)

    def result(self, run: RunResult) -> Outcome:
        """What came of it, given the hosts' results."""
        return self.proven(run, {})

    @cached_property
    def predicted(self) -> Outcome:
        """What it would change, by the hosts themselves. They are asked once."""
        return self.run(check=True)

    @cached_property
    def closing(self) -> Closing:
        """The closing mails to send now, for a phase that sends them."""
        return Closing.of(self.reset)

    def proven(self, run: RunResult, result: Mapping[str, Any]) -> Outcome:
        """It is done where hosts say so; where not it is pending, and stops the reset unless it may pend."""
        pending = run.bad
        if not pending or self.reset.request.leave_pending:
            return Outcome(result, pending)
        unreachable = all(run.hosts[name].silent for name in pending)
        return Outcome(result, pending, ExitCode.HOST_UNREACHABLE if unreachable else ExitCode.HOST_FAILED)
