"""gpuadmin.node.files on the controller: a source directory becomes contents of files. All else is the module's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.loader import lookup_loader

from ansible_collections.gpuadmin.node.plugins.action import operation
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words

Render = Callable[[Path], str]


@dataclass(frozen=True)
class Source:
    """A directory on the controller whose files are to be on the host, before the files that are named."""

    path: str
    target: str
    patterns: Sequence[str] = ("**/*",)
    mode: str = "0644"
    #: Whether the files are templates. Their names lose `.j2`.
    template: bool = False
    #: Whether nothing else may be in the directories.
    exclusive: bool = False
    show_diff: bool = True


def find(top: Path, patterns: Iterable[str]) -> list[Path]:
    """The files below ``top`` that match, in the order of their paths; hidden ones are left out."""
    found = {path for pattern in patterns for path in top.glob(pattern) if path.is_file()}
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(top).parts))


def expand(source: Source, render: Render) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Given one entry of ``source``, return entries of ``directories`` and of ``files``.

    ``render`` gives the text that a template makes. Raises ValueError if there is no such directory.
    """
    top = Path(source.path)
    if not top.is_absolute() or not top.is_dir():
        raise ValueError(f"{top} is not a directory on the controller")
    files: list[dict[str, object]] = []
    above: set[str] = set()
    for path in find(top, source.patterns):
        relative = path.relative_to(top)
        if source.template:
            relative = relative.with_name(relative.name.removesuffix(".j2"))
        above.update(os.path.join(source.target, parent) for parent in relative.parents)
        try:
            text = render(path) if source.template else path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not text in UTF-8 (byte {error.start})") from None
        files.append({
            "path": os.path.join(source.target, relative),
            "content": text,
            "mode": source.mode,
            "show_diff": source.show_diff,
        })  # fmt: skip
    names = sorted(os.path.normpath(path) for path in above)
    return [{"path": path, "exclusive": True} for path in names if source.exclusive], files


class ActionModule(operation.ActionModule):
    """Expands ``source`` and runs the module with the rest."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        done: dict[str, Any] = super(operation.ActionModule, self).run(tmp, variables)
        arguments = dict(self._task.args)
        given = arguments.pop("source", None) or []

        def render(path: Path) -> str:
            lookup = lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
            return str(lookup.run([str(path)], variables=variables)[0])

        try:
            sources = [parse(Source, one, f"source[{number}]") for number, one in enumerate(given)]
            expanded = [expand(one, render) for one in sources]
        except (NodeError, OSError, ValueError) as error:
            raise AnsibleActionFail(in_words(error)) from error
        found = [one for directories, _files in expanded for one in directories]
        arguments["directories"] = [*(arguments.get("directories") or []), *found]
        arguments["files"] = [one for _directories, files in expanded for one in files] + [
            *(arguments.get("files") or [])
        ]
        done.update(self.call("gpuadmin.node.files", arguments, variables))
        return done
