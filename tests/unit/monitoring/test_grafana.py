"""The dashboard for sites that have Grafana: each of its queries is one for Prometheus, of series that are measured."""

from __future__ import annotations

import json
import re
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from tests.support.prometheus import prometheus

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "roles/monitoring/files/grafana"
DASHBOARD: dict[str, Any] = json.loads((FILES / "gpuadmin.json").read_text(encoding="utf-8"))
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_every_series_of_ours_is_measured() -> None:
    """Those of the node exporter are named as the alerts name them, or are among its oldest."""
    table = (ROOT / "docs/reference-metrics.md").read_text(encoding="utf-8")
    measured = set(re.findall(r"(?m)^\| `(gpuadmin_\w+)` \|", table))
    variables = [one["query"]["query"] for one in DASHBOARD["templating"]["list"]]
    used = {name for query in (*QUERIES, *variables) for name in re.findall(r"\bgpuadmin_\w+", query)}
    assert len(used) > 10
    assert used - measured == set()


@pytest.mark.needs("prometheus")
def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    with prometheus(tmp_path, tmp_path / "storage") as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        for query in QUERIES:
            # as Grafana fills in what is chosen; in a query of ours nothing else is a variable
            filled = query.replace("$node", "gpu1|gpu2").replace("$person", ".*").replace("$__rate_interval", "2m")
            assert "$" not in filled
            connection.request("GET", f"/api/v1/query?{urlencode({'query': filled})}")
            answer = json.loads(connection.getresponse().read())
            assert answer["status"] == "success", (query, answer)


def test_what_is_provisioned_is_one_thing() -> None:
    (source,) = yaml.safe_load((FILES / "datasource.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((FILES / "dashboards.yml").read_text())["providers"]
    variables = yaml.safe_load((ROOT / "roles/monitoring/vars/main.yml").read_text())
    assert provider["options"]["path"] == f"{variables['_monitoring_directory']}/grafana"
    used = {json.dumps(one["datasource"]) for panel in DASHBOARD["panels"] for one in (panel, *panel["targets"])}
    assert used == {json.dumps({"type": source["type"], "uid": source["uid"]})}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_no_panel_covers_another() -> None:
    fields: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not own & fields, panel["title"]
        assert at["x"] + at["w"] <= 24
        fields |= own
