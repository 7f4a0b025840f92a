"""The queue's variables: groups, nodes that take jobs, and the one controller."""

import gzip
import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import accounting
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import parse_settings
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.policy import read_policy
from jinja2.nativetypes import NativeEnvironment
from pydantic import ValidationError

from gpuadmin.actions.shared.metrics import slurm_variables
from gpuadmin.common.records.mail import QueueMail
from gpuadmin.common.records.queue import Group
from gpuadmin.config.check import findings
from gpuadmin.config.inventory import Host
from gpuadmin.config.load import load_site
from gpuadmin.config.queue import takes_jobs
from gpuadmin.config.schema import Settings
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.hosts import variables
from tests.support import role_variables

ROOT = Path(__file__).resolve().parents[3]
HOSTS = (
    Host("gpu1", ("gpu",), {"gpuadmin_address": "10.0.0.1", "gpus": 8, "gpu_model": "H100"}),
    Host("gpu2", ("gpu",), {"slurm_node": False}),
    Host("gpu3", ("gpu",), {}),
    Host("nas1", ("storage", "slurm"), {"gpuadmin_address": "10.0.0.9"}),
)
LAB = {"name": "lab", "share": 30, "hours": 72}


def of(number: int, section: Any, hosts: tuple[Host, ...] = HOSTS) -> dict[str, Any]:
    settings = Settings.model_validate({"name": "AI Lab (2)", "slurm": section})
    return variables(Cluster(settings, hosts, {"gpuadmin_slurm_key": "k"}), hosts[number])


@pytest.mark.parametrize("below", [False, True])
def test_the_page_s_way_to_begin_with_one_node(site: Path, below: bool) -> None:
    """By the node's own variables, or by those of a group below gpu."""
    page = (ROOT / "docs/slurm.md").read_text(encoding="utf-8")
    (first,) = re.findall(r"(?m)^```\n(gpu: [^`]*)^```", page)
    keeper, settings = re.findall(r"(?m)^   ```\n([^`]*)^   ```", page)[:2]
    inventory = {**yaml.safe_load(first), **yaml.safe_load(keeper), "storage": {"hosts": {"nas1": {}}}}
    if below:
        gpu = inventory["gpu"]
        gpu["children"] = {"queued": {"vars": gpu["hosts"].pop("gpu1"), "hosts": {"gpu1": {}}}}
    (site / "inventory/hosts.yml").write_text(yaml.safe_dump(inventory))
    (site / "gpuadmin.yml").write_text(yaml.safe_dump({"name": "lab", "slurm": yaml.safe_load(settings)["slurm"]}))
    loaded = load_site(str(site))
    hosts = loaded.inventory.hosts
    assert [host.name for host in hosts if takes_jobs(loaded.settings, hosts, host)] == ["gpu1"]
    found = [one for one in findings(loaded) if one.level == "error" or "gpus.access" in one.where]
    assert found == [], "nor are its GPUs open beside the queue"


