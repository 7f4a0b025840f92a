"""On real ssh hosts: operations run from the code that a host keeps, and only from that."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import code

from tests.support.scale_hosts import Cluster, SshHost, cluster
from tests.support.scale_people import gpuadmin, site

MODULE = "ansible_collections/gpuadmin/node/plugins/module_utils/accounts/operations.py"


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster(("storage1", "node1")) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def directory(running: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site whose hosts were set up by a run before: gpuadmin has its state directory there."""
    written = site(running, tmp_path_factory.mktemp("kept") / "site", 2)
    assert not (node(running).root / "var/lib/gpuadmin").exists()
    assert sync(written) == {"storage1": ("changed", None), "node1": ("changed", None)}
    return written


def node(running: Cluster) -> SshHost:
    (host,) = [one for one in running.hosts if one.name == "node1"]
    return host


def sync(directory: Path, *options: str) -> dict[str, tuple[str, str | None]]:
    """What came of `gpuadmin sync-users` on each host: its status and message."""
    document: dict[str, Any] = gpuadmin(directory, "sync-users", *(options or ("--yes",)))
    return {name: (host["status"], host.get("message")) for name, host in document["hosts"].items()}


def test_the_code_comes_once_and_is_what_runs(running: Cluster, directory: Path) -> None:
    library = node(running).root / "var/lib/gpuadmin/lib"
    assert not library.exists(), "a host that had nothing of gpuadmin's got no more than what was asked for"
    fine = {"storage1": ("ok", None), "node1": ("ok", None)}
    assert sync(directory, "--check") == fine
    assert not library.exists(), "check mode left something"
    assert sync(directory) == fine
    (place,) = library.iterdir()
    assert place.name.partition(".")[0] == code().digest
    assert sync(directory) == fine
    assert sync(directory, "--check") == fine

    for path in (place / MODULE, *(place / MODULE).parent.glob("__pycache__/accounts.*")):
        path.unlink()
    status, message = sync(directory)["node1"]
    assert status == "failed", "it did not run what the host keeps"
    assert "accounts" in str(message)
    shutil.rmtree(place)


def test_a_node_with_code_of_another_day_runs_the_controllers(running: Cluster, directory: Path) -> None:
    """As one that was restored from an older image, or whose unpacking was cut off."""
    library = node(running).root / "var/lib/gpuadmin/lib"
    library.mkdir(exist_ok=True)
    other = library / f"{'0' * 64}.cpython-313"
    (other / MODULE).parent.mkdir(parents=True)
    (other / MODULE).write_text("raise SystemExit('of another day')\n")
    shutil.copytree(other, library / ".part-new")
    assert sync(directory)["node1"] == ("ok", None)
    assert {path.name.partition(".")[0] for path in library.iterdir()} == {code().digest, "0" * 64}


def test_what_somebody_could_have_written_is_not_run(running: Cluster, directory: Path) -> None:
    library = node(running).root / "var/lib/gpuadmin/lib"
    library.chmod(0o777)
    try:
        status, message = sync(directory)["node1"]
    finally:
        library.chmod(0o755)
    assert status == "ok", "the work is done with the controller's code"
    assert message == "the node code there is not run: /var/lib/gpuadmin/lib can be written by others than root"
    assert sync(directory)["node1"] == ("ok", None)
