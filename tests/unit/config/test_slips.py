"""Misspelt variables of an inventory are named, and nobody else's."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuadmin.config.host_variables import NAMES
from gpuadmin.config.slips import variable_slips
from tests.support.role_variables import given
from tests.support.verbs import succeed

FILES = {
    "hosts.yml": "all:\n  children:\n    gpu:\n      vars: {gpus_acess: open}\n      hosts:\n"
    "        node1:\n          gpu_access: open\n        node2: {ansible_prot: 22}\n"
    "    storage: {hosts: {storage1: {}}}\n",
    "host_vars/node1.yml": "# ours\nlimits_cpu: 4\n",
    "host_vars/node2/more.yml": "slurmnode: false\n",
    "group_vars/gpu": "power_rebot_timeout: 900\n",
    "group_vars/all.yml": "gpuadmin_adress: 10.0.0.1\n",
    "queue.yml": "plugin: constructed\ngroups: {gpu: {vars: {gpus_acess: open}}}\n",
}


def put(site: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (site / "inventory" / name).parent.mkdir(exist_ok=True, parents=True)
        (site / "inventory" / name).write_text(text)
    return site / "inventory"


def test_each_slip_is_named_with_its_place_and_what_was_meant(tmp_path: Path) -> None:
    found = {
        f"{one.where} {one.message.removeprefix('gpuadmin reads no variable ')}": one.hint
        for one in variable_slips(put(tmp_path, FILES), ())
    }
    limits = found.pop("inventory/host_vars/node1.yml:2: host node1 limits_cpu")
    assert limits.startswith("it reads limits_disk_reserve, ")
    assert found == {
        "inventory/hosts.yml:4: group gpu gpus_acess": "did you mean 'gpus_access'?",
        "inventory/hosts.yml:7: host node1 gpu_access": "did you mean 'gpus_access'?",
        "inventory/hosts.yml:8: host node2 ansible_prot": "did you mean 'ansible_port'?",
        "inventory/host_vars/node2/more.yml:1: host node2 slurmnode": "did you mean 'slurm_node'?",
        "inventory/group_vars/gpu:1: group gpu power_rebot_timeout": "did you mean 'power_reboot_timeout'?",
        "inventory/group_vars/all.yml:1: group all gpuadmin_adress": "did you mean 'gpuadmin_address'?",
    }


@pytest.mark.parametrize(
    "name",
    [
        *NAMES, "gpuadmin_address", "gpuadmin_python", "power_reboot_timeout", "ansible_host", "ansible_port",
        "ansible_ssh_host", "ansible_gpus_access",
        "gpu_count", "gpu_type", "owners", "places", "backup_drive", "slurm_partitions", "rack", "ntp_servers",
        "limits_people",  # roles are given it: a site may set it for a host
    ],
)  # fmt: skip
def test_what_is_read_or_belongs_to_others_is_not_named(tmp_path: Path, name: str) -> None:
    folder = put(tmp_path, {"host_vars/node1.yml": f"{name}: 1\n"})
    assert variable_slips(folder, given("limits")) == []


def test_what_cannot_be_read_here_is_left_out(tmp_path: Path) -> None:
    vault = "$ANSIBLE_VAULT;1.1;AES256\n6162\n"
    assert (
        variable_slips(put(tmp_path, {"group_vars/gpu.yml": vault, "host_vars/node1.yml": "- gpu_access\n"}), ()) == []
    )


def test_check_says_it_and_refuses_nothing(site: Path, cli: Callable[..., tuple[int, str, str]]) -> None:
    put(site, {"host_vars/node1.yml": "gpu_access: open\nlimits_people: []\n"})
    out = succeed(cli, "check", "--site", str(site))
    where = "warning: inventory/host_vars/node1.yml:1: host node1: "
    assert f"{where}gpuadmin reads no variable gpu_access\n    did you mean 'gpus_access'?" in out
    assert "limits_people" not in out


def test_what_a_mac_leaves_in_directories_is_left_out(site: Path, cli: Callable[..., tuple[int, str, str]]) -> None:
    """`.DS_Store: is not UTF-8` ended every verb. Ansible reads nothing that is hidden."""
    for name in ("._hosts.yml", "host_vars/.DS_Store", "group_vars/gpu/.DS_Store"):
        path = put(site, {name: ""}) / name
        path.write_bytes(b"\0\0\0\1Bud1\xff\xfe")
    assert "DS_Store" not in succeed(cli, "check", "--site", str(site))


@pytest.mark.parametrize("name", ["group_vars", "host_vars"])
def test_variables_beside_the_inventory_are_named(name: str, tmp_path: Path) -> None:
    folder = put(tmp_path, {"hosts.yml": "all: {}\n", "host_vars/node1.yml": "gpus: 8\n"})
    (tmp_path / name).mkdir()
    (one,) = variable_slips(folder, ())
    assert (one.where, one.hint) == (f"{name}/", f"move its files into inventory/{name}/")


def test_a_link_to_the_inventorys_own_and_a_file_are_let_be(tmp_path: Path) -> None:
    folder = put(tmp_path, {"hosts.yml": "all: {}\n", "host_vars/node1.yml": "gpus: 8\n"})
    (tmp_path / "host_vars").symlink_to("inventory/host_vars")
    (tmp_path / "group_vars").write_text("notes\n")
    assert variable_slips(folder, ()) == []
