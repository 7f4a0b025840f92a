"""What a site remembers of its people beside users.yml, so that a lost registry is not taken for an empty one.

`runs/uids.json` says who ever had each uid. The storage host remembers the same (module `homes`), for a site whose
directory was lost as a whole, or is on two machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gpuadmin.config.find import find_runs_directory
from gpuadmin.config.schema import Registry
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.jsontext import json_text
from gpuadmin.reading import is_absent, read_limited

MEMORY_FILE = "uids.json"  # in runs/


@dataclass(frozen=True)
class Memory:
    """Whose each uid was when it was last seen."""

    uids: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: object) -> Memory:
        """Given `{"20000": "minji"}`, as JSON has it, return it as a memory. Raises ValueError."""
        if not isinstance(given, dict):
            raise ValueError("no memory of uids")
        return cls({int(uid): str(name) for uid, name in given.items()})

    def contradictions(self, registry: Registry, *, but: Collection[str] = ()) -> list[str]:
        """How a registry contradicts it, in sentences: people it has lost, uids that are another's now.

        `but`: names to forget.
        """
        now = owners(registry)
        found = []
        for uid, name in sorted(self.uids.items()):
            if name in but or now.get(uid) == name:
                continue
            if uid in now:
                found.append(f"uid {uid} was {name}'s, and is {now[uid]}'s now")
            else:
                found.append(f"{name} (uid {uid}) is neither under `users` nor under `retired` any more")
        return found


def owners(registry: Registry) -> dict[int, str]:
    """Whose each uid is by the registry, of those who were removed too."""
    removed = {entry.uid: entry.name for entry in registry.retired}
    return removed | {user.uid: user.name for user in registry.users if user.uid is not None}


def recall(site: Path) -> Memory:
    """What a site's directory remembers: nothing where it never did. Raises ConfigError if it cannot be read."""
    path = find_runs_directory(site) / MEMORY_FILE
    try:
        if is_absent(path):
            return Memory()
        return Memory.parse(json.loads(read_limited(path))["uids"])
    except OSError as error:
        raise ConfigError(
            f"{error.filename or path}: {error.strerror}, so whether a uid was somebody's is not known",
            hint="whoever runs gpuadmin must be able to read it",
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(
            f"{path}: is damaged, so whether a uid was somebody's is not known",
            hint="restore it from a copy; or compare users.yml with one, and delete it: gpuadmin writes it again",
        ) from None


def remember(site: Path, registry: Registry, *, forget: Collection[str] = ()) -> None:
    """Add a registry to what a site's directory remembers; with `forget`, leave out what was theirs."""
    known = recall(site).uids
    uids = {uid: name for uid, name in known.items() if name not in forget} | owners(registry)
    if uids == known:
        return
    runs = site / "runs"
    runs.mkdir(mode=0o700, exist_ok=True)
    users = site / "users.yml"
    document = {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "highest": max(uids, default=None),
        "users.yml": {
            "people": len(registry.users),
            "retired": len(registry.retired),
            "sha256": hashlib.sha256(users.read_bytes()).hexdigest() if users.is_file() else None,
        },
        "uids": {str(uid): name for uid, name in sorted(uids.items())},
    }
    write_atomically(runs / MEMORY_FILE, json_text(document) + "\n", mode=0o600)


def refuse_contradictions(found: Sequence[str], where: str) -> None:
    """Raise RefusedError if the registry contradicts what is remembered of it."""
    if found:  # guard: a verb is refused where users.yml contradicts the memory
        lines = [*found[:10], *([f"and {len(found) - 10} more"] if len(found) > 10 else [])]
        raise RefusedError(f"{where}: " + "\n  ".join(lines), hint=WAY_OUT)


WAY_OUT = (
    "restore users.yml from version control or a copy; whoever left goes under `retired` (name, uid, removed); "
    "once all data of theirs is gone: gpuadmin remove-user --forget NAME"
)
