"""Installing a node, from the command line to what Ansible would be asked: what is refused, typed, pinned, awaited."""

import hashlib
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.actions import install
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.config.inventory import Host
from gpuadmin.config.known_hosts import pinned_keys
from gpuadmin.errors import ConfigError
from gpuadmin.host_keys import HostKey
from gpuadmin.images.install import choose_image
from gpuadmin.results import OTHER_KEY, HostResult, RunResult
from tests.support.image_cluster import manifest
from tests.support.sites import make_site
from tests.support.verbs import fail, succeed

Cli = Callable[..., tuple[int, str, str]]
MAC, BLANK, FULL = "3c:ec:ef:12:34:56", "nvme-BLANK_1", "nvme-FULL_2"
STICK_KEY, NODE_KEY, OLD_KEY = ("A" * 68, "B" * 68, "C" * 68)
PATTERN = "[127.0.0.1]:2"  # of node1


def disk(name: str, *parts: str, busy: str = "") -> dict[str, Any]:
    return {"names": [name, f"wwn-{name}"], "size": 10**12, "model": "ODD", "parts": list(parts), "busy": busy}


@dataclass
class Answers:
    """What Ansible is asked, and what a machine on a stick and the storage host answer."""

    asked: list[Invocation] = field(default_factory=list)
    disks: list[dict[str, Any]] = field(default_factory=list)
    silent: str = ""
    refusal: str = ""
    image: bytes = b"the stick" * 1000
    path: str = ""
    size: int = 9000
    full: bool = True
    fails: str = ""  # the disk, or the reboot

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        self.asked.append(invocation)
        host = str(invocation.limit)
        if invocation.playbook == "list-images":
            whole = manifest("one", "a" * 8 + "-0000-0000-0000-000000000000", None)
            store = {"one": {"manifest": whole, "text": "{}", "problem": None}}
            found = HostResult("ok", reports={"store": store})
            return RunResult({host: found if self.full else HostResult("failed", message="the store is away")})
        if "gpuadmin_stick" in invocation.variables:
            digest = hashlib.sha256(self.image).hexdigest()
            made = {"host_key": f"ssh-ed25519 {STICK_KEY}", "path": self.path, "bytes": self.size, "sha256": digest}
            reports = {} if invocation.check else {"made": made}
            return RunResult({host: HostResult("changed", ["make a stick of one"], reports=reports)})
        if self.silent or invocation.playbook == "serve-stick":
            served = HostResult("changed", ["serve the stick of one"])
            refused = HostResult("failed", message=self.refusal) if self.refusal else served
            return RunResult({host: HostResult("unreachable", message=self.silent) if self.silent else refused})
        if not invocation.check:
            step = "reboot" if "gpuadmin_install_reboot" in invocation.variables else "disk"
            done = HostResult("changed", reports={"made": {"host_key": f"ssh-ed25519 {NODE_KEY}"}})
            return RunResult({host: HostResult("failed", message=f"no {step}") if self.fails == step else done})
        reports = {"machine": {"image": "one", "disks": self.disks}}
        if self.refusal:
            return RunResult({host: HostResult("failed", message=self.refusal, reports=reports)})
        does = ["write one"] if invocation.variables["gpuadmin_install"]["disk"] else []
        return RunResult({host: HostResult("changed", does, reports=reports)})

    @property
    def written(self) -> list[dict[str, Any]]:
        found = [one for one in self.asked if "gpuadmin_install" in one.variables and not one.check]
        return [one.variables["gpuadmin_install"] for one in found]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    made = make_site(tmp_path / "site", settings={"admin": {"user": "gpuadmin", "ssh_key": f"{tmp_path}/id"}})
    (made / "known_hosts").write_text(f"gpuadmin-stick ssh-ed25519 {STICK_KEY}\n{PATTERN} ssh-ed25519 {OLD_KEY}\n")
    (tmp_path / "id.pub").write_text(
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGY0mNRDSXyXVOc7Yhx1gHKkQyQ0Zp3mG2oWnJ1pV5bN me\n"
    )
    return made


