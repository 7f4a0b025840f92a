"""change-user, from its command line to users.yml and what Ansible is asked."""

import json

import pytest

from tests.support.fake_ansible import KEY, OTHER, USERS, Ansible, Cli, ansible, users

__all__ = ["ansible"]


def test_keys_come_to_the_nodes_and_comments_stay(ansible: Ansible, cli: Cli) -> None:
    code, out, err = cli("change-user", "minji", "--add-key", OTHER, "--note", "lab 3", "--yes")
    assert code == 0, err
    assert "add ssh key SHA256:" in out
    (invocation,) = ansible.asked
    assert (invocation.playbook, invocation.check) == ("sync-users", False)
    (user,) = invocation.variables["gpuadmin_users"]
    assert user["keys"] == [KEY, OTHER]
    assert "note: lab 3" in ansible.users_yml[0], "written before hosts are asked"
    assert users(ansible).startswith("# People.\nusers:\n  - name: minji  # first\n")


def test_check_shows_the_same_and_writes_nothing(ansible: Ansible, cli: Cli) -> None:
    code, _, err = cli("change-user", "minji", "--no-docker", "--check")
    assert code == 0, err
    assert users(ansible) == USERS
    cli("change-user", "minji", "--no-docker", "--yes")
    predicted, done = ansible.asked
    assert (predicted.check, done.check) == (True, False)
    own = {"gpuadmin_run_id": ""}  # each run has a word of its own
    assert {**predicted.variables, **own} == {**done.variables, **own}
    assert not done.variables["gpuadmin_users"][0]["docker"]


def test_the_same_again_brings_hosts_to_it(ansible: Ansible, cli: Cli) -> None:
    for _ in range(2):
        code, _, err = cli("change-user", "minji", "--add-key", OTHER, "--yes")
        assert code == 0, err
    assert len(ansible.asked) == 2


def test_an_address_is_the_sites_alone(ansible: Ansible, cli: Cli) -> None:
    change = ["change-user", "minji", "--email", "minji@example.org"]
    assert cli(*change)[0] == 5, "nobody confirmed it"
    assert cli(*change, "--check")[0] == 0
    assert users(ansible) == USERS
    code, out, err = cli(*change, "--yes", "--json")
    assert code == 0, err
    assert json.loads(out)["run"], "it is recorded"
    assert "email: minji@example.org" in users(ansible)
    assert "Nothing to do" in cli(*change, "--yes")[1]
    assert cli("change-user", "minji", "--email", "", "--yes")[0] == 0
    assert users(ansible) == USERS
    assert ansible.asked == []


def test_a_group_is_of_the_site_and_its_limits_come_with_provision(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    settings = ansible.site / "gpuadmin.yml"
    text = settings.read_text().replace("limits:\n", "limits:\n  people: [{groups: [phd], memory: 8G}]\n", 1)
    settings.write_text(text)
    code, out, err = cli("change-user", "minji", "--group", "phd", "--yes")
    assert code == 0, err
    assert "group none → phd" in out
    assert "minji: limits follow the group with the next gpuadmin provision" in out + err
    assert "group: phd" in users(ansible)
    assert ansible.asked == [], "without a queue no host has a part in it"


@pytest.mark.holds("who leaves a group of people leaves the Unix group at once")
def test_hosts_know_a_unix_group_at_once(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    settings = ansible.site / "gpuadmin.yml"
    settings.write_text(settings.read_text() + "groups: [{name: phd, gid: 50001}]\n")
    for number, group in enumerate(("phd", ""), 1):
        code, _, err = cli("change-user", "minji", "--group", group, "--yes")
        assert code == 0, err
        assert len(ansible.asked) == number
        assert ansible.asked[-1].variables["gpuadmin_users"][0].get("group", "") == group


def test_a_queue_knows_a_group_at_once(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    settings = ansible.site / "gpuadmin.yml"
    settings.write_text(settings.read_text() + "slurm: {groups: [{name: phd}]}\n")
    (ansible.site / "inventory/queue.yml").write_text("slurm: {hosts: {storage1: {}}}\n")
    code, out, err = cli("change-user", "minji", "--group", "phd", "--yes")
    assert code == 0, err
    assert "phd in the queue" in out
    (invocation,) = ansible.asked
    assert invocation.variables["gpuadmin_users"][0]["group"] == "phd"


BAD = {
    "nothing to change": ["minji"],
    "all keys and one more": ["minji", "--key", OTHER, "--add-key", KEY],
    "nobody": ["--docker"],
    "nobody of that name": ["minij", "--docker"],
    "somebody else's key": ["jiho", "--add-key", KEY],
    "a file in nobody's home": ["minji", "--add-key", "~nobody-of-that-name/x.pub"],
    "a file whose name is too long": ["minji", "--add-key", "x" * 300],
    "no key": ["minji", "--add-key", "no-such-file"],
    "a key that is not theirs": ["minji", "--remove-key", OTHER],
    "bad mail": ["minji", "--email", "minji"],
    "template in the note": ["minji", "--note", "{{ x }}"],
    "hostile name": ["--docker", "--", "../x"],
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD.keys())
def test_what_is_wrong_changes_nothing(ansible: Ansible, cli: Cli, arguments: list[str]) -> None:
    code, out, err = cli("change-user", "--yes", "--json", *arguments)
    assert code == 2, err
    assert json.loads(out)["result"]["error"]
    assert "Traceback" not in err
    assert ansible.asked == []
    assert users(ansible) == USERS
