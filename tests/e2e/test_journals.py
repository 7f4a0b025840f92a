"""What was said when it broke: journals on the monitor host."""

import pytest

from tests.support.lab_cluster import Cluster
from tests.support.monitored import watched

__all__ = ["watched"]

pytestmark = pytest.mark.lab


def test_lines_of_a_dead_host_are_read(watched: Cluster) -> None:
    assert watched
