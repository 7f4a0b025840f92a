"""What hosts were asked for: known, or unknown and why. Nothing is decided from what is not known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.errors import ExitCode, HostFailedError, UnreachableError
from gpuadmin.results import HostResult, way_out
from gpuadmin.text import one_line


@dataclass(frozen=True)
class Answers:
    """`known`: host → its answer. `unknown`: host → why there is none. `failed`: those of them that answered, badly."""

    known: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, hosts: Mapping[str, HostResult], asked: Iterable[str], report: str) -> Answers:
        """Given the results of a run, who was asked, and the name of the report that each should have given."""
        known: dict[str, Any] = {}
        unknown: dict[str, str] = {}
        failed = set()
        for name in asked:
            result = hosts.get(name)
            answer = None if result is None else result.reports.get(report)
            # a host can fail because of one person and still answer about all; one that could not begin answers {}
            if (
                result is not None
                and answer is not None
                # guard: a host that could not begin has not said anything
                and (not result.bad or (answer and result.status == "failed"))
            ):
                known[name] = answer
                continue
            unknown[name] = "did not answer" if result is None else result.message or "did not say"
            if result is not None and not result.silent:
                failed.add(name)
        return cls(known, unknown, frozenset(failed))

    @property
    def summary(self) -> str:
        """Which hosts did not answer, and why, those of one reason together: `gpu1, gpu2 (does not answer)`."""
        hosts: dict[str, list[str]] = {}
        for host, reason in self.unknown.items():
            hosts.setdefault(reason, []).append(host)
        return ", ".join(one_line(f"{', '.join(names)} ({reason})") for reason, names in hosts.items())

    @property
    def code(self) -> ExitCode:
        """What a verb ends with that could not know."""
        if not self.unknown:
            return ExitCode.DONE
        return ExitCode.HOST_FAILED if self.failed else ExitCode.HOST_UNREACHABLE

    def among(self, hosts: Collection[str]) -> Answers:
        """The answers of some of the hosts."""
        return Answers(
            {host: answer for host, answer in self.known.items() if host in hosts},
            {host: reason for host, reason in self.unknown.items() if host in hosts},
            self.failed & set(hosts),
        )

    def require(self, what: str) -> None:
        """Raise UnreachableError, or HostFailedError, unless all have answered. `what` is not known without them."""
        if self.unknown:
            kind = HostFailedError if self.failed else UnreachableError
            hint = f"nothing was changed; {way_out(self.unknown) or 'try again when they answer'}"
            raise kind(f"{what} is not known: {self.summary}", hint=hint)


def combine_exit_codes(answers: Iterable[Answers]) -> ExitCode:
    """What a verb ends with that was decided from several: a host that answered badly counts before a silent one."""
    codes = [one.code for one in answers]
    return ExitCode.HOST_FAILED if ExitCode.HOST_FAILED in codes else max(codes, default=ExitCode.DONE)
