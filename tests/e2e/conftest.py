"""The states of the lab that end-to-end tests begin with, and where they run (tests/support/where.py)."""

from collections.abc import Iterator

import pytest

from tests.support import imaging, where
from tests.support.lab_cluster import KEEP, LAB, RELEASES, REPOSITORY, Cluster
from tests.support.labs import nothing_left, provisioned_lab, remembered_lab
from tests.support.queued_cluster import begin_queued
from tests.support.where import pytest_collection_modifyitems, pytest_xdist_make_scheduler

__all__ = ["pytest_collection_modifyitems", "pytest_xdist_make_scheduler"]


def pytest_report_header() -> str:
    why = where.why_virtual()
    place = f"virtual machines for all tests: {why}" if why else "light hosts; virtual machines where needed"
    return f"lab: {place}" + (f"; releases {', '.join(RELEASES)}" if RELEASES else "")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "hosts" in metafunc.fixturenames:
        found = where.places(metafunc.definition.iter_markers(), not where.why_virtual())
        metafunc.parametrize("hosts", found, indirect=True, scope="session")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where everything runs on virtual machines the other lane is empty, which is not a failure."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.getoption("lane") and where.why_virtual():
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture(scope="session")
def hosts(request: pytest.FixtureRequest) -> str:
    """What the hosts are: light ones or virtual machines."""
    found: str = request.param
    return found


@pytest.fixture(scope="session")
def provisioned(hosts: str) -> Iterator[Cluster]:
    """A storage host and two nodes, set up once and saved; nothing of an earlier session is left in them."""
    if hosts == where.LIGHT:
        directory = REPOSITORY / ".cache" / f"e2e-{LAB}-light"
        with provisioned_lab(f"{LAB}-light", directory, "--light", "--nodes", "2", "--gpus", "2") as cluster:
            yield cluster
        if not KEEP:
            nothing_left(cluster.name)
    else:
        with remembered_lab(LAB, "--nodes", "2") as cluster:
            yield cluster


@pytest.fixture
def cluster(provisioned: Cluster) -> Cluster:
    """The provisioned cluster with nobody on it."""
    provisioned.fresh()
    return provisioned


@pytest.fixture
def minji(provisioned: Cluster) -> Cluster:
    """The same with minji on it, and nobody else."""
    provisioned.begin("minji", lambda: provisioned.add("minji"))
    return provisioned


@pytest.fixture
def with_queue(provisioned: Cluster) -> Cluster:
    """The same with minji and jiho on it, and with the queue of `queued`."""
    return begin_queued(provisioned)


@pytest.fixture(scope="session")
def with_image(provisioned: Cluster) -> Cluster:
    """The cluster with the image `one`, a package more, built: node1 runs it, node2 `base`."""
    if not (KEEP and "imaged" in provisioned.saved_states()):
        imaging.prepare(provisioned)
    return provisioned


@pytest.fixture
def imaged(with_image: Cluster) -> Cluster:
    """That cluster as it was, with minji on it."""
    return imaging.restore(with_image)


@pytest.fixture
def armed(with_image: Cluster) -> Cluster:
    """The same when `one` is ready on node2 and the next boot tries it."""
    if "armed" in with_image.saved_states():
        return imaging.restore(with_image, "armed")
    imaging.restore(with_image).gpuadmin("push-image", "one", "--no-reboot", "--yes")
    with_image.save("armed")
    return with_image
