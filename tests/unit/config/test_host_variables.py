"""What the inventory says of GPUs and limits is checked where a site is read."""

from pathlib import Path

import pytest

from gpuadmin.config.host_variables import problems
from gpuadmin.config.inventory import load_inventory
from gpuadmin.errors import ConfigError


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"gpus_driver": "distribution", "gpus_version": "570.172.08", "gpus_hold": True},
        {"gpus": 0},
        {"place": "room 301, rack 2, unit 14", "owner": "Prof. Kim's lab (김 교수)", "purpose": "training"},
        {"gpus": 64, "gpu_model": "NVIDIA H100 80GB HBM3"},
        {"gpus_worse": "refuse", "gpus_power_cap": 300},
        {"bmc": {"address": "10.9.0.1:8443", "kind": "redfish", "user": "root"}},
        {"bmc": {"kind": "wol", "mac": "02:00:5e:00:53:01"}},
        {"gpus": None},
        {"gpus_mig": {0: ["3g.20gb", "4g.20gb"], 1: [], 63: ["1g.10gb+me", "1g.24gb-me", "2g.48gb+me.all"]}},
        {"gpus_mig": {"0": ["7g.80gb"]}},
        {"gpus_mig": {}},
        {"limits_memory": "64G", "limits_tasks": 4096, "limits_processor_weight": 200},
    ],
)
def test_good(variables: dict[str, object]) -> None:
    assert problems(variables) == []


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"gpus": "8"}, "gpus '8' is not a number from 0 to 64"),
        ({"gpus": True}, "gpus True is not a number"),
        ({"gpus": -1}, "gpus -1 is not a number"),
        ({"gpus": 65}, "gpus 65 is not a number"),
        ({"gpus": "{{ lookup('pipe', 'id') }}"}, "is not a number"),
        ({"gpu_model": 5090}, "gpu_model 5090 is not text"),
        ({"gpu_model": " "}, "gpu_model ' ' is not text"),
        ({"gpu_model": "{{ x }}"}, "gpu_model holds the template marker"),
        ({"gpu_model": "x" * 200}, "gpu_model is 200 characters long"),
        ({"place": 301}, "place 301 is not text; put it into quotes"),
        ({"owner": "{{ x }}"}, "owner holds the template marker"),
        ({"purpose": "x" * 97}, "purpose is 97 characters long"),
        ({"bmc": "10.9.0.1"}, "bmc '10.9.0.1': Input should be a valid dictionary"),
        ({"bmc": {"address": "-x"}}, "bmc.address '-x': String should match pattern"),
        ({"bmc": {"addr": "10.9.0.1"}}, "bmc.addr '10.9.0.1': Extra inputs are not permitted"),
        ({"gpus_power_cap": 5}, "gpus_power_cap must be watts from 30 to 3000"),
        ({"gpus_worse": "ignore"}, "gpus_worse 'ignore' is not one of report, refuse"),
        ({"gpus_driver": "nvidia"}, "gpus_driver 'nvidia' is not one of distribution, repository, elsewhere"),
        ({"gpus_modules": "{{ x }}"}, "gpus_modules '{{ x }}' is not one of open, proprietary"),
        ({"gpus_hold": "yes"}, "gpus_hold 'yes' is neither true nor false"),
        ({"gpus_version": 570.1}, "gpus_version 570.1 is not a driver version in quotes"),
        ({"gpus_version": "570; rm"}, "gpus_version 570; rm is not a driver version"),
        ({"gpus_mig": ["3g.20gb"]}, "gpus_mig ['3g.20gb'] does not list profiles for each GPU"),
        ({"gpus_mig": {0: "3g.20gb"}}, "gpus_mig GPU 0: 3g.20gb is not a list of profiles"),
        ({"gpus_mig": {0: ["3g"]}}, "gpus_mig GPU 0: 3g is not a profile, such as 3g.20gb"),
        ({"gpus_mig": {0: ["1c.3g.20gb"]}}, "GPU 0: 1c.3g.20gb is not a profile"),
        ({"gpus_mig": {0: ["-i 1"]}}, "GPU 0: -i 1 is not a profile"),
        ({"gpus_mig": {0: [19]}}, "GPU 0: 19 is not a profile"),
        ({"gpus_mig": {0: [], "0": ["7g.80gb"]}}, "gpus_mig GPU 0 is listed twice"),
        ({"gpus_mig": {"all": []}}, "gpus_mig all is not the number of a GPU"),
        ({"gpus_mig": {64: []}}, "gpus_mig 64 is not the number of a GPU"),
        ({"gpus_mig": {True: []}}, "gpus_mig True is not the number of a GPU"),
        ({"gpus_worse": ["report"]}, "gpus_worse ['report'] is not one of"),
        ({"limits_memory": "lots"}, "limits_memory 'lots' is not an amount; write 80% (of the node's memory)"),
        ({"limits_memory": "{{ x }}"}, "limits_memory '{{ x }}' is not an amount"),
        ({"limits_processor_weight": 0}, "limits_processor_weight 0 is not a whole number from 1 to 10000"),
        ({"limits_processor_weight": "100"}, "limits_processor_weight '100' is not a whole number"),
    ],
)
def test_refused(variables: dict[str, object], words: str) -> None:
    (problem,) = problems(variables)
    assert words in problem


@pytest.mark.holds("what the inventory says of GPUs is checked")
def test_an_inventory(tmp_path: Path) -> None:
    folder = tmp_path / "inventory"
    folder.mkdir()
    hosts = "all: {children: {gpu: {vars: {gpu_model: H100}, hosts: {node1: {gpus: 8}, node2: {}}}}}\n"
    (folder / "hosts.yml").write_text(hosts)
    first, second = load_inventory(tmp_path).hosts
    assert (first.gpus, second.gpus) == (8, None)
    assert second.variables["gpu_model"] == "H100"
    (folder / "hosts.yml").write_text(hosts.replace("8", "eight"))
    with pytest.raises(ConfigError, match="inventory: node1: gpus 'eight' is not a number"):
        load_inventory(tmp_path)


def test_an_address_in_a_vault_is_an_error_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "inventory"
    (folder / "host_vars").mkdir(parents=True)
    (folder / "hosts.yml").write_text("all: {children: {gpu: {hosts: {node1: {}}}}}\n")
    (folder / "host_vars/node1.yml").write_text("ansible_host: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\n")
    with pytest.raises(ConfigError, match="inventory: node1: ansible_host: a vault that cannot be read here"):
        load_inventory(tmp_path)
