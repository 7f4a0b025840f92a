"""gpuadmin.node.files on the controller: what a source directory becomes, alone and in a play."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.action.files import Source, expand, find

COLLECTIONS = Path(__file__).resolve().parents[3] / "gpuadmin" / "collections"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "source"
    for name in ("a.py", "sub/b.py", "sub/deep/c.py", "sub/__pycache__/b.pyc", ".hidden", ".git/d.py", "e.txt"):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} {{{{ 1 + 1 }}}}\r\n", newline="")
    return top


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["**/*.py"], "a.py sub/b.py sub/deep/c.py"),
        (["*.py", "*/*.py"], "a.py sub/b.py"),
        (["sub/*", "*.txt", "*"], "a.py e.txt sub/b.py"),
        (["no/*"], ""),
    ],
)
def test_which_files(source: Path, patterns: list[str], expected: str) -> None:
    assert " ".join(str(path.relative_to(source)) for path in find(source, patterns)) == expected


def test_what_a_directory_becomes(source: Path) -> None:
    directories, files = expand(Source(str(source), "/opt/x", ["**/*.py"], exclusive=True), str)
    assert directories == [{"path": path, "exclusive": True} for path in ("/opt/x", "/opt/x/sub", "/opt/x/sub/deep")]
    assert [one["path"] for one in files] == ["/opt/x/a.py", "/opt/x/sub/b.py", "/opt/x/sub/deep/c.py"]
    assert files[0]["content"] == "a.py {{ 1 + 1 }}\r\n"
    assert (files[0]["mode"], files[0]["show_diff"]) == ("0644", True)
    assert expand(Source(str(source), "/opt/x", ["a.py"]), str)[0] == []
    for wrong in ("source", str(source / "a.py"), str(source / "gone")):
        with pytest.raises(ValueError, match="not a directory on the controller"):
            expand(Source(wrong, "/opt/x"), str)


def test_a_file_that_is_no_text_is_named(source: Path) -> None:
    (source / "sub/check").write_bytes(b"\x7fELF\xff")
    with pytest.raises(ValueError, match=r"sub/check is not text in UTF-8 \(byte 4\)"):
        expand(Source(str(source), "/opt/x"), str)


PLAY = """
- hosts: localhost
  gather_facts: false
  vars:
    word: rendered
  tasks:
    - gpuadmin.node.files:
        directories:
          - path: {top}/there/first
        source:
          - path: {top}/source
            target: {top}/there/plain
            patterns: ["**/*.py"]
            exclusive: true
            show_diff: false
          - path: {top}/templates
            target: {top}/there/templates
            template: true
            mode: "0755"
        files:
          - path: {top}/there/last
            content: "text"
      vars:
        more: and more
      register: found
    - ansible.builtin.copy:
        content: "{{{{ found | to_json }}}}"
        dest: {top}/found.json
      check_mode: false
      diff: false
"""


def run(top: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS), "ANSIBLE_HOME": str(top / ".ansible")}
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local",
        "-e", json.dumps({"ansible_python_interpreter": sys.executable}), str(top / "play.yml"), *options,
    ]  # fmt: skip
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment, cwd=top
    )


def play(top: Path, *options: str) -> dict[str, Any]:
    """Run the play; return what the task gave."""
    done = run(top, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((top / "found.json").read_text())
    return found


@pytest.mark.root
def test_in_a_play(tmp_path: Path, source: Path) -> None:
    (tmp_path / "templates/sub").mkdir(parents=True)
    (tmp_path / "templates/sub/t.j2").write_text("{{ word }} {{ more }}\n")
    (tmp_path / "there/plain").mkdir(parents=True)
    (tmp_path / "there/plain").chmod(0o755)  # whatever the umask
    (tmp_path / "there/plain/stale.py").touch()
    (tmp_path / "play.yml").write_text(PLAY.format(top=tmp_path))
    check = play(tmp_path, "--check", "--diff")
    assert not (tmp_path / "there/first").exists()
    assert [text.replace(f"{tmp_path}/there/", "") for text in check["operations"]] == [
        "make directory first", "remove plain/stale.py", "make directory plain/sub", "make directory plain/sub/deep",
        "write plain/a.py", "write plain/sub/b.py", "write plain/sub/deep/c.py", "write templates/sub/t",
        "write last",
    ]  # fmt: skip
    shown = {one["after_header"].rpartition("/")[2]: one["after"] for one in check["diff"]}
    assert (shown["b.py"], shown["t"]) == ("(its text is not shown)\n", "rendered and more\n")
    real = play(tmp_path)
    assert (real["changed"], real["operations"]) == (True, check["operations"])
    assert (tmp_path / "there/plain/sub/b.py").read_bytes() == b"sub/b.py {{ 1 + 1 }}\r\n"
    assert (tmp_path / "there/templates/sub/t").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "there/templates/sub/t").read_text() == "rendered and more\n"


def test_what_is_wrong_with_a_source(tmp_path: Path) -> None:
    for entry, words in (
        ("{path: /no/such, target: /x}", "/no/such is not a directory on the controller"),
        ("{path: /tmp, targets: /x}", "source[0] has 'targets', which is not one of path, target"),
        ("{path: /tmp}", "source[0].target is missing"),
    ):
        (tmp_path / "play.yml").write_text(
            f"- hosts: localhost\n  gather_facts: false\n  tasks:\n    - gpuadmin.node.files: {{source: [{entry}]}}\n"
        )
        done = run(tmp_path)
        assert done.returncode == 2
        assert words in done.stdout + done.stderr
