"""/usage: which time, who held, used, drew and waited how much; by the site's own rules, in one question."""

import csv
import io
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from gpuadmin.common.prometheus import Series
from gpuadmin.common.samples import Sample
from gpuadmin.dashboard import usage_page
from gpuadmin.dashboard.usage_page import choose_period
from gpuadmin.dashboard.viewer import Settings
from tests.support.dashboard_app import Scene, get, plain, rows
from tests.support.metrics_cluster import node
from tests.support.prometheus import blocks, prometheus
from tests.support.queue_series import usage_lines

ROOT = Path(__file__).parents[3]
RULES = ROOT / "roles/monitoring/files/rules/usage.yml"
NOW = datetime(2026, 11, 29, 12, 34).timestamp()
SITE = Settings("lab", ("gpu01",), term=("2026-2", "2026-09-01", "2026-12-20"))


def day(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("span", "begin", "end"),
    [
        ("30", NOW - NOW % 300 - 30 * 86400, NOW - NOW % 300), ("365", NOW - NOW % 300 - 365 * 86400, NOW - NOW % 300),
        ("month", day("2026-11-01"), NOW - NOW % 300), ("last-month", day("2026-10-01"), day("2026-11-01")),
        ("term", day("2026-09-01"), NOW - NOW % 300),
    ],
)  # fmt: skip
def test_a_time(span: str, begin: float, end: float) -> None:
    found = choose_period(span, SITE, NOW)
    assert found is not None
    assert (found.begin, found.end) == (begin, end)


@pytest.mark.parametrize("span", ["0", "366", "-1", "1.5", "9999", "", "year", "30d])", "\u0663"])
def test_no_other_time_is_asked_for(span: str) -> None:
    assert choose_period(span, SITE, NOW) is None


def test_a_term_that_begins_later_or_is_not_known() -> None:
    assert choose_period("term", Settings("lab", ()), NOW) is None
    assert choose_period("term", SITE, day("2026-08-01")) is None
    assert choose_period("term", SITE, day("2027-03-01")) == usage_page.Period(
        int(day("2026-09-01")), int(day("2026-12-21")), "2026-2"
    )


def sample(kind: str, value: float, **labels: str) -> Sample:
    return Sample("", {"kind": kind, **labels}, value)


USED = [
    sample("held", 36000, user="minji", instance="gpu01"), sample("measured", 36000, user="minji", instance="gpu01"),
    sample("active", 18000, user="minji", instance="gpu01"), sample("held", 7200, user="jiho", instance="gpu01"),
    sample("held", 9999, user="old", instance="gone"), sample("available", 144000, instance="gpu01"),
    sample("allocated", 39600, user="minji", account="phd"), sample("allocated", 3600, user="minji", account="people"),
    sample("joules", 3.6e6, user="minji", instance="gpu01"), sample("drawn", 9e6, instance="gpu01"),
]  # fmt: skip


def test_by_person_account_and_node() -> None:
    minji, jiho = usage_page.rows(USED, "user", ["gpu01"], 150.0)
    assert (minji["name"], minji["held"], minji["used"], minji["idle"], minji["allocated"]) == ("minji", 10, 5, 5, 12)
    assert (minji["kwh"], minji["cost"]) == (1.0, 150.0)
    assert (jiho["held"], jiho["used"], jiho["kwh"]) == (2, None, None), "what is not measured is not 0"
    by_account = {one["name"]: one for one in usage_page.rows(USED, "account", ["gpu01"], None)}
    assert {name: one["held"] for name, one in by_account.items()} == {"phd": 10, "people": 2}
    assert (by_account["phd"]["kwh"], by_account["phd"]["cost"]) == (1.0, None)
    (one,) = usage_page.rows(USED, "node", ["gpu01"], None)
    assert (one["held"], one["share"], one["kwh"]) == (12, 0.3, 2.5)


def test_a_name_in_a_spreadsheet_is_a_name() -> None:
    found = usage_page.rows([sample("held", 3600, user="=1+1", instance="gpu01")], "user", ["gpu01"], None)
    assert list(csv.reader(io.StringIO(usage_page.csv_text("user", found))))[1][:4] == ["'=1+1", "0.000", "1.000", ""]


def test_weeks() -> None:
    assert usage_page.weeks(usage_page.Period(0, 30 * 86400)) == (9 * 86400, 30 * 86400)
    assert usage_page.weeks(usage_page.Period(0, 86400)) == (86400, 86400)
    found = usage_page.waits([Series({}, ((100.0, 60.0), (200.0, 90.0)))], [Series({}, ((200.0, 900.0),))])
    assert found == [
        {"end": 200.0, "median": 90.0, "p95": 900.0},
        {"end": 100.0, "median": 60.0, "p95": None},
    ]


# -- the rules themselves, over what nodes and the queue write: promtool's own way to test them


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


