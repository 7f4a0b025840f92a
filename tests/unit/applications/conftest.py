"""What tests of applications share."""

from tests.unit.mail.conftest import certificate, serve
from tests.unit.actions.test_verbs import ansible

__all__ = ["ansible", "certificate", "serve"]
