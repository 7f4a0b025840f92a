"""The site of a lab: what people edited in it stays, and a site that is not the lab's is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuadmin.cli.lab import lab
from gpuadmin.config.load import load_site
from gpuadmin.errors import ConfigError
from gpuadmin.lab import hosts, site, state
from tests.support.sites import public_key
from tests.unit.lab.conftest import BASES


def with_keys(lab: state.Lab) -> state.Lab:
    """A lab whose hosts have host keys, as `prepare` makes them."""
    for host in lab.hosts:
        lab.host_directory(host).mkdir(parents=True, exist_ok=True)
        (lab.host_directory(host) / "ssh_host_ed25519_key.pub").write_text(public_key(host.name))
    return lab


@pytest.fixture
def small() -> state.Lab:
    return with_keys(hosts.with_hosts(state.Lab("default", 1024, 5555), hosts.wanted_hosts(1, 0), BASES, set()))


@pytest.fixture
def written(small: state.Lab, tmp_path: Path) -> Path:
    directory = tmp_path / "lab-site"
    site.write(small, directory)
    return directory


def test_what_was_edited_stays_when_a_host_is_added(small: state.Lab, written: Path) -> None:
    inventory = written / "inventory" / "hosts.yml"
    text = inventory.read_text().replace("monitor: {hosts: {}}", "monitor:\n      hosts:\n        storage1: {}  # mine")
    inventory.write_text(text)
    known = written / "known_hosts"
    known.write_text(known.read_text() + f"gateway.example.org {public_key('gateway', comment='')}\n")
    more = with_keys(hosts.with_hosts(small, hosts.wanted_hosts(1, 1), BASES, set()))
    site.write(more, written)
    groups = {host.name: set(host.groups) for host in load_site(str(written)).inventory.hosts}
    assert groups["storage1"] >= {"storage", "monitor"}
    assert "gpu" in groups["plain1"]
    assert "# mine" in inventory.read_text()
    assert "gateway.example.org" in known.read_text()
    assert f"[127.0.0.1]:{more.host('plain1').ssh_port}," in known.read_text()


def test_nothing_new_writes_nothing(small: state.Lab, written: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_ino) for path in written.rglob("*.yml")}
    site.write(small, written)
    assert {path: (path.read_bytes(), path.stat().st_ino) for path in written.rglob("*.yml")} == before


def test_a_port_that_moved_is_written_where_the_host_is_described(small: state.Lab, written: Path) -> None:
    inventory = written / "inventory" / "hosts.yml"
    text = inventory.read_text().replace(
        'gpuadmin_address: "10.77.0.11"', 'gpuadmin_address: "10.77.0.11"\n          gpus: 2  # two'
    )
    inventory.write_text(text)
    node1 = small.host("node1")
    ports = [replace(host, ssh_port=1022) if host == node1 else host for host in small.hosts]
    moved = replace(small, hosts=tuple(ports))
    site.write(moved, written)
    assert inventory.read_text() == text.replace(str(node1.ssh_port), "1022")
    known = (written / "known_hosts").read_text()
    assert "[127.0.0.1]:1022," in known
    assert str(node1.ssh_port) not in known


def test_a_host_that_the_lab_has_not_is_named_and_stays(small: state.Lab, written: Path) -> None:
    inventory = written / "inventory" / "hosts.yml"
    inventory.write_text(inventory.read_text().replace("backup: {hosts: {}}", "backup: {hosts: {nas9: {}}}"))
    assert site.write(small, written) == ["nas9"]
    assert "nas9" in inventory.read_text()


@pytest.mark.parametrize(
    "inventory", ["all: []\n", "all: {children: {gpu: [node1]}}\n", "all: {children: {gpu: {hosts: [x]}}}\n"]
)
def test_an_inventory_of_another_shape_is_refused(small: state.Lab, written: Path, inventory: str) -> None:
    path = written / "inventory" / "hosts.yml"
    path.write_text(inventory)
    with pytest.raises(ConfigError, match=r"inventory/hosts\.yml"):
        site.write(small, written)
    assert path.read_text() == inventory


@pytest.mark.parametrize("settings", ["name: ai\n", "name: default\nadmin: {user: gpuadmin, ssh_key: ~/.ssh/id}\n"])
def test_the_site_of_another_cluster_is_refused(small: state.Lab, written: Path, settings: str) -> None:
    (written / "gpuadmin.yml").write_text(settings)
    before = {path: path.read_bytes() for path in written.rglob("*") if path.is_file()}
    more = with_keys(hosts.with_hosts(small, hosts.wanted_hosts(1, 1), BASES, set()))
    with pytest.raises(ConfigError, match="another cluster"):
        site.write(more, written)
    assert {path: path.read_bytes() for path in written.rglob("*") if path.is_file()} == before


def test_in_a_lab_s_site_its_lab_is_meant(
    small: state.Lab, written: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = with_keys(hosts.with_hosts(state.Lab("other", 1024, 5556), hosts.wanted_hosts(1, 0), BASES, set()))
    site.write(other, tmp_path / "other-site")
    state.save(replace(other, site=str(tmp_path / "other-site")))
    state.save(replace(small, site=str(written)))
    line: list[str] = []
    monkeypatch.setattr("os.execvp", lambda _name, words: line.extend(words))
    monkeypatch.setattr("gpuadmin.lab.commands.require", lambda *_: None)
    for place, expected in (
        (tmp_path / "other-site" / "inventory", other), (written, small), (tmp_path, small),
    ):  # fmt: skip
        line.clear()
        monkeypatch.chdir(place)
        lab.main(["ssh", "node1", "true"], standalone_mode=False)
        assert str(expected.host("node1").ssh_port) in line
        assert f"IdentityFile={expected.ssh_key}" in line
    monkeypatch.chdir(tmp_path / "other-site")
    lab.main(["ssh", "--name", "default", "node1"], standalone_mode=False)
    assert f"IdentityFile={small.ssh_key}" in line


def test_a_command_may_come_after_dashes_as_with_ssh_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr("gpuadmin.actions.lab.ssh", lambda *words, **_: given.append(words[2]) or 0)
    for words in (("--", "id"), ("id",), ("ls", "--", "-x")):
        CliRunner().invoke(lab, ["ssh", "node1", *words])
    assert given == [("id",), ("id",), ("ls", "--", "-x")]