@pytest.mark.parametrize("broken", ["", "before.sql.gz", "slurm_acct_db.sql.gz", "mariadb-dump", "sync", "setpriv"])
def test_the_page_s_way_to_bring_the_accounting_back_drops_nothing_that_is_not_kept(
    tmp_path: Path, broken: str
) -> None:
    """Pasted as a whole, where a program fails, the dump is torn, or an earlier attempt kept the database."""
    page = (ROOT / "docs/slurm.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"(?m)^```\n([^`]*^cd /srv/storage/queue$[^`]*)^```", page)
    place, programs = tmp_path / "queue", tmp_path / "programs"
    place.mkdir()
    programs.mkdir()
    dump = gzip.compress(b"-- Dump completed\n")
    (place / accounting.FILE).write_bytes(dump[:-4] if broken == accounting.FILE else dump)
    if broken == "before.sql.gz":
        (place / broken).write_bytes(b"kept")
    for name in ("systemctl", "mariadb", "mariadb-dump", "sync", "setpriv"):
        ends = "exit 1" if name == broken else "exit 0"
        words = f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/done\n'
        (programs / name).write_text(words + ("cat >&2\n" if name == "setpriv" else "") + ends)
        (programs / name).chmod(0o755)
    subprocess.run(
        ["bash"], input=block.replace("/srv/storage/queue", str(place)), text=True, capture_output=True, check=False,
        cwd=tmp_path, env={"PATH": f"{programs}:/usr/bin:/bin"},
    )  # fmt: skip
    done = (tmp_path / "done").read_text()
    assert ("DROP DATABASE" in done) == (broken in ("", "setpriv"))
    assert ("restart slurmdbd" in done) == (not broken), "what slurmdbd writes would be lost with a half database"
    if broken == "before.sql.gz":
        assert (place / broken).read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("docker", "more"), [({"data": "/scratch/docker"}, ["/scratch/docker"]), ({"enabled": False}, [])]
)
def test_the_check_of_a_node_looks_at_the_disks_that_jobs_need(docker: dict[str, Any], more: list[str]) -> None:
    text = role_variables.rendered("slurm_node", "health.j2", role_variables.given("slurm_node"))
    assert text.endswith("/cli.py slurm-health\n")
    health = role_variables.given("gpu_stack", site={"docker": docker})["gpu_stack_health"]
    # without a storage host they are on no file server
    assert (health["disks"], health["homes"]) == (["/", "/var", *more], "")
    written = yaml.safe_load((ROOT / "roles/slurm_node/vars/main.yml").read_text())["_slurm_node_health"]
    conf = (ROOT / "roles/slurm_controller/templates/slurm.conf.j2").read_text()
    assert f"\nHealthCheckProgram={written}\n" in conf


def test_the_controller_has_groups_and_nodes() -> None:
    both = {"gpus": 4, "queued": 20, "memory": 400}
    found = of(3, {"gpus": 4, "memory": "400G", "groups": [{**LAB, "cpus": 64, "nodes": 2}]})
    assert found["slurm_controller_enabled"] is True
    assert found["slurm_controller_cluster"] == "ai-lab-2"
    assert found["slurm_controller_groups"] == [
        {**both, "name": "people", "share": 10, "hours": 24, "cpus": None, "nodes": None},
        {**both, "name": "lab", "share": 30, "hours": 72, "cpus": 64, "nodes": 2},
    ]
    assert found["slurm_controller_hours"] == 72, "of all groups"
    assert found["slurm_controller_nodes"] == [
        {"name": "gpu1", "address": "10.0.0.1", "gpus": 8, "model": "H100"},
        {"name": "gpu3", "address": "gpu3", "gpus": None, "model": None},
    ]  # fmt: skip


def test_the_accounting_is_dumped_where_backups_look_for_it() -> None:
    found = of(3, {})
    assert found["slurm_controller_dump"] == f"{found['backups_root']}/{accounting.NAME}"
    assert found["backups_accounting"] is True
    elsewhere = Host("q1", ("slurm",), {})
    assert of(0, {}, (elsewhere,))["slurm_controller_dump"] == "", "no storage host"


@pytest.mark.parametrize(
    ("address", "buttons", "groups", "peer"),
    [
        ("10.0.0.7", True, ("storage", "slurm"), "10.0.0.7"), ("mon.lab", True, ("storage", "slurm"), ""),
        ("10.0.0.7", False, ("storage", "slurm"), None), ("10.0.0.7", True, ("slurm",), None),
    ],
)  # fmt: skip
def test_a_door_for_buttons(address: str, buttons: bool, groups: tuple[str, ...], peer: str | None) -> None:
    """On the queue's host where accounts are, for the monitor host, if the site wants it."""
    monitor = Host("mon", ("monitor",), {"gpuadmin_address": address})
    settings = {"name": "x", "slurm": {"hours": 9}, "metrics": {"dashboard": {"buttons": buttons}}}
    hosts = (*HOSTS[:3], Host("q1", groups, {}), monitor)
    door = variables(Cluster(Settings.model_validate(settings), hosts, {}), hosts[3])["slurm_controller_door"]
    assert door.get("peer") == peer
    if door:
        assert (door["port"], door["policy"]["hours"]) == (9446, {"people": 9})


