"""On real ssh hosts: from a survey's export to accounts, homes and mails, and again after a run that was cut off."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from gpuadmin.common.mail.ledger import fold
from tests.support.mail_server import SERVER
from tests.support.scale_hosts import Cluster, cluster
from tests.support.scale_people import gpuadmin, public_key, site

DEADLINE = date.today() + timedelta(days=60)


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster(("storage1", "node1")) as hosts:
        yield hosts


@pytest.fixture
def accepted(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A mail server: its port, and the file of what it took."""
    taken, options = tmp_path / "accepted.jsonl", tmp_path / "server.json"
    options.write_text(json.dumps({"accepted": str(taken)}))
    process = subprocess.Popen([sys.executable, str(SERVER), str(options)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield int(process.stdout.readline()), taken
    process.kill()
    process.wait()
    process.stdout.close()


def prepared(running: Cluster, directory: Path, port: int, prefix: str) -> tuple[Path, list[str]]:
    """A site that can send mail, and what import-applications is called with; the last applicant's form lacks a key."""
    site(running, directory, 0)
    with (directory / "gpuadmin.yml").open("a") as stream:
        stream.write(f"term: {{name: 2026-2, deadline: {DEADLINE}}}\n")
        stream.write(f"mail: {{host: 127.0.0.1, port: {port}, security: none, sender: gpu@example.org}}\n")
    rows = ["이메일 주소,이름,학번,SSH 공개키,Docker 사용,이용 수칙 동의"]
    for number in range(3):
        key = public_key(f"{prefix}{number}") if number < 2 else ""
        rows.append(f"{prefix}{number}@example.org,김민지,2026000{number},{key},예,동의")
    (directory / "form.csv").write_bytes("\n".join(rows).encode("cp949"))
    return directory, ["import-applications", str(directory / "form.csv"), "--apply", "--yes"]


def recipients(taken: Path) -> list[str]:
    if not taken.exists():
        return []
    return sorted(address for line in taken.read_text().splitlines() for address in json.loads(line)["to"])


def test_applicants_get_accounts_and_mails(running: Cluster, accepted: tuple[int, Path], tmp_path: Path) -> None:
    port, taken = accepted
    directory, line = prepared(running, tmp_path / "site", port, "new")
    predicted = gpuadmin(directory, *line, "--check")
    assert predicted["exit_code"] == 0, predicted["stderr"]
    assert recipients(taken) == []
    done = gpuadmin(directory, *line)
    assert done["exit_code"] == 0, done["stderr"]
    assert {name: host["changed"] for name, host in predicted["hosts"].items()} == {
        name: host["changed"] for name, host in done["hosts"].items()
    }
    assert recipients(taken) == [f"new{number}@example.org" for number in range(3)]
    for host in running.hosts:
        passwd = (host.root / "etc/passwd").read_text()
        assert "new0:x:20000:" in passwd
        assert "new1:x:20001:" in passwd
        if host.name == "storage1":
            assert (host.root / "srv/storage/homes/new1").stat().st_uid == 20001
    again = gpuadmin(directory, *line)
    assert again["exit_code"] == 0, again["stderr"]
    assert len(recipients(taken)) == 3


@pytest.mark.parametrize(
    "seconds", [1.5, 3.5, *(pytest.param(after, marks=pytest.mark.slow) for after in (0.5, 2.5, 5.0))]
)
def test_a_controller_that_is_killed(
    running: Cluster, accepted: tuple[int, Path], tmp_path: Path, seconds: float
) -> None:
    """Whenever that is: the same command finishes it, and everybody gets one mail, or is named as uncertain."""
    port, taken = accepted
    prefix = f"cut{int(seconds * 10)}x"
    directory, line = prepared(running, tmp_path / "site", port, prefix)
    (directory / "users.yml").write_text("users: []\nretired: []\n")
    offset = 20100 + int(seconds * 100)
    text = (directory / "gpuadmin.yml").read_text()
    (directory / "gpuadmin.yml").write_text(text.replace("uid_first: 20000", f"uid_first: {offset}"))
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuadmin", *line, "--site", str(directory)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    time.sleep(seconds)  # the moment of the kill is the parameter
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = {"exit_code": -1}
    for _ in range(10):  # what the killed one left on the hosts may take a moment to end
        done = gpuadmin(directory, *line)
        if done["exit_code"] == 0:
            break
        time.sleep(1)  # for what the killed one left to end
    assert done["exit_code"] == 0, done
    got = recipients(taken)
    assert len(got) == len(set(got))
    ledger = directory / "mails.jsonl"
    entries = fold(ledger.read_bytes(), ledger)
    uncertain = {entry.address for entry in entries.values() if entry.uncertain}
    for number in range(3):
        address = f"{prefix}{number}@example.org"
        assert address in got or address in uncertain
    for host in running.hosts:
        assert f"{prefix}1:x:" in (host.root / "etc/passwd").read_text()
