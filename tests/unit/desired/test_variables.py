"""What each host is meant to be: tables of site, inventory and request, and the variables that follow."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment
from pydantic import ValidationError

from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.gpus import find_power_cap
from gpuadmin.desired.hosts import variables
from gpuadmin.desired.nodes import find_askers, find_bmc

ROOT = Path(__file__).resolve().parents[3]
HOSTS = (
    Host(
        "gpu1",
        ("gpu", "golden"),
        {
            "ansible_host": "10.0.0.1", "gpus": 8, "gpus_worse": "keep", "gpus_mig": {0: ["7g.80gb"]},
            "gpus_power_cap": 400,
            "limits_memory": "64G",
            "limits_docker": "100G",
        },
    ),
    Host("gpu2", ("gpu",), {"gpuadmin_address": "192.168.0.2", "limits_tasks": 4096}),
    Host("nas1", ("storage",), {"gpuadmin_address": "192.168.0.9"}),
    Host("bak1", ("backup",), {"gpuadmin_address": "192.168.0.7"}),
)  # fmt: skip
PEOPLE = [{"name": "minji", "uid": 20001}, {"name": "jiho", "uid": 20002}]


def of(host: str, request: dict[str, Any] | None = None, **site: Any) -> dict[str, Any]:
    named = {f"gpuadmin_{name}": value for name, value in (request or {}).items()}
    cluster = Cluster(Settings.model_validate({"name": "lab", **site}), HOSTS, named)
    (one,) = [each for each in HOSTS if each.name == host]
    return variables(cluster, one)


def test_a_host_that_was_promoted_has_the_copies_as_its_backups() -> None:
    own = ({"backups_directory": "/srv/backups", "homes_read_only": True}, {"backups_directory": "/srv/storage/copies"})
    hosts = (Host("nas2", ("storage",), own[0]), Host("nas1", ("backup",), own[1]))
    cluster = Cluster(Settings.model_validate({"name": "lab"}), hosts)
    new, old = (variables(cluster, one) for one in hosts)
    assert (new["backups_directory"], new["homes_server_read_only"]) == ("/srv/backups", True)
    assert new["backups_copies"] == old["backups_directory"] == "/srv/storage/copies"
    assert {"name": "second copies", "path": "/srv/storage/copies"} in old["node_state_disks"]
    # one that does not answer yet is not asked to take copies
    asked = {"gpuadmin_former": {"absent": "nas1"}}
    remotes = [variables(Cluster(cluster.site, hosts, one), hosts[0])["backups_remote"] for one in ({}, asked)]
    assert (remotes[0]["host"], remotes[1]) == ("nas1", None)


@pytest.mark.parametrize(
    ("serves", "former", "fine"),
    [(False, {}, True), (True, {}, False), (True, {"server": "10.0.0.1"}, True), (False, {"server": "10.0.0.1"}, True)],
)
def test_an_old_inventory_takes_homes_from_no_host(serves: bool, former: dict[str, str], fine: bool) -> None:
    """Another admin's copy of the site, from before a `gpuadmin promote`: the old host would begin to serve again."""
    entries = yaml.safe_load((ROOT / "roles/backups/meta/preflight.yml").read_text())["obstacles"]
    (entry,) = [one for one in entries if "serves_promoted" in str(one["that"])]
    assert entry["when"] == "'storage' not in group_names"
    given = of("bak1", {"former": former})
    holds = NativeEnvironment().compile_expression(entry["that"])
    assert holds(ansible_facts={"gpuadmin": {"serves_promoted": serves}}, **given) is fine


