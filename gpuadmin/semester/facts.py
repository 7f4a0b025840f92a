"""What the hosts reported before anything was decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpuadmin.results import HostResult

Default = TypeVar("Default")


@dataclass(frozen=True)
class Facts:
    """`hosts`: what each host reported (the module term_facts), None for one that did not answer or failed."""

    hosts: Mapping[str, Mapping[str, Any] | None]
    problems: Mapping[str, str] = field(default_factory=dict)
    at: str = ""  # by this machine's clock, before the first host was asked

    @classmethod
    def of(cls, results: Mapping[str, HostResult], expected: tuple[str, ...], at: str) -> Facts:
        """Given the results of a run, who should have answered, and when they were asked, return the facts."""
        hosts: dict[str, Mapping[str, Any] | None] = {}
        problems: dict[str, str] = {}
        for name in expected:
            result = results.get(name)
            answer = (
                None
                # guard: what a host said before it failed is not what is known of it -> result is None
                if result is None or result.bad
                else result.reports.get("facts")
            )
            hosts[name] = answer
            if answer is None:
                problems[name] = (result.message if result is not None else None) or "did not answer"
        return cls(hosts, problems, at)

    @property
    def homes_unknown(self) -> str | None:
        """Why nobody knows which homes and backups there are; None if the storage host reported them."""
        if self.of_homes() is not None:
            return None
        return ", ".join(f"{host} ({reason})" for host, reason in self.problems.items()) or "no storage host was asked"

    @property
    def silent(self) -> tuple[str, ...]:
        """The hosts that did not answer."""
        return tuple(name for name, answer in self.hosts.items() if answer is None)

    def of_homes(self) -> Mapping[str, Any] | None:
        """The homes, as the storage host has them; None if it is silent."""
        return self._find("homes", None)

    @property
    def no_snapshots(self) -> str | None:
        """Why the storage host can make no backup of the homes; None if it can, or is silent."""
        return self._find("no_snapshots", None)

    def identities(self) -> Mapping[str, int]:
        """uids by the storage host's NSS, of people whose uid the registry does not have."""
        return self._find("identities", {})

    def backups(self) -> list[Mapping[str, Any]]:
        """The complete backups on the storage host, oldest first."""
        storage = next((answer for answer in self.hosts.values() if answer is not None and "homes" in answer), {})
        return list(storage.get("backups", ()))

    def waiting(self) -> list[str]:
        """Homes that are out of sight and not deleted (yet), as BACKUP/USER."""
        return list(self._find("waiting", ()))

    def _find(self, name: str, default: Default) -> Any | Default:
        """What only the storage host reports; the default where it is silent, or has none."""
        return next((answer[name] for answer in self.hosts.values() if answer and name in answer), default)

    def scratch(self, host: str) -> list[Mapping[str, Any]]:
        answer = self.hosts.get(host)
        return list(answer["scratch"].get("items", ())) if answer is not None and "scratch" in answer else []

    def scratch_problems(self, host: str) -> Mapping[str, str]:
        """What a node could not look at, or did not name, and why."""
        answer = self.hosts.get(host)
        return dict(answer["scratch"].get("problems", {})) if answer is not None and "scratch" in answer else {}

    def processes(self) -> dict[str, dict[str, int]]:
        """Who still runs how many processes, by host."""
        return {
            name: dict(answer["processes"]) for name, answer in self.hosts.items() if answer and answer["processes"]
        }
