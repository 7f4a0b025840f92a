"""Why Slurm refuses what somebody asks for with `gpu`, in words that say what to do."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..errors import NodeError
from ..files import read_bytes
from ..lookup import find_name
from . import booking, policy
from .gpu_limits import describe_limits


def refusal(text: str, words: Mapping[str, str], project: str = "") -> str:
    """What somebody is told. ``text``: what Slurm says. ``project``: that they have asked for."""
    if "node configuration is not available" in text or "Invalid node name" in text:
        return words["impossible"].format(text)
    if "QOS policy" in text or "policy limit" in text:
        return f"{words['too-much']} {_allowed(words) or words['ask-admins']}"
    if "Invalid wckey" in text:
        return words["not-in-project"].format(project)
    if "Invalid account" in text:
        return words["unknown"]
    return words["failed"].format(text)


def _allowed(words: Mapping[str, str]) -> str:
    """What whoever asks may have, as the site says of their group; empty where it or slurmctld does not say."""
    try:
        site = policy.read_policy(read_bytes(policy.PATH))
        group = booking.find_group(find_name(os.getuid()) or "")
    except (NodeError, OSError):
        return ""
    one = site.limits.get(group)
    if one is None:  # as a file of an earlier release has it
        return ""
    return " ".join([*describe_limits(one, words), words["limits-more"]])
