"""Accounts that are root, and groups that are as good as root."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges import accounts
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Found

from tests.unit.node.privileges.conftest import FILES, PASSWD, Host


def keys(found: list[Found]) -> list[str]:
    return [one.key for one in found]


def test_a_host_on_which_nobody_is_root_who_should_not(host: Host) -> None:
    place = host()
    assert accounts.accounts(place) == accounts.groups(place) == []


@pytest.mark.parametrize("group", sorted(accounts.GROUPS))
def test_members_of_each_group_of_privilege(host: Host, group: str) -> None:
    other = "".join(line for line in FILES["etc/group"].splitlines(True) if not line.startswith(f"{group}:"))
    place = host({"etc/group": f"{other}{group}:x:77:gpuadmin,minji\n"})
    assert keys(accounts.groups(place)) == [f"minji in group {group}"]


def test_a_group_that_is_somebodys_first(host: Host) -> None:
    place = host({"etc/passwd": f"{PASSWD}jiho:x:20001:27::/home/jiho:/bin/bash\n"})
    assert keys(accounts.groups(place)) == ["jiho in group sudo"]


def test_who_may_be_root_by_the_site(host: Host) -> None:
    place = host({"etc/group": "sudo:x:27:gpuadmin,ubuntu,minji\n"}, declared=frozenset({"ubuntu"}))
    assert keys(accounts.groups(place)) == ["minji in group sudo"]


def test_root_by_another_name_and_no_password(host: Host) -> None:
    place = host(
        {"etc/passwd": f"{PASSWD}toor:x:0:0::/:/bin/sh\nopen::20002:5::/:/bin/sh\n", "etc/shadow": "minji:::::::\n:\n"}
    )
    assert keys(accounts.accounts(place)) == ["uid 0: toor", "no password: open"]
    place = host({"etc/shadow": "minji::1::::::\n"})
    assert keys(accounts.accounts(place)) == ["no password: minji"]


def test_groups_of_a_directory(host: Host) -> None:
    def members(group: str) -> list[str]:
        return {"sudo": ["gpuadmin", "jiho"], "docker": ["minji"]}[group]

    place = host({"etc/group": "docker:x:990:minji\n"})
    assert keys(accounts.directory(place, members)) == ["jiho in group sudo"], "the files' own are said by groups"
