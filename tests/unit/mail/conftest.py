"""A mail server to send to, and what its tests need."""

from tests.support.fake_ansible import ansible
from tests.support.mail_server import certificate, serve

__all__ = ["ansible", "certificate", "serve"]
