"""List what the next admin needs, and seal the secrets for their key."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509

from gpuadmin.actions.power import PASSWORD_VARIABLE as BMC_PASSWORD
from gpuadmin.actions.shared.images import signing_key
from gpuadmin.actions.shared.metrics import SECRET, read_metrics_secret
from gpuadmin.actions.shared.privileges import Seen as Privileges
from gpuadmin.actions.shared.privileges import declared
from gpuadmin.common.text import counted, listed, the_page
from gpuadmin.config.fields import key_fingerprint
from gpuadmin.config.groups import GROUPS
from gpuadmin.config.known_hosts import known_as, pinned_keys, read_known_hosts
from gpuadmin.config.load import Site
from gpuadmin.config.private_key import key_files
from gpuadmin.config.schema.term import MAIL_PASSWORD
from gpuadmin.console import echo
from gpuadmin.desired.nodes import find_bmc
from gpuadmin.display import styled
from gpuadmin.errors import ConfigError, ExitCode
from gpuadmin.handover.items import IN_ORDER, MISSING, UNKNOWN, YOURS, Item
from gpuadmin.handover.machine import aliases, own_units, repository, timers, variables
from gpuadmin.handover.sealing import Secret, age, recipients, sealed, shown, write
from gpuadmin.mail.smtp import read_password
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.reading import expanded, read_limited, read_secret, read_text
from gpuadmin.records import list_runs
from gpuadmin.session import Session, opened

_SOON = timedelta(days=60)  # a certificate that ends within it is the next admin's first work
_RECENT = timedelta(days=35)  # a month, and some days: since then a backup has been verified
_SEAL = "gpuadmin hand-over --to KEYFILE"
_COLOURS = {IN_ORDER: "green", MISSING: "bold red", YOURS: "bold yellow", UNKNOWN: "magenta"}


def hand_over(options: Options, *, to: str | None, output: Path | None) -> int:
    """Show the list; with `to` write the bundle, for a key's file or an admin. Returns the exit code."""
    with opened("hand-over", options, changes=False) as session:
        site = session.site
        keys = [] if to is None else recipients(site.settings, to)
        target = output or Path(f"hand-over-{date.today()}.age")
        if keys:
            age()
            if os.path.lexists(target):
                raise ConfigError(f"{target}: is there already", hint="name another file: -o FILE")
        secrets, items = _secrets(site)
        asked = session.some(*GROUPS)
        builder = PlanBuilder("Look who has power over the hosts")
        builder.add_all(asked, ["look who has power over it"])
        session.planned(builder.build())
        run = session.look("hand-over", asked, declared(session), quiet=True)
        written = bool(
            keys and secrets and not options.check  # guard: a check seals nothing
        )
        if written:
            write(target, sealed(secrets, keys, _readme(site, secrets)))
            items = [_settled(one, target) for one in items]
        power = Privileges.of(session, run)
        items += [*_of_machine(site), *_of_hosts(session, power, keys)]
        code = (
            run.code
            or power.code  # guard: a host that is silent is not handed over
            or (ExitCode.DIFFERS if any(one.state in (MISSING, YOURS) for one in items) else ExitCode.DONE)
            or (ExitCode.HOST_FAILED if any(one.state == UNKNOWN for one in items) else ExitCode.DONE)
        )
        if not options.json:
            _show(session, items)
            _say(keys, secrets, target, written)
        result = {
            "items": [one.document() for one in items],
            "bundle": str(target) if written else None,
            "for": [shown(key) for key in keys],
            "sealed": [one.name for one in secrets] if keys else [],
        }
        return report(session, run, result, code=code, show=lambda: None)


def _readme(site: Site, secrets: Sequence[Secret]) -> str:
    """What is in the bundle and where it goes, for whoever opens it."""
    lines = [f"Secrets of the site {site.settings.name}, {date.today()}. Put each where it belongs, with mode 600:", ""]
    lines += [f"{one.name}: {one.place}" for one in secrets]
    return "\n".join([*lines, "", "Then delete this directory, and the bundle.", ""])


def _settled(item: Item, bundle: Path) -> Item:
    """A line whose secret is in the bundle now."""
    if item.state != YOURS or item.command != _SEAL:
        return item
    return Item(item.what, item.where, IN_ORDER, f"is in {bundle}")


