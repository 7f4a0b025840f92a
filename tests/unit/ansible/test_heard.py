"""What one host says and another is given is parsed in between."""

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuadmin.node.plugins.plugin_utils.heard import refusals, ssh_key
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sites import public_key

ROOT = Path(__file__).resolve().parents[3]
KEY = public_key("a", comment="root@nas")
OTHER = public_key("b", comment="")
PARTS = " ".join(KEY.split()[:2])


@pytest.mark.holds("one host's key is made again from its parts")
@pytest.mark.parametrize("text", [KEY, f"{KEY}\n", PARTS, f"{PARTS}\n", f"{PARTS} a comment of four words"])
def test_a_key_comes_out_without_its_comment(text: str) -> None:
    assert ssh_key(text) == PARTS


@pytest.mark.holds("one host's key is one key, before another host has it")
@pytest.mark.parametrize(
    "text",
    [
        f"{KEY}\n{OTHER}\n",  # what root's authorized_keys of the other host took for an unrestricted key
        f"{KEY}\n\n",
        f"\n{KEY}",
        f'command="sh" {KEY}',
        f"restrict {KEY}",
        f"{PARTS}\0",
        f"{PARTS}A",
        PARTS[:-1],
        PARTS.replace("AAAAC3", "AAAAC4"),
        public_key("a", kind="ssh-rsa"),
        f"ssh-ed25519  {KEY.split()[1]}",
        f"@cert-authority {KEY}",
        "ssh-ed25519 " + "A" * 68,
        "",
    ],
)  # fmt: skip
def test_what_is_not_one_key_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not one public key of type ssh-ed25519"):
        ssh_key(text)


@given(before=st.text(max_size=3), between=st.text(max_size=3), after=st.text(max_size=80))
def test_whatever_is_around_a_key_never_gets_through(before: str, between: str, after: str) -> None:
    try:
        found = ssh_key(f"{before}{PARTS}{between}{after}")
    except ValueError:
        return
    assert found == PARTS


def of(refused: Any) -> dict[str, Any]:
    return {"report": {"refused": refused}}


@pytest.mark.holds("whom a storage host refuses is a login name")
@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([of({"bob": "uid 20005 was given to alice"})], [{"name": "bob", "reason": "uid 20005 was given to alice"}]),
        ([of(5), of([1]), of({"bob": 5, "../x": "y", "Bob\n": "z"}), {"report": 7}, 8, {}], []),
        ([of(5), of({"bob": "a\nb\x1b[2J"})], [{"name": "bob", "reason": "a?b?[2J"}]),
    ],
)
def test_whom_a_storage_host_refuses(answers: list[Any], found: list[dict[str, str]]) -> None:
    """One that is odd refuses nobody, and the accounts of all others are made."""
    assert refusals(answers) == found


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(json_values | st.builds(of, json_values), max_size=4))
def test_whatever_storage_hosts_say_is_a_list_of_names(answers: list[Any]) -> None:
    assert all(set(one) == {"name", "reason"} for one in refusals(answers))


@pytest.mark.needs("ssh-keygen")
def test_the_key_of_backups_is_whole_or_not_there(tmp_path: Path) -> None:
    """Cut before it is on the disk, or while ssh-keygen writes the public one: the next run makes it."""
    tasks = yaml.safe_load((ROOT / "roles/backups/tasks/remote.yml").read_text())
    (make,) = [task["ansible.builtin.shell"]["cmd"] for task in tasks if "ansible.builtin.shell" in task]
    key, tools = tmp_path / "key", tmp_path / "bin"
    tools.mkdir()
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "KEY": str(key), "NAME": "gpuadmin-backups@nas"}
    for name, script in (("sync", "kill -9 $PPID"), ("ssh-keygen", 'echo half > "$KEY.new"; kill -9 $PPID')):
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
        assert subprocess.run(["sh", "-c", make], env=environment, check=False).returncode == -9
        assert not key.exists()
        (tools / name).unlink()
    subprocess.run(["sh", "-c", make], env=environment, check=True)
    assert ssh_key(key.with_name("key.pub").read_text())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bin", "key", "key.pub"]
    assert key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("more", ["", f"{OTHER}\n"], ids=["one key", "a second line"])
def test_what_the_role_writes_for_root(tmp_path: Path, more: str) -> None:
    """The line of authorized_keys and that of known_hosts, as the role has them: whole, or nothing is written."""
    tasks = yaml.safe_load((ROOT / "roles/backups/tasks/remote.yml").read_text())
    (line,) = [task["ansible.builtin.lineinfile"]["line"] for task in tasks if "ansible.builtin.lineinfile" in task]
    known = (ROOT / "roles/backups/templates/known_hosts.j2").read_text()
    heard = {"content": base64.b64encode(f"{KEY}\n{more}".encode()).decode()}
    given_ = {
        "__backups_key": heard, "__backups_host_key": heard, "_backups_from": "", "_backups_command": "cli.py",
        "backups_copies": "/srv/backups", "backups_ordinary": 7, "backups_remote": {"address": "10.0.0.2", "port": 22},
        "backups_home_seconds": 60, "backups_home_entries": 9,
    }  # fmt: skip
    play = {
        "hosts": "nas", "gather_facts": False, "vars": given_,
        "tasks": [{"ansible.builtin.copy": {"content": text, "dest": str(tmp_path / name)}, "ignore_errors": True}
                  for name, text in (("keys", line), ("known", known))],
    }  # fmt: skip
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"nas": variables}}}))
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "play.yml"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "gpuadmin/collections")},
    )  # fmt: skip
    if more:
        assert not (tmp_path / "keys").exists()
        assert not (tmp_path / "known").exists()
        assert (
            "is not one public key of type ssh-ed25519; delete it and its private key there"
            in done.stdout + done.stderr
        )
        return
    command = 'restrict,command="cli.py serve-backups /srv/backups 7 60 9"'
    assert (tmp_path / "keys").read_text() == f"{command} {PARTS} gpuadmin-backups@nas"
    assert (tmp_path / "known").read_text().strip() == f"10.0.0.2 {PARTS}"
