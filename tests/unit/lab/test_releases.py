"""Which Debian a lab's hosts have."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.lab import cluster, hosts, image, report, rootfs, state
from gpuadmin.lab.progress import Progress
from gpuadmin.lab.releases import RELEASES, Release, parse


def test_for_all_and_for_one() -> None:
    assert parse(["12", "node1=14", "storage1=11"]) == {"": "12", "node1": "14", "storage1": "11"}
    assert parse([]) == {}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        *(
            ([word], "no such release")
            for word in ("10", "trixie", "", "=12", "node1=", "node1=trixie", "node1=15", "१३")
        ),
        (["node1=12", "node1=13"], "two releases of node1: 12 and 13"),
        (["12", "13"], "two releases of all hosts"),
    ],
)
def test_what_is_no_release_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse(words)


def numbers(wanted: list[state.Wanted]) -> dict[str, int]:
    return {one.name: one.release for one in wanted}


def test_new_hosts_have_what_was_asked_for() -> None:
    empty = state.Lab("default", 1024, 5555)
    wanted = hosts.wanted_hosts(2, 0)
    assert numbers(hosts.with_releases(empty, wanted, {})) == {"storage1": "13", "node1": "13", "node2": "13"}
    found = hosts.with_releases(empty, wanted, {"": "12", "node2": "14"})
    assert numbers(found) == {"storage1": "12", "node1": "12", "node2": "14"}
    bases = {("node", release): Path(f"/cache/{release}") for release in RELEASES}
    made = hosts.with_hosts(empty, found, bases, set())
    assert {one.name: one.base for one in made.hosts} == {
        "storage1": "/cache/12", "node1": "/cache/12", "node2": "/cache/14",
    }  # fmt: skip
    assert numbers(hosts.with_releases(made, wanted, {})) == numbers(found), "hosts that are there keep theirs"


def test_a_host_that_is_there_gets_no_other(lab: state.Lab) -> None:
    with pytest.raises(ConfigError, match="storage1 of lab default has Debian 13, not Debian 12"):
        hosts.with_releases(lab, hosts.wanted_hosts(2, 1), {"": "12"})
    with pytest.raises(ConfigError, match="--release names gpu9"):
        hosts.with_releases(lab, hosts.wanted_hosts(2, 1), {"gpu9": "12"})


def test_what_another_release_calls_otherwise() -> None:
    packages = ["docker.io", "docker-cli", "polkitd"]
    assert RELEASES["11"].named(packages) == ("docker.io", "policykit-1")
    assert RELEASES["12"].named(packages) == ("docker.io", "polkitd")
    assert RELEASES["13"].named(packages) == RELEASES["14"].named(packages) == tuple(packages)


def test_each_release_has_an_image_of_its_own() -> None:
    keys = {number: image.image_key("http://a.example/debian", number) for number in RELEASES}
    assert len(set(keys.values())) == len(RELEASES)
    assert keys["13"] == image.image_key("http://a.example/debian")


@pytest.mark.parametrize("number", RELEASES)
def test_its_suite_and_packages_go_into_the_command(number: str) -> None:
    release = RELEASES[number]
    command = rootfs.mmdebstrap_command(Path("/w"), "http://m.example/debian", release)
    assert command[command.index("/w/root.tar") - 1] == release.suite
    ubuntu = release.title.startswith("Ubuntu")
    assert ("ubuntu noble main universe" in command[-1]) == (number == "24.04")
    assert any("linux-image-virtual" in word for word in command) == ubuntu
    hook = next(word for word in command if "useradd" in word)
    assert (" docker-cli " in hook) == (number in ("13", "14"))


def test_it_is_shown(lab: state.Lab) -> None:
    state.save(lab)
    found = report.facts("default")
    assert [host["release"] for host in found["hosts"]] == ["13"] * 4
    assert "Debian 13  golden node" in report.as_text(found)


@pytest.mark.holds("no other key that this machine trusts signs for an archive")
@pytest.mark.parametrize("number", RELEASES)
def test_an_archive_is_checked_with_its_own_keys(number: str) -> None:
    """A vendor's key in /etc/apt/trusted.gpg.d is none of an archive's, which comes by plain HTTP; and Ubuntu has
    Debian's keys only in /usr/share/keyrings."""
    release = RELEASES[number]
    command = rootfs.mmdebstrap_command(Path("/w"), "http://mirror.example/debian", release)
    archive = release.distribution
    uri = archive.mirror or "http://mirror.example/debian"
    assert command[-1].startswith(f"deb [signed-by={archive.keyring}] {uri} {release.suite} main")


def test_the_package_of_keys_that_are_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs, "missing_tools", lambda _tools: ["mmdebstrap"])
    missing = replace(RELEASES["24.04"].distribution, keyring=str(tmp_path / "none"))
    with pytest.raises(GpuadminError) as raised:
        rootfs.check_machine(replace(RELEASES["24.04"], distribution=missing))
    assert "the lab needs mmdebstrap, ubuntu-keyring, which" in str(raised.value), "all at once"


def test_what_a_release_needs_is_asked_for_before_the_image_of_another_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image of the default release takes ten minutes, and then Ubuntu's keys were asked for."""
    made: list[str] = []

    def lacks(*releases: Release, tools: object) -> None:
        if any(one.distribution.name == "Ubuntu" for one in releases):
            raise GpuadminError("the lab needs ubuntu-keyring")

    monkeypatch.setattr(rootfs, "check_machine", lacks)
    monkeypatch.setattr(image, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(image, "ensure_light", lambda _progress, release: made.append(release))
    lab = state.Lab("default", 1024, 2000, light=True)
    wanted = [state.Wanted(f"node{number}", "node", "", release=number) for number in ("13", "24.04")]
    with pytest.raises(GpuadminError, match="ubuntu-keyring"):
        cluster._ensure_base_images(lab, wanted, Progress())
    assert made == []
