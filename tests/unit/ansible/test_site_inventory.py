"""The inventory plugin: a site is what Ansible reads, with gpuadmin or without it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.ansible.invocation import Invocation, extra_variables
from gpuadmin.ansible.runner import run
from gpuadmin.config.load import load_site
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.content import content_path
from tests.support.sites import make_local_site, make_site

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def asked(site: Path, *more: str, status: int = 0) -> Any:
    """What ansible-inventory says of each host."""
    sources = [content_path("inventory", "groups.yml"), site / "inventory", content_path("inventory", "site.yml")]
    words = [Path(sys.executable).with_name("ansible-inventory"), *(f"-i{one}" for one in sources), "--list", *more]
    top = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(top / "gpuadmin/collections"),
                   "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1"}  # fmt: skip
    done = subprocess.run(words, cwd=site, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (status == 0), done.stderr
    return done.stderr if status else json.loads(done.stdout)["_meta"]["hostvars"]


def text(value: Any) -> Any:
    return value["__ansible_unsafe"] if isinstance(value, dict) and "__ansible_unsafe" in value else value


def test_ansible_reads_a_site_by_itself(tmp_path: Path) -> None:
    found = asked(make_site(tmp_path / "site"))
    names = set.intersection(*(set(one) for one in found.values()))
    assert {"accounts_users", "backups_home_seconds", "homes_client_server", "gpuadmin_site"} <= names


def test_a_site_s_directory_as_inventory_has_no_groups_of_its_schemas(tmp_path: Path) -> None:
    """`-i SITE`: its schemas gave 60 warnings, and the groups `$defs` and `properties`."""
    site = tmp_path / "site"
    write_site(site, name="test", settings={}, hosts=[SiteHost("storage1", ("storage",)), SiteHost("node1", ("gpu",))])
    words = [Path(sys.executable).with_name("ansible-inventory"), "-i", site, "--graph"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "|--node1" in done.stdout
    assert "$defs" not in done.stdout + done.stderr
    assert "properties" not in done.stdout + done.stderr
    for file in ("gpuadmin.yml", "users.yml"):
        schema = re.search(r"\$schema=(\S+)", (site / file).read_text())
        assert schema is not None
        assert (site / schema[1]).is_file(), "editors find it"


@pytest.mark.holds("what the inventory says of a host wins", "what the inventory says for all hosts wins")
def test_what_a_site_says_of_its_hosts_wins(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site")
    nodes = [host.name for host in load_site(str(site)).inventory.group("gpu")]
    (site / "inventory/more.yml").write_text(
        yaml.safe_dump({"all": {"vars": {"backups_days": 1}}, "gpu": {"vars": {"accounts_docker_data": "group's"}}})
    )
    for where, what in (("host_vars", nodes[0]), ("group_vars", "all")):
        (site / "inventory" / where).mkdir(exist_ok=True)
        (site / "inventory" / where / f"{what}.yml").write_text(f"node_state_homes: {where}\nbackups_ordinary: 2\n")
    found = asked(site)
    first = found[nodes[0]]
    assert (first["node_state_homes"], first["backups_days"], first["backups_ordinary"]) == ("host_vars", 1, 2)
    assert {one["node_state_homes"] for name, one in found.items() if name != nodes[0]} == {"group_vars"}
    assert {found[name]["accounts_docker_data"] for name in nodes} == {"group's"}
    assert len({json.dumps(one["accounts_docker_data"]) for one in found.values()}) == 2, "others have what is computed"


@pytest.mark.holds("what is for all hosts is for those of a group that stands by itself, too")
def test_what_a_site_says_of_all_hosts_is_of_a_host_in_a_group_by_itself_as_well(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site")
    (site / "inventory/more.ini").write_text("[rack]\nodd ansible_host=10.9.9.9\n")
    (site / "inventory/group_vars").mkdir(exist_ok=True)
    (site / "inventory/group_vars/all.yml").write_text("backups_directory: /mine\n")
    assert {text(one["backups_directory"]) for one in asked(site).values()} == {"/mine"}


@pytest.mark.holds("what the inventory says above the site is of the kind that roles are given")
def test_what_a_site_says_of_its_hosts_is_of_the_kind_that_roles_are_given(tmp_path: Path) -> None:
    """The timer's settings, exports and units of a host have been made of it without a further check."""
    site = make_site(tmp_path / "site")
    nodes = [host.name for host in load_site(str(site)).inventory.group("gpu")]
    (site / "inventory/group_vars").mkdir(exist_ok=True)
    file = site / "inventory/group_vars/gpu.yml"
    for line, words in (
        ("backups_ordinary: soon", "backups_ordinary is 'soon', not a whole number"),
        ("backups_days: '2'", "backups_days is '2', not a whole number"),
        ("monitoring_port: true", "monitoring_port is 'True', not a whole number"),
        ("homes_server_clients: node1", "homes_server_clients is 'node1', not a list"),
        ("accounts_login: 'no'", "accounts_login is 'no', not true or false"),
        ("web_link_way: [1]", "web_link_way is '[1]', not a mapping"),
    ):
        file.write_text(f"{line}\n")
        assert f"inventory: {nodes[0]}: {words}" in " ".join(asked(site, status=1).split())
    file.write_text("backups_ordinary: 3\nbackups_days: '{{ 1 + 1 }}'\nbackups_home_entries:\naccounts_users: []\n")
    first = asked(site)[nodes[0]]
    assert (first["backups_ordinary"], first["backups_home_entries"], first["accounts_users"]) == (3, None, [])


