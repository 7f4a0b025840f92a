"""Slurm's releases: which one a distribution has, since which Slurm knows what, and which understand each other. Pure.

A release is a text such as ``24.11``; texts compare as the releases do.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The oldest that a queue can have.
OLDEST = "21.08"
RELEASES = (OLDEST, "22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05")
#: A distribution's code name → the release that it has. Later ones have NEWEST_OFFERED or a newer one.
OFFERED = {"focal": "19.05", "bullseye": "20.11", "jammy": OLDEST, "bookworm": "22.05", "noble": "23.11"}
NEWEST_OFFERED = "24.11"
#: What the roles tell Slurm and not all releases know → since which. ``scripts``: prolog and epilog come to nodes with
#: Slurm's configuration; ``include``: so do files that slurm.conf includes. ``preempt``: PreemptParameters; before, the
#: same was among SchedulerParameters.
SINCE = {"auth/slurm": "23.11", "scripts": "23.02", "preempt": "23.02", "cgroup/v2": "22.05", "include": "22.05"}
#: From this release on a controller understands nodes of three releases before its own; until then of two.
_THREE = "24.11"


def find_lacking(oldest: str) -> list[str]:
    """Given the oldest release of a queue, return what of SINCE it does not know."""
    return [name for name, since in SINCE.items() if oldest < since]


def find_release(installed: Sequence[int] | None, codename: str) -> str:
    """The release of a host's daemon: what is installed, such as [24, 11], or else what the distribution has."""
    if installed is not None:
        return ".".join(f"{part:02}" for part in installed)
    return OFFERED.get(codename, NEWEST_OFFERED)


def understands(controller: str, node: str) -> bool:
    """Whether a slurmctld understands a slurmd that is no newer: Slurm's own rule."""
    between = [one for one in RELEASES if node < one <= controller]
    return len(between) <= (3 if controller >= _THREE else 2)


def describe_misfit(controller: str, node: str) -> str:
    """Why a node cannot join a queue, and the way out; empty: it can."""
    head = f"the node's slurmd is of Slurm {node}, and the queue's controller of {controller}"
    # guard: a node's slurmd is not newer than Slurm's controller
    if node > controller:
        return (
            f"{head}: upgrade slurmdbd and slurmctld there first, in this order, or bring the node back to its image "
            "before"
        )
    if not understands(controller, node):  # guard: a node's slurmd is not too old for Slurm's controller
        newest = max(one for one in RELEASES if understands(one, node))
        return (
            f"{head}, which does not understand it: upgrade the node, set slurm_node to false for it, or move the "
            f"group 'slurm' to a host whose Slurm is {newest} or older"
        )
    return ""