def test_what_the_controller_is_told_again_where_gpus_are_divided() -> None:
    settings = Settings.model_validate({"name": "x", "slurm": {}})
    asked = {"gpuadmin_slurm_key": "k", "gpuadmin_divide_gpus": {"gpu1": [0]}}
    told = [variables(Cluster(settings, HOSTS, asked), HOSTS[number])["slurm_node_told"] for number in (0, 1)]
    assert told[0]["address"] == "10.0.0.9"
    assert [one["name"] for one in told[0]["nodes"]] == ["gpu1", "gpu3"]
    assert (told[0]["owned"], told[0]["notice"], told[0]["preempted"]) == ([], 5, "requeue")
    owns = {"nodes": ["gpu1"], "types": ["NVIDIA H100 PCIe"], "others": "never"}
    found = of(3, {"groups": [{"name": "phd", "owns": owns}]})["slurm_controller_owned"]
    assert found == [{"group": "phd", **owns, "types": ["h100-pcie"]}]
    assert told[1] == of(0, {})["slurm_node_told"] == {}, "it takes no jobs; another verb"


@pytest.mark.parametrize(
    ("constrain", "needs"), [(None, ["cpuset", "memory"]), (["memory"], ["memory"]), (["cores"], ["cpuset"]), ([], [])]
)
def test_what_slurm_limits_needs_controllers(constrain: list[str] | None, needs: list[str]) -> None:
    given = {} if constrain is None else {"constrain": constrain}
    assert of(0, given)["slurm_node_controllers"] == needs


def test_what_people_may_book() -> None:
    limits = {one["name"]: one for one in of(3, {})["slurm_controller_groups"]}
    policy = {"extend": "free", "hours": {"people": 24}, "limits": limits, "book": {}, "booked": 50}
    assert of(0, {})["slurm_node_policy"] == policy
    book = {"gpus": 2, "hours": 8, "days": 3, "lead": 6, "standing": 2}
    given = {"booked": 25, "book": book, "groups": [LAB, {"name": "phd", "book": {"gpus": 8}}]}
    assert of(0, given)["slurm_node_policy"]["book"] == {
        "people": book, "lab": book, "phd": {"gpus": 8, "hours": 8, "days": 7, "lead": 12, "standing": 1},
    }  # fmt: skip
    assert of(0, {"groups": [{**LAB, "book": {}}]})["slurm_node_policy"]["book"].keys() == {"lab"}


def test_hosts_know_each_field() -> None:
    """What is declared for people and their bookings is what the node code parses: one field more stops a service."""
    section = {"book": {}, "groups": [{**LAB, "memory": "2G"}]}
    policy = read_policy(json.dumps(of(0, section)["slurm_node_policy"]).encode())
    assert policy.book.keys() == {"people", "lab"}
    assert policy.limits["lab"].memory == 2
    assert [Group(**one).hours for one in of(3, section)["slurm_controller_groups"]] == [24, 72]


@pytest.mark.parametrize("role", ["slurm_node", "slurm_controller"])
def test_a_slurm_that_is_too_old_is_refused(role: str) -> None:
    """Than what the site says, of which the sentence has the way out."""
    entries = yaml.safe_load((ROOT / f"roles/{role}/meta/preflight.yml").read_text())["obstacles"]
    (entry,) = [one for one in entries if "slurm.oldest" in one["say"]]
    fine = NativeEnvironment().compile_expression(entry["that"])
    daemon = {"slurm_node": "slurmd", "slurm_controller": "slurmctld"}[role]
    for release, oldest, expected in (
        ("22.05", "23.11", False), ("22.05", "22.05", True), ("21.08", "22.05", False), ("20.11", "21.08", False),
        ("24.11", "23.11", True), ("23.11", "23.11", True), ("24.11", "21.08", True),
    ):  # fmt: skip
        facts = {"queue": {"releases": {daemon: release}}}
        assert fine(ansible_facts={"gpuadmin": facts}, **{f"{role}_oldest": oldest}) is expected, (release, oldest)


