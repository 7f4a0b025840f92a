"""Releases of Debian: what the lab, the roles and the page say of them agrees."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.plugins.filter.mathstuff import FilterModule
from jinja2.nativetypes import NativeEnvironment

from gpuadmin.common import slurm_releases
from gpuadmin.lab.releases import RELEASES
from gpuadmin.lab.rootfs import downloaded_packages
from tests.support import lab_cluster
from tests.support.scripts import load

ROOT = Path(__file__).resolve().parents[2]
DATA = (ROOT / "docs/releases.toml").read_text(encoding="utf-8")


def docker_packages(distribution: str, codename: str) -> set[str]:
    names = yaml.safe_load((ROOT / "roles/rootless_docker/vars/main.yml").read_text(encoding="utf-8"))
    facts = {"gpuadmin": {"distribution": distribution, "codename": codename}}
    found: set[str] = set()
    for name in ("_rootless_docker_packages", "_rootless_docker_helpers"):
        found |= set(NativeEnvironment().from_string(names[name]).render(ansible_facts=facts))
    return found


@pytest.mark.parametrize("number", RELEASES)
def test_a_light_host_has_the_packages_of_docker(number: str) -> None:
    wanted = docker_packages(RELEASES[number].distribution.name.lower(), RELEASES[number].suite)
    assert wanted <= set(RELEASES[number].named(downloaded_packages()))
    assert ("docker-cli" in wanted) == (number in ("13", "14"))


def test_ubuntus_docker_has_its_client_inside() -> None:
    assert "docker-cli" not in docker_packages("ubuntu", "noble")
    assert "polkitd" in docker_packages("ubuntu", "jammy")


@pytest.mark.parametrize(
    ("installed", "wanted", "fine"),
    [
        (["docker.io"], ["docker.io"], True), ([], ["docker-ce"], True), (["docker-ce"], ["docker-ce"], True),
        (["bash", "docker-ce"], ["docker.io"], False), (["docker.io"], ["docker-ce"], False),
        (["docker.io"], ["of-the-site"], False), (["bash"], ["of-the-site"], True),
    ],
)  # fmt: skip
def test_another_docker_is_in_the_way(installed: list[str], wanted: list[str], fine: bool) -> None:
    entries = yaml.safe_load((ROOT / "roles/rootless_docker/meta/preflight.yml").read_text(encoding="utf-8"))
    (entry,) = [one for one in entries["obstacles"] if "in its place" in one["say"]]
    names = yaml.safe_load((ROOT / "roles/rootless_docker/vars/main.yml").read_text(encoding="utf-8"))
    given = {"_rootless_docker_engines": names["_rootless_docker_engines"], "_rootless_docker_wanted": wanted}
    environment = NativeEnvironment()
    environment.filters |= FilterModule().filters()
    facts = {"gpuadmin": {"packages": installed}}
    assert environment.compile_expression(entry["that"])(ansible_facts=facts, **given) is fine
    assert f"the site wants {wanted[0]} in" in environment.from_string(entry["say"]).render(
        ansible_facts=facts, **given
    )


@pytest.mark.parametrize(
    ("role", "words", "too_old"),
    [
        ("node_metrics", "node exporter older than 1.3", {"bullseye", "focal"}),
        ("monitoring", "Alertmanager is older than 0.22", {"bullseye", "focal"}),
        ("monitoring", "Alertmanager is older than 0.25", {"jammy"}),
    ],
)
def test_what_measures_and_is_too_old_is_refused(role: str, words: str, too_old: set[str]) -> None:
    entries = yaml.safe_load((ROOT / f"roles/{role}/meta/preflight.yml").read_text(encoding="utf-8"))["obstacles"]
    (entry,) = [one for one in entries if words in one["say"]]
    fine = NativeEnvironment().compile_expression(entry["that"])

    def refused(mail: object) -> set[str]:
        names = ("bullseye", "bookworm", "trixie", "forky", "focal", "jammy", "noble", "")
        facts = [{"gpuadmin": {"codename": name}} for name in names]
        return {one["gpuadmin"]["codename"] for one in facts if not fine(ansible_facts=one, monitoring_mail=mail)}

    assert refused({"user": "gpuadmin"}) == too_old
    assert refused("") == refused({"smarthost": "mail:25"}) == (set() if "0.25" in words else too_old)


def test_the_network_comes_before_homes() -> None:
    """systemd 262 looks into /home when it starts systemd-networkd; one that asked for the mount waited for itself."""
    text = (ROOT / "roles/homes_client/templates/homes.automount.j2").read_text(encoding="utf-8")
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    assert lines["DefaultDependencies"] == "no", "by default it comes before local-fs.target, and so before the network"
    assert {"basic.target", "network.target", "systemd-logind.service"} <= set(lines["After"].split())
    assert {"remote-fs.target", "umount.target"} == set(lines["Before"].split()), "before logins"
    assert lines["Conflicts"] == "umount.target"


@pytest.mark.parametrize("release", slurm_releases.RELEASES)
def test_a_controller_that_cannot_be_told_of_other_nodes_starts_again(release: str) -> None:
    """`fatal: MaxNodeCount has changed during reconfig` (22.05): the first provision with a node more would fail."""
    names = yaml.safe_load((ROOT / "roles/slurm_controller/vars/main.yml").read_text(encoding="utf-8"))
    facts = {"gpuadmin": {"queue": {"releases": {"slurmctld": release}}}}
    found = NativeEnvironment().from_string(names["_slurm_controller_restart"]["slurmctld"])
    restart = found.render(ansible_facts=facts, _slurm_controller_key="/key")
    assert ("/etc/slurm/nodes.conf" in restart) == (release < "23.11")


def test_the_page_has_a_column_for_each_release() -> None:
    data: dict[str, Any] = tomllib.loads(DATA)
    assert data["releases"] == list(RELEASES)
    assert all(len(row) == len(RELEASES) for row in data["versions"].values())


def test_a_cell_that_says_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="drift: fine"):
        load("pages").releases.page(
            DATA.replace("[verbs]", '[verbs]\ndrift = { 13 = "fine", what = "" }', 1).split("\ndrift = { 11")[0]
        )


@pytest.mark.parametrize(
    ("asked", "name"),
    [("", "mine"), ("12", "mine-12"), ("12,storage1=11", "mine-0aec56"), ("12,storage1=14", "mine-71dbeb")],
)
def test_labs_of_other_releases_have_other_names(asked: str, name: str) -> None:
    """One that a session has left is taken by no session that wants other releases."""
    environment = {**os.environ, "GPUADMIN_TEST_LAB": "mine", "GPUADMIN_TEST_RELEASE": asked, "PYTEST_XDIST_WORKER": ""}
    line = [sys.executable, "-c", "from tests.support.lab_cluster import LAB; print(LAB)"]
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{name}\n"


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (("up", "--light"), ["--release", "12", "--release", "storage1=11"]),
        (("up", "--release", "14"), []),
        (("up", "--like", "there"), []),
        (("down", "--purge"), []),
    ],
)
def test_the_tests_labs_have_the_releases_that_are_asked_for(
    given: tuple[str, ...], added: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines: list[list[str]] = []
    monkeypatch.setattr(lab_cluster, "RELEASES", ("12", "storage1=11"))
    monkeypatch.setattr(
        subprocess, "run", lambda line, **_: lines.append(line) or subprocess.CompletedProcess(line, 0, "")
    )
    lab_cluster.Cluster(tmp_path / "site", "mine").lab(*given)
    assert lines == [[lab_cluster.GPUADMIN, "lab", given[0], "--name", "mine", *given[1:], *added]]
