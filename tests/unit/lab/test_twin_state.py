"""What adopt saw, for a twin: read within bounds, told to each host, and nothing of anybody's in it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.cli import cli
from gpuadmin.config.load import Site, load_site
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.lab import hosts, state, twin, twin_state
from gpuadmin.takeover.adoption.page import document
from gpuadmin.takeover.adoption.proposal import propose
from gpuadmin.text import one_line
from tests.support.adoptable import ANSWER, ROOT, account, homes, host, keys, storage
from tests.support.sites import public_key

SHARED = public_key("shared")
MINJI = [account("minji", 1001, gecos="Kim Minji,,,,minji@example.org"), account("jiho", 1002)]
HOSTS = [
    storage("nas1", exports=[{"path": "/srv/homes", "clients": "*(rw)"}]),
    host(
        "gpu1",
        system={**ANSWER["system"], "codename": "noble"},
        accounts=[ROOT, *MINJI],
        keys={"minji": keys(public_key("minji"), SHARED, odd=1), "jiho": keys(SHARED)},
        sudo=[{"key": "sudo for jiho, %staff in /etc/sudoers.d/people", "words": "jiho ALL = NOPASSWD: ALL"}],
        root={"problems": ["no boot loader"]},
    ),
    host(
        "gpu2",
        system={**ANSWER["system"], "codename": "focal"},
        accounts=[ROOT, account("minji", 1002)],
        homes=[homes("minji", source="192.0.2.9:/srv/homes", fstype="nfs4", mounted=True)],
        file_systems=[
            {"point": "/home", "fstype": "nfs4", "source": "192.0.2.9:/srv/homes", "subvolume": "/", "network": True},
            {"point": "/far", "fstype": "nfs4", "source": "elsewhere:/srv", "subvolume": "/", "network": True},
        ],
        keys={"minji": keys(options=[{"names": ["from"], "fingerprint": "SHA256:x"}])},
    ),
]
SETTINGS = {"homes": {"export": "/srv/homes"}, "accounts": {"uid_first": 1000, "uid_last": 19998}}
SITE_HOSTS = (
    SiteHost("nas1", ("storage",), {"ansible_host": "192.0.2.9"}),
    SiteHost("gpu1", ("gpu", "golden")),
    SiteHost("gpu2", ("gpu",)),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    proposal = propose("lab", HOSTS, login="root")
    path = tmp_path / "adoption.json"
    path.write_text(json.dumps(document(proposal, datetime(2026, 1, 1, tzinfo=UTC), "")))
    return path


@pytest.fixture
def real(tmp_path: Path) -> Site:
    write_site(tmp_path / "real", name="lab", settings=SETTINGS, hosts=SITE_HOSTS)
    (tmp_path / "real" / "users.yml").write_text(
        f'users:\n- {{name: minji, uid: 1001, keys: ["{public_key("minji")}"]}}\n- {{name: jiho, uid: 1002}}\n'
    )
    return load_site(str(tmp_path / "real"))


@pytest.fixture
def lab(real: Site) -> state.Lab:
    return state.Lab("twin", 1024, 5555, light=True, like=str(real.directory), data=twin.place_of_data(real))


def test_the_file_has_what_a_twin_needs_and_nothing_of_anybodys(file: Path) -> None:
    seen = json.dumps([one["seen"] for one in json.loads(file.read_text())["hosts"].values()])
    for secret in ("minji@example.org", "Kim", public_key("minji").split()[1], SHARED.split()[1], "NOPASSWD"):
        assert secret not in seen
    gpu1 = twin_state.read(file).hosts["gpu1"]["seen"]
    assert gpu1["sudo"] == ["jiho", "%staff"]
    assert len(gpu1["keys"]["minji"]["plain"]) == 2
    assert set(gpu1["keys"]["jiho"]["plain"]) < set(gpu1["keys"]["minji"]["plain"]), "shared, as it was"


def test_a_host_is_told_what_was_seen_of_it(file: Path, real: Site, lab: state.Lab) -> None:
    found = twin_state.read(file)
    lines = twin_state.key_lines(lab, found, {"minji"})
    told = {name: twin_state.wanted(real, found, name, lines, lab) for name in found.hosts}

    assert [(one["name"], one["uid"]) for one in told["gpu2"]["accounts"]] == [("root", 0), ("minji", 1002)]
    assert told["gpu2"]["mounts"] == [{"source": "nas1:/srv/homes", "point": "/home"}], "from the twin's own host alone"
    served = [one for one in told["nas1"]["homes"] if one["path"] == "/srv/homes"]
    assert [(one["network"], [entry["name"] for entry in one["entries"]]) for one in served] == [(False, ["minji"])]

    own = (lab.directory / "keys" / "minji.pub").read_text().strip()
    assert own in told["gpu1"]["keys"]["minji"]["plain"], "minji logs in with the key that is made for the twin"
    assert told["gpu1"]["keys"]["jiho"]["plain"][0] in told["gpu1"]["keys"]["minji"]["plain"]
    assert told["gpu2"]["keys"]["minji"]["spare"][0].startswith("ssh-ed25519 ")
    for real_key in (public_key("minji"), SHARED):
        assert real_key.split()[1] not in json.dumps(told)


def test_whose_root_does_not_fit_images_has_an_ordinary_one(file: Path, real: Site) -> None:
    wanted = twin.wanted_hosts(real, twin_state.read(file).without_images)
    assert {one.name: one.kind for one in wanted} == {"nas1": "storage", "gpu1": "plain", "gpu2": "node"}


def test_hosts_have_their_release_where_a_lab_can(file: Path, real: Site, lab: state.Lab) -> None:
    found = twin_state.read(file)
    wanted = twin.wanted_hosts(real, (), found.releases)
    assert {one.name: one.release for one in wanted} == {"nas1": "13", "gpu1": "24.04", "gpu2": "13"}
    asked = hosts.with_releases(lab, wanted, {"gpu2": "12"})
    assert {one.name: one.release for one in asked} == {"nas1": "13", "gpu1": "24.04", "gpu2": "12"}
    (gpu1,) = (one for one in hosts.with_releases(lab, wanted, {"gpu1": "12"}) if one.name == "gpu1")
    assert gpu1.release == "12"


def test_a_file_of_before_says_nothing_of_releases(file: Path) -> None:
    document = json.loads(file.read_text())
    for one in document["hosts"].values():
        del one["seen"]["suite"]
    file.write_text(json.dumps(document))
    assert twin_state.read(file).releases == {}


def _without(*path: str) -> Any:
    def change(document: Any) -> None:
        for one in path[:-1]:
            document = document[one]
        del document[path[-1]]

    return change


def _with(value: object, *path: Any) -> Any:
    def change(document: Any) -> None:
        for one in path[:-1]:
            document = document[one]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (_without("hosts"), "hosts: Field required"),
        (_without("hosts", "gpu1", "seen"), "hosts.gpu1.seen: Field required"),
        (_without("hosts", "gpu1", "seen", "homes"), "hosts.gpu1.seen.homes: Field required"),
        (_with("a", "hosts", "gpu1", "seen", "accounts", 1, "uid"), "hosts.gpu1.seen.accounts.1.uid: "),
        (_with(-1, "hosts", "gpu1", "seen", "accounts", 1, "uid"), "hosts.gpu1.seen.accounts.1.uid: "),
        (_with("x" * 500, "hosts", "gpu1", "seen", "accounts", 1, "home"), "hosts.gpu1.seen.accounts.1.home: "),
        (_with([], "hosts", "gpu1", "seen", "keys"), "hosts.gpu1.seen.keys: "),
        (_with({}, "hosts", "gpu\x1b[2J"), "hosts.gpu"),
        (_with(7, "format"), "format: is 7"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_with_its_field(file: Path, change: Any, field: str) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    with pytest.raises(GpuadminError) as caught:
        twin_state.read(file)
    assert str(caught.value).startswith(f"{file}: {field}")
    assert one_line(str(caught.value)) == str(caught.value)


@pytest.mark.parametrize("text", ["", "[", "[]", '"x"', "\xff", "[" * 100_000])
def test_what_is_no_such_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(GpuadminError, match=str(path)):
        twin_state.read(path)


@pytest.mark.holds("what an admin has done on a twin is not mixed with what another file says")
def test_a_twin_that_is_there_takes_no_other_file(file: Path, lab: state.Lab) -> None:
    lab.directory.mkdir(parents=True)
    with pytest.raises(ConfigError, match="exists already"):
        twin_state.of(lab.directory, file, new=False)
    found = twin_state.of(lab.directory, file, new=True)
    assert found is not None
    twin_state.keep(lab, found)
    assert twin_state.of(lab.directory, file, new=False) == found
    assert twin_state.of(lab.directory, None, new=False) == found, "it is remembered"
    file.write_text(file.read_text().replace("1002", "1003"))
    with pytest.raises(ConfigError, match="exists already"):
        twin_state.of(lab.directory, file, new=False)


def test_a_damaged_file_changes_nothing(file: Path, real: Site, lab: state.Lab) -> None:
    file.write_text("{}")
    line = ["lab", "up", "--name", "twin", "--like", str(real.directory), "--state", str(file)]
    with pytest.raises(GpuadminError, match="format: Field required"):
        cli.main(line, standalone_mode=False)
    assert not lab.directory.exists()
