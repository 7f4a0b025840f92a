"""What tests of applications share."""

from tests.unit.mail.conftest import certificate, serve
from tests.unit.test_verbs import ansible, cli

__all__ = ["ansible", "certificate", "cli", "serve"]