def test_what_is_recorded_every_two_hours(tmp_path: Path) -> None:
    """minji has held a GPU since the first hour and uses it half; jiho's job waits for 40 minutes, yuna's for none."""
    gpu = {"instance": "gpu01", "uuid": "GPU-0"}
    given = [
        series("gpuadmin_gpus_on_bus", "2x420", instance="gpu01"),
        series("gpuadmin_gpu_power_watts", "500x420", **gpu),
        series("gpuadmin_gpu_power_watts", "100x420", instance="gpu01", uuid="GPU-1"),
        series("gpuadmin_gpu_held_seconds_total", "0+60x420", user="minji", **gpu),
        series("gpuadmin_gpu_measured_seconds_total", "0+60x420", user="minji", **gpu),
        series("gpuadmin_gpu_active_seconds_total", "0+30x420", user="minji", **gpu),
        series("gpuadmin_gpu_active_seconds_total", "0x420", user="idle", **gpu),
        series("gpuadmin_queue_allocated_gpus", "1x420", user="minji", account="phd"),
        # since minute 130, and until minute 170
        series("gpuadmin_queue_waiting_since_timestamp_seconds", "_x130 7800x39 _x250", id="5", user="jiho"),
        series("gpuadmin_queue_until_timestamp_seconds", "_x170 99999x250", id="5", user="jiho"),
        series("gpuadmin_queue_until_timestamp_seconds", "_x150 99999x270", id="6", user="yuna"),
        series("gpuadmin_queue_until_timestamp_seconds", "99999x420", id="4", user="minji"),
        series("gpuadmin_queue_waiting_since_timestamp_seconds", "0x420", id="7", user="jiho"),
    ]
    wanted = {
        "held": (7200, {"user": "minji", "instance": "gpu01"}),
        "measured": (7200, {"user": "minji", "instance": "gpu01"}),
        "active": (3600, {"user": "minji", "instance": "gpu01"}), "available": (15000, {"instance": "gpu01"}),
        "allocated": (7500, {"user": "minji", "account": "phd"}), "drawn": (600 * 7200, {"instance": "gpu01"}),
        "joules": (500 * 7200, {"user": "minji", "instance": "gpu01"}),
    }  # fmt: skip
    expected = [
        {"labels": series("gpuadmin:use:2h", "", kind=kind, **labels)["series"], "value": value}
        for kind, (value, labels) in wanted.items()
    ]
    buckets = {"60": 1, "300": 1, "900": 1, "3600": 2, "10800": 2, "28800": 2, "86400": 2, "259200": 2, "604800": 2,
               "+Inf": 2}  # fmt: skip
    waited = [{"labels": f'gpuadmin:waits:2h{{le="{le}"}}', "value": number} for le, number in buckets.items()]
    expressions = [
        {"expr": "gpuadmin:use:2h", "eval_time": "4h", "exp_samples": expected},
        {"expr": "gpuadmin:waits:2h", "eval_time": "4h", "exp_samples": waited},
        {"expr": "gpuadmin:waits:2h", "eval_time": "6h", "exp_samples": []},
    ]
    path = tmp_path / "test.yml"
    test = {"interval": "1m", "input_series": given, "promql_expr_test": expressions}
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "2h", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# -- the page


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A year: minji has held a GPU all the time, jiho for the last ten hours; jobs wait for some minutes."""
    directory, now = tmp_path_factory.mktemp("usage"), time.time()
    lines = [*node("gpu01", now), *node("gpu01", now + 240), *usage_lines(now, days=365)]
    with prometheus(directory, blocks(directory, lines, days=60)) as port:
        yield Scene(port, now, directory)


@pytest.mark.needs("promtool", "prometheus")
def test_the_page_of_a_year_and_of_a_day(scene: Scene) -> None:
    client = scene.client(price="200", currency="KRW", nodes=("gpu01",))
    status, html = get(client, "/usage?span=365")
    assert status == 200
    assert "minji 8760.0 h 8760.0 h 4380.0 h 4380.0 h 50 % 4380.0 876000 KRW" in rows(html)["minji"]
    assert rows(html)["jiho"].startswith("jiho 0.0 h 10.0 h 5.0 h 5.0 h 50 %")
    assert plain(html).count("1 min 5 min") >= 50, "a row for each week"
    assert "phd" in rows(get(client, "/usage?span=1&by=account")[1])
    assert "gpu01 34.0 h" in rows(get(client, "/usage?span=1&by=node")[1])["gpu01"]
    korean = plain(get(client, "/usage?span=365", **{"accept-language": "ko"})[1])
    assert "8760시간 중 8760시간 측정" in korean
    for path in ("/usage?span=366", "/usage?span=1;x", "/usage?by=password", "/usage.csv?span=x"):
        assert get(client, path)[0] == 404, path
    answer = client.get("/usage.csv?span=365&by=user", headers={"test-viewer": "haeun"})
    assert answer.headers["content-disposition"] == 'attachment; filename="usage-user-365.csv"'
    assert "minji,8760.000,8760.000,4380.000,4380.000,4380.000,876000.000" in answer.text
    assert client.get("/usage.csv", follow_redirects=False).status_code == 303
