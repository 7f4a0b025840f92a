"""The states of the lab that end-to-end tests begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e import imaging
from tests.e2e.cluster import KEEP, LAB, REPOSITORY, Cluster, provisioned_lab


@pytest.fixture(scope="session")
def provisioned() -> Iterator[Cluster]:
    """A storage host and two nodes, provisioned once and saved; nothing of an earlier session is left in them."""
    with provisioned_lab(LAB, REPOSITORY / ".cache" / "e2e", "--nodes", "2") as cluster:
        yield cluster


@pytest.fixture
def cluster(provisioned: Cluster) -> Cluster:
    """The provisioned cluster with nobody on it."""
    provisioned.restore("provisioned")
    provisioned.empty()
    settings = provisioned.site / "gpuadmin.yml"
    settings.write_text(settings.read_text().replace("source: directory", "source: registry"))
    return provisioned


@pytest.fixture(scope="session")
def with_image(provisioned: Cluster) -> Cluster:
    """The cluster prepared for images, with the image `one`, a package more, built: node1 runs it, node2 `base`."""
    if not (KEEP and "imaged" in provisioned.lab("status")):
        imaging.prepare(provisioned)
    return provisioned


@pytest.fixture
def imaged(with_image: Cluster) -> Cluster:
    """That cluster as it was, with minji on it."""
    return imaging.restore(with_image)


@pytest.fixture
def armed(with_image: Cluster) -> Cluster:
    """The same when `one` is ready on node2 and the next boot tries it."""
    if "armed" in with_image.lab("status"):
        return imaging.restore(with_image, "armed")
    imaging.restore(with_image).gpuadmin("push-image", "one", "--no-reboot", "--yes")
    with_image.lab("save", "armed")
    return with_image
