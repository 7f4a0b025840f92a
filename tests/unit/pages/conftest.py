"""What tests of pages share."""

from tests.support.fake_ansible import ansible

__all__ = ["ansible"]