def test_a_verbs_request_is_in_it_and_nothing_of_it_is_a_template(tmp_path: Path) -> None:
    site = load_site(str(make_site(tmp_path / "site")))
    request = {"gpuadmin_site": site.settings.model_dump(mode="json"), "gpuadmin_reason": "{{ 1 + 1 }}",
               "gpuadmin_users": [{"name": "{{ 1 + 1 }}"}]}  # fmt: skip
    (tmp_path / "given.json").write_text(json.dumps(extra_variables(request)))
    for one in asked(site.directory, f"-e@{tmp_path}/given.json").values():
        assert one["power_reason"] == {"__ansible_unsafe": "{{ 1 + 1 }}"}
        assert json.loads(text(one["accounts_users"])) == [{"name": "{{ 1 + 1 }}"}]


@pytest.mark.holds("a run needs its whole inventory")
def test_a_run_without_the_variables_does_not_go_on(tmp_path: Path) -> None:
    """Ansible only warns of a source that it cannot read: roles would see a cluster without settings."""
    site = load_site(str(make_local_site(tmp_path / "site")))
    (tmp_path / "play.yml").write_text(
        "- hosts: all\n  gather_facts: false\n  tasks: [{ansible.builtin.debug: {msg: x}}]\n"
    )
    call = Invocation(
        playbook=tmp_path / "play.yml", inventory=site.inventory.sources, known_hosts=site.known_hosts, hosts=3,
        variables={"gpuadmin_site": {"name": "x", "backups": {"days": "soon"}}},
    )  # fmt: skip
    found = run(call)
    assert (found.hosts, found.code) == ({}, 1)
    assert "site.yml" in str(found.error)


def test_a_run_that_the_inventory_ends_says_which_variable_it_was(tmp_path: Path) -> None:
    """Versions before took a number in quotes, so an upgrade may find one."""
    site = load_site(str(make_local_site(tmp_path / "site")))
    name = site.inventory.hosts[0].name
    (site.directory / "inventory/host_vars").mkdir(exist_ok=True)
    (site.directory / f"inventory/host_vars/{name}.yml").write_text("backups_ordinary: '5'\n")
    (tmp_path / "play.yml").write_text("- hosts: all\n  gather_facts: false\n  tasks: []\n")
    call = Invocation(
        playbook=tmp_path / "play.yml", inventory=site.inventory.sources, known_hosts=site.known_hosts, hosts=3,
        variables={"gpuadmin_site": site.settings.model_dump(mode="json")},
    )  # fmt: skip
    assert run(call).error == f"inventory: {name}: backups_ordinary is '5', not a whole number"


def test_what_is_wrong_with_a_site_ends_the_run(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site")
    (site / "gpuadmin.yml").write_text("name: x\nbackups: {days: soon}\n")
    assert "backups.days" in asked(site, status=1)


def test_templates_of_the_inventory_are_rendered(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site")
    nodes = [host.name for host in load_site(str(site)).inventory.group("gpu")]
    (site / "inventory/host_vars").mkdir(exist_ok=True)
    (site / "inventory/host_vars" / f"{nodes[0]}.yml").write_text("octet: 77\ngpuadmin_address: 10.0.0.{{ octet }}\n")
    assert "10.0.0.77" in map(text, next(iter(asked(site).values()))["homes_server_clients"])
