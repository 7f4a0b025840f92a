"""What changes for people who have an account, by kind, from what hosts really say of it."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.compute import compute
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.observed import Observed
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import to_plain

from gpuadmin.accounts.change_kinds import describe_changes

PEOPLE = [f"kim{number:02}" for number in range(1, 23)]


def users(*names: str, login: bool = True, **more: object) -> dict[str, object]:
    """What a host says that has these people, with uids and groups of their own, of 22 who are wanted."""
    there = list(enumerate(names, start=20001))
    files = {
        "passwd": "".join(f"{name}:x:{uid}:{uid}:Kim:/data/{name}:/bin/bash\n" for uid, name in there),
        "shadow": "".join(f"{name}:*:20000:0:99999:7:::\n" for name in names),
        "group": "gpuusers:x:19999:\n" + "".join(f"{name}:x:{uid}:\n" for uid, name in there),
    }
    wanted = [{"name": name, "uid": uid, **more} for uid, name in enumerate(PEOPLE, start=20001)]
    plan = compute(Request(Settings(login=login), wanted), Observed(files, today=20700))
    found = to_plain(plan.report()["users"])
    assert isinstance(found, dict)
    return found


def test_every_kind_is_a_line_and_nobody_is_left_out() -> None:
    lines = describe_changes({
        "storage1": users(*PEOPLE, login=False, home="/data/x"),
        "node1": users(*PEOPLE[:2]), "node2": users(*PEOPLE[:2]),
    })  # fmt: skip
    assert lines == [
        "node1, node2: home becomes /home/NAME for 2 people: kim01, kim02",
        f"storage1: home becomes /data/x for 22 people: {', '.join(PEOPLE)}",
        "storage1: shell becomes /usr/sbin/nologin for 22 people, who cannot log in there any more:"
        f" {', '.join(PEOPLE)}",
    ]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"locked": True}, "node1: lock, for 1 person: kim01"),
        ({"expires": 20800}, "node1: valid until 2026-12-12, for 1 person: kim01"),
        ({"shell": "/bin/{zsh}"}, "node1: shell becomes /bin/{zsh} for 1 person: kim01"),
    ],
)
def test_what_shuts_somebody_out_or_changes_them(more: dict[str, object], line: str) -> None:
    assert line in describe_changes({"node1": users("kim01", **{"home": "/data/kim01", **more})})


def test_newcomers_and_additions_are_no_change() -> None:
    report = {"minji": {"status": "missing", "operations": ["create uid 1", "lock"]},
              "jiho": {"status": "differs", "operations": ["join gpuusers", "write 2 ssh keys"]},
              "old": {"status": "removed", "operations": ["remove account uid 5"]}}  # fmt: skip
    assert describe_changes({"node1": report, "node2": {}}) == ["node1: remove account uid 5, for 1 person: old"]