@pytest.mark.parametrize(
    ("oldest", "auth", "cred", "tracks", "scripts"),
    [
        ("23.11", "auth/slurm", "auth/slurm", "proctrack/cgroup", "gpuadmin-prolog"),
        ("22.05", "auth/munge", "cred/munge", "proctrack/cgroup", "/var/lib/gpuadmin/slurm/gpuadmin-prolog"),
        ("21.08", "auth/munge", "cred/munge", "proctrack/linuxproc", "/var/lib/gpuadmin/slurm/gpuadmin-prolog"),
    ],
)
def test_slurm_is_told_what_its_oldest_release_knows(
    oldest: str, auth: str, cred: str, tracks: str, scripts: str
) -> None:
    keys = {"_slurm_controller_key": "/k", "_slurm_controller_dbd": "/d", "_slurm_node_key": "/k",
            "_slurm_node_environment": "/e"}  # fmt: skip
    controller, node = of(3, {"oldest": oldest}) | keys, of(0, {"oldest": oldest}) | keys
    lines = role_variables.rendered("slurm_controller", "slurm.conf.j2", controller).splitlines()
    assert {f"AuthType={auth}", f"CredType={cred}", f"ProctrackType={tracks}", f"Prolog={scripts}"} <= {*lines}
    assert ("PreemptParameters=send_user_signal" in lines) is (oldest == "23.11")
    assert ("UsePAM=1" in lines) is (oldest == "21.08")
    assert node["slurm_node_controllers"] == ([] if oldest == "21.08" else ["cpuset", "memory"])
    for name, values in (("slurmctld", controller), ("slurmdbd", controller), ("slurmd", node)):
        role = "slurm_node" if name == "slurmd" else "slurm_controller"
        unit = role_variables.rendered(role, f"{name}.service.j2", values)
        assert ("SLURM_SACK_KEY" in unit, "Wants=munge.service" in unit) == (oldest == "23.11", oldest != "23.11")
        assert ("User=slurm\n" in unit) is (name == "slurmdbd"), "whom the database knows"
    assert f"AuthType={auth}\n" in role_variables.rendered("slurm_controller", "slurmdbd.conf.j2", controller)


def test_who_reads_the_queues_key_and_whose_slice_a_job_is_in() -> None:
    """Whoever reads munge's key is anybody to Slurm; a job outside of its person's slice has every GPU."""
    munge = role_variables.rendered("slurm_node", "munge.service.j2", {}).splitlines()
    assert "ExecStartPre=+/usr/bin/install -o munge -g munge -m 0400 /var/lib/gpuadmin/slurm/slurm.key " \
           "/run/munge/slurm.key" in munge  # fmt: skip
    pam = (ROOT / "roles/slurm_node/files/pam").read_text().splitlines()
    assert "session required pam_systemd.so" in pam


@pytest.mark.parametrize(
    ("there", "fine"), [(["cpu", "cpuset", "memory"], True), (["cpu", "memory"], False), ([], False)]
)
def test_a_node_on_which_slurmd_would_not_start_is_refused(there: list[str], fine: bool) -> None:
    entries = yaml.safe_load((ROOT / "roles/slurm_node/meta/preflight.yml").read_text())["obstacles"]
    (entry,) = [one for one in entries if "lacks" in one["say"]]
    environment = NativeEnvironment()
    environment.filters["difference"] = lambda left, right: [one for one in left if one not in right]
    facts = {"gpuadmin": {"queue": {"controllers": there}}}
    found = environment.compile_expression(entry["that"])
    assert found(slurm_node_controllers=["cpuset", "memory"], ansible_facts=facts) is fine
    assert found(slurm_node_controllers=[], ansible_facts=facts) is True


def test_nodes_that_take_jobs_and_one_that_does_not() -> None:
    assert [of(number, {})["slurm_node_enabled"] for number in range(4)] == [True, False, True, False]
    assert of(0, {})["slurm_node_controller"] == "10.0.0.9"


