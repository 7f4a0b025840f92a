"""Hosts to work on, for the take-over's node code."""

from tests.unit.node.conftest import a_small_reserve, etc, host, storage, tree

__all__ = ["a_small_reserve", "etc", "host", "storage", "tree"]
