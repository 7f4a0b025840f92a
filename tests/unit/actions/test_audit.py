"""audit: boxes, what moved, who has power, what others can read; and the record."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.auditing.hardware import FILE, load, save
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import KEY, NOBODY, Ansible, Cli, ansible

__all__ = ["ansible"]  # a fixture

HOSTS = ("storage1", "node1", "node2")
SUDO = {"key": "minji in group sudo", "words": "may become root by sudo", "rank": "root"}
TMP = {"key": "/tmp", "words": "has mode 755", "rank": "differs"}
READABLE = {"path": "/srv/homes/minji/.env\x1b[2J", "owner": "minji", "mode": "0644"}
GONE = HostResult("unreachable", message="does not answer (timed out)")


def says(gpus: tuple[str, ...] = (), *, unknown: dict[str, str] | None = None, **more: Any) -> HostResult:
    """What a host says that has these GPUs; `more`: of privileges, and `exposed`."""
    exposed = {
        "found": more.pop("exposed", []), "more": more.pop("and_more", {}), "unknown": more.pop("not_looked_at", {})
    }  # fmt: skip
    found = {"gpu": [{"id": one, "words": "H100"} for one in gpus]}
    reports = {
        "privileges": NOBODY | more, "hardware": {"found": found, "unknown": unknown or {}}, "exposed": exposed,
    }  # fmt: skip
    return HostResult("ok", reports=reports)


def of_power(**more: Any) -> HostResult:
    """A host that says this of who has power."""
    found = says()
    found.reports["privileges"] |= more
    return found


def on_all(**hosts: HostResult) -> RunResult:
    return RunResult({name: hosts.get(name, says()) for name in HOSTS})


def test_it_looks_and_writes_nothing(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = on_all(node1=says(("GPU-1",)))
    code, out, _ = cli("audit")
    assert code == 0
    assert "gpuadmin audit --record writes hardware.json" in out
    assert "nobody that the site does not declare, on 3 hosts" in out
    assert ansible.asked[0].check
    assert ansible.site is not None
    assert load(ansible.site) is None
    assert "gpuadmin audit --record" not in cli("audit", "--record", "--yes")[1], "it is what was typed"


@pytest.mark.parametrize(
    ("answer", "code", "line"),
    [
        (on_all(node1=says(found=[SUDO, TMP])), 6, "  node1: minji in group sudo: may become root by sudo"),
        (on_all(node1=says(found=[TMP])), 0, "Root, or could be: nobody"),  # drift says it
        (on_all(storage1=says(exposed=[READABLE])), 6, "/srv/homes/minji/.env\\x1b[2J (minji, mode 0644)"),
        (on_all(node1=GONE), 4, "node1: unknown: does not answer (timed out)"),
        (on_all(node1=HostResult("ok", reports={"privileges": NOBODY})), 3, "node1: unknown: did not say"),
        (on_all(node1=says(unknown={"gpu": "the driver hangs"})), 3, "Not known: node1: GPUs: the driver hangs"),
        (on_all(node1=says(not_looked_at={"/local/minji": "too much"})), 3, "node1: /local/minji: too much"),
        (on_all(node1=says(exposed=[READABLE], and_more={"minji": 7})), 6, "node1: and 7 more of minji"),
        (on_all(node1=says(unknown={"gpu": "hangs"}, found=[SUDO])), 6, "minji in group sudo"),
        (on_all(node1=of_power(unknown={"sudo": "timed out"})), 3, "Not checked: node1: sudo: timed out"),
    ],
)
@pytest.mark.holds("a host that is silent is not clean")
@pytest.mark.holds("what could not be looked at is not clean")
def test_what_it_finds(ansible: Ansible, cli: Cli, answer: RunResult, code: int, line: str) -> None:
    ansible.answer = answer
    left, out, _ = cli("audit")
    assert left == code
    assert line in out
    document = json.loads(cli("audit", "--json")[1])
    assert document["status"] == {0: "ok", 6: "differs"}.get(code, "failed")


def test_a_gpu_that_moved(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = on_all(node1=says(("GPU-1",)), node2=says(("GPU-2",)))
    code, out, _ = cli("audit", "--record", "--yes")
    assert code == 0
    assert "1 GPU" in out
    assert "hardware.json says all of that already" in cli("audit", "--record", "--yes")[1]
    ansible.answer = on_all(node1=says(("GPU-2",)), node2=says(("GPU-1",)))
    code, out, _ = cli("audit")
    assert code == 6
    assert "  node1: GPU GPU-2 (H100) was in node2, is in node1" in out
    assert ansible.site is not None
    before = load(ansible.site)
    assert cli("audit", "--record", "--check")[0] == 6
    assert cli("audit", "--record")[0] == 5, "without a terminal and without --yes nothing is written"
    assert load(ansible.site) == before
    assert cli("audit", "--record", "--yes")[0] == 6, "it says once more what moved"
    assert cli("audit")[0] == 0
    (ansible.site / FILE).write_text("{")
    assert "put it back" in cli("audit")[2]


def test_a_record_of_nothing_is_not_said_to_be_there(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = on_all(storage1=GONE, node1=GONE, node2=GONE)
    code, out, _ = cli("audit", "--record", "--yes")
    assert code == 4
    assert "No host answered: hardware.json is not written." in out
    assert "says all of that already" not in out
    assert ansible.site is not None
    assert not (ansible.site / FILE).exists()


@pytest.mark.holds("a check records no hardware")
def test_a_check_writes_nothing(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = on_all(node1=says(("GPU-1",)))
    assert cli("audit", "--record", "--check")[0] == 0
    assert ansible.site is not None
    assert not (ansible.site / FILE).exists()


def test_whose_box_it_is_and_how_sshd_should_be(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    folder = ansible.site / "inventory/host_vars"
    folder.mkdir(exist_ok=True)
    (folder / "node1.yml").write_text('place: "rack 2"\nowner: "[red]김 교수"\npurpose: training\n')
    path = ansible.site / "gpuadmin.yml"
    path.write_text(path.read_text() + "audit: {ssh: {passwords: false, root: keys}}\n")
    sshd = {"passwordauthentication": ["yes"], "permitrootlogin": ["no"]}
    good = {"passwordauthentication": ["no"], "permitrootlogin": ["prohibit-password"]}
    ansible.answer = on_all(storage1=says(sshd=good), node1=says(sshd=sshd), node2=says(sshd=good))
    code, out, _ = cli("audit")
    assert code == 6
    assert "[red]김 교수" in out
    assert "  node1: sshd passwordauthentication yes: the site wants no passwords" in out
    document = json.loads(cli("audit", "node1", "--json")[1])["result"]
    assert document["hosts"]["node1"]["place"] == "rack 2"
    assert cli("audit", "nosuch")[0] == 2


@pytest.mark.holds("who is no longer an admin is not meant to be root")
def test_who_is_declared_until_when(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    path = ansible.site / "gpuadmin.yml"
    days = {"jiwon": ("901", "2999-01-01"), "old": ("902", "2020-01-01"), "ever": ("903", "null")}
    admins = [
        f"  - {{name: {name}, uid: {uid}, keys: ['{KEY}'], until: {until}}}\n" for name, (uid, until) in days.items()
    ]
    nobody = f"  - {{name: guest, uid: 904, keys: ['{KEY}'], sudo: false}}\n"
    path.write_text(path.read_text() + "admins:\n" + "".join(admins) + nobody)
    ansible.answer = on_all()
    assert cli("audit")[0] == 0
    assert ansible.asked[0].variables["gpuadmin_declared"] == ["jiwon", "ever"]


@pytest.mark.parametrize(
    ("admins", "words"),
    [
        ("[{name: jiwon, uid: 901, keys: []}]", "keys"),
        ("[{name: jiwon, uid: 20000, keys: ['KEY']}]", "20000 is not a uid for an admin's account"),
        ("[{name: root, uid: 901, keys: ['KEY']}]", "root"),
        ("[{name: a, uid: 901, keys: ['KEY']}, {name: a, uid: 902, keys: ['KEY']}]", "a is there twice"),
        ("[{name: a, uid: 901, keys: ['KEY']}, {name: b, uid: 901, keys: ['KEY']}]", "uid 901 is there twice"),
    ],
)
def test_admins_that_a_site_cannot_have(ansible: Ansible, cli: Cli, admins: str, words: str) -> None:
    assert ansible.site is not None
    path = ansible.site / "gpuadmin.yml"
    path.write_text(path.read_text() + f"admins: {admins.replace('KEY', KEY)}\n")
    code, _, err = cli("audit")
    assert code == 2
    assert words in err


@pytest.mark.holds("check mode writes no labels")
def test_labels_show_what_is_recorded_as_text_and_ask_no_host(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    assert ansible.site is not None
    hosts = ansible.site / "inventory/hosts.yml"
    tree = yaml.safe_load(hosts.read_text())
    tree["all"]["children"]["gpu"]["hosts"]["node1"] = {"place": "rack <b>2"}
    hosts.write_text(yaml.safe_dump(tree))
    save(ansible.site, {"node1": {"chassis": {"ABC<1>\x1b": "Box"}}})
    page = tmp_path / "labels.html"
    assert "would write" in cli("audit", "--labels", str(page), "--check")[2]
    assert not page.exists()
    code, out, err = cli("audit", "--labels", str(page), "node1", "node2")
    assert (code, out.strip(), ansible.asked) == (0, str(page), []), err
    assert "no serial number of node2: gpuadmin audit --record" in err
    text = page.read_text()
    assert "rack &lt;b&gt;2" in text
    assert "S/N ABC&lt;1&gt;\\x1b" in text
    assert "storage1" not in text
    assert cli("audit", "--labels", str(page), "--limit", "storage1")[0] == 0  # its own page is written again
    assert "node1" not in page.read_text()
    assert cli("audit", "node1", "node2", "--labels", str(page), "--limit", "node2")[0] == 0
    assert ("node1" in page.read_text(), "node2" in page.read_text()) == (False, True)
    assert "<svg" not in page.read_text(), "there is no dashboard that a code would lead to"
    tree["all"]["children"]["monitor"] = {"hosts": {"mon1": {"ansible_host": "10.0.0.8"}}}
    hosts.write_text(yaml.safe_dump(tree))
    code, out, err = cli("audit", "--labels", str(page), "--json")
    assert code == 0, err
    assert json.loads(out)["result"]["page"].startswith("https://10.0.0.8:")
    assert "<svg" in page.read_text()
    page.write_text("mine")
    assert cli("audit", "--labels", str(page))[0] == 2
    assert page.read_text() == "mine"
    assert cli("audit", "--labels", str(page), "--record")[0] == 2