@pytest.mark.parametrize(("section", "hosts"), [(None, HOSTS), ({}, HOSTS[:3])])
def test_without_a_section_or_a_host_there_is_no_queue(section: Any, hosts: tuple[Host, ...]) -> None:
    found = of(0, section, hosts)
    assert found["slurm_node_enabled"] is False
    settings = Settings.model_validate({"name": "x", "slurm": section})
    assert not takes_jobs(settings, hosts, hosts[0])
    if hosts is HOSTS:
        assert of(3, section)["slurm_controller_enabled"] is False


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"groups": [LAB, LAB]}, "'lab' is taken"),
        ({"groups": [{**LAB, "name": "people"}]}, "'people' is taken"),
        ({"groups": [{**LAB, "name": "normal"}]}, "'normal' is taken"),
        ({"constrain": ["devices"]}, "constrain"),
        ({"hours": 0}, "hours"),
        ({"cpus": 0}, "cpus"),
        ({"nodes": 0}, "nodes"),
        ({"memory": "0G"}, "memory"),
        ({"memory": "400"}, "memory"),
        ({"groups": [{**LAB, "memory": "1T"}]}, "memory"),
        ({"gpus": 2, "book": {"gpus": 3}}, "book: 3 GPUs are more than one person may have at once .2."),
        ({"hours": 4, "book": {}}, "book: 8 hours are more than a job may take .4."),
        ({"gpus": 4, "book": {"gpus": 3}, "groups": [{**LAB, "gpus": 2}]}, "lab: book: 3 GPUs are more than"),
        ({"book": {}, "groups": [{**LAB, "hours": 4}]}, "lab: book: 8 hours are more than"),
        ({"book": {"days": 1, "lead": 24}}, "lead .24 hours. leaves nothing of the 1 days"),
    ],
)
def test_sections_that_mean_nothing(section: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings.model_validate({"name": "x", "slurm": section})


def test_what_keeps_a_job_from_the_gpus_of_others() -> None:
    """Whatever a site says of cores and memory; and jobs of nobody whom the accounting does not know."""
    for constrain in ([], ["cores", "memory"]):
        given = role_variables.given("slurm_controller", "slurm", site={"slurm": {"constrain": constrain}})
        text = role_variables.rendered("slurm_controller", "cgroup.conf.j2", given)
        assert "ConstrainDevices=yes\n" in text
    lines = set(role_variables.rendered("slurm_controller", "slurm.conf.j2", given).splitlines())
    written = yaml.safe_load((ROOT / "roles/slurm_controller/tasks/on.yml").read_text())[0]["gpuadmin.node.files"]
    for name in ("prolog", "epilog"):
        assert f"{name.capitalize()}=gpuadmin-{name}" in lines
        (one,) = [one for one in written["files"] if one["path"] == f"/etc/slurm/gpuadmin-{name}"]
        assert (f"slurm-{name}" in one["content"], one["mode"]) == (True, "0755")
    assert lines >= {
        "PrologFlags=Alloc,Contain", "ProctrackType=proctrack/cgroup", "AuthType=auth/slurm", "CredType=auth/slurm",
        "AccountingStorageEnforce=associations,limits,qos,wckeys", "TrackWCKey=yes",
    }  # fmt: skip
    script = (ROOT / "roles/slurm_controller/templates/job.j2").read_text()
    assert "exec {{ gpuadmin_python }} -IB " in script, "no variable of a job's is Python's"


def test_a_job_counts_as_what_is_most_of_it() -> None:
    """As the sum, the processors and the memory that come with a GPU would count as two more."""
    given = role_variables.given("slurm_controller", "slurm", site={"slurm": {}})
    assert "\nPriorityFlags=MAX_TRES\n" in role_variables.rendered("slurm_controller", "slurm.conf.j2", given)


@pytest.mark.parametrize("role", ["slurm_controller", "slurm_node"])
def test_the_key_of_the_queue_is_root_s_alone(role: str) -> None:
    written = yaml.safe_load((ROOT / f"roles/{role}/tasks/on.yml").read_text())[0]["gpuadmin.node.files"]
    assert written["directories"] == [{"path": f"{{{{ _{role}_key | dirname }}}}", "mode": "0700"}]
    (key,) = [one for one in written["files"] if "_key " in one["path"]]
    assert (key["mode"], key["show_diff"]) == ("0600", False)


@pytest.mark.parametrize(
    ("role", "words", "queue", "enabled", "fine"),
    [
        ("slurm_node", "has not set up", {"here": False}, ["slurmd.service"], False),
        ("slurm_node", "has not set up", {"here": False}, [], True),
        ("slurm_node", "has not set up", {"here": True}, ["slurmd.service"], True),
        ("slurm_node", "is to join the queue", {"here": False, "granted": ["minji"]}, [], False),
        ("slurm_node", "is to join the queue", {"here": False, "granted": []}, [], True),
        ("slurm_node", "is to join the queue", {"here": True, "granted": ["minji"]}, [], True),
        ("slurm_node", "is to leave the queue", {"people": ["minji"]}, [], False),
        ("slurm_node", "is to leave the queue", {"people": []}, [], True),
        ("slurm_controller", "has not set up", {"here": False}, ["slurmctld.service"], False),
        ("slurm_controller", "has not set up", {"here": True}, ["slurmctld.service"], True),
        ("slurm_controller", "does not say whose jobs run", {"jobs": None}, [], False),
        ("slurm_controller", "does not say whose jobs run", {"jobs": []}, [], True),
        ("slurm_controller", "it has jobs of", {"jobs": ["minji"]}, [], False),
        ("slurm_controller", "it has jobs of", {"jobs": []}, [], True),
    ],
)
def test_a_slurm_of_somebody_else_s_and_jobs_that_run_are_in_the_way(
    role: str, words: str, queue: dict[str, Any], enabled: list[str], *, fine: bool
) -> None:
    entries = yaml.safe_load((ROOT / f"roles/{role}/meta/preflight.yml").read_text())["obstacles"]
    (entry,) = [one for one in entries if words in one["say"]]
    joins = words in ("has not set up", "is to join the queue")
    assert entry["when"].startswith(f"{role}_enabled" if joins else f"not {role}_enabled")
    found = NativeEnvironment().compile_expression(entry["that"])
    assert found(ansible_facts={"gpuadmin": {"queue": queue, "enabled_units": enabled}}) is fine


@pytest.mark.parametrize(
    ("more", "server", "kinds", "webhook"),
    [
        ({"mail": {"host": "smtp.example.org", "sender": "gpu@example.org"}}, True, 4, ""),
        ({"mail": {"host": "smtp.example.org", "sender": "gpu@example.org", "directory": "/tmp/mails"}}, False, 4, ""),
        ({"slurm": {"mail": []}, "mail": {"host": "smtp.example.org", "sender": "gpu@example.org"}}, False, 0, ""),
        ({"slurm": {"webhook": "https://chat.example.org/x"}}, False, 4, "https://chat.example.org/x"),
    ],
)
def test_how_people_are_told(more: dict[str, Any], server: bool, kinds: int, webhook: str) -> None:
    """Nothing leaves a site that puts its mails into files; the host reads what the role writes."""
    settings = Settings.model_validate({"name": "AI Lab (2)", "slurm": {}, **more})
    site = SimpleNamespace(settings=settings, inventory=SimpleNamespace(hosts=HOSTS))
    given = slurm_variables(site, b"0" * 32)  # type: ignore[arg-type]  # it asks for no more of a site
    told = variables(Cluster(settings, HOSTS, given), HOSTS[3])["slurm_controller_mail"]
    read = parse_settings(QueueMail, json.loads(json.dumps(told)), "mail.json")
    assert (read.server is not None, len(read.kinds), read.webhook) == (server, kinds, webhook)
    assert (read.head is not None) == server
    assert variables(Cluster(settings, HOSTS, given), HOSTS[3])["slurm_controller_addresses"] is None
    people = {"gpuadmin_addresses": {"minji": "m@example.org"}}
    found = variables(Cluster(settings, HOSTS, people), HOSTS[3])["slurm_controller_addresses"]
    assert json.loads(found) == {"minji": "m@example.org"}
