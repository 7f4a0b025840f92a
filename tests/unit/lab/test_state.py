"""A lab's memory: written whole, read back equal, held by one command at a time; a saved moment stays."""

import json
import os

import pytest

from gpuadmin.errors import ConfigError, GpuadminError, RefusedError
from gpuadmin.lab import snapshots, state
from gpuadmin.lab.progress import Progress


def test_round_trip(lab: state.Lab) -> None:
    saved = lab.with_snapshot("fresh")
    state.save(saved)
    assert state.load("default") == saved
    assert saved.snapshots == {"fresh": ("storage1", "node1", "node2", "plain1")}
    assert [path.name for path in saved.directory.iterdir()] == ["lab.json"]


def test_labs_of_other_versions_are_read(lab: state.Lab) -> None:
    """They stand beside the others of their user, and every verb of the lab looks at all of them."""
    state.save(lab)
    path = lab.directory / "lab.json"
    data = json.loads(path.read_text())
    del data["firmware"]  # it had a BIOS
    data["later"] = data["hosts"][0]["later"] = 1
    for host in data["hosts"]:
        host["release"] = int(host["release"])
    path.write_text(json.dumps(data))
    assert state.all_labs() == [lab]
    path.write_text("{")
    with pytest.raises(GpuadminError) as caught:
        state.load("default")
    assert "down --purge" in str(caught.value.hint)


def test_no_lab(lab: state.Lab) -> None:
    state.save(lab)
    assert state.load("nowhere") is None
    with pytest.raises(ConfigError) as caught:
        state.existing("nowhere")
    assert "there is: default" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["", "..", "a/b", "-rf", "A", "a b", "x" * 40, "a\n", "한"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        state.check_name(name)


def test_lock_excludes_and_names_the_holder(lab: state.Lab) -> None:
    with state.locked("default"):
        with pytest.raises(RefusedError) as caught, state.locked("default"):
            pass
        assert str(os.getpid()) in caught.value.message
    with state.locked("default"):
        pass


@pytest.mark.holds("a saved state is not replaced unasked")
def test_a_saved_moment_is_not_replaced_unasked(lab: state.Lab) -> None:
    state.save(lab.with_snapshot("fresh"))
    with pytest.raises(ConfigError, match="fresh is saved already") as refused:
        snapshots.save("default", "fresh", Progress(), replace=False)
    assert "--replace" in str(refused.value.hint)
    for name, replace in (("fresh", True), ("other", False)):
        with pytest.raises(ConfigError, match="is off"):
            snapshots.save("default", name, Progress(), replace=replace)
