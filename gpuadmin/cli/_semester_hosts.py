"""Asking the hosts: one phase of the playbook, and the facts that everything is decided from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gpuadmin.cli._verb import Verb
from gpuadmin.errors import GpuadminError, InterruptedRun
from gpuadmin.semester.facts import Facts

if TYPE_CHECKING:
    from rich.console import Console

    from gpuadmin.config.schema import Settings
    from gpuadmin.records import Record
    from gpuadmin.run import RunResult, Secrets


def bad_hosts(run: RunResult) -> dict[str, str]:
    """The hosts where a phase did not succeed, and why."""
    return {name: host.message or host.status for name, host in run.hosts.items() if host.bad}


def play(
    verb: Verb,
    console: Console,
    secrets: Secrets,
    record: Record,
    phase: str,
    hosts: Sequence[str],
    **variables: Any,
) -> RunResult:
    """Run the playbook for one phase. Raises InterruptedRun and GpuadminError where it did not come to an end."""
    from gpuadmin.accounts import variables as people
    from gpuadmin.console import Progress
    from gpuadmin.run import Invocation, RunResult, run

    if not hosts:
        return RunResult({})
    options, site = verb.options, verb.site
    log = record.directory / "phase.txt"
    with Progress(console, verbose=options.verbose) as progress:
        result = run(
            Invocation(
                playbook=verb.name,
                inventory=site.inventory.sources,
                known_hosts=site.known_hosts,
                hosts=len(hosts),
                variables={
                    "gpuadmin_site": site.settings.model_dump(mode="json"),
                    "gpuadmin_phase": phase,
                    **people(site.registry, site.settings, ()),
                    **variables,
                },
                limit=",".join(hosts),
                check=options.check and phase != "facts",
                verbosity=options.verbose,
                secrets=secrets,
                log=log,
            ),
            on_task=progress.task,
            on_host=progress.host,
        )
    if log.exists():
        with record.log.open("a", encoding="utf-8") as stream:
            stream.write(f"=== {phase}\n{log.read_text(encoding='utf-8', errors='replace')}\n")
        record.log.chmod(0o600)
        log.unlink()
    if result.interrupted:
        raise InterruptedRun(
            f"interrupted in {phase}; what was done is done", hint=f"go on with: gpuadmin {verb.name} --resume"
        )
    if result.error:
        raise GpuadminError(result.error, hint=f"the whole output: gpuadmin runs {record.id} --log")
    return result


def gather(verb: Verb, console: Console, secrets: Secrets, record: Record) -> Facts:
    """Ask all hosts for what has to be known before anything is decided."""
    users = verb.site.registry.registry.users
    at = datetime.now(UTC).isoformat(timespec="seconds")
    hosts = verb.named("gpu", "storage", "backup")

    def ask(people: list[dict[str, Any]], names: list[str], on: Sequence[str]) -> Facts:
        asked = {"people": people, "names": names}
        result = play(verb, console, secrets, record, "facts", on, gpuadmin_term=asked)
        return Facts.of(result.hosts, tuple(on), at)

    known = {user.name: user.uid for user in users if user.uid is not None}
    names = [user.name for user in users if user.uid is None]
    if names:
        # whose uid only the hosts know can be looked for only when they have said it
        known |= ask([], names, verb.named("storage")).identities()
    return ask(persons(known, verb.site.settings), names, hosts)


def persons(uids: Mapping[str, int], settings: Settings) -> list[dict[str, Any]]:
    """Given names and uids, return what hosts are told of people; ids outside of people's range are nobody's."""
    from gpuadmin.accounts import subid_range

    found = []
    for name, uid in uids.items():
        if settings.accounts.uid_first <= uid <= settings.accounts.uid_last:
            first, last = subid_range(uid, settings)
            found.append({"name": name, "uid": uid, "subid_start": first, "subid_count": last - first + 1})
    return found
