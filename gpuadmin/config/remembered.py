"""What Ansible made of a site's inventory when it read it last, for as long as every file of it is as it was then.

Reading an inventory costs a second, nearly all of it Ansible's start; the answer is the same until a file changes. It
is in `runs/`, for its owner alone, and only ever a copy: without it, or if anything is wrong with it, Ansible reads.
What may answer otherwise although no file has changed (a script, a plugin) is never remembered (docs/decisions/0125).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuadmin import __version__
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError
from gpuadmin.reading import expanded, open_regular, read_limited

FILE = "inventory.json"  # in runs/
# of each inventory that Ansible read in this process, the digest; None: it had none
_FIRST: dict[Path, str | None] = {}
_DEEPEST = 8  # directories; a link that leads upwards would have no end


@dataclass
class Remembered:
    """What is remembered of one inventory. `digest`: of all that Ansible's answer follows from; None: nothing is."""

    folder: Path = Path()
    names: tuple[str, ...] = ()
    digest: str | None = None
    hosts: list[dict[str, Any]] | None = None
    logins: dict[str, dict[str, str]] = field(default_factory=dict)

    def asking(self) -> None:
        """Ansible is about to read the files, and keeps what it read of a directory for as long as the process lives:
        only its first answer is of files that are as they are.
        """
        if (
            # guard: what Ansible says of files that changed under it is not kept
            self.folder not in _FIRST and self.names
        ):
            _FIRST[self.folder] = digest(self.folder, self.names)

    def set_hosts(self, hosts: list[dict[str, Any]]) -> None:
        """Remember the hosts that were just read."""
        if self.digest is None or hosts is self.hosts:
            return
        self.hosts, self.logins = hosts, {}
        if _FIRST.get(self.folder) == self.digest:
            self._write()

    def login(self, host: str, settings: Mapping[str, Any]) -> dict[str, str] | None:
        """How Ansible logs in to a host with these settings; None: nobody remembers."""
        return self.logins.get(_login_key(host, settings))

    def add_login(self, host: str, settings: Mapping[str, Any], login: dict[str, str]) -> None:
        """Remember how Ansible logs in to a host. One host has one: that of the settings as they are now."""
        if self.digest is None or self.hosts is None:
            return
        self.logins = {key: one for key, one in self.logins.items() if not key.startswith(f"{host} ")}
        self.logins[_login_key(host, settings)] = login
        if _FIRST.get(self.folder) == self.digest:  # guard: a login keeps no hosts of files that changed -> True
            self._write()

    def _write(self) -> None:
        """A site without records, or one that only somebody else may write to, does without."""
        path = self.folder.parent / "runs" / FILE
        try:
            text = json.dumps({"digest": self.digest, "hosts": self.hosts, "logins": self.logins})
        # guard: what JSON cannot say of an inventory is not an error
        except (TypeError, ValueError):  # a day: what JSON cannot say is not kept
            return
        if (
            not path.parent.is_dir()
            or json.loads(text)["hosts"] != self.hosts  # guard: what JSON says otherwise of an inventory is not kept
        ):
            return
        try:
            # guard: a file that changes while Ansible reads it is read again -> True
            if (
                digest(self.folder, self.names) == self.digest
            ):  # a file changed meanwhile: which version does the answer belong to?
                # guard: what others could read of an inventory is its owner's alone again
                path.unlink(missing_ok=True)  # its mode, too, is decided here
                write_atomically(path, text + "\n", mode=0o600)
        except OSError:
            return


def remembered(folder: Path, names: Sequence[str]) -> Remembered:
    """Given an inventory's directory and the variables that are asked for, return what is remembered of it."""
    found = Remembered(folder, tuple(names), digest(folder, names))
    try:
        document = json.loads(_own(folder.parent / "runs" / FILE))
        if (
            found.digest is not None
            and document["digest"] == found.digest  # guard: an inventory that changed is read again
        ):
            hosts, logins = document["hosts"], document["logins"]
            if all(set(one) == {"name", "groups", "variables"} for one in hosts) and isinstance(logins, dict):
                found.hosts, found.logins = hosts, logins
    except (OSError, ValueError, KeyError, TypeError, ConfigError, RecursionError):
        pass
    return found


def _own(path: Path) -> bytes:
    """A file that nobody else can have written. Raises OSError."""
    descriptor = open_regular(path)
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        # guard: what somebody else may have written of an inventory is not believed
        if (
            # guard: what another account wrote of an inventory is not believed
            facts.st_uid != os.getuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        ):
            raise PermissionError(path)
        return stream.read()


