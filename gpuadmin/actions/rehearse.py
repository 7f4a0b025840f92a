"""Run a verb on the site's twin first, and then on the real hosts, with the same plan."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from gpuadmin import __version__
from gpuadmin.accounts.requests import known
from gpuadmin.actions.lab import twin_site, up_twin
from gpuadmin.config.find import SETTINGS_FILE, USERS_FILE
from gpuadmin.config.hosts_file import HOSTS_FILE
from gpuadmin.config.load import Site, load_site
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.console import echo
from gpuadmin.errors import ConfigError, ExitCode, GpuadminError, RefusedError
from gpuadmin.jsontext import json_text
from gpuadmin.lab import snapshots, state, twin
from gpuadmin.lab.progress import Progress
from gpuadmin.records import history
from gpuadmin.rehearsed import VARIABLE
from gpuadmin.semester.machine import ANNOUNCE, LOCK, State
from gpuadmin.semester.term import current_term
from gpuadmin.similar import did_you_mean

#: What light hosts can show. They have no boot loader, and no monitor that has measured for days.
VERBS = (
    "provision", "reboot", "shutdown", "grant", "revoke", "drain", "resume",
    "add-user", "change-user", "remove-user", "lock-user", "unlock-user", "extend-user", "sync-users", "announce",
    "import-applications", "notify", "extend-term", "semester-reset",
    "backup", "verify-backup", "restore-home", "clear-leftovers",
)  # fmt: skip
#: Those whose people have to be registered.
_OF_PEOPLE = ("grant", "change-user", "remove-user", "lock-user", "unlock-user", "extend-user", "extend-term")
_READY, _KEY = "ready", "ready.key"


def rehearse(
    given: str | None,
    verb: str,
    arguments: Sequence[str],
    words: Mapping[str, Any],
    *,
    twin_only: bool,
    every: Collection[str],
) -> int:
    """Run a verb on the twin of the site `given`, and, unless `twin_only`, on the site. `words`: the arguments by their
    names; `every`: all verbs that there are. Returns the exit code.
    """
    if verb not in every:
        hint = did_you_mean(verb, every) or "gpuadmin --help lists the verbs; options for rehearse come before the verb"
        raise ConfigError(f"there is no verb {verb!r}", hint=hint)
    if verb not in VERBS:
        hint = f"it rehearses: {', '.join(VERBS)}"
        raise ConfigError(f"{verb!r} cannot be rehearsed on light hosts", hint=hint)
    for one, forms in (
        ("--site", "--site"),
        ("--check", "--check"),
        ("--yes", "--yes|-[A-Za-z]*y[A-Za-z]*"),
        ("--json", "--json"),
    ):
        # guard: the real hosts are asked about, whatever was typed for the twin
        if any(re.fullmatch(f"({forms})(=.*)?", word, re.DOTALL) for word in arguments):
            raise ConfigError(f"{one} has no meaning after {verb}", hint=f"gpuadmin rehearse [--site DIR] {verb} …")
    real = load_site(given)
    _refuse_strangers(real, verb, words)
    if verb == "semester-reset":
        _refuse_reset(real, words)
    # guard: a second rehearsal waits for no twin that a first one uses
    with state.locked(name_twin(real.settings.name), "rehearsal.lock"):
        code, rehearsed = _on_twin(real, verb, arguments)
        if code != ExitCode.DONE or twin_only:
            return code
        if _contents(load_site(given)) != _contents(real):  # guard: a site that was changed meanwhile was not rehearsed
            raise RefusedError(
                f"{real.directory} was changed during the rehearsal; nothing was done on the real hosts",
                hint="rehearse it again",
            )
        echo("Now the real hosts.", err=True)
        return _gpuadmin(verb, real.directory, arguments, {VARIABLE: str(rehearsed)})


def _refuse_strangers(site: Site, verb: str, words: Mapping[str, Any]) -> None:
    """Raise ConfigError, as the verb does, where it is to do something to people or hosts that the site does not have:
    before a twin is made. Of people only where they have to be registered.
    """
    if verb in _OF_PEOPLE:
        named = [one for key in ("name", "names") for one in _several(words.get(key))]
        removed = {one.name for one in site.registry.registry.retired} if verb == "remove-user" else set()
        known(site.registry, [one for one in named if one not in removed])
    for key, called in (("host", "HOST"), ("hosts", "HOST"), ("nodes", "HOST"), ("limit", "--limit")):
        for one in _several(words.get(key)):
            site.inventory.limited(one, called)


def _refuse_reset(site: Site, words: Mapping[str, Any]) -> None:
    """Raise what the reset would, which is begun on the twin and asks nobody there: before a twin is made."""
    term, phase = current_term(site.settings), words.get("phase")
    if words.get("preview"):
        return
    if words.get("resume") or words.get("abort") or phase not in (None, ANNOUNCE):
        raise ConfigError("a twin has no reset that was begun", hint="rehearse it from its beginning")
    if words.get("term") not in ((term.name,) if phase is None else (None, term.name)):
        hint = f"add --term {shlex.quote(term.name)}"
        raise ConfigError("on the twin nobody is asked for the term's name, so it has to be given", hint=hint)
    try:
        State(early=bool(words.get("early"))).refuse_early(phase or LOCK, term, date.today())
    except RefusedError as error:
        raise RefusedError(
            error.message, hint="before that day, on the twin alone: add --twin-only, and --early"
        ) from None


def _several(given: str | Sequence[str] | None) -> Sequence[str]:
    return [given] if isinstance(given, str) else given or ()


def _contents(site: Site) -> tuple[object, ...]:
    """All that a site says: a plan names what is done, and not with which settings."""
    return site.settings, site.registry.file.text, site.inventory.hosts


def _on_twin(real: Site, verb: str, arguments: Sequence[str]) -> tuple[int, Path]:
    """Run a verb on the twin. Returns the exit code, and the file that has the plan."""
    directory = _ready(real)
    began = time.monotonic()
    before = {run["id"] for run, _ in history(directory / "runs")}
    code = _gpuadmin(verb, directory, ("--yes", *arguments))
    words = f"Rehearsed on the twin of {real.settings.name} in {time.monotonic() - began:.0f} s: it ended with {code}."
    if code != ExitCode.DONE:
        echo(f"{words} Nothing was done on the real hosts. The twin is as the verb left it: {directory}", err=True)
        return code, directory
    echo(words, err=True)
    mails = directory / twin.MAILS
    if mails.is_dir():
        echo(f"What would have been mailed: {mails}", err=True)
    plans = [run["plan"] for run, _ in history(directory / "runs") if run["id"] not in before and run["verb"] == verb]
    rehearsed = directory / "rehearsed.json"
    # a verb that had nothing to do has no record: it is to have nothing to do on the real hosts either
    write_atomically(rehearsed, json_text(plans[-1] if plans else {}))
    return code, rehearsed


def name_twin(site: str) -> str:
    """What the lab of a site's twin is called."""
    return f"twin-{re.sub(r'[^a-z0-9]+', '-', site.lower()).strip('-')[:25] or 'site'}".rstrip("-")


