"""What moved, was swapped or vanished, as a table; and the record."""

from pathlib import Path

import pytest

from gpuadmin.auditing.hardware import FILE, Box, Seen, changes, load, merged, save, summary
from gpuadmin.errors import ConfigError

RECORD: dict[str, Box] = {
    "gpu1": {"chassis": {"C1": "Box"}, "gpu": {"GPU-1": "H100"}},
    "gpu2": {"chassis": {"C2": "Box"}, "gpu": {"GPU-2": "H100"}},
}


def seen(
    gpu1: dict[str, str] | None = None, gpu2: dict[str, str] | None = None, unknown: dict[str, str] | None = None
) -> dict[str, Seen]:
    """What both hosts say of their GPUs; None: the host did not answer. `unknown`: of gpu1."""
    found = {}
    for host, chassis, gpus in (("gpu1", "C1", gpu1), ("gpu2", "C2", gpu2)):
        if gpus is not None:
            parts = {"chassis": {chassis: "Box"}, "gpu": gpus}
            found[host] = Seen(parts, unknown or {} if host == "gpu1" else {})
    return found


ONE, TWO, NEW = {"GPU-1": "H100"}, {"GPU-2": "H100"}, {"GPU-9": "H100"}


@pytest.mark.holds("what a host cannot see has not vanished")
@pytest.mark.parametrize(
    ("now", "words"),
    [
        (seen(ONE, TWO), []),
        (
            seen(TWO, ONE),
            ["GPU GPU-2 (H100) was in gpu2, is in gpu1", "GPU GPU-1 (H100) was in gpu1, is in gpu2"],
        ),
        (seen({}, {**ONE, **TWO}), ["GPU GPU-1 (H100) was in gpu1, is in gpu2"]),
        (seen({}, TWO), ["GPU GPU-1 (H100) was in gpu1, is nowhere"]),
        (seen({}), ["GPU GPU-1 (H100) was in gpu1, is nowhere; gpu2 was not looked at"]),
        (seen({**ONE, **NEW}, TWO), ["GPU GPU-9 (H100) is new in gpu1"]),
        (seen(None, TWO), []),
        (seen({}, TWO, {"gpu": "the driver hangs"}), []),
        (
            seen(ONE, ONE),
            [
                "GPU GPU-1 (H100): gpu1, gpu2 say that it is theirs; one number is one thing",
                "GPU GPU-2 (H100) was in gpu2, is nowhere",
            ],
        ),
    ],
)
def test_what_became_of_it(now: dict[str, Seen], words: list[str]) -> None:
    assert list(dict.fromkeys(one.words for one in changes(RECORD, now))) == words


def test_two_machines_that_were_swapped() -> None:
    now = {
        "gpu1": Seen({"chassis": {"C2": "Box"}, "gpu": TWO}, {}),
        "gpu2": Seen({"chassis": {"C1": "Box"}, "gpu": ONE}, {}),
    }
    words = [one.words for one in changes(RECORD, now)]
    assert "gpu1 is another machine: serial C2, was C1" in words
    assert "chassis C2 (Box) was in gpu2, is in gpu1" in words


def test_a_host_that_was_never_recorded_has_nothing_new() -> None:
    assert changes({"gpu2": RECORD["gpu2"]}, seen(ONE, TWO)) == []


@pytest.mark.holds("what is not known of a host stays in the record")
def test_the_record_keeps_what_nobody_knows() -> None:
    hosts = ["gpu1", "gpu2"]
    assert merged(RECORD, seen(None, TWO), hosts) == RECORD
    assert merged(RECORD, seen({}, TWO, {"gpu": "hangs"}), hosts) == RECORD
    assert merged(RECORD, seen({}, TWO), hosts)["gpu1"]["gpu"] == {}
    assert merged(RECORD, seen(ONE, TWO), ["gpu2"]) == {"gpu2": RECORD["gpu2"]}, "one that left the inventory"
    # what moved away from a host that does not answer is recorded once
    moved = merged(RECORD, seen(None, {**ONE, **TWO}), hosts)
    assert (moved["gpu1"]["gpu"], moved["gpu2"]["gpu"]) == ({}, {**ONE, **TWO})


def test_a_number_that_the_record_has_of_several_is_said_once() -> None:
    """Of a BMC's link on all boards of a maker: until it is recorded, and once more where a further host has it."""
    hosts, both = ["gpu1", "gpu2"], seen(ONE, ONE)
    assert [one.host for one in changes(RECORD, both) if "one number is one thing" in one.words] == hosts
    record = merged(RECORD, both, hosts)
    assert changes(record, both) == []
    assert merged(record, seen(ONE), hosts) == record, "also while one of them does not answer"
    more = {**both, "gpu3": both["gpu2"]}
    assert {one.host for one in changes(record, more) if "one number is one thing" in one.words} == {*more}


def test_the_file(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    save(tmp_path, RECORD)
    assert load(tmp_path) == RECORD
    odd = ('{"format": 2, "hosts": {}}', '{"format": 1, "hosts": {"gpu1": {"cat": {}}}}')
    for text in ("{", "[" * 100_000, "[]", *odd):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(ConfigError, match=FILE):
            load(tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to("/a/disk/that/is/away")
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    with pytest.raises(ConfigError, match="a directory"):
        load(tmp_path)


def test_what_is_in_a_box() -> None:
    assert summary({"gpu": {**ONE, **TWO}, "disk": {"S": ""}}) == "2 GPUs, 1 disk"
    assert summary({}) == "nothing with a number of its own"
