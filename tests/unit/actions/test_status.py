"""status, from its command line to what people and programs see of it."""

import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.actions.shared.screen import pending_lines
from gpuadmin.common.mail.ledger import State
from gpuadmin.common.mail.letter import Letter
from gpuadmin.mail.ledger import Ledger
from gpuadmin.pending import pending
from gpuadmin.plan import Plan
from gpuadmin.records import Record
from gpuadmin.results import HostResult, RunResult
from gpuadmin.semester.journal import Journal
from tests.support.fake_ansible import Ansible, Cli, ansible

__all__ = ["ansible"]

IMAGE: dict[str, Any] = {
    "running": "2026-11-20", "current": "2026-11-20", "trial": "", "image": "2026-11-20", "last": {}, "drift": [],
}  # fmt: skip
DISK = {"path": "/x", "mount": "/x", "bytes": 4 * 10**12, "free": 10**12}
NODE: dict[str, Any] = {
    "people": ["minji"], "gpu_people": ["jiho"], "gpus": ["0000:01:00.0 nvidia", "0000:02:00.0 none"],
    "image": IMAGE, "disks": {"Docker": DISK}, "unknown": {}, "gpu_gate": None,
}  # fmt: skip
BACKUP = {
    "name": "20261121T010203Z-daily", "created": "2026-11-21T01:02:03Z", "homes": 3, "verified": 2, "problems": 1,
    "copies": {"backup1": "2026-11-21T02:00:00Z"},
}  # fmt: skip
STORAGE: dict[str, Any] = {"disks": {"homes": DISK}, "backup": BACKUP, "unknown": {}}


def answers(storage: dict[str, Any] | None = None, node: dict[str, Any] | None = None) -> RunResult:
    """What hosts say; node2 is away, and so is the storage host where it says nothing."""
    gone = HostResult("unreachable", message="does not answer (timed out)")
    return RunResult(
        {
            "storage1": gone if storage is None else HostResult("ok", reports={"status": storage}),
            "node1": HostResult("ok", reports={"status": NODE | (node or {})}),
            "node2": gone,
        }
    )


def result(cli: Cli, code: int = 4) -> dict[str, Any]:
    ended, out, err = cli("status", "--json")
    assert ended == code, err
    found: dict[str, Any] = json.loads(out)["result"]
    return found


def test_one_look_in_check_mode_and_a_row_for_each_host(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answers(STORAGE)
    found = result(cli)
    (invocation,) = ansible.asked
    assert (invocation.playbook, invocation.check) == ("status", True)
    assert {name: host["state"] for name, host in found["hosts"].items()} == {
        "storage1": "up", "node1": "up", "node2": "unreachable",
    }  # fmt: skip
    assert found["totals"] == {
        "hosts": 3, "up": 2, "gpus": 2, "gpus_expected": None, "gpus_unknown": ["node2"], "people": ["minji"],
    }  # fmt: skip
    assert (found["hosts"]["node2"]["gpus"], found["hosts"]["node2"]["people"]) == (None, None)
    assert "people" not in found["hosts"]["storage1"]
    assert found["backup"]["newest"]["verified"] == 2


def test_the_screen(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answers(STORAGE)
    code, out, err = cli("status")
    assert code == 4
    assert re.search(r"2 of 3 hosts up as of \d\d:\d\d:\d\d · 2 GPUs found, unknown on node2 · no term is set", out), (
        out
    )
    rows = {line.split()[0]: line for line in out.splitlines() if line[1:5] in ("stor", "node")}
    assert "2, 1 without driver" in rows["node1"]
    assert "minji" in rows["node1"]
    assert "Docker: 1.0 TB of 4.0 TB free" in rows["node1"]
    assert "2026-11-20" in rows["node1"]
    assert "does not answer (timed out)" in rows["node2"]
    assert "unknown" in rows["node2"]
    assert "homes: 1.0 TB of 4.0 TB free" in rows["storage1"]
    assert "3 homes, 2 verified, 1 home with a problem; second copy on backup1" in out
    assert "Drift: unknown" in out
    assert "Pending: nothing" in out
    assert "1 of 3 hosts did not succeed: node2 (127.0.0.1, port 3)" in err


@pytest.mark.parametrize(
    ("expected", "line", "cell"),
    [
        ({"node1": 8, "node2": 4}, "2 of 12 GPUs found, unknown on node2", "2 of 8, 1 without driver"),
        ({"node1": 2}, "2 GPUs found, unknown on node2", "2, 1 without driver"),
    ],
)
def test_gpus_that_the_inventory_expects(
    ansible: Ansible, cli: Cli, expected: dict[str, int], line: str, cell: str
) -> None:
    assert ansible.site is not None
    for name, number in expected.items():
        path = ansible.site / f"inventory/host_vars/{name}.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"gpus: {number}\n")
    ansible.answer = answers(STORAGE)
    _, out, _ = cli("status")
    assert line in out
    assert cell in next(text for text in out.splitlines() if text.split()[:1] == ["node1"])
    assert result(cli)["hosts"]["node1"]["gpus_expected"] == expected["node1"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"gpu_gate": ["ssh.service: open"]}, "gate not closed: ssh.service: open"),
        ({"gpu_gate": ["a: open", "b: open", "c: open"]}, "gate not closed: a: open (and 2 more: gpuadmin list-gpus)"),
        ({"gpu_gate": None, "unknown": {"gpu_gate": "late"}}, "gate: unknown: late"),
    ],
)
def test_a_gate_that_is_not_closed_is_said(ansible: Ansible, cli: Cli, given: dict[str, Any], line: str) -> None:
    ansible.answer = answers(STORAGE, given)
    assert line in " ".join(cli("status")[1].split())


