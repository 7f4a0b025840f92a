"""What tests of applications share."""

from tests.unit.actions.test_verbs import ansible
from tests.unit.mail.conftest import certificate, serve

__all__ = ["ansible", "certificate", "serve"]