def _secrets(site: Site) -> tuple[list[Secret], list[Item]]:
    """What is secret of a site and no part of its repository, and what is to be said of each."""
    secrets: list[Secret] = []
    items: list[Item] = []
    for what, name, place, where, read, none in _kept(site):
        try:
            content = read()
        except (ConfigError, OSError) as error:
            words = error.message if isinstance(error, ConfigError) else f"cannot be read ({error.strerror})"
            hint = (error.hint if isinstance(error, ConfigError) else None) or "put it back from a backup"
            items.append(Item(what, where, MISSING, words, hint))
            continue
        if content is None:
            items.append(none)
            continue
        secrets.append(Secret(name, place, content))
        items.append(Item(what, where, YOURS, "the next admin needs it, and git does not have it", _SEAL))
    return secrets, items


def _kept(site: Site) -> Iterator[tuple[str, str, str, str, Any, Item]]:
    """What it is, its name in the bundle, where it belongs, where it is, how it is read, and what is said of none."""
    settings = site.settings
    key = signing_key(site)
    made = key.with_name(f"{key.name}.pub").exists() or settings.images.signing_key is not None
    yield (
        "signing key", "image_signing_key", f"{key.name} in the site, or where images.signing_key says", str(key),
        lambda: _read(key, made),
        Item("signing key", str(key), IN_ORDER, "none yet: the first prepare-root makes it"),
    )  # fmt: skip
    secret = site.directory / SECRET
    needed = bool(site.inventory.group("monitor", "slurm"))
    yield (
        "metrics secret", SECRET, f"{SECRET} in the site", str(secret),
        lambda: read_metrics_secret(site).hex().encode() + b"\n" if read_text(secret).strip() else None,
        Item("metrics secret", str(secret), MISSING, "every certificate follows from it", "gpuadmin provision")
        if needed
        else Item("metrics secret", str(secret), IN_ORDER, "none, and no host needs one"),
    )  # fmt: skip
    mail = settings.mail
    where = "no mail.user" if mail is None or mail.user is None else mail.password_file or MAIL_PASSWORD
    if mail is not None and os.environ.get(MAIL_PASSWORD):
        where = MAIL_PASSWORD
    yield (
        "SMTP password", "smtp_password", "a file outside of the site, which mail.password_file names", where,
        lambda: None if mail is None or not (found := read_password(mail)) else found.encode() + b"\n",
        Item("SMTP password", where, IN_ORDER, "the site logs in to no mail server"),
    )  # fmt: skip
    bmcs = [bmc for one in site.inventory.hosts if (bmc := find_bmc(settings, one)) is not None]
    for number, name in enumerate(dict.fromkeys(bmc.password_file for bmc in bmcs if bmc.kind != "wol")):
        where = name or BMC_PASSWORD
        yield (
            "BMCs' password", f"bmc_password{number or ''}", "a file that bmc.password_file names", where,
            lambda name=name: (found := read_secret(BMC_PASSWORD, name, "bmc.password_file")) and f"{found}\n".encode(),
            Item("BMCs' password", where, MISSING, "bmc.password_file names no file", the_page("power")),
        )  # fmt: skip
    web = settings.metrics.dashboard
    if web.key is not None:
        file = expanded(web.key)
        yield (
            "dashboard's key", "dashboard.key", "where metrics.dashboard.key says", str(file),
            lambda: _read(file, True),
            Item("dashboard's key", str(file), IN_ORDER, "none"),
        )  # fmt: skip


def _read(path: Path, needed: bool) -> bytes | None:
    try:
        return read_limited(path)
    except FileNotFoundError:
        if needed:
            raise ConfigError(
                "is not there", hint="ask whoever ran gpuadmin before, or look in their backups"
            ) from None
        return None


def _of_machine(site: Site) -> Iterator[Item]:
    """What this machine alone can say."""
    yield from _certificates(site)
    yield from repository(site.directory)
    yield from _records(site)
    yield from timers(own_units())
    yield from _backups(site)
    yield from _only_here(site)
    yield from aliases(site.inventory.hosts)
    yield from variables(os.environ)


