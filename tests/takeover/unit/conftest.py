"""Fixtures of tests of the controller's code, for the take-over's."""

from tests.unit.conftest import cli, site

__all__ = ["cli", "site"]
