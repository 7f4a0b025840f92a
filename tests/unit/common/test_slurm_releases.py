"""Which releases of Slurm understand each other, and what they know."""

import pytest

from gpuadmin.common.slurm_releases import OFFERED, RELEASES, SINCE, describe_misfit, find_lacking, find_release


@pytest.mark.parametrize(
    ("oldest", "lacks"),
    [
        ("21.08", ["auth/slurm", "scripts", "preempt", "cgroup/v2", "include"]),
        ("22.05", ["auth/slurm", "scripts", "preempt"]), ("23.02", ["auth/slurm"]), ("23.11", []), ("26.05", []),
    ],
)  # fmt: skip
def test_what_the_oldest_of_a_queue_lacks(oldest: str, lacks: list[str]) -> None:
    assert find_lacking(oldest) == lacks


@pytest.mark.parametrize(
    ("installed", "codename", "release"),
    [
        ([22, 5], "trixie", "22.05"), ([24, 11], "bookworm", "24.11"), (None, "jammy", "21.08"),
        (None, "bookworm", "22.05"), (None, "noble", "23.11"), (None, "trixie", "24.11"), (None, "", "24.11"),
    ],
)  # fmt: skip
def test_what_is_installed_counts_before_what_a_distribution_has(
    installed: list[int] | None, codename: str, release: str
) -> None:
    assert find_release(installed, codename) == release


@pytest.mark.holds("a node's slurmd is not newer than Slurm's controller")
@pytest.mark.holds("a node's slurmd is not too old for Slurm's controller")
@pytest.mark.parametrize(
    ("controller", "node", "words"),
    [
        ("24.11", "24.11", ""), ("24.11", "23.02", ""), ("23.11", "22.05", ""), ("22.05", "21.08", ""),
        ("23.02", "21.08", ""), ("24.05", "23.02", ""), ("26.05", "24.11", ""),
        ("24.05", "25.11", "slurmd is of Slurm 25.11, and the queue's controller of 24.05: upgrade slurmdbd and"),
        ("22.05", "24.11", "or bring the node back to its image"),
        ("24.11", "22.05", "'slurm' to a host whose Slurm is 23.11 or older"),
        ("23.11", "21.08", "'slurm' to a host whose Slurm is 23.02 or older"),
        ("26.05", "23.11", "'slurm' to a host whose Slurm is 25.05 or older"),
    ],
)  # fmt: skip
def test_who_understands_whom(controller: str, node: str, words: str) -> None:
    found = describe_misfit(controller, node)
    assert words in found
    assert bool(found) == bool(words)


def test_releases_are_in_their_order() -> None:
    assert list(RELEASES) == sorted(RELEASES)
    assert {*SINCE.values()} <= {*RELEASES}
    assert all(len(one) == 5 for one in (*RELEASES, *OFFERED.values())), "texts compare as the releases do"
