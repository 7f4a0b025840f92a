"""On real ssh hosts: `gpuadmin sync-users` leaves what the wiki's playbook leaves, and what it should besides."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible import connections
from tests.support import scale_wiki as wiki
from tests.support.scale_hosts import Cluster, cluster
from tests.support.scale_outcome import outcome
from tests.support.scale_people import gpuadmin, people, public_key, site, users_yml

PEOPLE = 3
NAMES = {name for name, _ in people(PEOPLE)}
NODES = ("node1", "node2")


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster(("storage1", *NODES)) as hosts:
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
    assert {host["status"] for host in first["hosts"].values()} == {"changed"}


@pytest.mark.usefixtures("first")
def test_it_leaves_what_the_wiki_leaves(running: Cluster, tmp_path: Path) -> None:
    with cluster(("storage1", "wiki1")) as baseline:
        (theirs,) = [host for host in baseline.hosts if host.name == "wiki1"]
        wiki.prepare(theirs, PEOPLE)
        wiki.run(baseline, PEOPLE, tmp_path / "wiki", tuned=True)
        expected = outcome(theirs, PEOPLE)
    assert expected.subuid == NAMES
    for host in running.hosts:
        if host.name != "storage1":
            assert outcome(host, PEOPLE) == expected


@pytest.mark.usefixtures("first")
def test_accounts_keys_and_homes_are_there(running: Cluster) -> None:
    for host in running.hosts:
        passwd = (host.root / "etc/passwd").read_text().splitlines()
        shell = "/usr/sbin/nologin" if host.name == "storage1" else "/bin/bash"
        for name, uid in people(PEOPLE):
            assert f"{name}:x:{uid}:{uid}::/home/{name}:{shell}" in passwd
            keys = host.root / "var/lib/gpuadmin/keys" / name
            if host.name == "storage1":
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
    node2 = next(host for host in running.hosts if host.name == "node2")
    hosts.write_text(before.replace(node2.address, "127.1.255.254"))
    (directory / "users.yml").write_text(users_yml(PEOPLE + 1))
    try:
        predicted = gpuadmin(directory, "sync-users", "--check")
        done = gpuadmin(directory, "sync-users", "--yes")
    finally:
        hosts.write_text(before)
    for document in (predicted, done):
        assert document["exit_code"] == 4, document["stderr"]
        assert document["status"] == "failed"
        assert {name: host["status"] for name, host in document["hosts"].items()} == {
            "storage1": "changed", "node1": "changed", "node2": "unreachable",
        }  # fmt: skip
        assert "connection refused" in document["hosts"]["node2"]["message"]
    assert predicted["hosts"] == done["hosts"]
    healed = gpuadmin(directory, "sync-users", "--yes")
    assert {name: host["status"] for name, host in healed["hosts"].items()} == {
        "storage1": "ok", "node1": "ok", "node2": "changed",
    }  # fmt: skip


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A socket's path has 107 bytes at most; pytest's directories are too deep."""
    directory = Path(tempfile.mkdtemp(prefix="g", dir="/tmp"))
    yield directory
    shutil.rmtree(directory)


def masters(directory: Path) -> list[str]:
    """The ssh connections of that directory that wait for the next run."""
    lines = []
    for process in Path("/proc").iterdir():
        try:
            line = (process / "cmdline").read_bytes().decode(errors="replace") if process.name.isdigit() else ""
        except OSError:
            continue
        lines += [line] if line.startswith(f"ssh: {directory}") else []
    return lines


@pytest.mark.usefixtures("first")
def test_connections_wait_for_the_next_run_and_end_when_asked(
    directory: Path, short_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_directory))
    gpuadmin(directory, "sync-users", "--yes", XDG_RUNTIME_DIR=str(short_directory))
    (control,) = short_directory.glob("*/*")
    assert control.parent.stat().st_mode & 0o777 == 0o700
    assert len(masters(short_directory)) == 3
    connections.close(directory / "known_hosts")
    deadline = time.monotonic() + 60
    while masters(short_directory) and time.monotonic() < deadline:
        time.sleep(0.1)  # no children of this process: nothing tells of their end
    assert masters(short_directory) == []
    assert list(control.iterdir()) == []


def test_trust_pins_what_answers_and_refuses_what_differs(
    running: Cluster, directory: Path, tmp_path: Path, short_directory: Path
) -> None:
    mine = tmp_path / "site"
    connections = iter(range(9))

    def check(*options: str) -> dict[str, Any]:
        """What a run says whose connections are new."""
        runtime = short_directory / str(next(connections))
        runtime.mkdir(mode=0o700)
        return gpuadmin(mine, "sync-users", "--check", *options, XDG_RUNTIME_DIR=str(runtime))

    shutil.copytree(directory, mine, ignore=shutil.ignore_patterns("runs"))
    (mine / "known_hosts").write_text("# ours\n")
    before = check()
    assert before["exit_code"] == 4
    assert {host["message"] for host in before["hosts"].values()} == {
        "its ssh host key is not known yet: gpuadmin trust HOST"
    }
    document = gpuadmin(mine, "trust", "--all", "--yes")
    assert document["exit_code"] == 0, document["stderr"]
    assert {entry["state"] for entry in document["result"]["hosts"].values()} == {"new"}
    known = (mine / "known_hosts").read_text()
    assert known.startswith("# ours\n")
    assert sorted(known.splitlines()[1:]) == sorted(line.strip() for line in running.known_hosts.splitlines())
    assert check()["exit_code"] == 0

    other = public_key("somebody else").rsplit(" ", 1)[0]
    node1 = next(host for host in running.hosts if host.name == "node1")
    changed = "\n".join(
        f"[{node1.address}]:{node1.port} {other}" if line.startswith(f"[{node1.address}]") else line
        for line in known.splitlines()
    )
    (mine / "known_hosts").write_text(changed + "\n")
    refused = gpuadmin(mine, "trust", "--all", "--yes")
    assert refused["exit_code"] == 5
    assert "another key is known for node1" in refused["result"]["error"]
    assert (mine / "known_hosts").read_text() == changed + "\n"
    untouched = check("--limit", "node1")
    assert untouched["hosts"]["node1"]["status"] == "unreachable"
    assert "not the pinned one" in untouched["hosts"]["node1"]["message"]
    assert gpuadmin(mine, "trust", "node1", "--replace", "--yes")["exit_code"] == 0
    assert check("--limit", "node1")["exit_code"] == 0
