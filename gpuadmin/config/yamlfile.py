"""A YAML file of a site: what it holds, the line of each value, and what is wrong with it in an admin's words."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuadmin.common.appending import sync_directory
from gpuadmin.config.yamlmistake import YamlMistake
from gpuadmin.config.yamlread import Fields, Items, read_yaml
from gpuadmin.errors import ConfigError
from gpuadmin.reading import decoded, read_limited

INIT = "gpuadmin init DIR writes a whole site"

_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "yes or no"), (int, "a number"), (float, "a number"), (str, "a text"), (dict, "fields"), (list, "a list"),
    (type(None), "nothing"),
)  # fmt: skip


def describe_kind(value: object) -> str:
    """What a value of a file is, as an admin would say: `a list`, `nothing`."""
    return next((word for kind, word in _KINDS if isinstance(value, kind)), "a date")


@dataclass(frozen=True)
class YamlFile:
    """A file and what it holds: `data` is of yamlread's Fields, Items and plain values."""

    path: Path
    data: Any
    text: str

    @classmethod
    def load(cls, path: Path, *, missing: str | None = None, name: str | None = None) -> YamlFile:
        """Given a path, return its content. Raises ConfigError; `missing` is the hint if there is no file.

        `name`: what errors call it; by default its name without its directory.
        """
        try:
            text = decoded(read_limited(path), path)
        except FileNotFoundError:
            link = f", and {path.readlink()} is where it should lead" if path.is_symlink() else ""
            raise ConfigError(f"{path}: no such file{link}", hint=missing or INIT) from None
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", hint="it must be a file that you can read") from None
        return cls.parse(path, text, name=name)

    @classmethod
    def parse(cls, path: Path, text: str, *, or_list: bool = False, name: str | None = None) -> YamlFile:
        """Given a file's text, return its tree: fields, or with `or_list` perhaps a list. `name`: as in `load`."""
        name = name or path.name
        try:
            data = read_yaml(text)
        except YamlMistake as error:
            line = "" if error.line is None else f"{error.line}:"
            raise ConfigError(f"{name}:{line} is not valid YAML: {error.problem}") from None
        if data is None:
            data = Fields()
        if not isinstance(data, Fields | Items if or_list else Fields):
            raise ConfigError(f"{name}:1: must hold fields (key: value), not {describe_kind(data)}")
        return cls(path, data, text)

    def where(self, path: Sequence[str | int]) -> str:
        """Given a path such as `("users", 3, "uid")`, return `users.yml:12: users[3].uid`."""
        node: Any = self.data
        line = 1
        for step in path:
            inside = step in node if isinstance(node, Fields) else isinstance(node, Items) and step in range(len(node))
            if not inside:
                break
            line, node = node.lines[step] + 1, node[step]
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        return f"{self.path.name}:{line}: {place.lstrip('.')}" if place else f"{self.path.name}"


def write_new(path: Path, data: bytes) -> None:
    """Write a file that was not there, for its owner alone. Where it cannot be written whole there is none."""
    descriptor = os.open(
        path,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL,  # guard: what is there is not replaced -> os.O_WRONLY | os.O_CREAT
        0o600,  # guard: a new file is its owner's alone -> 0o644
    )
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        path.unlink(missing_ok=True)  # guard: half of a file is none
        raise


def write_atomically(path: Path, text: str, *, mode: int = 0o640) -> None:
    """Replace a file so that a cut leaves the old or the new one, whole."""
    if path.exists():
        mode = path.stat().st_mode & 0o7777
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
        sync_directory(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
