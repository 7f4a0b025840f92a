"""Pages of a cluster whose GPUs are given on request: granted, held and free, and who decided it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.dashboard_app import Scene, get, plain, rows
from tests.support.metrics_cluster import granted, node, ungranted
from tests.support.prometheus import blocks, prometheus


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    base, now = tmp_path_factory.mktemp("gated"), time.time()
    lines = [
        *node("gpu01", now, gpus=4, held={0: ("minji", "train"), 2: ("jiho", "")}),
        *granted("gpu01", 0, "minji", now, now + 5 * 3600),
        *granted("gpu01", 1, "seoyeon", now, now + 5 * 3600, reason="<b>a course"),
        ungranted("gpu01", 2, "jiho", now, now - 1800),
    ]
    with prometheus(base, blocks(base, lines)) as port:
        yield Scene(port, now, base)


@pytest.mark.needs("promtool", "prometheus")
def test_what_is_granted_held_and_free(gated: Scene) -> None:
    client = gated.client()
    _, html = get(client, "/")
    assert "1 of 4 GPUs are free. 1 are granted and not held." in plain(html)
    assert "1 free · 1 granted · 2 held ■ GPU 0 50 % 20 of 80 GiB minji for 5 h more" in rows(html)["gpu01"]
    assert "▣ GPU 1 0 % 0 of 80 GiB seoyeon for 5 h more ■ GPU 2 50 % 20 of 80 GiB jiho □" in rows(html)["gpu01"]
    _, html = get(client, "/nodes/gpu01")
    text = plain(html)
    assert "▣ granted to minji for 5 h more root@nas : a deadline ■ minji train" in text
    assert "▣ granted to seoyeon for 5 h more root@nas : &lt;b&gt;a course" in text
    assert "■ jiho for 2 h no grant for 30 min" in text
    _, html = get(client, "/people/seoyeon")
    assert "granted to seoyeon" in plain(html)
    _, html = get(client, "/free")
    assert "GPU 3" in plain(html)
    assert "GPU 1" not in plain(html)
    assert "배정: minji 5시간 남음" in plain(get(client, "/nodes/gpu01", **{"accept-language": "ko"})[1])


@pytest.mark.needs("promtool", "prometheus")
def test_what_admins_gave_is_seen_by_everybody(gated: Scene) -> None:
    """Measured for an hour; what somebody chose is text."""
    client = gated.client()
    assert 'href="/given"' in get(client, "/people")[1]
    _, html = get(client, "/given")
    found = rows(html)
    assert found.keys() == {"Name", "minji", "seoyeon"}, "jiho has no grant any more, and had none in this hour"
    assert found["minji"].startswith("minji 1 × gpu01 20")
    assert found["minji"].endswith("goes on root@nas : a deadline")
    assert "<b>a course" not in html
    assert "관리자가 따로 준 GPU" in plain(get(client, "/given", **{"accept-language": "ko"})[1])
