"""The private keys that a run logs in with: a bad key is this machine's fault, not a host's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuadmin.config.inventory import Host
from gpuadmin.config.private_key import KeyProblem, key_files, login_problem
from gpuadmin.results import BY_KEY, DENIED, RunResult


@dataclass(frozen=True)
class AdminKeys:
    """Host → the private key for logging in there (None: ssh's own choice); and what is wrong with each key."""

    keys: Mapping[str, str | None] = field(default_factory=dict)
    problems: Mapping[str | None, KeyProblem] = field(default_factory=dict)

    @classmethod
    def of(cls, hosts: Iterable[Host], named: str | None, above: str | None) -> AdminKeys:
        """Given hosts, the site's key, and a key that overrides site and inventory, look at each key once."""
        keys = cls.unseen(hosts, named, above).keys
        return cls(keys, {key: found for key in set(keys.values()) if (found := login_problem(key)) is not None})

    @classmethod
    def unseen(cls, hosts: Iterable[Host], named: str | None, above: str | None = None) -> AdminKeys:
        """The same without looking at the keys, which would start programs."""
        return cls({host.name: above or host.key or named for host in hosts if not host.local})

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of all of them."""
        return tuple(path for key in set(self.keys.values()) for path in key_files(key))

    @property
    def ask(self) -> bool:
        """Whether ssh would ask for the passphrase of one."""
        return any(not problem.sure for problem in self.problems.values())

    def blamed(self, found: RunResult) -> RunResult:
        """Given a run's result, return it with the bad key blamed in place of the host."""
        hosts = dict(found.hosts)
        for name, host in found.hosts.items():
            problem = self.problems.get(self.keys[name]) if name in self.keys else None
            # guard: a key that ssh does not use is not the host's fault
            if problem is not None and host.status == "unreachable" and host.message == DENIED:
                hosts[name] = replace(host, message=f"{BY_KEY} {problem.key} of this machine {problem.message}")
        return replace(found, hosts=hosts)