#: Host, variable, what it is on a new site, where nobody asks for anything.
NEW: list[tuple[str, str, Any]] = [
    ("gpu1", "accounts_login", True),
    ("gpu1", "accounts_carried", None),
    ("nas1", "accounts_login", False),
    ("gpu1", "accounts_docker_data", "/local/.docker"),
    ("nas1", "accounts_docker_data", None),
    ("gpu1", "accounts_scratch", ["/local"]),
    ("nas1", "accounts_scratch", []),
    ("nas1", "node_state_packages", []),
    ("gpu1", "accounts_subid_size", 65536),
    ("nas1", "backups_directory", "/srv/storage/backups"),
    ("bak1", "backups_directory", "/srv/backups"),
    ("bak1", "backups_moves", False),
    ("nas1", "backups_home_seconds", 21600),
    ("gpu2", "homes_client_server", "192.168.0.9"),
    ("nas1", "homes_server_clients", ["10.0.0.1", "192.168.0.2"]),
    ("gpu2", "btrfs_root_store", "192.168.0.9:/srv/storage/images"),
    ("nas1", "image_store_writers", ["10.0.0.1"]),
    ("gpu1", "btrfs_root_gpus", 8),
    ("gpu2", "btrfs_root_gpus", None),
    ("gpu1", "btrfs_root_gpus_worse", "keep"),
    ("gpu2", "gpu_stack_driver", "elsewhere"),
    ("gpu2", "gpu_stack_access", "open"),
    ("gpu2", "gpu_stack_grant", None),
    ("gpu1", "gpu_stack_mig", {"0": ["7g.80gb"]}),
    ("gpu2", "gpu_stack_mig", None),
    ("gpu1", "gpu_stack_power_cap", 400),
    ("gpu2", "node_state_power_cap", None),
    ("gpu1", "limits_enabled", False),
    ("gpu1", "limits_memory", "64G"),
    ("gpu2", "limits_memory", "80%"),
    ("gpu2", "limits_tasks", "4096"),
    ("gpu1", "limits_admin", "gpuadmin"),
    ("gpu1", "limits_login", True),
    ("nas1", "limits_login", False),
    ("nas1", "limits_disk_reserve", "0"),
    ("gpu1", "limits_disk_paths", ["/local", "/tmp", "/var/tmp", "/dev/shm", "/local/.docker"]),
    ("nas1", "limits_disk_paths", ["/srv/storage/homes"]),
    ("bak1", "limits_disk_paths", []),
    ("gpu1", "limits_amounts", False),
    ("gpu1", "limits_home", "unlimited"),
    ("gpu1", "limits_homes", "/home"),
    ("gpu1", "limits_amounts_data", "/local/.docker"),
    ("gpu1", "limits_amounts_homes", None),
    ("nas1", "limits_amounts_data", None),
    ("nas1", "limits_amounts_homes", "/srv/storage/homes"),
    ("gpu1", "semester_scratch_directories", ["/local", "/tmp", "/var/tmp", "/dev/shm"]),
    ("nas1", "semester_scratch_directories", []),
    ("gpu1", "semester_home_root", None),
    ("nas1", "semester_home_root", "/srv/storage/homes"),
    ("bak1", "semester_backup_directory", "/srv/backups"),
    ("gpu1", "semester_backup_directory", None),
    ("gpu1", "node_state_homes", "/home"),
    ("nas1", "node_state_homes", "/srv/storage/homes"),
    ("gpu1", "node_state_aside", ["/home", "/local/.docker", "/local"]),
    ("bak1", "node_state_disks", [{"name": "second copies", "path": "/srv/backups"}]),
    ("bak1", "power_serves", True),
    ("gpu1", "power_serves", False),
    ("gpu1", "image_switch_keep", 3),
]


@pytest.mark.parametrize(("host", "name", "value"), NEW, ids=lambda one: str(one)[:40])
def test_on_a_new_site(host: str, name: str, value: Any) -> None:
    assert of(host)[name] == value


@pytest.mark.parametrize("host", ["nas1", "bak1", "gpu1"])
def test_the_way_to_the_second_copy(host: str) -> None:
    """`source` is the address that the key is good from: only where the host calls from another one than ssh's."""
    remote = of(host)["backups_remote"]
    assert (remote["host"], remote["address"], remote["port"]) == ("bak1", "192.168.0.7", 22)
    assert remote["source"] == {"nas1": "192.168.0.9", "bak1": "192.168.0.7", "gpu1": None}[host]


def test_people_are_one_text_for_all_hosts() -> None:
    """Five thousand of them for two hundred hosts would be copied otherwise (docs/decisions/0075)."""
    cluster = Cluster(Settings(name="x"), HOSTS, {"gpuadmin_users": PEOPLE})
    texts = [variables(cluster, host)["accounts_users"] for host in HOSTS]
    assert all(text is texts[0] for text in texts)
    assert json.loads(texts[0]) == PEOPLE


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("accounts_users", "users"), ("homes_server_users", "users"), ("image_build_name", "image"),
        ("btrfs_root_signers", "signers"), ("image_store_signers", "signers"),
    ],
)  # fmt: skip
def test_what_a_verb_has_to_say_is_not_there_without_it(name: str, asked: str) -> None:
    """Nobody named is not nobody there, and nodes that know no signer would take no image: what needs it fails."""
    assert name not in of("gpu1")
    assert name in of("gpu1", {asked: "[]"})


def test_by_which_names_the_hosts_of_a_site_are_known() -> None:
    addresses = ["10.0.0.1", "192.168.0.2", "192.168.0.7", "192.168.0.9"]
    assert set(addresses) | {"bak1", "gpu1", "gpu2", "nas1"} <= set(of("gpu1")["accounts_site"])


