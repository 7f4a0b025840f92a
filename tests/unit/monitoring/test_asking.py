"""top, usage and idle, from their command lines to a real Prometheus that has what nodes wrote."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from datetime import date, datetime
from datetime import time as clock
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gpuadmin.actions.usage import _csv
from gpuadmin.cli import gpus
from gpuadmin.common.usage import Usage
from gpuadmin.config.schema import Term
from gpuadmin.errors import GpuadminError
from gpuadmin.monitoring.monthly import choose_month
from tests.support.metrics_cluster import granted, line, node, site, ungranted, used
from tests.support.prometheus import blocks, free_port, prometheus

pytestmark = pytest.mark.needs("promtool", "prometheus")


def there(name: str, now: float) -> Iterator[str]:
    for step in range(0, 10801, 60):
        labels = {"instance": name, "job": "node", "kind": "gpu"}
        if step < 10800:  # `node` writes the last one
            yield line("gpuadmin_gpus_on_bus", labels, 2, now - 10800 + step)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A site whose Prometheus knows two nodes that are well, one that is down, and nothing of gpu4."""
    base = tmp_path_factory.mktemp("prometheus")
    now = time.time()
    lines = [*there("gpu1", now), *there("gpu2", now)]  # first: samples of one series are in the order of their times
    lines += [*node("gpu1", now, held={0: ("minji", "train")}), *node("gpu2", now, held={1: ("junho", "x\x1b[31my")})]
    lines += [
        line("probe_success", {"instance": "gpu3", "job": "ping"}, 0, now),
        line("up", {"instance": "gpu3", "job": "node"}, 0, now),
        line("place:watts", {"place": "room 301"}, 11234, now),
        line("up", {"instance": "gpu9", "job": "node"}, 1, now),  # no host of this site any more
    ]
    lines += [*used("gpu1", 0, "minji", now, active=False), *used("gpu2", 1, "junho", now, active=True)]
    with prometheus(base, blocks(base, lines)) as port:
        yield site(base / "site", port)


def run(server: Path, verb: str, *arguments: str) -> str:
    done = CliRunner().invoke(getattr(gpus, verb), ["--site", str(server), *arguments], standalone_mode=False)
    assert done.exception is None, done.output
    assert done.return_value == 0
    return str(done.stdout)


def test_the_document(server: Path) -> None:
    found = json.loads(run(server, "top", "--once", "--json"))["result"]
    assert {name: entry["state"] for name, entry in found["nodes"].items()} == {
        "gpu1": "up", "gpu2": "up", "gpu3": "down", "gpu4": "unknown",
    }  # fmt: skip
    first, second = found["nodes"]["gpu1"]["devices"]
    assert (first["index"], first["free"], first["utilization"]) == ("0", False, 0.5)
    (holder,) = first["holders"]
    assert (holder["user"], holder["container"], holder["processes"]) == ("minji", "train", 1)
    assert 7100 < time.time() - holder["since"] < 7500
    assert (second["free"], second["holders"]) == (True, [])
    assert abs(time.time() - found["nodes"]["gpu1"]["measured"]) < 300
    assert found["nodes"]["gpu4"]["measured"] is None
    assert found["totals"] == {"nodes": 4, "up": 2, "devices": 4, "free": 2, "held": 2, "granted": 0, "unknown": 0}


def test_the_screen(server: Path) -> None:
    shown = run(server, "top", "--once")
    assert re.search(r"2 of 4 nodes up as of \d+ (s|min) ago · 2 of 4 GPUs free", shown), shown
    rows = [line for line in shown.splitlines() if "NVIDIA" in line]
    assert len(rows) == 4
    assert "minji in train" in rows[0]
    assert "2 h" in rows[0]
    assert "free" in rows[1]
    assert "gpu3: does not answer a ping" in shown
    assert "gpu4: nothing is measured of it" in shown
    assert "\x1b" not in shown
    assert "gpu9" not in shown


def test_what_a_room_draws(server: Path) -> None:
    shown = run(server, "top", "--once")
    assert "test · room 301: 11.2 of 12 kW · room 302: ? of 6.5 kW · 2 of 4 nodes up" in " ".join(shown.split()), shown
    assert json.loads(run(server, "top", "--json"))["result"]["power"] == {
        "room 301": {"watts": 11234, "budget": 12000}, "room 302": {"watts": None, "budget": 6500},
    }  # fmt: skip


