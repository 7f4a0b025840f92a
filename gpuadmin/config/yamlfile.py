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
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent

from gpuadmin.appending import sync_directory
from gpuadmin.errors import ConfigError
from gpuadmin.reading import read_limited

MOST_VALUES = 200_000  # in one file: more than ten thousand people have; each takes some 2 kB of memory
MOST_BY_ALIAS = 10_000  # values that aliases may stand for, together
DEEPEST = 50
INIT = "gpuadmin init DIR writes a whole site"


class _Bounded(Composer):
    """Counts values while they are composed, with what aliases stand for: 400 bytes of them can stand for 10^9 values,
    which every later walk through the tree would visit.
    """

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader=loader)
        self.warn_double_anchors = False
        self._values = 0
        self._by_alias = 0
        self._weights: dict[str, int] = {}  # anchor → how many values it holds, once it is complete

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.parser.peek_event()
        if isinstance(event, AliasEvent):
            if event.anchor in self.anchors and event.anchor not in self._weights:
                raise ComposerError(
                    None, None, f"the alias *{event.anchor} is in the value that it stands for", event.start_mark
                )
            self._by_alias += self._weights.get(event.anchor, 0)
            self._values += self._weights.get(event.anchor, 0)
            self._refuse_too_many(event.start_mark)
            return super().compose_node(parent, index)
        before = self._values
        self._values += 1
        self._refuse_too_many(event.start_mark)
        node = super().compose_node(parent, index)
        if event.anchor is not None:
            self._weights[event.anchor] = self._values - before
        return node

    def _refuse_too_many(self, mark: Any) -> None:
        if self._by_alias > MOST_BY_ALIAS:
            raise ComposerError(
                None, None, f"its aliases (*) stand for more than {MOST_BY_ALIAS} values; write them out", mark
            )
        if self._values > MOST_VALUES:
            raise ComposerError(None, None, f"it holds more than {MOST_VALUES} values; is it the right file?", mark)


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.Composer = _Bounded
    yaml.max_depth = DEEPEST
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
        """Given a path, return its content. Raises ConfigError; `missing` is the way out where there is no file."""
        try:
            text = read_limited(path).decode("utf-8")
        except FileNotFoundError:
            link = f", and {path.readlink()} is where it should lead" if path.is_symlink() else ""
            raise ConfigError(f"{path}: no such file{link}", hint=missing or INIT) from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: is not UTF-8 (byte {error.start})", hint="save the file as UTF-8") from None
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", hint="it must be a file that you can read") from None
        return cls.parse(path, text)

    @classmethod
    def parse(cls, path: Path, text: str, *, or_list: bool = False) -> YamlFile:
        """Given a file's text, return its tree: fields, or with `or_list` perhaps a list."""
        try:
            data = _yaml().load(text)
        except MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else "?"
            raise ConfigError(f"{path.name}:{line}: is not valid YAML: {error.problem}") from None
        except (YAMLError, ValueError) as error:  # ValueError: no such day, or a number of a thousand digits
            raise ConfigError(f"{path.name}: is not valid YAML: {error}") from None
        except RecursionError:
            raise ConfigError(f"{path.name}: is not valid YAML: it is nested too deeply") from None
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
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        return f"{self.path.name}:{line}: {place.lstrip('.')}" if place else f"{self.path.name}"

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
        sync_directory(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
