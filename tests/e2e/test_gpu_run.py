"""GPUs for as long as a command runs."""
from collections.abc import Iterator

import pytest

from tests.support.gated_cluster import NODE
from tests.support.lab_cluster import Cluster
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root]


@pytest.fixture
def queue(cluster: Cluster) -> Iterator[Cluster]:
    with queued(cluster) as found:
        yield found


def test_try(queue: Cluster) -> None:
    print(queue.ssh("minji", NODE, "srun --gres=gpu:1 -w node2 hostname; sacct"))
    print(queue.site)
    import time
    time.sleep(1)
