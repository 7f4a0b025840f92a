"""What the verbs about the queue share: which host has it, and what it says."""

from __future__ import annotations

from gpuadmin.answers import Answers
from gpuadmin.errors import ConfigError
from gpuadmin.results import RunResult
from gpuadmin.session import Session


def controller(session: Session) -> str:
    """The host that has the queue. Raises ConfigError where there is none."""
    hosts = session.site.inventory.group("slurm")
    if session.site.settings.slurm is None or not hosts:
        raise ConfigError(
            "this site has no queue: gpuadmin.yml has no section slurm, or no host is in the group slurm",
            hint="docs/slurm.md says how one is set up",
        )
    return hosts[0].name


def ask(session: Session, host: str) -> tuple[Answers, RunResult]:
    """Ask Slurm's controller for jobs and nodes."""
    run = session.run("queue", [host], {}, check=True, quiet=True)
    return Answers.of(run.hosts, [host], "queue"), run