def test_one_person_and_some_hosts_alone(server: Path) -> None:
    found = json.loads(run(server, "top", "--once", "--json", "--user", "minji"))["result"]
    assert {name: len(entry["devices"]) for name, entry in found["nodes"].items()} == {
        "gpu1": 1, "gpu2": 0, "gpu3": 0, "gpu4": 0,
    }  # fmt: skip
    assert "junho" not in run(server, "top", "--once", "--user", "minji")
    assert set(json.loads(run(server, "top", "--json", "--limit", "gpu2"))["result"]["nodes"]) == {"gpu2"}


def test_free(server: Path) -> None:
    found = json.loads(run(server, "top", "--free", "--json"))["result"]
    assert {name: [one["index"] for one in devices] for name, devices in found["nodes"].items()} == {
        "gpu1": ["1"], "gpu2": ["0"],
    }  # fmt: skip
    assert set(found["unknown"]) == {"gpu3", "gpu4"}
    assert "No node has 2 free GPUs of 40 GiB." in run(server, "top", "--free", "--gpus", "2", "--memory", "40")
    shown = run(server, "top", "--free", "--memory", "80")
    assert "gpu1" in shown
    assert "gpu3, gpu4" in shown


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A node with three GPUs: one held and granted, one granted alone, one held by who has no grant any more."""
    base = tmp_path_factory.mktemp("gated")
    now = time.time()
    lines = [
        *node("gpu1", now, gpus=4, held={0: ("minji", "train"), 2: ("junho", "")}),
        *granted("gpu1", 0, "minji", now, now + 100 * 3600), *granted("gpu1", 1, "minji", now, now + 100 * 3600),
        ungranted("gpu1", 2, "junho", now, now - 600),
    ]  # fmt: skip
    with prometheus(base, blocks(base, lines)) as port:
        yield site(base / "site", port)


def test_granted_and_held_are_shown_apart(gated: Path) -> None:
    shown = run(gated, "top", "--once")
    assert "1 of 4 GPUs free · 1 granted and not held" in shown
    rows = [line for line in shown.splitlines() if "NVIDIA" in line]
    assert "minji in train" in rows[0]
    assert re.search(r"granted to minji until +20[^\n]*\n +by root@nas: a deadline\n", shown), shown
    assert "junho, no grant" in rows[2]
    assert len(json.loads(run(gated, "top", "--json", "--user", "minji"))["result"]["nodes"]["gpu1"]["devices"]) == 2
    free = json.loads(run(gated, "top", "--free", "--json"))["result"]["nodes"]
    assert [one["index"] for one in free["gpu1"]] == ["3"]
    assert re.search(r"junho .* tell: no grant since", run(gated, "idle")), run(gated, "idle")
    rows = json.loads(run(gated, "usage", "--since", "1", "--json"))["result"]["rows"]
    assert {row["name"]: row["granted"] for row in rows} == {"minji": pytest.approx(2, abs=0.4)}
    assert "GPU-hours granted" in run(gated, "usage", "--since", "1")
    assert run(gated, "usage", "--since", "1", "--csv").splitlines()[0].endswith(",granted_hours")


@pytest.fixture(scope="module")
def queued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A site with a queue: minji of the group lab has held one GPU for three hours, and two were hers."""
    base, now = tmp_path_factory.mktemp("queued"), time.time()
    labels = {"instance": "nas1", "job": "node", "kind": "storage"}
    lines = [*there("gpu1", now), *node("gpu1", now, held={0: ("minji", "")})]
    for user, account, number in (("minji", "lab", 2), ("junho", "people", 1)):
        own = labels | {"user": user, "account": account}
        lines += [
            line("gpuadmin_queue_allocated_gpus", own, number, now - 10800 + step) for step in range(0, 10801, 60)
        ]
    lines += used("gpu1", 0, "minji", now, active=True)
    with prometheus(base, blocks(base, lines)) as port:
        place = site(base / "site", port)
        settings = place / "gpuadmin.yml"
        settings.write_text(f"{settings.read_text()}\nslurm: {{groups: [{{name: lab}}]}}\n")
        own = "{name: minji, uid: 20000, group: lab}, {name: junho, uid: 20001}"
        (place / "users.yml").write_text(f"users: [{own}]\nretired: []\n")
        (place / "inventory/queue.yml").write_text("slurm: {hosts: {nas1: {}}}\n")
        yield place


