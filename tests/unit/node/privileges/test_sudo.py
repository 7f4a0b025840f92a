"""Whom sudo, doas and polkit let be root."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges import sudo
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place

from tests.unit.node.privileges.conftest import Host


def test_rules_that_the_site_means(host: Host) -> None:
    assert sudo.sudo(host()) == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("minji ALL=(ALL) NOPASSWD: ALL", "sudo for minji in /etc/sudoers.d/x"),
        ("minji\tALL = NOPASSWD:\\\n  /usr/bin/less", "sudo for minji in /etc/sudoers.d/x"),
        ("root , minji ALL=ALL", "sudo for root, minji in /etc/sudoers.d/x"),
        ("%students ALL=(ALL) ALL # for the course", "sudo for %students in /etc/sudoers.d/x"),
        ("#20000 ALL=ALL", "sudo for #20000 in /etc/sudoers.d/x"),
        ("ALL ALL=(ALL) ALL", "sudo for ALL in /etc/sudoers.d/x"),
        ("User_Alias OPS = root, minji : OTHERS = jiho\nOPS ALL=ALL", "sudo for root, minji in /etc/sudoers.d/x"),
        ("Defaults:minji !authenticate", "sudo without a password in /etc/sudoers.d/x"),
        ("Defaults exempt_group = users", "sudo without a password in /etc/sudoers.d/x"),
    ],
)
def test_a_rule_for_somebody_else(host: Host, text: str, key: str) -> None:
    (found,) = sudo.sudo(host({"etc/sudoers.d/x": f"# by hand\n{text}\n"}))
    assert found.key == key


def test_a_rule_that_sudo_rs_alone_reads(host: Host) -> None:
    (found,) = sudo.sudo(host({"etc/sudoers-rs": "minji ALL=(ALL) NOPASSWD: ALL\n"}))
    assert found.key == "sudo for minji in /etc/sudoers-rs"


@pytest.mark.holds("an alias of the rules of another sudo hides nobody")
@pytest.mark.parametrize(("there", "hidden"), [("etc/sudoers", "etc/sudoers-rs"), ("etc/sudoers-rs", "etc/sudoers")])
def test_an_alias_of_the_other_sudo_hides_nobody(host: Host, there: str, hidden: str) -> None:
    rule = "OPS ALL=(ALL) NOPASSWD: ALL\n"
    place = host({there: f"User_Alias OPS = minji\n{rule}", hidden: f"User_Alias OPS = root\n{rule}"})
    assert [one.key for one in sudo.sudo(place)] == [f"sudo for minji in /{there}"]


def test_a_file_that_both_read_is_told_of_once(host: Host) -> None:
    place = host({"etc/sudoers-rs": "@includedir /etc/sudoers.d\n", "etc/sudoers.d/x": "minji ALL=ALL\n"})
    assert [one.key for one in sudo.sudo(place)] == ["sudo for minji in /etc/sudoers.d/x"]


@pytest.mark.parametrize("name", ["sudoers", "sudoers-rs"])
def test_rules_that_sudo_refuses(host: Host, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = host({"etc/sudoers-rs": ""})

    def visudo(command: tuple[str, ...]) -> SimpleNamespace:
        bad = command[-1] == place.path(f"/etc/{name}")
        return SimpleNamespace(returncode=int(bad), stdout="", stderr="line 1: syntax error\n")

    monkeypatch.setattr(sudo, "look", visudo)
    assert [(one.key, one.words) for one in sudo.sudo_accepts(place)] == [
        (f"/etc/{name}", "sudo refuses it: line 1: syntax error")
    ]


def test_what_sudo_does_not_read_is_no_rule(host: Host) -> None:
    rule = "minji ALL=ALL\n"
    place = host(
        {"etc/sudoers.d/x.bak": rule, "etc/sudoers.d/x~": rule, "etc/sudoers.d/y": f"#{rule}Cmnd_Alias X = /x\n"}
    )
    assert sudo.sudo(place) == []


def test_a_file_that_is_included_from_elsewhere(host: Host) -> None:
    place = host({"etc/sudoers.d/x": "#include ../../opt/rules\n", "opt/rules": "minji ALL=ALL\n"})
    assert [one.key for one in sudo.sudo(place)] == ["sudo for minji in /opt/rules"]


def test_files_that_include_each_other_come_to_an_end(host: Host) -> None:
    found = sudo.sudo(host({"etc/sudoers.d/x": "@include /etc/sudoers.d/x\n"}))
    assert [one.words for one in found] == [f"and what comes after it is not read: more than {sudo.MOST_FILES} files"]


def test_a_file_that_cannot_be_read_is_said(host: Host, tmp_path: Path) -> None:
    place = host()
    (tmp_path / "etc/sudoers.d/x").symlink_to("gpuadmin")
    (found,) = sudo.sudo(place)
    assert "was not read" in found.words


def test_doas_and_polkit(host: Host) -> None:
    rules = {"etc/doas.conf": "# x\npermit nopass minji\ndeny jiho\n", "etc/polkit-1/rules.d/00-x.rules": "polkit"}
    brought = {
        "etc/polkit-1/rules.d/50-default.rules": "",
        "var/lib/dpkg/info/polkitd.list": "/etc/polkit-1/rules.d/50-default.rules\n",
    }
    assert [one.key for one in sudo.others(host({**rules, **brought}))] == [
        "doas in /etc/doas.conf", "/etc/polkit-1/rules.d/00-x.rules",
    ]  # fmt: skip


def test_no_sudo_at_all(tmp_path: Path) -> None:
    assert sudo.sudo(Place(root=str(tmp_path))) == []
