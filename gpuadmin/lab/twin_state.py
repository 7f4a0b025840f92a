"""What adopt saw of a site's hosts, for its twin: adoption.json, read within bounds, and made on each fresh host."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional

from pydantic import TypeAdapter, ValidationError

from gpuadmin.ansible.reports import shape
from gpuadmin.common.records import adoption
from gpuadmin.common.records.bounds import Size
from gpuadmin.common.text import counted, listed
from gpuadmin.config.adopted import DOCUMENT, FORMAT
from gpuadmin.config.load import Site
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.lab import ssh, twin
from gpuadmin.lab.light import crooked
from gpuadmin.lab.progress import Progress
from gpuadmin.lab.releases import DEFAULT, RELEASES
from gpuadmin.lab.state import Host, Lab
from gpuadmin.text import one_line

_MOST_BYTES = 256 << 20
_SECONDS = 120.0
#: Reads the program, and what it is to make after that, from standard input: no word of either is in a command line.
_READ = "import sys; b = sys.stdin.buffer; exec(compile(b.read(int(b.readline())), 'crooked', 'exec'))"


@dataclass(frozen=True)
class _Seen:
    file_systems: Annotated[list[adoption.Mounted], Size(200)]
    exports: Annotated[list[adoption.Export], Size(200)]
    docker: Optional[adoption.Docker]  # noqa: UP045  as records have it
    seen: adoption.Kept


@dataclass(frozen=True)
class _Document:
    format: int
    hosts: dict[str, _Seen]


_SHAPE: TypeAdapter[Any] = TypeAdapter(shape(_Document))


@dataclass(frozen=True)
class State:
    """Host → what adopt saw of it; `text`: the file as it is."""

    hosts: Mapping[str, Mapping[str, Any]]
    text: str

    @property
    def without_images(self) -> frozenset[str]:
        """Hosts whose root does not fit images: their twins have an ordinary one."""
        return frozenset(name for name, one in self.hosts.items() if one["seen"]["images"] is False)

    @property
    def releases(self) -> dict[str, str]:
        """Host → its release, where a lab has that."""
        numbers = {release.suite: number for number, release in RELEASES.items()}
        suites = {name: one["seen"].get("suite") for name, one in self.hosts.items()}
        return {name: numbers[suite] for name, suite in suites.items() if suite in numbers}


def read(path: Path) -> State:
    """Read an adoption.json. Raises GpuadminError with the file and the field where it is damaged."""
    hint = "gpuadmin adopt writes it; where an earlier gpuadmin wrote it, delete it and run adopt again"
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise GpuadminError(f"{path} is larger than anything that adopt writes", hint=hint)
        text = path.read_text(encoding="utf-8")
        document = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise GpuadminError(f"{path} cannot be read: {one_line(str(error))}", hint=hint) from error
    try:
        found = _SHAPE.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(one_line(str(part)) for part in first["loc"]) or "the document"
        raise GpuadminError(f"{path}: {field}: {first['msg']}", hint=hint) from error
    if found["format"] != FORMAT:
        raise GpuadminError(f"{path}: format: is {found['format']}, and {FORMAT} is known", hint=hint)
    return State(found["hosts"], text)


def of(directory: Path, given: Path | None, *, new: bool) -> State | None:
    """The state that a lab has: the file `given`, of a `new` one, and afterwards the copy in its own directory."""
    copy = directory / DOCUMENT
    if given is None:
        return read(copy) if copy.exists() else None
    found = read(given)
    # guard: what an admin has done on a twin is not mixed with what another file says
    if not new and not (copy.exists() and copy.read_text(encoding="utf-8") == found.text):
        raise ConfigError(
            f"lab {directory.name} exists already, and was not made from {given}",
            hint=f"gpuadmin lab down --purge --name {directory.name} deletes it; --name chooses another lab",
        )
    return found


def keep(lab: Lab, found: State) -> None:
    """Keep it with the lab."""
    write_atomically(lab.directory / DOCUMENT, found.text)


def plant(lab: Lab, real: Site, found: State, hosts: Sequence[Host], progress: Progress) -> None:
    """Make on hosts what was seen of them, once: storage hosts first, whose homes the others mount."""
    missing = [host.name for host in hosts if host.name not in found.hosts]
    strange = sorted(set(found.hosts) - {host.name for host in hosts})
    if missing:
        progress.line(f"adopt saw nothing of {listed(missing)}: made as the site says")
    if others := [host.name for host in hosts if host.name in found.hosts and host.name not in found.releases]:
        progress.line(
            f"the release of {listed(others)} is not known, or none that a lab has: their twins have Debian {DEFAULT}"
        )
    if strange:
        progress.line(f"not in the site, and so not in its twin: {one_line(listed(strange))}")
    lines = key_lines(lab, found, {one.name for one in real.registry.registry.users})
    for host in sorted(hosts, key=lambda one: one.kind != "storage"):
        if host.name in found.hosts:
            with progress.phase(f"giving {host.name} what adopt saw"):
                left = _run_crooked(lab, host, wanted(real, found, host.name, lines, lab))
            if left:
                progress.line(f"{host.name}: {counted(len(left), 'thing')} not made: {one_line(listed(left))}")


def key_lines(lab: Lab, found: State, registered: Iterable[str]) -> dict[int, str]:
    """A public key of the twin's for each that was seen: people's own, where one is theirs alone, or nobody's."""
    owners: dict[int, set[str]] = {}
    for one in found.hosts.values():
        for name, keys in (one["seen"]["keys"] or {}).items():
            for number in keys["plain"]:
                owners.setdefault(number, set()).add(name)
    lines = {}
    known = set(registered)
    for number, names in sorted(owners.items()):
        name = next(iter(names))
        if len(names) == 1 and name in known:
            known.discard(name)
            lines[number] = twin.key(lab, name)
        else:
            lines[number] = _make_lost_key(lab, f"{number}")
    return lines


