"""A site's twin: the same hosts, people and settings, and nothing that is secret or leads outside."""

from pathlib import Path

import pytest

from gpuadmin.config.check import findings
from gpuadmin.config.load import Site, load_site
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.errors import ConfigError
from gpuadmin.lab import hosts, ssh, state, twin
from tests.support.sites import public_key
from tests.unit.lab.conftest import BASES

KEY = public_key("minji", comment="minji@laptop.cs.example.org")
USERS = f"""users:
- {{name: minji, uid: 20000, email: minji@example.org, keys: ["{KEY}"], expires: 2027-02-28, note: pays late}}
- {{name: jiho, uid: 20001, locked: true, group: phd}}
retired:
- {{name: sora, uid: 20002, email: sora@example.org, removed: 2026-01-01}}
"""
SETTINGS = {
    "homes": {"export": "/data/homes"},
    "mail": {"host": "smtp.example.org", "sender": "gpu@example.org", "user": "gpu", "languages": ["en"],
             "password_file": "~/.smtp"},
    "metrics": {"mail_to": ["admin@example.org"], "webhook": "https://hooks.example.org/secret", "idle_hours": 3},
    "gpus": {"driver": "distribution", "access": "granted"},
    "admins": [{"name": "kim", "uid": 950, "keys": [KEY]}],
    "images": {"signing_key": "~/keys/real_signing_key", "signers": [KEY]},
    "docker": {"repository": {"url": "https://repository.example.org"}},
}  # fmt: skip
HOSTS = (
    SiteHost(
        "gpu1.cs.example.org", ("gpu", "golden"), {"gpus": 8, "limits_memory": "64G", "bmc": {"address": "10.9.0.1"}}
    ),
    SiteHost("big-machine-number-2", ("gpu",), {"ansible_host": "192.0.2.7", "ansible_user": "kim", "gpus": 4}),
    SiteHost("nas1", ("storage",)),
    SiteHost("watch", ("monitor",)),
)


@pytest.fixture
def real(tmp_path: Path) -> Site:
    directory = tmp_path / "real"
    write_site(directory, name="AI Lab", settings=SETTINGS, hosts=HOSTS)
    (directory / "users.yml").write_text(USERS)
    return load_site(str(directory))


@pytest.fixture
def made(real: Site, tmp_path: Path) -> tuple[state.Lab, Path]:
    empty = state.Lab("twin", 1024, 5555, light=True, gpus=2, like=str(real.directory), data=twin.place_of_data(real))
    lab = hosts.with_hosts(empty, twin.wanted_hosts(real), BASES, set())
    for host in lab.hosts:
        lab.host_directory(host).mkdir(parents=True)
        (lab.host_directory(host) / "ssh_host_ed25519_key.pub").write_text(public_key(host.name))
    ssh.make_key(lab.ssh_key, "lab")
    twin.write(lab, real, tmp_path / "twin")
    return lab, tmp_path / "twin"


def test_it_has_the_hosts_of_the_site(made: tuple[state.Lab, Path]) -> None:
    lab, directory = made
    found = {host.name: host for host in load_site(str(directory)).inventory.hosts}
    assert {name: set(host.groups) for name, host in found.items()} == {
        "gpu1.cs.example.org": {"gpu", "golden"}, "big-machine-number-2": {"gpu"}, "nas1": {"storage"},
        "watch": {"monitor"},
    }  # fmt: skip
    assert {host.address for host in found.values()} == {"127.0.0.1"}
    assert "ansible_user" not in found["big-machine-number-2"].variables
    assert found["gpu1.cs.example.org"].variables["limits_memory"] == "64G"
    assert {"gpus", "bmc"}.isdisjoint(found["gpu1.cs.example.org"].variables), "a rehearsal cuts nobody off"
    assert lab.hosts[0].name == "nas1", "its data is where the others find homes"
    assert [lab.count_gpus(host) for host in lab.hosts] == [0, 2, 2, 0]
    assert {host.name: host.writable for host in lab.hosts} == {
        "nas1": True, "gpu1.cs.example.org": False, "big-machine-number-2": False, "watch": True,
    }  # fmt: skip
    assert lab.data == "/data"


def test_it_has_the_people_with_keys_that_are_made_here(made: tuple[state.Lab, Path]) -> None:
    site = load_site(str(made[1]))
    minji, jiho = site.registry.registry.users
    assert (minji.uid, str(minji.expires), minji.email, minji.note) == (20000, "2027-02-28", "minji@twin.invalid", None)
    assert minji.keys[0].endswith("minji@twin.invalid")
    assert minji.keys[0].split()[1] != KEY.split()[1]
    assert (jiho.locked, jiho.group, jiho.keys) == (True, "phd", [])
    (gone,) = site.registry.registry.retired
    assert (gone.name, gone.uid, gone.email) == ("sora", 20002, None)
    assert [one for one in findings(site) if one.level == "error"] == []


def test_nothing_of_it_is_secret_or_leads_outside(made: tuple[state.Lab, Path]) -> None:
    _, directory = made
    text = "\n".join(path.read_text() for path in directory.rglob("*") if path.is_file() and ".schema" not in path.name)
    for word in (
        "real_signing_key", KEY.split()[1], "smtp.example", "@example.org", "hooks.example", "repository.example",
        "pays late", "192.0.2.7", ".smtp",
    ):  # fmt: skip
        assert word not in text
    settings = load_site(str(directory)).settings
    assert settings.mail is not None
    assert (settings.mail.host, settings.mail.directory) == ("twin.invalid", str(directory / "mails"))
    assert settings.mail.languages == ["en"]
    assert (settings.metrics.idle_hours, settings.metrics.mail_to) == (3, [])
    assert (settings.gpus.access, settings.gpus.driver) == ("granted", "elsewhere")


@pytest.mark.holds("a twin is written over no site of people's")
def test_it_is_written_anew_and_over_no_other_site(real: Site, made: tuple[state.Lab, Path]) -> None:
    lab, directory = made
    users = (directory / "users.yml").read_text()
    (directory / "users.yml").write_text("users: []\n")
    twin.write(lab, real, directory)
    assert (directory / "users.yml").read_text() == users
    before = (real.directory / "users.yml").read_text()
    with pytest.raises(ConfigError, match="site of another cluster"):
        twin.write(lab, real, real.directory)
    assert (real.directory / "users.yml").read_text() == before


def test_a_site_without_a_storage_host_has_no_twin(tmp_path: Path) -> None:
    write_site(tmp_path / "x", name="x", settings={}, hosts=HOSTS[:1])
    with pytest.raises(ConfigError, match="no host is in the group storage"):
        twin.wanted_hosts(load_site(str(tmp_path / "x")))