def test_a_gate_that_is_closed_is_not_said(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answers(STORAGE, {"gpu_gate": []})
    assert "gate" not in cli("status")[1]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"updates": {"security": 2, "since": 1795600000, "reboot": []}},
         "Updates: storage1 waits for 2 security updates since 2026-11-25: gpuadmin upgrade storage1 --security"),
        ({"updates": {"security": 0, "since": None, "reboot": ["kernel 6.13"]}},
         "Updates: storage1 should be rebooted (kernel 6.13): gpuadmin reboot storage1"),
        ({"unknown": {"updates": "late"}}, "Updates: unknown on storage1: late"),
        ({"updates": {"security": 0, "since": None, "reboot": []}}, None),
    ],
)  # fmt: skip
def test_updates_that_wait(ansible: Ansible, cli: Cli, given: dict[str, Any], line: str | None) -> None:
    ansible.answer = answers(STORAGE | given, {})
    out = cli("status")[1]
    assert ("Updates:" in out) == (line is not None)
    assert line is None or line in " ".join(out.split())


def test_a_node_that_takes_no_jobs_says_why(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answers(STORAGE)
    assert "Queue:" not in cli("status")[1]
    ansible.answer = answers({**STORAGE, "queue": {"node1": "gpuadmin reboot: by root@ctl"}})
    assert "takes no jobs: gpuadmin reboot: by root@ctl" in cli("status")[1]
    assert "Queue: node1 takes no jobs: gpuadmin resume NODE" in cli("status")[1]
    assert result(cli)["hosts"]["node1"]["closed"] == "gpuadmin reboot: by root@ctl"


def test_the_timers_of_the_monitor_host_are_shown(ansible: Ansible, cli: Cli) -> None:
    ended = {"drift": "2026-11-20T05:01:00+00:00 failed", "idle": "2026-11-20T06:00:00+00:00", "notify": ""}
    ansible.answer = answers({**STORAGE, "timers": ended})
    out = " ".join(cli("status")[1].split())
    assert "Timers: drift did not succeed 2026-11-20" in out
    assert "idle ended 2026-11-20" in out
    assert "notify has not run since the host booted" in out


def test_a_node_without_gpus_in_the_queue_is_named(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answers({**STORAGE, "queue_without_gpus": ["node1"]})
    out = " ".join(cli("status")[1].split())
    assert "0 GPUs in the queue" in out
    assert "Queue: node1: 0 GPUs there. gpuadmin list-gpus shows what it has" in out
    assert result(cli)["hosts"]["node1"]["gpus_in_queue"] == 0


def test_a_node_that_does_not_answer_the_queue_is_not_to_be_resumed(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answers({**STORAGE, "queue": {"node1": "Prolog error"}})
    assert "Queue: node1 takes no jobs: journalctl -u slurmd on the node says what failed" in cli("status")[1]
    ansible.answer = answers({**STORAGE, "queue": {"node1": "Low RealMemory (reported:1 < 2)"}})
    assert (
        "Queue: node1 takes no jobs: it has less than the queue was told: mend it, or gpuadmin provision"
        in " ".join(cli("status")[1].split())
    )
    ansible.answer = answers({**STORAGE, "queue": {"node1": "Not responding", "node2": "fan is loud"}})
    _, out, _ = cli("status")
    assert "Queue: node2 takes no jobs: gpuadmin resume NODE" in out
    assert "Queue: node1 takes no jobs: slurmd there does not answer the queue's controller: systemctl status" in out


def test_what_is_not_known_is_unknown(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answers(None, {"people": None, "gpus": None, "image": None, "disks": {}, "unknown": {
        "people": "nobody can be asked", "gpus": "this host shows no PCI bus", "image": "images.json cannot be read",
        "Docker": "/local is on no disk of this host (nfs4)",
    }})  # fmt: skip
    _, out, _ = cli("status")
    assert "0 GPUs found, unknown on node1, node2" in out
    for why in ("nobody can be asked", "this host shows no PCI bus", "images.json cannot be read", "no disk of this"):
        assert f"unknown: {why}" in out.replace("Docker: ", "") or why in out
    assert "Backup: unknown on storage1: does not answer (timed out)" in out
    assert "none yet" not in out


@pytest.mark.parametrize(
    ("image", "line"),
    [
        (None, "no images here"),
        (IMAGE | {"current": "2026-11-19"}, "not confirmed; the next boot takes 2026-11-19"),
        (IMAGE | {"trial": "2026-11-21"}, "the next boot tries 2026-11-21"),
        (IMAGE | {"last": {"stage": "failed", "image": "x", "reason": "no sshd"}}, "x failed: no sshd"),
        (IMAGE | {"drift": ["its root is writable"]}, "its root is writable"),
    ],
)
def test_images(ansible: Ansible, cli: Cli, image: dict[str, Any] | None, line: str) -> None:
    ansible.answer = answers(STORAGE, {"image": image})
    assert line in cli("status")[1]


@pytest.mark.parametrize(
    ("backup", "line"),
    [
        (None, "none yet: gpuadmin backup"),
        (BACKUP | {"verified": 3, "copies": {}, "problems": 0}, "3 homes, all verified; no second copy"),
    ],
)
def test_backups(ansible: Ansible, cli: Cli, backup: dict[str, Any] | None, line: str) -> None:
    ansible.answer = answers(STORAGE | {"backup": backup})
    assert line in cli("status")[1]


@pytest.mark.parametrize(
    ("mountpoint", "mount", "known"),
    [
        (None, "/srv/storage", True),
        (None, "/", False),
        ("/srv/storage", "/srv/storage", True),
        ("/srv/storage", "/srv/storage/homes", True),
        ("/srv/storage", "/srv", False),
        ("/srv/storage", "/", False),
    ],
)
def test_a_disk_that_is_not_mounted_has_no_homes_and_no_backups(
    ansible: Ansible, cli: Cli, mountpoint: str | None, mount: str, known: bool
) -> None:
    assert ansible.site is not None
    (ansible.site / "gpuadmin.yml").write_text(json.dumps({"name": "test", "homes": {"mountpoint": mountpoint}}))
    ansible.answer = answers(STORAGE | {"disks": {"homes": DISK | {"mount": mount}}, "backup": None})
    _, out, _ = cli("status")
    assert ("none yet: gpuadmin backup" in out) == known
    assert ("Backup: unknown on storage1: the disk of the homes is not mounted" in out) != known
    assert ("homes: 1.0 TB of 4.0 TB free" in out) == known


def test_the_age_of_a_backup(ansible: Ansible, cli: Cli) -> None:
    created = (datetime.now(UTC) - timedelta(hours=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ansible.answer = answers(STORAGE | {"backup": BACKUP | {"created": created}})
    assert "5 hours old" in cli("status")[1]


@pytest.mark.parametrize(("days", "words"), [(39, "39 days left"), (0, "today"), (-1, "1 day ago")])
def test_the_term(ansible: Ansible, cli: Cli, days: int, words: str) -> None:
    assert ansible.site is not None
    term = {"name": "2026-2", "deadline": str(date.today() + timedelta(days=days))}
    (ansible.site / "gpuadmin.yml").write_text(json.dumps({"name": "test", "term": term}))
    ansible.answer = answers(STORAGE)
    assert words in cli("status")[1]
    assert result(cli)["term"] == term | {"days_left": days}


def begun(site: Path, verb: str, arguments: list[str]) -> Record:
    plan = {"title": verb, "steps": [], "warnings": [], "destroys": False}
    return Record.begin(site / "runs", verb, arguments=arguments, check=False, plan=plan)


def test_what_pends(ansible: Ansible, cli: Cli) -> None:
    site = ansible.site
    assert site is not None
    well = {name: HostResult("ok") for name in ("storage1", "node1")}
    ansible.answer = RunResult({**well, "node2": HostResult("unreachable", message="away")})
    cli("lock-user", "minji", "--yes")
    ansible.answer = RunResult({"node1": HostResult("changed", ["a file"])})
    cli("drift")
    running = begun(site, "backup", ["backup"])
    Journal(site / "runs", "2026-1").write("decided", decision={
        "term": "2026-1", "backup": "20260630T000000Z-2026-1", "at": "2026-06-30", "leaving": [], "scratch": {},
    })  # fmt: skip
    ledger = Ledger.of(site)
    for name, state in (("minji", State.OWED), ("jiho", State.REFUSED), ("gone", State.OWED)):
        letter = Letter("welcome", f"{name}@example.org", (f"welcome {name}",), (name,), "x")
        ledger.finish(letter, "1", state, "550")
    ansible.answer = answers(STORAGE)
    code, out, _ = cli("status")
    assert code == 4
    assert "did not reach node2: gpuadmin lock-user minji --yes (run " in out
    assert "going on: gpuadmin backup" in out
    assert "Reset of 2026-1: announce is next" in out
    assert "minji: not mailed yet" in out
    assert "jiho: the address was refused" in out
    assert "gone" not in out
    assert "Drift: node1 differed on " in out
    running.finish({"status": "ok"}, 0)


@pytest.mark.parametrize(
    ("hosts", "status", "line"),
    [
        ({"n1": "failed"}, "failed", "failed on n1: gpuadmin provision"),
        ({"n1": "failed", "n2": "unreachable"}, "failed", "failed on n1, did not reach n2: gpuadmin provision"),
        ({"n1": "unreachable", "n2": "not run"}, "failed", "did not reach n1, n2: gpuadmin provision"),
        ({"n1": "interrupted", "n2": "not run"}, "interrupted", "interrupted on n1, did not reach n2: gpuadmin prov"),
        ({"n1": "not run"}, "interrupted", "interrupted, did not reach n1: gpuadmin provision"),
        ({}, "unfinished", "unfinished: gpuadmin provision"),
    ],
)
def test_a_host_that_was_away_is_not_said_to_have_failed(hosts: dict[str, str], status: str, line: str) -> None:
    record = {"id": "1", "verb": "provision", "arguments": ["provision"], "check": False, "started": "2026-11-21",
              "status": status, "exit_code": {"failed": 3, "interrupted": 130}.get(status)}  # fmt: skip
    found: dict[str, dict[str, Any]] = {
        name: {"status": state, "changed": [], "message": None} for name, state in hosts.items()
    }
    (run,) = pending([(record, {"hosts": found})])
    (shown, _) = pending_lines(
        {"resets": [], "runs": [run.document()], "mails": {"owed": [], "uncertain": [], "refused": []}, "unknown": []}
    )
    assert shown.startswith(f"Pending: {line}")


@pytest.mark.parametrize(
    ("found", "limit", "line"),
    [
        ({}, (), "Drift: no host differed on {when}"),
        ({"node2": "away"}, (), "Drift: no host differed on {when}; unknown on node2"),
        ({}, ("--limit", "node1"), "Drift: no host differed on {when}; unknown on node2, storage1"),
        (
            dict.fromkeys(("node1", "node2", "storage1"), "away"), (),
            "Drift: unknown on node1, node2, storage1, as of {when}: gpuadmin drift",
        ),
    ],
    ids=["all answered", "one away", "some left out", "none answered"],
)  # fmt: skip
def test_a_host_that_was_not_compared_is_not_said_to_be_as_it_should(
    ansible: Ansible, cli: Cli, found: dict[str, str], limit: tuple[str, ...], line: str
) -> None:
    asked = ("node1",) if limit else ("node1", "node2", "storage1")
    ansible.answer = RunResult(
        {name: HostResult("unreachable", message=found[name]) if name in found else HostResult("ok") for name in asked}
    )
    cli("drift", *limit)
    ansible.answer = answers(STORAGE)
    printed = re.sub(r"[0-9-]{10} [0-9:]{5}", "{when}", cli("status")[1])
    assert line in printed.splitlines()
    unknown = [name for name in ("node1", "node2", "storage1") if name in found or name not in asked]
    assert result(cli)["drift"]["unknown"] == unknown


def test_damaged_records_are_unknown(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    journal = ansible.site / "runs/term-2026-1"
    journal.mkdir(parents=True)
    (journal / "journal.jsonl").write_text("{\n{}\n")
    (ansible.site / "mails.jsonl").write_text("{\n{}\n")
    ansible.answer = answers(STORAGE)
    code, out, _ = cli("status")
    assert code == 4
    assert out.count("Pending: unknown: ") == 2


@pytest.mark.holds("looks at the status do not push out the records of what was done")
def test_it_changes_nothing_and_keeps_few_records_of_its_own(ansible: Ansible, cli: Cli) -> None:
    site = ansible.site
    assert site is not None
    ansible.answer = RunResult({"node1": HostResult("ok")})
    cli("lock-user", "minji", "--yes")
    before = {path.name: path.read_bytes() for path in site.iterdir() if path.is_file()}
    ansible.answer = answers(STORAGE)
    for _ in range(8):
        cli("status")
    assert {path.name: path.read_bytes() for path in site.iterdir() if path.is_file()} == before
    verbs = [run["verb"] for run in json.loads(cli("runs", "--json")[1])["result"]["runs"]]
    assert verbs == ["status"] * 5 + ["lock-user"]


def test_what_a_host_says_is_data(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answers(STORAGE, {"people": ["[red]x\x1b[31m\nnode9 up"]})
    _, out, _ = cli("status")
    assert "\x1b[31m" not in out
    assert "[red]x" in out
    assert not [line for line in out.splitlines() if line.strip().startswith("node9")]


def test_limit(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = answers(STORAGE)
    code, out, err = cli("status", "--limit", "node1", "--json")
    assert code == 4, err
    found = json.loads(out)["result"]
    assert list(found["hosts"]) == ["node1"]
    assert found["backup"]["asked"] == []


def test_what_pends_can_be_dismissed_and_who_did_it_is_recorded(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = RunResult({"node1": HostResult("failed", message="no room")})
    assert cli("sync-users", "--yes")[0] == 3
    ansible.answer = answers()
    (run,) = result(cli)["pending"]["runs"]
    code, out, err = cli("runs", "--dismiss", run["run"][-4:], "--json")
    assert code == 0, err
    entry = json.loads(out)["result"]["dismissed"]
    assert set(entry) == {"who", "at"}
    assert result(cli)["pending"]["runs"] == []
    (shown,) = [one for one in json.loads(cli("runs", "--json")[1])["result"]["runs"] if one["id"] == run["run"]]
    assert (shown["dismissed"], shown["status"]) == (entry, "failed"), "what came of it stays what it was"
    assert "host failed, dismissed" in cli("runs")[1]
    assert f"dismissed by {entry['who']}" in cli("runs", run["run"])[1]
    code, _, err = cli("runs", run["run"], "--dismiss")
    assert code == 2
    assert "nothing of" in err


SLIP = HostResult("failed", message="there is no such backup", refused=True)
DAMAGED = HostResult("failed", message="the copy differs from the manifest")


@pytest.mark.parametrize("verb", [["restore-home", "minji"], ["verify-backup", "20200101T000000Z-x"]])
@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (RunResult({"storage1": SLIP}), []),
        (RunResult({"storage1": DAMAGED}), ["storage1"]),
        (RunResult({"storage1": HostResult("unreachable", message="the ssh connection was cut")}), ["storage1"]),
        (RunResult({"storage1": SLIP}, interrupted=True), None),
    ],
)
def test_a_slip_never_pends_and_what_began_does(
    ansible: Ansible, cli: Cli, verb: list[str], answer: RunResult, left: list[str] | None
) -> None:
    assert ansible.site is not None
    (ansible.site / "users.yml").write_text("users:\n  - {name: minji, uid: 20000}\nretired: []\n")
    ansible.answer = answer
    code, _, err = cli(*verb, "--yes")
    assert code == answer.code
    assert ("nothing was changed on storage1" in err) == (left == [])
    ansible.answer = answers(STORAGE)
    pending = result(cli)["pending"]["runs"]
    assert [list(one["hosts"]) for one in pending] == ([] if left == [] else [["storage1"]])
    assert left is not None or [one["status"] for one in pending] == ["interrupted"]


@pytest.mark.holds("a run that goes on is not dismissed")
def test_a_run_that_goes_on_is_not_dismissed(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    begun = Record.begin(ansible.site / "runs", "backup", arguments=["backup"], check=False, plan=Plan("x").document())
    code, _, err = cli("runs", begun.id, "--dismiss")
    assert code == 5
    assert "going on" in err


@pytest.mark.parametrize("arguments", [["--dismiss"], ["abcd", "--dismiss", "--log"]])
def test_what_is_dismissed_has_to_be_said(cli: Cli, site: Path, arguments: list[str]) -> None:
    assert cli("runs", *arguments, "--site", str(site))[0] == 2


def test_what_ended_before_anything_was_sent_never_pends(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    ansible.answer = RunResult({}, interrupted=True)
    assert cli("push-image", "2026-11-20", "--yes")[0] == 130
    assert list((ansible.site / "runs").glob("*-push-image-*")), "the store was asked, so there is a record"
    ansible.answer = answers()
    assert result(cli)["pending"]["runs"] == []
