"""The key of the storage host on a node: one command, an end, and nothing of it is left afterwards."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.run import run as really_run

from gpuadmin.takeover.node.moving import access, record

KEY = "ssh-ed25519 " + "A" * 68
OWN = 'restrict,command="x" ssh-ed25519 BBBB gpuadmin-backups@nas1'


@pytest.mark.root
def test_let_in_for_one_command_and_out_again(host: Host) -> None:
    keys = Path(host.path("root/.ssh/authorized_keys"))
    keys.parent.mkdir(parents=True)
    keys.write_text(f"{OWN}\n")
    for _ in range(2):  # again: one line
        access.let_in(host, KEY, "/home", [record.Part("minji", 20001, "gpu1", True, False, 1, 2, "begun", "", 0, 0)])
    own, line = keys.read_text().splitlines()
    assert own == OWN
    assert line.startswith('restrict,expiry-time="2')
    assert line.endswith(f" {KEY} gpuadmin-move-homes")
    # what the key runs, as sshd runs it: the code is all there, and nothing else is given away
    command = line.split('command="')[1].split('"')[0]
    asked = {**os.environ, "SSH_ORIGINAL_COMMAND": "home jiho"}
    done = subprocess.run(command.split(), env=asked, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: not understood: the storage host may ask for homes that are "
                                                 "being moved\n")  # fmt: skip
    assert command.split()[0] == sys.executable
    access.let_out(host)
    assert keys.read_text() == f"{OWN}\n"
    assert list(Path(record.directory(host.path(host.state))).iterdir()) == []
    access.let_out(host)


@pytest.mark.parametrize("text", ["", "ssh-rsa " + "A" * 68, 'ssh-ed25519 A" command="x', "ssh-ed25519 short"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(NodeError, match="not an ed25519 public key"):
        access.public_key(text)


SSHD = "port 22\npermitrootlogin {0}\npubkeyauthentication yes\nauthenticationmethods any\n{1}\n"
FILE = "authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SSHD.format("without-password", FILE), ""),
        (SSHD.format("forced-commands-only", f"{FILE}\nallowusers admin root@10.0.0.*"), ""),
        (SSHD.format("yes", FILE).replace("methods any", "methods publickey"), ""),
        (SSHD.format("no", FILE), "PermitRootLogin no"),
        (SSHD.format("yes", "authorizedkeysfile /etc/ssh/keys/%u"), "AuthorizedKeysFile"),
        (SSHD.format("yes", f"{FILE}\nallowusers admin\nallowusers kim"), "AllowUsers"),
        (SSHD.format("yes", f"{FILE}\nallowgroups ssh-users"), "AllowGroups"),
        (SSHD.format("yes", f"{FILE}\ndenyusers r*"), "DenyUsers"),
        (SSHD.format("yes", FILE).replace("methods any", "methods publickey,password"), "AuthenticationMethods"),
        (SSHD.format("yes", FILE).replace("pubkeyauthentication yes", "pubkeyauthentication no"), "PubkeyAuth"),
        ("", ""),  # it does not say: the storage host finds out, before anybody is kept out
    ],
)
def test_a_node_that_lets_root_in_by_no_key_says_so(monkeypatch: pytest.MonkeyPatch, text: str, why: str) -> None:
    asked: list[str] = []

    def look(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(command[-1])
        return subprocess.CompletedProcess(command, 0 if text else 255, text, "")

    monkeypatch.setattr(access, "look", look)
    assert why in access.refuses_root("10.0.0.9")
    assert bool(access.refuses_root("10.0.0.9")) is bool(why)
    access.refuses_root("-oProxyCommand=x")
    assert asked == ["user=root,host=10.0.0.9,addr=10.0.0.9"] * 2 + ["user=root"]


def test_whom_the_storage_host_finds_at_the_addresses_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def scanned(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[-3:] == ("ed25519", "10.0.0.1", "10.0.0.2"), "and no option of ssh-keyscan's"
        text = f"# 10.0.0.1:22 SSH-2.0-OpenSSH\n10.0.0.1 {KEY}\n10.0.0.2 ssh-rsa AAAA\n"
        return subprocess.CompletedProcess(command, 0, text, "")

    monkeypatch.setattr(access, "run_command", scanned)
    found = access.reached({"gpu1": "10.0.0.1", "gpu2": "10.0.0.2", "gpu3": "-oProxyCommand=x"})
    assert found == {"gpu1": KEY, "gpu2": "", "gpu3": ""}
    monkeypatch.setattr(access, "run_command", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError()))
    assert access.reached({"gpu1": "10.0.0.1"}) == {}, "not known: nothing is said against it"


@pytest.mark.needs("ssh-keygen")
@pytest.mark.holds("an address is an address")
@pytest.mark.holds(
    "a key that ssh-keygen has made is on the disk: a power cut would leave it empty, and the next run stops"
)
@pytest.mark.root
def test_a_key_for_the_run_and_only_nodes_that_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, synced = str(tmp_path / "state"), []

    def run(command: tuple[str, ...], *, what: str) -> None:
        if command[0] == "sync":
            assert all(Path(one).stat().st_size for one in command[1:])
            synced.append(command)
        really_run(command, what=what)

    monkeypatch.setattr(access, "run", run)
    key = access.make_key(state, {"gpu1": {"address": "10.0.0.1", "key": f"{KEY} root@gpu1"}})
    assert access.public_key(key) == key
    assert access.make_key(state, {}) == key, "the same one after a kill"
    content, names = synced
    assert content == ("sync", f"{access.key_file(state)}.new", f"{access.key_file(state)}.new.pub")
    assert names == ("sync", record.directory(state))
    access.make_key(state, {"gpu1": {"address": "10.0.0.1", "key": f"{KEY} root@gpu1"}})
    assert Path(access.known_hosts(state)).read_text() == f"10.0.0.1 {KEY}\n"
    assert Path(access.key_file(state)).stat().st_mode & 0o777 == 0o600
    with pytest.raises(NodeError, match="not an address"):
        access.make_key(state, {"gpu1": {"address": "10.0.0.1 evil\n", "key": KEY}})
    access.drop_key(state)
    assert list(Path(record.directory(state)).iterdir()) == []


@pytest.mark.needs("ssh-keygen")
@pytest.mark.holds("a key has its public one, wherever it was cut")
@pytest.mark.parametrize("left", [None, b""], ids=["killed", "full disk"])
@pytest.mark.root
def test_a_key_that_was_cut_while_it_was_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bytes | None
) -> None:
    """ssh-keygen writes the private key, then the public one, and what is there is never made again."""
    state = str(tmp_path / "state")

    def cut(command: tuple[str, ...], *, what: str) -> None:
        really_run(command, what=what)
        public = Path(f"{command[-1]}.pub")
        public.unlink() if left is None else public.write_bytes(left)
        raise NodeError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(access, "run", cut)
        with pytest.raises(NodeError, match="no space"):
            access.make_key(state, {})
    key = access.make_key(state, {})
    assert key in Path(f"{access.key_file(state)}.pub").read_text()
    access.drop_key(state)
    assert list(Path(record.directory(state)).iterdir()) == []
