"""A YAML file that keeps its comments and order when it is written, and knows its line numbers."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from gpuadmin.errors import ConfigError


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 100000  # an ssh key stays on one line
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


@dataclass(frozen=True)
class YamlFile:
    """A file and what it holds: `data` is a ruamel.yaml round-trip tree."""

    path: Path
    data: Any
    text: str

    @classmethod
    def load(cls, path: Path, *, missing: str | None = None) -> YamlFile:
        """Given a path, return its content. A file that is not there reads as the text `missing`, if given."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            if missing is None:
                raise ConfigError(f"{path}: no such file", hint="gpuadmin init DIR writes a whole site") from None
            text = missing
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: is not UTF-8 (byte {error.start})", hint="save the file as UTF-8") from None
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        return cls.parse(path, text)

    @classmethod
    def parse(cls, path: Path, text: str, *, or_list: bool = False) -> YamlFile:
        """Given a file's text, return its tree: fields, or with `or_list` perhaps a list."""
        try:
            data = _yaml().load(text)
        except MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else "?"
            raise ConfigError(f"{path.name}:{line}: is not valid YAML: {error.problem}") from None
        except YAMLError as error:
            raise ConfigError(f"{path.name}: is not valid YAML: {error}") from None
        if data is None:
            data = CommentedMap()
        if not isinstance(data, (CommentedMap, CommentedSeq) if or_list else CommentedMap):
            raise ConfigError(f"{path.name}:1: must hold fields (key: value), not a {type(data).__name__}")
        return cls(path, data, text)

    def where(self, path: Sequence[str | int]) -> str:
        """Given a path such as `("users", 3, "uid")`, return `users.yml:12: users[3].uid`."""
        line, node = 1, self.data
        for step in path:
            try:
                if isinstance(step, int):
                    line = node.lc.item(step)[0] + 1
                elif step in node:
                    line = node.lc.key(step)[0] + 1
                node = node[step]
            except (AttributeError, KeyError, IndexError, TypeError):
                break
        words = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        return f"{self.path.name}:{line}: {words.lstrip('.')}" if words else f"{self.path.name}"

    def dump(self) -> str:
        """The text that writing would give."""
        stream = io.StringIO()
        _yaml().dump(self.data, stream)
        return stream.getvalue()


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
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
