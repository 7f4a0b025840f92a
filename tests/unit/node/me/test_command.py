"""gpuadmin-me, as people call it."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.me import command

from tests.support.node_code import PACKAGE, write_out


@pytest.mark.parametrize(
    ("arguments", "environment", "found"),
    [
        ([], {}, ("", "en")),
        (["check"], {"LANG": "ko_KR.UTF-8"}, ("check", "ko")),
        (["check"], {"LANG": "ko_KR.UTF-8", "LC_ALL": "C"}, ("check", "en")),
        (["--language", "ko", "check"], {"LANG": "C"}, ("check", "ko")),
        (["--language=en"], {"LANG": "ko_KR.UTF-8"}, ("", "en")),
        (["web"], {}, ("web", "en")),
        (["web", "--language", "ko"], {}, ("web", "ko")),
        (["--help"], {}, (None, "en")),
    ],
)
def test_what_is_asked(arguments: list[str], environment: dict[str, str], found: tuple[bool | None, str]) -> None:
    assert command.parse(arguments, environment) == found


def test_help_in_ones_language(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for language, words in (("ko_KR.UTF-8", "사용법: gpuadmin-me"), ("C", "usage: gpuadmin-me")):
        monkeypatch.setenv("LC_ALL", language)
        assert command.main(["--help"]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(words)
        assert [word for word in command.WORDS if f"\ngpuadmin-me {word} " not in shown] == []


@pytest.mark.parametrize(
    "arguments",
    [["check", "jiho"], ["disk", "jiho"], ["disk", "check"], ["--language"], ["--language", "fr"], ["--languageko"]],
)
def test_nobody_else_is_asked_about(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(arguments) == 2
    assert "usage: gpuadmin-me" in capsys.readouterr().err


def test_root_is_sent_to_the_controller(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(command.os, "geteuid", lambda: 0)
    assert command.main(["disk"], str(tmp_path / "none")) == 2
    assert "on the controller" in capsys.readouterr().err


def test_settings_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="tell your admins"):
        command.load(str(tmp_path / "me.json"))
    for text in ("{", "[]", '{"homes": "/home"}'):
        (tmp_path / "me.json").write_text(text)
        with pytest.raises(NodeError, match="tell your admins"):
            command.load(str(tmp_path / "me.json"))


@pytest.mark.root
@pytest.mark.parametrize("verb", [[], ["check"], ["disk"]])
def test_as_somebody_without_privileges(verb: list[str], tmp_path: Path) -> None:
    """All of it runs as nobody, on this machine: what cannot be known is said, and nothing is a traceback."""
    settings = tmp_path / "me.json"
    nodes = [{"name": "node1", "address": "10.0.0.1"}]
    known = {"homes": str(tmp_path), "docker": None, "servers": [], "gpus": None, "gpu_model": "", "nodes": nodes}
    settings.write_text(json.dumps(known))
    (tmp_path / "nobody").mkdir()
    (tmp_path / "nobody/file").write_bytes(b"x" * 9000)
    os.chown(tmp_path / "nobody", 65534, 65534)
    for one in (tmp_path, *tmp_path.parents):
        if one.stat().st_mode & 0o005 != 0o005:
            one.chmod(one.stat().st_mode | 0o055)
    write_out(tmp_path)
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        f"from {PACKAGE}.me import command\n"
        f"sys.exit(command.main({verb!r}, {str(settings)!r}))"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-IBc", program], user=65534, group=65534, extra_groups=[], capture_output=True, text=True,
        cwd="/", env={"LANG": "C.UTF-8", "PATH": os.environ["PATH"]}, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    if verb == ["disk"]:
        assert done.returncode == 0
        assert f"  {tmp_path}/nobody: " in done.stdout
        assert ", 2 files\n" in done.stdout
    elif verb:
        assert done.returncode in (0, 1)
        # pytest's directory is not a file server's
        assert "because: the homes are not mounted on this node" in done.stdout
    else:
        assert done.returncode == 0
        assert f"home: {tmp_path}/nobody: " in done.stdout
        assert "node1 (10.0.0.1)" in done.stdout
