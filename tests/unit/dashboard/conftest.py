"""A real Prometheus with the scene's measurements, once for all tests of the pages."""

from tests.support.dashboard_app import scene

__all__ = ["scene"]