def test_what_the_queue_gave_by_person_and_by_account(queued: Path) -> None:
    for kind, mine, other in (("user", "minji", "junho"), ("account", "lab", "people")):
        found = json.loads(run(queued, "usage", "--since", "1", "--by", kind, "--json"))["result"]
        rows = {row["name"]: row for row in found["rows"]}
        assert (rows[mine]["allocated"], rows[other]["allocated"]) == pytest.approx((6, 3), abs=0.3)
        assert (rows[mine]["held"], rows[other]["held"]) == pytest.approx((3, 0), abs=0.2)
        assert found["total"]["allocated"] == pytest.approx(9, abs=0.5)
    assert "GPU-hours allocated" in run(queued, "usage", "--since", "1", "--by", "account")
    assert "allocated" not in run(queued, "usage", "--since", "1", "--by", "node")
    assert run(queued, "usage", "--since", "1", "--csv").splitlines()[0].endswith(",allocated_hours")


def test_a_site_without_a_queue_has_no_accounts(server: Path) -> None:
    done = CliRunner().invoke(gpus.usage, ["--site", str(server), "--by", "account"], standalone_mode=False)
    assert isinstance(done.exception, GpuadminError)
    assert "this site has no queue" in done.exception.message


def test_where_gpus_are_open_nothing_is_said_of_grants(server: Path) -> None:
    for words in (
        ("top", "--once"),
        ("top", "--free"),
        ("usage", "--since", "1"),
        ("usage", "--since", "1", "--csv"),
        ("idle",),
    ):
        assert "grant" not in run(server, *words)


def test_idle(server: Path) -> None:
    (row,) = json.loads(run(server, "idle", "--json"))["result"]["idle"]
    assert (row["user"], row["node"], row["index"], row["containers"]) == ("minji", "gpu1", "0", ["train"])
    assert (row["hours"], row["policy"]) == (2, "tell")
    assert "minji" in run(server, "idle")
    assert "Nobody has held a GPU for 6 h" in run(server, "idle", "--hours", "6")


def test_usage(server: Path) -> None:
    found = json.loads(run(server, "usage", "--since", "1", "--json"))["result"]
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["minji"]["held"] == pytest.approx(3, abs=0.1)
    assert rows["minji"]["active"] == pytest.approx(0, abs=0.01)
    assert rows["junho"]["active"] == pytest.approx(1, abs=0.1)
    assert found["total"]["available"] == pytest.approx(12, abs=1)
    by_node = json.loads(run(server, "usage", "--since", "1", "--by", "node", "--json"))["result"]["rows"]
    assert {row["name"] for row in by_node} == {"gpu1", "gpu2"}
    assert found["bought"]["held"] == pytest.approx(6, abs=0.2)
    assert found["bought"]["used"] == pytest.approx(1, abs=0.1)
    first, *_, last = run(server, "usage", "--since", "1").splitlines()
    assert re.fullmatch(r"The last day, measured since 20\d\d-\d\d-\d\d \d\d:\d\d\.", first), first
    assert re.fullmatch(r"Of 1[12] GPU-hours available, (49|5\d)% were held and [89]% used\.", last), last
    assert "no node is in a group" in run(server, "usage", "--by", "group")
    first, *rows = run(server, "usage", "--since", "1", "--csv").splitlines()
    assert first == "user,held_hours,measured_hours,active_hours,available_hours"
    assert sorted(row.split(",")[0] for row in rows) == ["junho", "minji"]