def _certificates(site: Site) -> Iterator[Item]:
    if site.inventory.group("monitor"):
        yield Item("certificates", SECRET, IN_ORDER, "those that gpuadmin makes do not expire")
    named = site.settings.metrics.dashboard.certificate
    if named is None:
        return
    path = expanded(named)
    settle = "get another from whoever signed it; then gpuadmin provision"
    try:
        end = x509.load_pem_x509_certificates(read_limited(path))[0].not_valid_after_utc
    except (OSError, ValueError, ConfigError):
        yield Item("certificates", str(path), MISSING, "no certificate (PEM) can be read there", settle)
        return
    left = end - datetime.now(UTC)
    if left < timedelta(0):
        yield Item("certificates", str(path), MISSING, f"ended on {end:%Y-%m-%d}", settle)
    elif left < _SOON:
        yield Item("certificates", str(path), MISSING, f"ends on {end:%Y-%m-%d}, in {left.days} days", settle)
    else:
        yield Item("certificates", str(path), IN_ORDER, f"ends on {end:%Y-%m-%d}")


def _records(site: Site) -> Iterator[Item]:
    """The paper trail, which git does not have."""
    runs = list_runs(site.runs)
    copy = f"rsync -a {shlex.quote(str(site.runs))}/ NEW:SITE/runs/"
    if not runs:
        yield Item("records", str(site.runs), MISSING, "no run is recorded here: they are where gpuadmin was run", copy)
        return
    resets = sorted(one.name.removeprefix("term-") for one in site.runs.glob("term-*") if one.is_dir())
    words = f"{counted(len(runs), 'run')}, the oldest of {str(runs[-1]['started'])[:10]}"
    words += f"; resets of {listed(resets)}" if resets else "; no reset of a term"
    yield Item("records", str(site.runs), YOURS, f"{words}; git does not have them", copy)


def _backups(site: Site) -> Iterator[Item]:
    hosts = [host.name for host in site.inventory.group("backup")]
    if hosts:
        yield Item("backup host", listed(hosts), IN_ORDER, "second copies of the homes are there")
    else:
        words = "none: backups are on the storage host alone, and are lost with it"
        yield Item("backup host", "inventory/hosts.yml", MISSING, words, "put a host into the group backup")
    done = [one for one in list_runs(site.runs) if one["verb"] == "verify-backup" and one["exit_code"] == 0]
    done = [one for one in done if "--check" not in one["arguments"]]
    last = str(done[0]["started"])[:10] if done else None
    if last is not None and date.fromisoformat(last) >= date.today() - _RECENT:
        yield Item("backups", str(site.runs), IN_ORDER, f"one was verified on {last}")
    else:
        words = f"none was verified since {last}" if last else "no record says that one was verified"
        yield Item("backups", str(site.runs), UNKNOWN, words, "gpuadmin verify-backup")


def _only_here(site: Site) -> Iterator[Item]:
    """Files of this machine that the site's files name, your own ssh key, and what only your known_hosts has."""
    settings = site.settings
    keys = {host.key or settings.admin.ssh_key for host in site.inventory.hosts if not host.local}
    for key in sorted(keys, key=str):
        files = [path for path in key_files(key) if path.exists()]
        where = str(key or "~/.ssh")
        bootstrap = "declare the new admin (admins:); they set admin.ssh_key and run gpuadmin bootstrap HOST… --as NAME"
        if files:
            words = "the private key that gpuadmin logs in with; it stays yours, and goes into no bundle"
            yield Item("login", listed([str(path) for path in files]), YOURS, words, bootstrap)
        elif os.environ.get("SSH_AUTH_SOCK"):
            yield Item(
                "login", "your ssh-agent", YOURS, "gpuadmin logs in with a key that only your agent has", bootstrap
            )
        else:
            yield Item("login", where, MISSING, "there is no private key to log in with", bootstrap)
    text = read_known_hosts(site.known_hosts)
    hosts = [one for one in site.inventory.hosts if not one.local]
    unknown = [one.name for one in hosts if not pinned_keys(text, known_as(one.address, one.port))]
    if unknown:
        words = f"does not have {listed(unknown)}: they are known by your own ~/.ssh/known_hosts, or not at all"
        yield Item("host keys", "known_hosts", YOURS, words, "gpuadmin trust --all")
    else:
        yield Item("host keys", "known_hosts", IN_ORDER, "the site has those of all hosts")
    named = {
        "mail.ca_file": None if settings.mail is None else settings.mail.ca_file,
        "metrics.dashboard.certificate": settings.metrics.dashboard.certificate,
        "docker.repository.key": None if settings.docker.repository is None else settings.docker.repository.key,
    }
    for setting, value in named.items():
        if value is None:
            continue
        path = expanded(value)
        path = path if path.is_absolute() else site.directory / path
        if not path.exists():
            yield Item("file", str(path), MISSING, f"{setting} names it, and it is not there", f"correct {setting}")
        elif path.is_relative_to(site.directory):
            yield Item("file", str(path), IN_ORDER, f"{setting} names it, and it is in the site")
        else:
            yield Item("file", str(path), YOURS, f"{setting} names it, outside of the site", "put it into the site")
    passwords = ("ansible_password", "ansible_ssh_pass", "ansible_become_password", "ansible_become_pass")
    if with_one := [one.name for one in site.inventory.hosts if set(passwords) & set(one.variables)]:
        words = f"a password of {listed(with_one)} is there, or is looked up from there"
        yield Item("sudo", "inventory", YOURS, words, "sudo without a password for admin.user: gpuadmin bootstrap")
    if os.environ.get("ANSIBLE_VAULT_PASSWORD_FILE"):
        yield Item(
            "vault", "ANSIBLE_VAULT_PASSWORD_FILE", YOURS, "only you can open the site's vault", "ansible-vault rekey"
        )


