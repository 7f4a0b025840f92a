"""On real ssh hosts: `gpuadmin sync-users` leaves what the wiki's playbook leaves, and what it should besides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import wiki
from hosts import Cluster, cluster
from outcome import outcome
from people import gpuadmin, people, public_key, site, users_yml

PEOPLE = 3
NAMES = {name for name, _ in people(PEOPLE)}
NODES = ("node1", "node2", "node3")


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster(("storage", *NODES)) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def directory(running: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site(running, tmp_path_factory.mktemp("scale") / "site", PEOPLE)


@pytest.fixture(scope="module")
def first(running: Cluster, directory: Path) -> dict[str, object]:
    """The first sync-users on hosts that know nobody."""
    return gpuadmin(directory, "sync-users", "--yes")


def test_the_first_run_changes_every_host(first: dict[str, object]) -> None:
    assert first["exit_code"] == 0, first["stderr"]
    assert {host["status"] for host in first["hosts"].values()} == {"changed"}  # type: ignore[attr-defined]


@pytest.mark.usefixtures("first")
def test_it_leaves_what_the_wiki_leaves(running: Cluster, tmp_path: Path) -> None:
    with cluster(("storage", "wiki1")) as baseline:
        (theirs,) = [host for host in baseline.hosts if host.name == "wiki1"]
        wiki.prepare(theirs, PEOPLE)
        wiki.run(baseline, PEOPLE, tmp_path / "wiki", tuned=True)
        expected = outcome(theirs, PEOPLE)
    assert expected.subuid == NAMES
    for host in running.hosts:
        if host.name != "storage":
            assert outcome(host, PEOPLE) == expected


@pytest.mark.usefixtures("first")
def test_accounts_keys_and_homes_are_there(running: Cluster) -> None:
    for host in running.hosts:
        passwd = (host.root / "etc/passwd").read_text().splitlines()
        shell = "/usr/sbin/nologin" if host.name == "storage" else "/bin/bash"
        for name, uid in people(PEOPLE):
            assert f"{name}:x:{uid}:{uid}::/home/{name}:{shell}" in passwd
            keys = host.root / "var/lib/gpuadmin/keys" / name
            if host.name == "storage":
                home = (host.root / "srv/storage/homes" / name).stat()
                assert (home.st_uid, home.st_gid, home.st_mode & 0o7777) == (uid, uid, 0o700)
                assert not keys.exists()
            else:
                assert keys.read_text().strip() == public_key(name)


@pytest.mark.usefixtures("first")
def test_again_and_in_check_mode_it_changes_nothing(directory: Path) -> None:
    for arguments in (("sync-users", "--check"), ("sync-users", "--yes"), ("list-users",)):
        document = gpuadmin(directory, *arguments)
        assert document["exit_code"] == 0, document["stderr"]
        assert {host["status"] for host in document["hosts"].values()} == {"ok"}


@pytest.mark.usefixtures("first")
def test_a_host_that_is_away_does_not_stop_the_others(running: Cluster, directory: Path) -> None:
    """exit 4; and the plan of check mode is what the run then does."""
    hosts = directory / "inventory/hosts.yml"
    before = hosts.read_text()
    node3 = next(host for host in running.hosts if host.name == "node3")
    hosts.write_text(before.replace(node3.address, "127.1.255.254"))
    (directory / "users.yml").write_text(users_yml(PEOPLE + 1))
    try:
        foretold = gpuadmin(directory, "sync-users", "--check")
        done = gpuadmin(directory, "sync-users", "--yes")
    finally:
        hosts.write_text(before)
    for document in (foretold, done):
        assert document["exit_code"] == 4, document["stderr"]
        assert document["status"] == "failed"
        assert {name: host["status"] for name, host in document["hosts"].items()} == {
            "storage": "changed", "node1": "changed", "node2": "changed", "node3": "unreachable",
        }  # fmt: skip
        assert "connection refused" in document["hosts"]["node3"]["message"]
    assert foretold["hosts"] == done["hosts"]
    healed = gpuadmin(directory, "sync-users", "--yes")
    assert {name: host["status"] for name, host in healed["hosts"].items()} == {
        "storage": "ok", "node1": "ok", "node2": "ok", "node3": "changed",
    }  # fmt: skip
