"""The queue's variables: groups, nodes that take jobs, and the one controller."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment
from pydantic import ValidationError

from gpuadmin.config.inventory import Host
from gpuadmin.config.queue import takes_jobs
from gpuadmin.config.schema import Settings
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.hosts import variables

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


def test_the_controller_has_groups_and_nodes() -> None:
    found = of(3, {"gpus": 4, "groups": [LAB]})
    assert found["slurm_controller_enabled"] is True
    assert found["slurm_controller_cluster"] == "ai-lab-2"
    assert found["slurm_controller_groups"] == [
        {"name": "people", "share": 10, "gpus": 4, "hours": 24, "queued": 20},
        {"name": "lab", "share": 30, "gpus": 4, "hours": 72, "queued": 20},
    ]
    assert found["slurm_controller_hours"] == 72, "of all groups"
    assert found["slurm_controller_nodes"] == [
        {"name": "gpu1", "address": "10.0.0.1", "gpus": 8, "model": "H100"},
        {"name": "gpu3", "address": "gpu3", "gpus": None, "model": None},
    ]  # fmt: skip


def test_what_the_controller_is_told_again_where_gpus_are_divided() -> None:
    settings = Settings.model_validate({"name": "x", "slurm": {}})
    asked = {"gpuadmin_slurm_key": "k", "gpuadmin_divide_gpus": {"gpu1": [0]}}
    told = [variables(Cluster(settings, HOSTS, asked), HOSTS[number])["slurm_node_told"] for number in (0, 1)]
    assert told[0]["address"] == "10.0.0.9"
    assert [one["name"] for one in told[0]["nodes"]] == ["gpu1", "gpu3"]
    assert told[1] == of(0, {})["slurm_node_told"] == {}, "it takes no jobs; another verb"


def test_what_people_may_book() -> None:
    assert of(0, {})["slurm_node_policy"] == {"extend": "free", "hours": {"people": 24}, "book": {}, "booked": 50}
    book = {"gpus": 2, "hours": 8, "days": 3, "standing": 2}
    given = {"booked": 25, "book": book, "groups": [LAB, {"name": "phd", "book": {"gpus": 8}}]}
    assert of(0, given)["slurm_node_policy"]["book"] == {
        "people": book, "lab": book, "phd": {"gpus": 8, "hours": 8, "days": 7, "standing": 1},
    }  # fmt: skip
    assert of(0, {"groups": [{**LAB, "book": {}}]})["slurm_node_policy"]["book"].keys() == {"lab"}


@pytest.mark.parametrize("role", ["slurm_node", "slurm_controller"])
def test_a_slurm_that_is_too_old_is_refused(role: str) -> None:
    """What is installed counts; before that, what the distribution has."""
    entries = yaml.safe_load((ROOT / f"roles/{role}/meta/preflight.yml").read_text())["obstacles"]
    (entry,) = [one for one in entries if "older than 23.11" in one["say"]]
    fine = NativeEnvironment().compile_expression(entry["that"])
    daemon = {"slurm_node": "slurmd", "slurm_controller": "slurmctld"}[role]
    for codename, installed, expected in (
        ("bookworm", None, False), ("bookworm", [22, 5], False), ("bookworm", [24, 11], True), ("jammy", None, False),
        ("trixie", None, True), ("noble", [23, 11], True), ("trixie", [23, 2], False), ("", None, True),
    ):  # fmt: skip
        facts = {"codename": codename, "queue": {daemon: installed}}
        assert fine(ansible_facts={"gpuadmin": facts}) is expected, (codename, installed)


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
        ({"gpus": 2, "book": {"gpus": 3}}, "book: 3 GPUs are more than one person may have at once .2."),
        ({"hours": 4, "book": {}}, "book: 8 hours are more than a job may take .4."),
        ({"gpus": 4, "book": {"gpus": 3}, "groups": [{**LAB, "gpus": 2}]}, "lab: book: 3 GPUs are more than"),
        ({"book": {}, "groups": [{**LAB, "hours": 4}]}, "lab: book: 8 hours are more than"),
    ],
)
def test_sections_that_mean_nothing(section: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings.model_validate({"name": "x", "slurm": section})