def _of_hosts(session: Session, power: Privileges, keys: Sequence[str]) -> Iterator[Item]:
    """Admins: those whom the site declares, and those whom hosts have; and whether the new one gets in."""
    settings, today = session.site.settings, date.today()
    if settings.admins is None:
        words = f"no admin is declared: whoever has a key of {settings.admin.user} is one"
        yield Item("admins", "gpuadmin.yml", MISSING, words, "admins: in gpuadmin.yml; then gpuadmin provision")
    for one in settings.admins or ():
        ended = one.until is not None and one.until < today
        until = "without an end" if one.until is None else f"until {one.until}"
        words = f"{counted(len(one.keys), 'key')}, {'sudo' if one.sudo else 'no sudo'}, {until}"
        settle = "take the entry out, or set another day; then gpuadmin provision" if ended else ""
        yield Item("admins", f"gpuadmin.yml: {one.name}", MISSING if ended else IN_ORDER, words, settle)
    for found in power.roots:
        yield Item("admins", listed(found.hosts), MISSING, f"not declared: {found.line}", "gpuadmin audit")
    for host, answer in power.answers.items():
        if answer["unknown"]:
            words = f"not known: {listed(list(answer['unknown']))}"
            yield Item("admins", host, UNKNOWN, words, "gpuadmin audit")
    for host, why in power.unknown.unknown.items():
        yield Item("admins", host, UNKNOWN, f"could not be asked: {why}", "gpuadmin hand-over, when it answers")
    ours = {key_fingerprint(key.split(" ")[1]) for key in keys if " " in key}
    if ours and power.answers:
        without = [
            host
            for host, answer in power.answers.items()
            if not ours & set(answer["keys"].get(settings.admin.user, ()))
        ]
        if without:
            settle = f"they run gpuadmin bootstrap {' '.join(without)} --as THEIR_NAME"
            words = f"the new admin's key does not log in as {settings.admin.user}"
            yield Item("login", listed(without), MISSING, words, settle)
        else:
            yield Item("login", listed(list(power.answers)), IN_ORDER, "the new admin's key logs in everywhere")


def _show(session: Session, items: Sequence[Item]) -> None:
    for one in items:
        session.console.print(
            styled((f"{one.state:<10}", _COLOURS[one.state]), f"  {one.what}: {one.where}: {one.words}")
        )
        if one.command and one.state != IN_ORDER:
            session.console.print(f"            {one.command}")


def _say(keys: Sequence[str], secrets: Sequence[Secret], target: Path, written: bool) -> None:
    names = listed([one.name for one in secrets])
    if not keys:
        return
    if not secrets:
        echo("There is no secret to seal.", err=True)
        return
    echo(f"{'Sealed' if written else 'Would seal'} {names} into {target}, for:", err=True)
    for key in keys:
        echo(f"  {shown(key)}", err=True)
    if written:
        echo("The new admin opens it in a new directory:", err=True)
        echo(f"  mkdir -m 700 ~/handed && age -d -i ~/.ssh/id_ed25519 {target.name} | tar -x -C ~/handed", err=True)