def _ready(real: Site) -> Path:
    """Have the twin as the site is now, with nothing of an earlier rehearsal. Returns its site's directory."""
    name = name_twin(real.settings.name)
    # what an earlier rehearsal registered, mailed or recorded is as unknown as it is to the real site
    shutil.rmtree(twin_site(name), ignore_errors=True)
    lab = up_twin(name, real)
    directory = Path(str(lab.site))
    key = _key(directory)
    marked = lab.directory / _KEY
    if _READY in lab.snapshots and marked.is_file() and marked.read_text() == key:
        snapshots.restore(name, _READY, Progress())
        return directory
    echo(f"First the twin is set up. Its site, with the records of its runs: {directory}", err=True)
    if _gpuadmin("provision", directory, ("--yes",)) != ExitCode.DONE:
        raise GpuadminError(
            f"the twin of {real.settings.name} could not be provisioned; nothing was done on the real hosts",
            hint=f"gpuadmin provision --site {shlex.quote(str(directory))}; "
            f"gpuadmin lab down --purge --name {name} begins again",
        )
    snapshots.save(name, _READY, Progress(), replace=True)
    marked.write_text(key)
    return directory


def _key(directory: Path) -> str:
    """What a twin that is ready was made from."""
    digest = hashlib.sha256(__version__.encode())
    for name in (SETTINGS_FILE, USERS_FILE, HOSTS_FILE):
        digest.update((directory / name).read_bytes() + b"\0")
    return digest.hexdigest()


def _gpuadmin(verb: str, site: Path, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run gpuadmin as somebody types it."""
    command = [sys.executable, "-P", "-m", "gpuadmin", verb, "--site", str(site), *arguments]
    return subprocess.run(command, check=False, env={**os.environ, **(environment or {})}).returncode