@pytest.mark.parametrize(
    ("words", "period", "held"),
    [
        (("--from", "{today}"), "{today} to {today}", 6),
        (("--from", "2026-01-05", "--to", "2026-01-06"), "2026-01-05 to 2026-01-06", 0),
        (("--from", "2026-01-05", "--to", "2999-01-01"), "2026-01-05 to {today}, measured since ", 6),
        (("--term",), "The term 2026-2: 2026-01-01 to {today}, measured since ", 6),
    ],
)
def test_usage_of_some_days(server: Path, words: tuple[str, ...], period: str, held: float) -> None:
    """Of days, and of the term; all that was measured is of the last three hours."""
    settings, today = server / "gpuadmin.yml", str(date.today())
    before = settings.read_text()
    settings.write_text(f"{before}term: {{name: 2026-2, begin: 2026-01-01, deadline: 2999-12-31}}\n")
    found = json.loads(run(server, "usage", "--json", *(one.format(today=today) for one in words)))["result"]
    settings.write_text(before)
    assert found["period"].startswith(period.format(today=today))
    midnight = datetime.combine(date.today(), clock()).timestamp()
    most = min(held, 2 * (time.time() - midnight) / 3600) if "--to" not in words and "--from" in words else held
    assert found["bought"]["held"] == pytest.approx(most, abs=0.5)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--term",), "term.begin is missing"),
        (("--from", "2999-01-01"), "2999-01-01 is yet to come"),
        (("--to", "2026-01-01"), "--to goes with --from"),
        (("--from", "2026-02-01", "--to", "2026-01-01"), "the same day or a later one"),
        (("--since", "3", "--term"), "one of them"),
        (("--from", "yesterday"), "write YYYY-MM-DD"),
    ],
)
def test_days_that_are_none(server: Path, words: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(gpus.usage, ["--site", str(server), *words], standalone_mode=False)
    assert isinstance(done.exception, click.ClickException)
    assert says in done.exception.message


def failed(site_directory: Path, verb: str = "top") -> tuple[int, str]:
    done = CliRunner().invoke(getattr(gpus, verb), ["--site", str(site_directory), "--json"], standalone_mode=False)
    assert isinstance(done.exception, GpuadminError), done.output
    return done.exception.exit_code, f"{done.exception.message} {done.exception.hint}"


def test_nobody_listens(tmp_path: Path) -> None:
    code, words = failed(site(tmp_path / "site", free_port()))
    assert code == 4
    assert "nas1: Prometheus does not answer: Connection refused" in words
    assert "not set up yet: gpuadmin provision; gpuadmin top --local asks the nodes themselves" in words


def test_something_else_listens(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            connection.recv(10000)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        code, words = failed(site(tmp_path / "site", listener.getsockname()[1]))
        thread.join(10)
    assert code == 3
    assert "metrics.port" in words


def test_the_monitor_host_is_away(tmp_path: Path) -> None:
    """Through ssh, to a port at which nobody listens: what ssh says is the reason."""
    directory = site(tmp_path / "site", 9090)
    inventory = directory / "inventory/hosts.yml"
    text = inventory.read_text().replace(
        'ansible_connection: "local"', f'ansible_host: "127.0.0.1"\n          ansible_port: {free_port()}', 1
    )
    inventory.write_text(text)
    code, words = failed(directory)
    assert code == 4
    assert "Connection refused" in words


@pytest.mark.parametrize("verb", ["top", "usage", "idle"])
def test_a_site_without_a_monitor_host(tmp_path: Path, verb: str) -> None:
    directory = site(tmp_path / "site", 9090)
    inventory = directory / "inventory/hosts.yml"
    inventory.write_text(inventory.read_text().partition("    monitor:")[0])
    code, words = failed(directory, verb)
    assert code == 2
    assert "no monitor host" in words


def test_a_name_that_is_a_formula() -> None:
    rows = [Usage(name, 1, 1, 1, None) for name in ("=cmd()", "minji")]
    assert [row.split(",")[0] for row in _csv("user", rows).splitlines()] == ["user", "'=cmd()", "minji"]


@pytest.mark.holds("a page that gpuadmin usage did not write is not replaced")
def test_usage_as_a_page(server: Path, tmp_path: Path) -> None:
    path = tmp_path / "reports" / "usage.html"
    shown = run(server, "usage", "--since", "1", "--html", str(path))
    assert "minji" in shown, "the table is printed as ever"
    page = path.read_text()
    page = re.sub(r' data-label="[^"]*"', "", page)
    assert re.search(r'<th scope="row">minji</th><td>3\.[01]</td><td>0\.0</td><td>[23]\.[0-9]</td><td>0%</td>', page)
    assert "Of 1" in page
    assert page.count('class="idle"') >= 3, "the whole, a person, and what it means"
    assert not re.search(r"https?://|<script|<link|src=", page), "it needs nothing else"
    run(server, "usage", "--html", str(path))  # its own file is written again
    other = tmp_path / "thesis.html"
    other.write_text("not ours")
    done = CliRunner().invoke(gpus.usage, ["--site", str(server), "--html", str(other)], standalone_mode=False)
    assert isinstance(done.exception, GpuadminError)
    assert "gpuadmin did not write it" in done.exception.message
    assert "--html" in str(done.exception.hint)
    assert other.read_text() == "not ours"


def test_a_term_begins_before_it_ends() -> None:
    with pytest.raises(ValueError, match="begin 2026-09-02 is after the deadline 2026-09-01"):
        Term(name="a", begin=date(2026, 9, 2), deadline=date(2026, 9, 1))


@pytest.fixture(scope="module")
def last_month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A site whose last month has three hours: minji held a GPU, waited, worked for a project, and was given one."""
    base, month = tmp_path_factory.mktemp("month"), choose_month(None, date.today())
    when = month.span[0] + 10 * 86400
    own = {"instance": "nas1", "job": "node", "user": "minji"}
    lines = [*there("gpu1", when), *used("gpu1", 0, "minji", when, active=True)]
    lines += granted("gpu1", 0, "minji", when, when + 3600)
    lines += [*granted("gpu1", 1, "jiho", when, when, "job 7")]
    lines = [one.replace('user="jiho",who="root@nas"', 'user="jiho",who="Slurm"') for one in lines]
    for name, more, value in (
        ("gpuadmin_queue_allocated_gpus", {"account": "people", "project": "nlp"}, 2),
        ("gpuadmin:waited_seconds", {"id": "5"}, 7200),
    ):
        lines += [line(name, own | more, value, when - 3600 + step) for step in range(0, 3601, 60)]
    watts = {"instance": "gpu1", "job": "node", "uuid": "GPU-gpu1-0"}
    lines += [line("gpuadmin_gpu_power_watts", watts, 500, when - 7200 + step) for step in range(0, 7201, 60)]
    with prometheus(base, blocks(base, lines)) as port:
        place = site(base / "site", port)
        settings = place / "gpuadmin.yml"
        mail = "{host: localhost, sender: a@b.kr, languages: [en, ko], report: [professor@example.org]}"
        more = f"metrics: {{price_per_kwh: 100, port: {port}}}\nmail: {mail}\nslurm: {{}}\n"
        kept = re.sub(r"(?m)^metrics:.*\n(?:[ ].*\n)*", "", settings.read_text())
        settings.write_text(f"{kept}\n{more}")
        (place / "users.yml").write_text("users: [{name: minji, uid: 20000}]\nretired: []\n")
        (place / "inventory/queue.yml").write_text("slurm: {hosts: {nas1: {}}}\n")
        yield place


@pytest.mark.holds("nobody gets a month's report twice")
def test_a_month_s_report_is_mailed_once(last_month: Path, tmp_path: Path) -> None:
    shown = run(last_month, "report", "--preview")
    for line_of_it in (
        "GPU-hours held: ", "jobs that began: ", "median wait (h:mm): ",
        "nlp: GPU-hours from the queue 2.",
        "minji: GPUs 1 × gpu1, from ", "kWh of the GPUs: ", "a deadline",
    ):  # fmt: skip
        assert line_of_it in shown, shown
    assert re.search(r"median wait \(h:mm\): \d{4}-\d\d [12]:\d\d, ", shown), shown
    assert re.search(r"kWh of the GPUs: \d{4}-\d\d 1\.\d, ", shown), shown
    assert re.search(r"cost of that: \d{4}-\d\d 10\d\.\d KRW, ", shown), shown
    assert "job 7" not in shown, "what the queue gave is no exception"
    assert "안녕하세요" not in shown
    run(last_month, "report", "--yes", "--mail-dir", str(tmp_path / "mails"))
    (mail,) = (tmp_path / "mails").iterdir()
    assert b"professor@example.org" in mail.read_bytes()
    again = run(last_month, "report", "--yes", "--mail-dir", str(tmp_path / "mails"))
    assert "was sent already" in again
    assert len(list((tmp_path / "mails").iterdir())) == 1
    assert "is not over" in _refused(last_month, "report", "--month", f"{date.today():%Y-%m}")


def test_a_report_that_nobody_is_mailed_is_shown(last_month: Path) -> None:
    settings = last_month / "gpuadmin.yml"
    before = settings.read_text()
    settings.write_text(before.replace("report: [professor@example.org]", "report: []"))
    try:
        assert re.search(r"(?m)^ *GPU-hours held +3\.\d", run(last_month, "report"))
        assert "mail.report: is missing" in _refused(last_month, "report", "--preview")
    finally:
        settings.write_text(before)


def _refused(server: Path, verb: str, *words: str) -> str:
    done = CliRunner().invoke(getattr(gpus, verb), ["--site", str(server), *words], standalone_mode=False)
    assert isinstance(done.exception, GpuadminError)
    return done.exception.message


def test_hours_by_project_and_what_was_given(last_month: Path) -> None:
    words = ("--since", "60", "--by", "project")
    found = json.loads(run(last_month, "usage", *words, "--json"))["result"]["hours"]
    assert found == {"nlp": pytest.approx(2, abs=0.4)}
    assert run(last_month, "usage", *words, "--csv").startswith("project,allocated_hours\nnlp,")
    assert re.search(r"nlp +2\.", run(last_month, "usage", *words))
    (past,) = json.loads(run(last_month, "grants", "--past", "60", "--json"))["result"]["past"]
    assert (past["user"], past["node"], past["gpus"], past["reason"]) == ("minji", "gpu1", 1, "a deadline")
    assert past["how"].startswith("given back or ended, ")
    assert "a deadline" in run(last_month, "grants", "--past", "60")
