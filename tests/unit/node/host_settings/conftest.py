"""A host as a tree of files, and what its programs print."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings.place import Place

#: Given files, and what the commands that begin with some words print, or the status that they end with.
Host = Callable[..., Place]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    def make(files: Mapping[str, str] | None = None, programs: Mapping[str, str | int] | None = None) -> Place:
        for name, text in (files or {}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

        def command(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
            line = " ".join(argv)
            for begins, said in (programs or {}).items():
                if line.startswith(begins):
                    status, text = (0, said) if isinstance(said, str) else (said, "")
                    return subprocess.CompletedProcess(argv, status, text, "it does not work" if status else "")
            raise FileNotFoundError(2, "No such file or directory", argv[0])

        return Place(str(tmp_path), command)

    return make
