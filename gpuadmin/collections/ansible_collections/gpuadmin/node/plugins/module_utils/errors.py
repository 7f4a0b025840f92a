"""The one error of the node-side code: a sentence that an admin can act on."""

from __future__ import annotations


class NodeError(Exception):
    """Nothing further can be done; ``str(error)`` says why, in words."""
