"""From machines that one can log in to, to machines that gpuadmin works with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpuadmin.actions.trust import pin
from gpuadmin.ansible import connections
from gpuadmin.ansible.invocation import Secrets
from gpuadmin.common.text import counted
from gpuadmin.config.fields import USER_NAME, SshKey
from gpuadmin.config.inventory import KEY
from gpuadmin.config.load import Site
from gpuadmin.config.private_key import DEFAULTS, key_problem
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.reading import expanded, read_text
from gpuadmin.results import BY_KEY, HostResult, RunResult
from gpuadmin.session import Session, opened

_ANOTHER_LOGIN = (
    "another login is --as USER (many hosts let root in by key alone), a password --ask-pass; then run it again"
)
#: What a check says of a host whose key was not confirmed before.
_UNPINNED = "its host key is not pinned yet, so it was not looked at; it is shown above"


@dataclass(frozen=True)
class Entrance:
    """How one can log in now. `identity`: a private key's file; None: the site's key, or ssh's own."""

    user: str
    identity: Path | None = None

    def variables(self) -> dict[str, Any]:
        """What Ansible is told of it, above what the inventory says. root needs no sudo, which may be missing."""
        given: dict[str, Any] = {"ansible_user": self.user, "ansible_become": self.user != "root"}
        if self.identity is not None:
            given[KEY] = connections.literal(str(expanded(self.identity).absolute()))
        return given


def bootstrap(options: Options, names: Sequence[str], entrance: Entrance, *, uid: int, home: str | None) -> int:
    """Make hosts ready, by names. `uid`, `home`: of a new admin account. Returns the exit code."""
    with opened("bootstrap", options) as session:
        hosts = [host for host in session.site.inventory.named(names) if host in session.hosts]
        variables = {"bootstrap_key": find_public_key(session.site), "bootstrap_uid": uid}
        if home is not None:
            variables["bootstrap_home"] = home
        keys = pin(session, hosts)
        absent = {
            name: HostResult("unreachable", message=key["message"] or _UNPINNED)
            for name, key in keys.items()
            if not _usable(session, key)
        }
        there = [
            host.name
            for host in hosts
            if host.name not in absent  # guard: a host whose key is not pinned gets no password
        ]
        entered = {**variables, **entrance.variables()}
        found = session.look("bootstrap", there, entered) if there else RunResult({})
        planned = session.plan(_plan(session, {**absent, **found.hosts}).build())
        if not planned and any(not host.bad for host in found.hosts.values()):
            session.console.print("Nothing to do on the hosts that answered.")
        session.begun()  # also where no host could be asked
        changing = [name for name, host in found.hosts.items() if host.changed and not host.bad]
        if session.check:
            looked = {**absent, **found.hosts}
            return report(session, RunResult(looked), advice=_advice(looked))
        done = RunResult({})
        if changing:
            session.confirm()  # guard: bootstrap asks before it makes something
            done = session.run("bootstrap", changing, entered, check=False)
        hosts_now = {**absent, **found.hosts, **done.hosts}
        proven = (
            done
            if done.interrupted or done.error
            else _prove(session, variables, hosts_now)  # guard: a machine is ready when the admin account has been in
        )
        ended = {**hosts_now, **proven.hosts}
        return report(session, replace(proven, hosts=ended), advice=_advice(ended))


def _advice(hosts: Mapping[str, HostResult]) -> str | None:
    """What to do next: another login helps only where a host has refused this one."""
    why = [host.message or "" for host in hosts.values() if host.bad]
    if any("login" in one and not one.startswith(BY_KEY) for one in why):
        return _ANOTHER_LOGIN
    if any("sudo password" in one for one in why):  # Ansible's "Missing …" and "Incorrect sudo password"
        return "--ask-become-pass asks for the sudo password; then run it again"
    return "gpuadmin trust HOST pins a key without anything else; then run it again" if _UNPINNED in why else None


def _usable(session: Session, key: dict[str, str | None]) -> bool:
    """Whether a host is asked anything: it has answered, and its key is pinned; a check pins none."""
    return key["state"] == "pinned" or (key["state"] == "new" and not session.check)


def _plan(session: Session, found: dict[str, HostResult]) -> PlanBuilder:
    builder = PlanBuilder(f"Make {counted(len(found), 'host')} ready for {session.site.settings.name}")
    for name, host in found.items():
        if host.bad:
            builder.warn(f"{name}: {host.message}")
        else:
            builder.add_all([name], host.changed)
    return builder


def _prove(session: Session, variables: dict[str, Any], hosts: dict[str, HostResult]) -> RunResult:
    """Log in to each host that went well as every later run does: by the admin account's key, without a password."""
    well = [name for name, host in hosts.items() if not host.bad]
    if not well:
        return RunResult({})
    # a connection that is still open would prove nothing
    connections.close(session.site.known_hosts)  # guard: the proof is of a new connection
    session.console.print("Logging in as the admin account…")
    proof = session.run(
        "bootstrap",
        well,
        variables,
        check=True,
        secrets=Secrets(),  # guard: the proof uses no password
        label="bootstrap (as the admin account)",
    )
    user = session.site.settings.admin.user
    results = {}
    for name, host in proof.hosts.items():
        before = hosts[name]
        if host.bad:
            message = f"it was made ready, but not for a login as {user}: {host.message}"
            results[name] = HostResult(host.status, before.changed, message)
        elif host.changed:
            message = f"it was made ready, and the admin account finds this missing: {'; '.join(host.changed)}"
            results[name] = HostResult("failed", before.changed, message)
        else:
            results[name] = before
    return replace(proof, hosts=results)


def find_public_key(site: Site) -> str:
    """The public key that belongs to gpuadmin's private one. Raises ConfigError if there is none, or no name."""
    admin = site.settings.admin
    if admin.user == "root" or not USER_NAME.fullmatch(admin.user):
        raise ConfigError(
            f"gpuadmin.yml: admin.user: {admin.user!r} cannot be the name of gpuadmin's own account",
            hint="a name such as gpuadmin: small letters, digits, - and _",
        )
    for path in _public_keys(admin.ssh_key):
        if path.exists():
            try:
                key: str = TypeAdapter(SshKey).validate_python(read_text(path).strip())
            except ValidationError as error:
                raise ConfigError(f"{path}: {error.errors()[0]['msg']}", hint="it must hold one public key") from None
            return key
    if admin.ssh_key and (problem := key_problem(admin.ssh_key)) and problem.sure:
        raise ConfigError(f"gpuadmin.yml: admin.ssh_key: {problem.key} {problem.message}", hint=problem.hint)
    missing = f"{admin.ssh_key}.pub" if admin.ssh_key else "~/.ssh/id_ed25519.pub"
    raise ConfigError(
        f"{missing}: no such file; the admin account needs a public key",
        hint="make one: ssh-keygen -t ed25519; or write it from the private one: ssh-keygen -y -f KEY > KEY.pub",
    )


def _public_keys(private: str | None) -> Iterable[Path]:
    if private is not None:
        return [expanded(f"{private}.pub")]
    return [expanded("~/.ssh") / f"{name}.pub" for name in DEFAULTS]
