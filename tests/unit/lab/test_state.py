"""A lab's memory: written whole, read back equal, held by one command at a time."""

import json
from dataclasses import asdict

import pytest

from gpuadmin.errors import ConfigError, GpuadminError, RefusedError
from gpuadmin.lab import state


def test_round_trip(lab: state.Lab) -> None:
    saved = lab.with_snapshot("fresh")
    state.save(saved)
    assert state.load("default") == saved
    assert saved.snapshots == {"fresh": ("storage1", "node1", "node2", "plain1")}
    assert [path.name for path in saved.directory.iterdir()] == ["lab.json"]


def test_a_lab_of_an_earlier_version_has_a_bios(lab: state.Lab) -> None:
    state.save(lab)
    path = lab.directory / "lab.json"
    data = json.loads(path.read_text())
    del data["firmware"]
    path.write_text(json.dumps(data))
    assert state.load("default") == lab


def test_a_lab_of_a_later_version_is_read(lab: state.Lab) -> None:
    """It stands beside the others of its user, and every verb of the lab looks at all of them."""
    state.save(lab)
    path = lab.directory / "lab.json"
    data = json.loads(path.read_text())
    data["later"] = data["hosts"][0]["later"] = 1
    path.write_text(json.dumps(data))
    assert state.all_labs() == [lab]


def test_no_lab() -> None:
    assert state.load("nowhere") is None
    with pytest.raises(ConfigError):
        state.existing("nowhere")


def test_damaged_state_says_what_to_do(lab: state.Lab) -> None:
    lab.directory.mkdir(parents=True)
    (lab.directory / "lab.json").write_text("{")
    with pytest.raises(GpuadminError) as caught:
        state.load("default")
    assert "down --purge" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["", "..", "a/b", "-rf", "A", "a b", "x" * 40, "a\n", "한"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        state.check_name(name)


def test_lock_excludes_and_names_the_holder(lab: state.Lab) -> None:
    import os

    with state.locked("default"):
        with pytest.raises(RefusedError) as caught, state.locked("default"):
            pass
        assert str(os.getpid()) in caught.value.message
    with state.locked("default"):
        pass


def test_all_labs(lab: state.Lab) -> None:
    state.save(lab)
    assert state.all_labs() == [lab]


def test_a_lab_of_before_has_its_release_as_a_number(lab: state.Lab) -> None:
    data = asdict(lab)
    for host in data["hosts"]:
        host["release"] = int(host["release"])
    assert state.from_json(json.loads(json.dumps(data))) == lab
