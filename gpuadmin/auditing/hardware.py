"""The record of a site's hardware, and what moved, was swapped or vanished since it was written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuadmin.common.text import counted, listed
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.errors import ConfigError
from gpuadmin.jsontext import json_text
from gpuadmin.reading import is_absent, read_limited

FILE = "hardware.json"
#: Kind → what one and several are called.
KINDS = {
    "chassis": ("chassis", "chassis"),
    "gpu": ("GPU", "GPUs"),
    "network": ("network card", "network cards"),
    "disk": ("disk", "disks"),
}
#: Id → its words.
Parts = Mapping[str, str]
#: Kind → the parts of one host; without a kind that nobody knows.
Box = Mapping[str, Parts]


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    format: Literal[1]
    hosts: dict[str, dict[Literal["chassis", "gpu", "network", "disk"], dict[Annotated[str, Field(min_length=1)], str]]]


@dataclass(frozen=True)
class Seen:
    """What a host says of itself. `parts`: as far as it is known. `unknown`: kinds of which some parts are not."""

    parts: Box
    unknown: Mapping[str, str]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Seen:
        found = {kind: {one["id"]: one["words"] for one in parts} for kind, parts in answer["found"].items()}
        return cls(found, answer["unknown"])


@dataclass(frozen=True)
class Change:
    """`host`: where it is seen, or was recorded. `words`: what became of it."""

    host: str
    words: str

    def document(self) -> dict[str, str]:
        return {"host": self.host, "words": self.words}


def load(site: Path) -> dict[str, Box] | None:
    """The record of a site; None if there is none yet. Raises ConfigError."""
    path = site / FILE
    hint = "put it back from your backup or git, or delete it and record again: gpuadmin audit --record"
    try:
        if is_absent(path):  # guard: a record on a disk that is away is not written anew -> not path.exists()
            return None
        found = _Record.model_validate(json.loads(read_limited(path)))
        return {host: {str(kind): parts for kind, parts in box.items()} for host, box in found.hosts.items()}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", hint=hint) from None
    except ValidationError as error:
        where = ".".join(str(part)[:60] for part in error.errors()[0]["loc"])
        raise ConfigError(f"{FILE}: {where}: {error.errors()[0]['msg']}", hint=hint) from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{FILE}: is not JSON", hint=hint) from None


def save(site: Path, record: Mapping[str, Box]) -> None:
    """Write the record, whole or not at all."""
    write_atomically(site / FILE, json_text({"format": 1, "hosts": record}) + "\n", mode=0o644)


def merged(record: Mapping[str, Box], seen: Mapping[str, Seen], hosts: Sequence[str]) -> dict[str, Box]:
    """The record as it is after `seen`, for the hosts of the inventory. What is not known stays as it was."""
    result: dict[str, Box] = {}
    for host in hosts:
        old, now = record.get(host, {}), seen.get(host)
        box: dict[str, Parts] = {}
        for kind in KINDS:
            kept: Parts = {}
            # guard: what is not known of a host stays in the record
            if now is None or kind in now.unknown or kind not in now.parts:
                kept = old.get(kind, {})
            elsewhere = {name for other, one in seen.items() if other != host for name in one.parts.get(kind, {})}
            # makers give one address to a card in each of their boards
            shared = {name for other, box in record.items() if other != host for name in box.get(kind, {})}
            left = {name: words for name, words in kept.items() if name not in elsewhere or name in shared}
            parts = {**left, **(now.parts.get(kind, {}) if now else {})}
            if parts or kind in old or (now and kind in now.parts and kind not in now.unknown):
                box[kind] = dict(sorted(parts.items()))
        if box:
            result[host] = box
    return result


def changes(record: Mapping[str, Box], seen: Mapping[str, Seen]) -> list[Change]:
    """What is not where it was recorded. A host that did not answer has lost nothing, and neither has one that does not
    know.
    """
    found = []
    for kind in KINDS:
        was = _places({host: box.get(kind, {}) for host, box in record.items()})
        now = _places({host: one.parts.get(kind, {}) for host, one in seen.items()})
        found += list(_moved(kind, was, now, record, seen))
        found += list(_vanished(kind, was, now, record, seen))
    for host in record.keys() & seen.keys():
        found += list(_replaced(host, record, seen[host]))
    return list(dict.fromkeys(found))


def _places(parts: Mapping[str, Parts]) -> dict[str, list[str]]:
    """Id → the hosts that have it."""
    places: dict[str, list[str]] = {}
    for host, names in parts.items():
        for name in names:
            places.setdefault(name, []).append(host)
    return places


def _moved(
    kind: str, was: Mapping[str, list[str]], now: Mapping[str, list[str]], record: Mapping[str, Box],
    seen: Mapping[str, Seen],
) -> Iterator[Change]:  # fmt: skip
    for name, hosts in now.items():
        words = _words(kind, name, seen[hosts[0]].parts[kind][name])
        if len(hosts) > 1:
            for host in hosts if set(hosts) - set(was.get(name, [])) else ():  # else that is recorded
                yield Change(host, f"{words}: {listed(hosts)} say that it is theirs; one number is one thing")
            continue
        (host,) = hosts
        before = was.get(name, [])
        if before and host not in before:
            yield Change(host, f"{words} was in {listed(before)}, is in {host}")
        elif not before and host in record and kind in record[host]:
            yield Change(host, f"{words} is new in {host}")


def _vanished(
    kind: str, was: Mapping[str, list[str]], now: Mapping[str, list[str]], record: Mapping[str, Box],
    seen: Mapping[str, Seen],
) -> Iterator[Change]:  # fmt: skip
    blind = [host for host in record if host not in seen or kind in seen[host].unknown]
    for name, hosts in was.items():
        for host in hosts:
            # guard: what a host cannot see has not vanished
            if name not in now and host in seen and kind in seen[host].parts and kind not in seen[host].unknown:
                others = f"; {listed(blind)} {'was' if len(blind) == 1 else 'were'} not looked at" if blind else ""
                yield Change(host, f"{_words(kind, name, record[host][kind][name])} was in {host}, is nowhere{others}")


def _replaced(host: str, record: Mapping[str, Box], now: Seen) -> Iterator[Change]:
    """The name is now that of another machine."""
    before, after = record[host].get("chassis"), now.parts.get("chassis")
    if before and after and not before.keys() & after.keys():
        yield Change(host, f"{host} is another machine: serial {listed(list(after))}, was {listed(list(before))}")


def _words(kind: str, name: str, words: str) -> str:
    return f"{KINDS[kind][0]} {name} ({words})" if words else f"{KINDS[kind][0]} {name}"


def summary(box: Box) -> str:
    """`2 GPUs, 1 disk`: what a host's box has in it."""
    parts = [counted(len(box[kind]), *names) for kind, names in KINDS.items() if box.get(kind)]
    return ", ".join(parts) or "nothing with a number of its own"