@pytest.fixture
def answers(site: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    found = Answers(
        disks=[disk(BLANK), disk(FULL, "sda1: ntfs, 'Windows', 500.0 GB"), disk("sata-ROOT", busy="sdb1 is in use (/)")]
    )

    def fetch(hosts: Iterable[Host]) -> list[HostKey]:
        return [HostKey(host.name, host.address, host.port, "ssh-ed25519", NODE_KEY) for host in hosts]

    monkeypatch.setattr("gpuadmin.ansible.runner.run", found.run)
    monkeypatch.setattr(install, "fetch_host_keys", fetch)
    monkeypatch.setattr(install, "_BOOT", 0.5)
    monkeypatch.setattr("gpuadmin.actions.install.time.sleep", lambda seconds: None)
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    return found


def pinned(site: Path, name: str) -> set[str]:
    return pinned_keys((site / "known_hosts").read_text(), name).get("ssh-ed25519", set())


def test_a_blank_disk(answers: Answers, site: Path, cli: Cli) -> None:
    (site / "lan.network").write_text("[Match]\n")
    code, out, err = cli("install", "node1", "--mac", MAC.upper().replace(":", "-"), "--disk", BLANK, "--address",
                         "10.0.0.201", "--network", str(site / "lan.network"), "--yes")  # fmt: skip
    assert code == 0, err
    assert "Next: gpuadmin provision; gpuadmin prepare-root\n" in err, "on all hosts: others have to know the new one"
    assert "erase this disk" in out
    assert "nvme-BLANK_1: 1.0 TB, ODD" in out
    assert "write one" in out
    assert "pin the host key of node1" in out
    look, write, reboot = answers.asked
    assert (look.check, write.check, reboot.check) == (True, False, False)
    for one in answers.asked:
        assert (one.playbook, one.limit) == ("install", "node1")
        assert one.variables["ansible_ssh_extra_args"] == "-o HostKeyAlias=gpuadmin-stick"
        assert one.variables["ansible_host"] == "10.0.0.201"
    (order,) = answers.written
    assert (order["host"], order["mac"], order["disk"]) == ("node1", MAC, BLANK)
    assert order["network"] == {"lan.network": "[Match]\n"}
    assert (look.variables["gpuadmin_install"]["shown"], order["shown"]) == (None, [])
    assert reboot.variables["gpuadmin_install_reboot"] is True
    assert pinned(site, PATTERN) == {NODE_KEY}
    assert pinned(site, "gpuadmin-stick") == {STICK_KEY}


def test_a_check_writes_nothing(answers: Answers, site: Path, cli: Cli) -> None:
    what = "with it goes what a node keeps on its disk: /local, /var"
    assert what in succeed(cli, "install", "node1", "--mac", MAC, "--disk", FULL, "--check")
    assert what not in succeed(cli, "install", "node1", "--mac", MAC, "--disk", BLANK, "--check")
    assert "  nvme-FULL_2: 1.0 TB, ODD\n    sda1: ntfs, 'Windows'" in succeed(
        cli, "install", "node1", "--mac", MAC, "--check"
    )
    assert [one.check for one in answers.asked] == [True, True, True]
    assert pinned(site, PATTERN) == {OLD_KEY}


#: Further arguments → what is said, and the exit code. Nothing is written then.
REFUSED = {
    "no disk": ((), 2, "no disk is named; what it has:\n  nvme-BLANK_1: 1.0 TB, ODD\n    nothing is on it"),
    "which cannot be taken": ((), 2, "nothing is on it\n    cannot be taken: sdb1 is in use (/)"),
    "what is on it": ((), 2, "sda1: ntfs, 'Windows', 500.0 GB"),
    "another disk": (("--disk", "nvme-OTHER"), 2, "this machine has no disk nvme-OTHER"),
    "a part of a disk": (("--disk", f"{FULL}-part1"), 2, "has no disk"),
    "--yes alone": (("--disk", FULL, "--yes"), 5, "give --erase node1 too"),
    "another host's name": (("--disk", FULL, "--yes", "--erase", "node2"), 5, "give --erase node1 too"),
    "nobody there": (("--disk", FULL), 5, "there is no terminal to ask on"),
    "no such file": (("--disk", BLANK, "--network", "lan.network", "--yes"), 2, "lan.network: No such file"),
    "two of a name": (("--disk", BLANK, "--network", "a/lan.network", "--network", "b/lan.network", "--yes"), 2,
                      "two files are called lan.network"),
    "not for networkd": (("--disk", BLANK, "--network", "lan.yaml", "--yes"), 2, "'lan.yaml' does not end in .network"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, answers: Answers, site: Path, cli: Cli) -> None:
    more, code, words = REFUSED[case]
    assert words in fail(cli, code, "install", "node1", "--mac", MAC, *more)
    assert answers.written == []
    assert pinned(site, PATTERN) == {OLD_KEY}


def test_what_the_machine_refuses(answers: Answers, cli: Cli) -> None:
    """Its own words, before anybody is asked, with all of a check."""
    answers.refusal = f"{BLANK} is not touched: sda1 is in use"
    for more in ((), ("--yes",), ("--check",)):
        code, out, _ = cli("install", "node1", "--mac", MAC, "--disk", BLANK, *more)
        assert (code, answers.refusal in out) == (3, True)
    assert answers.written == []


@pytest.mark.parametrize(("typed", "code"), [("node1", 0), ("node2", 5), ("", 5), ("yes", 5)])
def test_the_name_is_typed(typed: str, code: int, answers: Answers, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(f"gpuadmin.session.sys.{stream}.isatty", lambda: True)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: True)
    monkeypatch.setattr(install, "ask", lambda question, default: typed)
    assert cli("install", "node1", "--mac", MAC, "--disk", FULL)[0] == code
    assert len(answers.written) == (code == 0)


@pytest.mark.parametrize(
    ("fails", "advice", "key"),
    [
        ("disk", "boot the stick again and run the same: it starts over", OLD_KEY),
        ("reboot", "switch it off and on", NODE_KEY),
    ],
)
def test_what_was_cut(fails: str, advice: str, key: str, answers: Answers, site: Path, cli: Cli) -> None:
    """Its key is pinned from when the disk is whole on."""
    answers.fails = fails
    code, out, err = cli("install", "node1", "--mac", MAC, "--disk", BLANK, "--yes")
    assert (code, pinned(site, PATTERN)) == (3, {key})
    assert f"no {fails}" in out
    assert advice in err


def test_the_name_in_a_script(answers: Answers, cli: Cli) -> None:
    succeed(cli, "install", "node1", "--mac", MAC, "--disk", FULL, "--yes", "--erase", "node1")
    assert [one["shown"] for one in answers.written] == [["sda1: ntfs, 'Windows', 500.0 GB"]]
    assert answers.asked[-1].variables["ansible_host"] == "127.0.0.1", "the host's own address"


def test_a_machine_that_does_not_answer(answers: Answers, cli: Cli) -> None:
    for answers.silent in ("timed out", OTHER_KEY):
        code, out, error = cli("install", "node1", "--mac", MAC, "--disk", BLANK)
        assert (code, "what answers there is a node" in out + error) == (4, answers.silent == OTHER_KEY), out + error
        assert "boot it from the site's newest stick" in error
        assert "trust" not in error, "a node that runs has the key that is pinned"


def test_a_node_that_shows_another_key(answers: Answers, site: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stick once more, or somebody else at its address."""
    monkeypatch.setattr(install, "fetch_host_keys",
                        lambda hosts: [HostKey("node1", "", 2, "ssh-ed25519", STICK_KEY)])  # fmt: skip
    error = fail(cli, 4, "install", "node1", "--mac", MAC, "--disk", BLANK, "--yes")
    assert "is installed, and does not answer at 127.0.0.1 with its new key" in error
    assert pinned(site, PATTERN) == {NODE_KEY}


def test_what_must_be_there_first(answers: Answers, site: Path, cli: Cli) -> None:
    assert "is in no group of nodes" in fail(cli, 2, "install", "storage1", "--mac", MAC)
    for arguments in (
        (), ("node1",), ("--mac", MAC), ("node1", "--mac", MAC, "--stick", "x"), ("node1", "--mac", ""),
        ("--serve", MAC, "--mac", MAC), ("--serve", MAC, "--stick", "x"), ("--answers", "x", "--stick", "y"),
    ):  # fmt: skip
        assert "name a HOST and its --mac" in fail(cli, 2, "install", *arguments)
    assert "--hours goes with --serve" in fail(cli, 2, "install", "node1", "--mac", MAC, "--hours", "3")
    for arguments in (("--image", "old"), ("--kernel", "quiet")):
        assert "go with --stick" in fail(cli, 2, "install", "node1", "--mac", MAC, "--disk", BLANK, *arguments)
    for arguments in (("--disk", BLANK), ("--address", "10.0.0.1"), ("--network", "a.network"), ("--erase", "node1")):
        assert "go with HOST" in fail(cli, 2, "install", "--stick", str(site / "stick"), *arguments)
    assert "--mac '3c:ec': is not a MAC address" in fail(cli, 2, "install", "node1", "--mac", "3c:ec")
    (program := site / "program").touch(0o755)
    nowhere = "not a directory that you can write to"
    for path, words in ((site / "nothing/stick", nowhere), (program / "stick", nowhere), (site, "is there already")):
        assert words in cli("install", "--stick", str(path), "--yes")[2]
    (site / "known_hosts").write_text("")
    assert "gpuadmin install --stick FILE makes one" in fail(cli, 2, "install", "node1", "--mac", MAC)
    assert answers.asked == []


@pytest.fixture
def fetched(answers: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The storage host's file, and the ssh that brings it."""
    source = tmp_path / "source"
    source.write_bytes(answers.image)
    answers.path = str(source)

    def reach(_site: Any, name: str, words: list[str]) -> list[str]:
        assert (name, words) == ("storage1", [f"sudo -n cat {source}"])
        return ["cat", str(source)]

    monkeypatch.setattr("gpuadmin.actions.install.connections.command_line", reach)
    return source


def test_a_stick(answers: Answers, fetched: Path, site: Path, tmp_path: Path, cli: Cli) -> None:
    file, other = tmp_path / "site.img", tmp_path / "site.img.part"
    other.write_text("somebody's own")
    (site / "known_hosts").write_text(f"gpuadmin-stick ssh-ed25519 {OLD_KEY}\n")
    code, out, err = cli("install", "--stick", str(file), "--kernel", "console=ttyS0", "--yes")
    assert (code, "conv=fsync" in err) == (0, True), "whoever pulls it out too early has half a stick"
    assert "make a bootable disk of one beside the store" in out
    assert f"copy it to {file}; its host key takes the place" in out
    order = answers.asked[-1].variables["gpuadmin_stick"]
    assert (order["name"], order["arguments"], order["admin"]["user"]) == ("one", "console=ttyS0", "gpuadmin")
    assert answers.asked[-1].limit == "storage1"
    assert file.read_bytes() == answers.image
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert pinned(site, "gpuadmin-stick") == {STICK_KEY}
    assert "is there already" in fail(cli, 5, "install", "--stick", str(file), "--yes")
    assert sorted(tmp_path.glob("*site.img*")) == [file, other]
    assert other.read_text() == "somebody's own"


def test_the_storage_host_that_has_the_images(answers: Answers, site: Path, tmp_path: Path, cli: Cli) -> None:
    """It alone is asked: what another one does not answer is in no stick's way."""
    hosts, settings = site / "inventory/hosts.yml", site / "gpuadmin.yml"
    hosts.write_text(hosts.read_text().replace("storage1:", "storage1:\n        storage2:"))
    settings.write_text(f"{settings.read_text()}\nimages: {{server: storage2}}\n")
    succeed(cli, "install", "--stick", str(tmp_path / "site.img"), "--check")
    succeed(cli, "install", "--serve", MAC, "--check")
    assert {one.limit for one in answers.asked} == {"storage2"}
    for other in ("node1", "away"):
        settings.write_text(settings.read_text().replace("server: storage2", f"server: {other}"))
        for asked in (("--stick", str(tmp_path / "site.img")), ("--serve", MAC)):
            error = fail(cli, 2, "install", *asked, "--check")
            assert f"images.server: '{other}' is not a host of group storage" in error
        settings.write_text(settings.read_text().replace(f"server: {other}", "server: storage2"))
    assert {one.limit for one in answers.asked} == {"storage2"}


@pytest.mark.holds("a stick replaces no file")
def test_a_file_that_somebody_made_meanwhile_stays(
    answers: Answers, fetched: Path, site: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "site.img"
    script = ["sh", "-c", f"echo precious >{file}; cat {fetched}"]
    monkeypatch.setattr("gpuadmin.actions.install.connections.command_line", lambda *given: script)
    assert "is there already" in fail(cli, 5, "install", "--stick", str(file), "--yes")
    assert file.read_text() == "precious\n"
    assert list(tmp_path.glob("*site.img*")) == [file]


@pytest.mark.parametrize(("size", "words"), [(2**60, "has no room for the"), (100, "could not be copied")])
@pytest.mark.holds("no more is taken than the host has announced", "a host that claims a huge stick fills no disk")
def test_a_host_that_lies_about_its_size(
    size: int, words: str, answers: Answers, fetched: Path, tmp_path: Path, cli: Cli
) -> None:
    answers.size = size
    assert words in fail(cli, 1, "install", "--stick", str(tmp_path / "site.img"), "--yes")
    assert not list(tmp_path.glob("*site.img*"))


def test_a_stick_needs_a_store_that_answers(answers: Answers, site: Path, tmp_path: Path, cli: Cli) -> None:
    answers.full = False
    assert "the store is away" in fail(cli, 3, "install", "--stick", str(tmp_path / "site.img"), "--yes")
    hosts = site / "inventory/hosts.yml"
    hosts.write_text(hosts.read_text().replace("storage:", "other:"))
    assert "has no storage host" in fail(cli, 2, "install", "--stick", str(tmp_path / "site.img"), "--yes")


def test_a_stick_that_was_cut_off_on_its_way(
    answers: Answers, fetched: Path, site: Path, tmp_path: Path, cli: Cli
) -> None:
    (site / "known_hosts").write_text("")
    fetched.write_bytes(answers.image[:100])
    assert "could not be copied from storage1" in fail(
        cli, 1, "install", "--stick", str(tmp_path / "site.img"), "--yes"
    )
    assert not list(tmp_path.glob("*site.img*"))
    assert pinned(site, "gpuadmin-stick") == set()


def test_a_stick_is_asked_about(answers: Answers, tmp_path: Path, cli: Cli) -> None:
    fail(cli, 5, "install", "--stick", str(tmp_path / "site.img"))
    succeed(cli, "install", "--stick", str(tmp_path / "site.img"), "--check")
    assert all(one.check for one in answers.asked)
    assert not list(tmp_path.glob("site.img*"))


def test_the_stick_from_the_network(answers: Answers, cli: Cli) -> None:
    """Shown, asked about, and for machines that were named."""
    more = ("--serve", MAC.upper().replace(":", "-"), "--serve", "52:54:00:00:00:01")
    fail(cli, 5, "install", *more)
    assert "serve the stick of one" in succeed(cli, "install", *more, "--check")
    assert all(one.check for one in answers.asked)
    succeed(cli, "install", *more, "--hours", "5", "--yes")
    last = answers.asked[-1]
    assert (last.playbook, last.limit, last.check) == ("serve-stick", "storage1", False)
    assert last.variables["gpuadmin_netboot"] == {"macs": [MAC, "52:54:00:00:00:01"], "hours": 5}


def test_what_nobody_could_boot_from(answers: Answers, cli: Cli) -> None:
    answers.refusal = "no DHCP server offers it an address"
    code, out, _ = cli("install", "--serve", MAC, "--yes")
    assert (code, answers.refusal in out) == (3, True)
    assert all(one.check for one in answers.asked)


PART, WHOLE = {"streams": [{"parent": {"name": "a"}}]}, {"streams": [{"parent": {"name": "a"}}, {"parent": None}]}


@pytest.mark.parametrize(
    ("store", "wanted", "found"),
    [
        ({"c": PART, "b": WHOLE, "a": WHOLE}, None, "b"),
        ({"c": PART, "b": WHOLE, "a": WHOLE}, "a", "a"),
        ({"c": PART, "b": WHOLE}, "c", "no full stream of c"),
        ({"c": PART}, None, "no full stream of any image"),
        ({}, "x", "no full stream of x"),
    ],
)
def test_which_image(store: dict[str, Any], wanted: str | None, found: str) -> None:
    if len(found) == 1:
        assert choose_image(store, wanted) == found
        return
    with pytest.raises(ConfigError, match=found):
        choose_image(store, wanted)
