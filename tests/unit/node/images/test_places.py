"""Names of images: the controller and the nodes take the same ones."""

from datetime import UTC, datetime

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import places

from gpuadmin.errors import ConfigError
from gpuadmin.images.facts import check_name, new_name


@pytest.mark.holds("an image's name is a plain one for the controller too")
def test_names() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    assert new_name([], now) == "2026-11-21"
    assert new_name(["2026-11-21", "2026-11-21.2"], now) == "2026-11-21.3"
    for bad in ("", "A", "a+2", "../x", "a b", ".a", "a..b", "a/b", "x" * 65, "-a", "$(x)", "a\n"):
        with pytest.raises(ConfigError):
            check_name(bad)
        with pytest.raises(NodeError):
            places.check_name(bad)