def _make_lost_key(lab: Lab, what: str) -> str:
    """A public key that has no private one."""
    kind, body = b"ssh-ed25519", hashlib.sha256(f"{lab.name} {what}".encode()).digest()
    blob = b"".join(struct.pack(">I", len(part)) + part for part in (kind, body))
    return f"{kind.decode()} {base64.b64encode(blob).decode()}"


def wanted(real: Site, found: State, name: str, lines: Mapping[int, str], lab: Lab) -> dict[str, Any]:
    """What crooked.py is told about a host."""
    one, names = found.hosts[name], _map_names(real)
    seen = one["seen"]
    served = [
        _list_served_homes(root, name, names) for other in found.hosts.values() for root in other["seen"]["homes"] or ()
    ]
    return {
        **{part: seen[part] for part in ("accounts", "groups", "subids", "sources", "active", "sudo", "include")},
        "homes": [*(seen["homes"] or ()), *(root for root in served if root is not None)],
        "keys": {who: _replace_keys(lab, f"{name} {who}", keys, lines) for who, keys in (seen["keys"] or {}).items()},
        "docker": one["docker"],
        "exports": one["exports"],
        "mounts": [
            {"source": f"{names[server]}:{path}", "point": mount["point"]}
            for mount in one["file_systems"]
            for server, _, path in [mount["source"].partition(":")]
            if mount["network"] and names.get(server, name) != name and f"{path}/".startswith(f"{lab.data}/")
        ],
    }


def _map_names(real: Site) -> dict[str, str]:
    """What a host is called by others → its name."""
    return {
        str(said): host.name
        for host in real.inventory.hosts
        for said in (host.name, host.variables.get("ansible_host"), host.variables.get("gpuadmin_address"))
        if said is not None
    }


def _list_served_homes(root: Mapping[str, Any], name: str, names: Mapping[str, str]) -> dict[str, Any] | None:
    """Homes that another host mounts from this one, as they are here."""
    server, _, path = (root["source"] or "").partition(":")
    here = root["network"] and root["mounted"] and names.get(server) == name and path
    return {**root, "path": path, "network": False} if here else None


def _replace_keys(lab: Lab, what: str, keys: Mapping[str, Any], lines: Mapping[int, str]) -> dict[str, Any]:
    options = keys["options"]
    spare = [_make_lost_key(lab, f"{what} {number}") for number in range(len(options))]
    plain = [lines[number] for number in keys["plain"]]
    return {"plain": plain, "options": options, "spare": spare, "odd": keys["odd"]}


def _run_crooked(lab: Lab, host: Host, told: Mapping[str, Any]) -> list[str]:
    """Have a host's program make it. Returns what it could not make."""
    program = Path(crooked.__file__).read_bytes()
    remote = ("sudo", "-n", "python3", "-I", "-c", shlex.quote(_READ))
    done = subprocess.run(
        ssh.ssh_command(lab, host, remote, batch=True),
        input=f"{len(program)}\n".encode() + program + json.dumps(told).encode(),
        capture_output=True,
        check=False,
        timeout=_SECONDS,
    )
    try:
        left = json.loads(done.stdout)
    except ValueError as error:
        said = one_line(done.stderr.decode(errors="replace")[-1000:])
        raise GpuadminError(
            f"{host.name} could not be made as it was seen: {said}", hint="gpuadmin lab up again goes on there"
        ) from error
    return [str(one) for one in left]
