"""What tests of applications share."""

from tests.support.fake_ansible import ansible
from tests.support.mail_server import certificate, serve

__all__ = ["ansible", "certificate", "serve"]