def test_where_a_host_is_asked_for_what_carries_uids() -> None:
    assert of("nas1", {"carried": True})["accounts_carried"] == {
        "directories": [
            "/srv/storage/homes",
            "/srv/storage/homes/.gpuadmin-wiping",
            "/srv/storage/homes/.gpuadmin-attic",
        ],
        "backups": "/srv/storage/backups",
    }
    assert of("gpu1", {"carried": True})["accounts_carried"] == {
        "directories": ["/local", "/tmp", "/var/tmp", "/dev/shm", "/local/.docker"],
        "backups": None,
    }


def test_who_is_forgotten_is_not_remembered() -> None:
    request = {"users": PEOPLE, "absent": [{"name": "old", "uid": 20003}], "forget": ["old"]}
    assert [one["name"] for one in json.loads(of("nas1", request)["homes_server_remember"])] == ["minji", "jiho"]


@pytest.mark.parametrize(
    ("host", "name"), [("nas1", "backups"), ("bak1", "backups"), ("nas1", "image_build"), ("gpu1", "image_switch")]
)
def test_hosts_know_what_this_very_run_has_begun(host: str, name: str) -> None:
    assert of(host, {"run_id": "5b1f"})[f"{name}_run_id"] == "5b1f"


#: A request, the host and variable that it concerns, and what becomes of it there; elsewhere it is as without it.
ASKED: list[tuple[dict[str, Any], str, str, Any]] = [
    ({"announcements": {"gpu1": ["x"]}}, "gpu1", "announcements_entries", ["x"]),
    ({"backup": {"name": "b", "only": {"nas1": ["a"]}}}, "nas1", "backups_only", ["a"]),
    ({"term": {"scratch": {"gpu1": ["/local/minji"]}}}, "gpu1", "semester_scratch", ["/local/minji"]),
    ({"term": {"names": ["minji"]}}, "nas1", "semester_names", ["minji"]),
    ({"idle": {"gpu2": {"stop": [3]}}}, "gpu2", "node_metrics_idle_stop", [3]),
    ({"metrics": {"hosts": {"gpu1": {"key": "k"}}}}, "gpu1", "metrics_tls_key", "k"),
    ({"metrics": json.dumps({"hosts": {"gpu1": {"key": "k"}}})}, "gpu1", "metrics_tls_key", "k"),
]


@pytest.mark.parametrize(("request_", "host", "name", "value"), ASKED)
def test_what_is_asked_of_one_host_reaches_that_host_alone(
    request_: dict[str, Any], host: str, name: str, value: Any
) -> None:
    assert of(host, request_)[name] == value
    for other in HOSTS:
        if other.name != host:
            assert of(other.name, request_)[name] == of(other.name)[name]


def test_a_site_without_a_storage_host() -> None:
    cluster = Cluster(Settings(name="x"), (Host("gpu1", ("gpu",)),))
    found = variables(cluster, cluster.hosts[0])
    assert (found["homes_client_server"], found["btrfs_root_store"], found["backups_remote"]) == (None, "", None)


def test_without_docker_nobody_has_data_of_it() -> None:
    found = of("gpu1", docker={"enabled": False})
    assert (found["accounts_docker_data"], found["semester_docker_data"]) == (None, None)
    assert all(one["name"] != "Docker" for one in found["node_state_disks"])


def test_amounts_of_the_site_of_a_host_and_of_people() -> None:
    people = [{"names": ["minji"], "home": "1T"}, {"names": ["jiho"], "memory": "8G"}]
    found = of("gpu2", limits={"docker": "200G", "people": people})
    assert (found["limits_amounts"], found["limits_docker"], found["limits_home"]) == (True, "200G", "unlimited")
    assert found["limits_amounts_people"] == [{"names": ["minji"], "home": "1T", "docker": None, "scratch": None}]
    assert all(not {"home", "docker"} & set(one) for one in found["limits_people"]), "systemd knows no disks"
    assert of("gpu1", limits={"docker": "200G"})["limits_docker"] == "100G"
    assert (found["limits_scratch"], found["limits_amounts_scratch"]) == ("unlimited", ["/local"])
    assert of("nas1", limits={"scratch": "1T"})["limits_amounts_scratch"] == []
    # a host of the inventory alone has one; and the site has none
    assert of("gpu2", limits={})["limits_amounts"]
    assert of("gpu2")["limits_amounts"] is False


def test_limits_of_a_group_are_those_of_its_people() -> None:
    """A group that nobody is in limits nobody."""
    users = [{**PEOPLE[0], "group": "lab"}, {**PEOPLE[1], "group": "other"}]
    own = [
        {"names": ["sora"], "groups": ["lab"], "memory": "8G"},
        {"groups": ["lab"], "home": "1T"},
        {"groups": ["empty"], "memory": "1G"},
    ]
    found = of("gpu2", {"users": users}, limits={"people": own})
    assert [(one["names"], one["memory"]) for one in found["limits_people"]] == [
        (["sora", "minji"], "8G"),
        (["minji"], None),
    ]
    assert all("groups" not in one for one in found["limits_people"])
    assert found["limits_amounts_people"] == [{"names": ["minji"], "home": "1T", "docker": None, "scratch": None}]
    with pytest.raises(ValidationError, match="names or groups"):
        Settings.model_validate({"name": "lab", "limits": {"people": [{"memory": "8G"}]}})