def digest(folder: Path, names: Sequence[str]) -> str | None:
    """Of all that Ansible's answer follows from: every file's name and bytes, and Ansible's own version and settings.
    None if it may be another one tomorrow, or where a file cannot be read: then Ansible is to say so.
    """
    ansible = importlib.util.find_spec("ansible")
    if ansible is None or ansible.origin is None:
        return None
    own = [
        Path(ansible.origin).with_name("release.py"),  # guard: an inventory is remembered for one version of Ansible
        Path(__file__),  # guard: an inventory is remembered for one version of what keeps it
        Path(__file__).with_name("resolve.py"),  # guard: an inventory is remembered for one version of what asks for it
    ]
    total = hashlib.sha256(
        json.dumps(
            [
                __version__,  # guard: an inventory is remembered for one version of gpuadmin
                list(names),  # guard: an inventory is remembered for what was asked
                sorted(_environment()),  # guard: an inventory is remembered for one environment
            ]
        ).encode()
    )
    try:
        for path in own:
            _add(total, str(path), read_limited(path))
        for path in _settings():
            _add(total, str(path), read_limited(path))
        if _has_plugins():  # guard: an inventory that a plugin of this machine adds to is asked each time
            return None
        groups = content_path("inventory", "groups.yml")
        _add(total, groups.name, read_limited(groups))  # guard: an inventory is remembered for gpuadmin's own groups
        for path in _files(folder):
            raw = read_limited(path)
            # guard: an inventory that a script or a plugin answers is asked each time
            if os.access(path, os.X_OK) or b"plugin" in raw:
                return None
            _add(
                total,
                str(path.relative_to(folder)),  # guard: an inventory is remembered for files of these names -> ''
                raw,
            )
    except (OSError, ConfigError):
        return None
    return total.hexdigest()


def _settings() -> list[Path]:
    """Ansible's own settings, wherever it may find some."""
    # guard: an inventory is remembered for the settings that the environment names -> ''
    named = os.environ.get("ANSIBLE_CONFIG", "")
    places = (
        "ansible.cfg",  # guard: an inventory is remembered for the settings here
        "~/.ansible.cfg",  # guard: an inventory is remembered for one's own settings
        "/etc/ansible/ansible.cfg",
    )
    found = [expanded(one) for one in (named, *places) if one]
    # it takes a directory, too
    return [one for one in (path / "ansible.cfg" if path.is_dir() else path for path in found) if one.is_file()]


def _has_plugins() -> bool:
    """Whether this machine may have code of its own that adds to every inventory. Raises OSError, ConfigError."""
    enabled = "ANSIBLE_INVENTORY_ENABLED", "ANSIBLE_VARS_ENABLED"
    if any("PLUGIN" in name or name in enabled for name, _ in _environment()):
        return True
    if any(b"plugin" in read_limited(path) for path in _settings()):
        return True
    home = expanded(os.environ.get("ANSIBLE_HOME") or "~/.ansible")
    bases = home / "plugins", expanded("~/.ansible/plugins"), Path("/usr/share/ansible/plugins")
    folders = [base / kind for base in bases for kind in ("vars", "inventory")]
    folders += [Path("vars_plugins"), Path("inventory_plugins")]
    return any(one.is_dir() and any(one.iterdir()) for one in folders)


def _environment() -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in os.environ.items() if name.startswith("ANSIBLE_"))


def _add(total: Any, name: str, raw: bytes) -> None:
    total.update(
        # guard: where one file of an inventory ends and the next begins -> name.encode('utf-8', 'surrogateescape')
        f"{len(name)} {name} {len(raw)}\n".encode("utf-8", "surrogateescape")
    )
    total.update(raw)  # guard: an inventory is remembered for what its files say


def _files(folder: Path, depth: int = 0) -> Iterator[Path]:
    """Every file, through links as well. Raises OSError, also for a broken link, as Ansible does."""
    if depth > _DEEPEST:
        raise OSError(f"{folder}: too deep")
    for path in sorted(folder.iterdir()):
        if stat.S_ISDIR(path.stat().st_mode):
            yield from _files(path, depth + 1)
        else:
            yield path


def _login_key(host: str, settings: Mapping[str, Any]) -> str:
    return f"{host} {hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()}"
