"""What tests of pages share."""

from tests.unit.actions.test_verbs import ansible

__all__ = ["ansible"]
