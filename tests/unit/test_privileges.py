"""From what hosts say of who is root there to what is shown."""

from typing import Any

import pytest

from gpuadmin.privileges import Answer, Finding, compared, findings, ignored

NOBODY: dict[str, Any] = {"found": [], "sshd": {}, "keys": {}, "aside": [], "unknown": {}}
ALL = {"gpu": {"node1", "node2", "node3"}}


def hosts(**answers: dict[str, Any]) -> dict[str, Answer]:
    return {name: NOBODY | more for name, more in answers.items()}


def lines(answers: dict[str, Answer]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.rank, one.line, one.hosts) for one in findings(answers, ALL)]


def test_what_several_hosts_say_is_one_line_and_who_is_root_comes_first() -> None:
    tmp = {"key": "/tmp", "words": "has mode 755", "rank": "differs"}
    sudo = {"key": "minji in group sudo", "words": "x", "rank": "root"}
    assert lines(hosts(node1={"found": [tmp]}, node2={"found": [tmp, sudo]})) == [
        ("root", "minji in group sudo: x", ("node2",)),
        ("differs", "/tmp: has mode 755", ("node1", "node2")),
    ]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"denyusers": ["minji"]}, ("differs", "sshd denyusers: keeps minji out; gpuadmin sets no such list")),
        (
            {"allowgroups": ["a", "b"]},
            ("differs", "sshd allowgroups: lets nobody in but a, b; gpuadmin sets no such list"),
        ),
        (
            {"permitrootlogin": ["yes"], "passwordauthentication": ["yes"]},
            ("root", "sshd permitrootlogin: yes: root logs in with a password"),
        ),
        ({"permitemptypasswords": ["yes"]}, ("root", "sshd permitemptypasswords: yes: an empty password is enough")),
    ],
)
def test_what_is_wrong_on_one_host_alone(settings: dict[str, list[str]], line: tuple[str, str]) -> None:
    assert lines(hosts(node1={"sshd": settings})) == [(*line, ("node1",))]


@pytest.mark.parametrize(
    "settings",
    [{"permitrootlogin": ["yes"], "passwordauthentication": ["no"]}, {"permitrootlogin": ["without-password"]}, {}],
)
def test_what_is_right(settings: dict[str, list[str]]) -> None:
    assert lines(hosts(node1={"sshd": settings})) == []


def test_sshd_of_one_server_is_not_as_of_the_others() -> None:
    """Why does ssh time out only on one server?"""
    usual, other = {"usedns": ["no"]}, {"usedns": ["yes"]}
    (one,) = compared({"node1": usual, "node2": other, "node3": usual})
    assert (one.line, one.hosts) == ("sshd usedns: yes on node2; no on node1, node3", ("node2",))
    (one,) = compared({"node1": usual, "node2": other})
    assert one.hosts == ("node1", "node2"), "of two nobody knows which is right"
    (one,) = compared({"node1": {}, "node2": other, "node3": other})
    assert one.line == "sshd usedns: not set on node1; yes on node2, node3"


def test_hosts_of_other_groups_are_not_compared() -> None:
    answers = hosts(node1={"sshd": {"usedns": ["no"]}}, nas1={"sshd": {"usedns": ["yes"]}})
    assert findings(answers, {"gpu": {"node1"}, "storage": {"nas1"}}) == []
    both = findings(answers, {"gpu": {"node1", "nas1"}, "monitor": {"node1", "nas1"}})
    assert len(both) == 1, "who is in two groups is said once"


def test_a_key_of_the_admins_that_one_host_alone_has() -> None:
    ours, evil = {"gpuadmin": ["SHA256:a"]}, {"gpuadmin": ["SHA256:a", "SHA256:b"]}
    assert lines(hosts(node1={"keys": ours}, node2={"keys": evil}, node3={"keys": ours})) == [
        (
            "root",
            "key SHA256:b of gpuadmin: logs in as gpuadmin, which has sudo, there and on no other host",
            ("node2",),
        )
    ]
    assert lines(hosts(node1={"keys": evil})) == [], "nothing to compare with"
    assert lines(hosts(node1={"keys": ours}, node2={"keys": ours})) == []


FOUND = [
    Finding("/opt/app/x", "has setuid root (mode 4755), and no package owns it", "root", ("node1",)),
    Finding("minji in group sudo", "may become root by sudo", "root", ("node1",)),
]


@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        ([], 2),
        (["minji in group sudo"], 1),
        (["minji in group sudo: may become root by sudo"], 1),
        (["/opt/app/"], 1),
        (["/opt/app", "/", "minji", "", "minji in group sudo: something else", "/opt/app/x/"], 2),
        (["/opt/app/x", "minji in group sudo"], 0),
    ],
)
def test_what_a_site_ignores_is_named_whole(ignore: list[str], left: int) -> None:
    found, hidden = ignored(FOUND, ignore)
    assert (len(found), hidden) == (left, 2 - left)