def test_limits_of_the_site_and_of_a_host() -> None:
    site = {"limits": {"tasks": 4096, "people": [{"names": ["minji"], "memory": "8G"}]}}
    found = of("gpu1", **site)
    assert of("nas1", **site)["limits_disk_reserve"] == "5%"
    assert (found["limits_enabled"], found["limits_tasks"], found["limits_memory"]) == (True, "4096", "64G")
    assert [(one["names"], one["memory"], one["tasks"]) for one in found["limits_people"]] == [(["minji"], "8G", None)]


@pytest.mark.parametrize(
    ("cap", "model", "watts"),
    [
        (None, "H100", None),
        (450, "", 450),
        ({"H100": 500, "h100 nvl": 350, "A100": 300}, "NVIDIA H100 NVL", 350),
        ({"H100": 500}, "A100", None),
        ({"H100": 500}, None, None),
    ],
)
def test_how_much_power_gpus_may_draw(cap: Any, model: str | None, watts: int | None) -> None:
    site = Settings.model_validate({"name": "lab", "gpus": {"power_cap": cap}})
    assert find_power_cap(Cluster(site, (), {}), Host("gpu9", ("gpu",), {"gpu_model": model})) == watts


@pytest.mark.holds("a BMC's password goes to no node where the site does not say so")
def test_who_asks_bmcs() -> None:
    bmc = {"bmc": {"kind": "ipmi", "address": "10.9.0.1"}}
    hosts = (Host("gpu1", ("gpu", "monitor"), bmc), Host("bak1", ("backup",)), Host("nas1", ("storage",)))
    site = Settings.model_validate({"name": "lab", "bmc": {"user": "root"}})
    assert find_askers(site, hosts) == ["nas1", "bak1"]
    packages = [variables(Cluster(site, hosts, {}), one)["node_state_packages"][-1:] for one in hosts]
    assert packages == [["wget"], ["ipmitool"], ["ipmitool"]]
    assert find_askers(Settings.model_validate({"name": "lab", "bmc": {"via": "gpu1"}}), hosts) == ["gpu1"]
    found = find_bmc(site, hosts[0])
    assert found is not None
    assert (found.user, found.kind, found.address) == ("root", "ipmi", "10.9.0.1")


def test_notebooks_are_on_nodes_of_the_queue() -> None:
    """Where there is a monitor host with a dashboard, and by addresses that nginx need not look up."""
    more = (
        Host("gpu3", ("gpu",), {"gpuadmin_address": "gpu3.example.org"}),
        Host("gpu4", ("gpu",), {"gpuadmin_address": "192.168.0.4", "slurm_node": False}),
        Host("mon1", ("monitor", "slurm"), {"gpuadmin_address": "192.168.0.8"}),
    )
    site = Settings.model_validate({"name": "lab", "slurm": {}, "notebooks": {}, "metrics": {"idle_hours": 3}})
    found = {one.name: variables(Cluster(site, (*HOSTS, *more), {}), one) for one in (*HOSTS, *more)}
    enabled = [name for name, one in found.items() if one["notebooks_enabled"]]
    assert enabled == ["gpu1", "gpu2", "gpu3"]
    assert found["gpu1"]["notebooks_settings"] == {"node": "gpu1", "port": 9444, "idle": 10800}
    assert found["gpu1"]["notebooks_from"] == "192.168.0.8"
    assert found["mon1"]["dashboard_notebooks"] == [
        {"name": "gpu1", "address": "10.0.0.1"}, {"name": "gpu2", "address": "192.168.0.2"},
    ]  # fmt: skip
    assert found["gpu1"]["notebooks_jupyter"] == {}
    alone = variables(Cluster(site, HOSTS, {}), HOSTS[0])
    assert (alone["notebooks_enabled"], alone["notebooks_from"]) == (False, "")


@pytest.mark.holds("code-server has no port, since it asks for no password")
@pytest.mark.holds("code-server leads to no port of the node, on which anybody may listen")
def test_notebooks_with_code_server() -> None:
    found = of("gpu1", slurm={}, notebooks={"code_server": "/usr/bin/code-server"})
    assert found["notebooks_packages"][-1].startswith("jupyter-server-proxy==")
    (server,) = found["notebooks_jupyter"]["ServerProxy"]["servers"].values()
    assert server["unix_socket"] is True
    assert server["command"][:5] == ["/usr/bin/code-server", "--socket", "{unix_socket}", "--auth", "none"]
    assert "--disable-proxy" in server["command"]
