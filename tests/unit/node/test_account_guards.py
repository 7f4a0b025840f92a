"""What an account, a group or a range of ids of somebody else is kept from."""

from __future__ import annotations

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import subids
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.compute import compute
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState, Record, Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.observed import Observed
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import User

FILES = {
    "passwd": "root:x:0:0::/root:/bin/bash\n", "shadow": "root:*:1:0:99999:7:::\n", "group": "root:x:0:\n",
    "gshadow": "root:*::\n", "subuid": None, "subgid": None,
}  # fmt: skip
HASH = "$y$j9T$abc$def"
SIZE = 65536
LAST = 2**32 - 2


def test_a_newcomer_of_a_name_gets_nothing_of_whoever_had_it() -> None:
    """The node still remembers a minji of another uid: neither the password nor the groups are this person's."""
    old = Record(User("minji", 20001, 20001, home="/home/minji"), HASH, 20000, ("video",))
    desired = DesiredState(Settings(), {"minji": old}, (), "/roots/a")
    files = {**FILES, "group": "root:x:0:\nvideo:x:44:\n", "gshadow": "root:*::\nvideo:*::\n"}
    request = Request(Settings(), [{"name": "minji", "uid": 20005}])
    plan = compute(request, Observed(files, desired, root="/roots/b", today=20700))
    assert plan.users["minji"].status == "missing"
    assert HASH not in plan.files["shadow"]
    assert "video:x:44:\n" in plan.files.get("group", "") + "video:x:44:\n" * ("group" not in plan.files)
    assert plan.desired.records["minji"].password is None
    assert plan.desired.records["minji"].groups == ()


def test_a_group_that_is_somebody_elses_first_one_stays() -> None:
    """Without it their files would belong to a number that the next newcomer gets."""
    files = {
        **FILES,
        "passwd": f"{FILES['passwd']}minji:x:20001:20001::/:/bin/sh\nservice:x:901:20001::/:/bin/sh\n",
        "shadow": f"{FILES['shadow']}minji:*:1::::::\nservice:!:1::::::\n",
        "group": f"{FILES['group']}minji:x:20001:\n", "gshadow": f"{FILES['gshadow']}minji:!::\n",
    }  # fmt: skip
    absent = Request(Settings(), (), [{"name": "minji", "uid": 20001}])
    plan = compute(absent, Observed(files, today=20700))
    assert "minji:" not in plan.files["passwd"]
    assert "service:x:901:20001" in plan.files["passwd"]
    assert "minji:x:20001:" in plan.files["group"]
    # and goes where nobody else is in it
    files["passwd"] = str(files["passwd"]).replace("901:20001", "901:901")
    assert "minji:" not in compute(absent, Observed(files, today=20700)).files["group"]


def ranges(text: str, *users: tuple[str, int], base: int = 2**31, real: tuple[int, ...] = ()) -> subids.SubidPlan:
    return subids.plan_subids(text, text, users, base=base, size=SIZE, uid_first=20000, real_ids=real)


def test_a_range_ends_with_the_last_id() -> None:
    """2**32 - 1 is (uid_t) -1: chown(2) takes it for `leave it as it is`."""
    fits = ranges("", ("minji", 20000), base=LAST - SIZE + 1)
    assert fits.append["subuid"] == [f"minji:{LAST - SIZE + 1}:{SIZE}"]
    over = ranges("", ("minji", 20000), base=LAST - SIZE + 2)
    assert over.append == {"subuid": [], "subgid": []}
    assert "goes beyond the last id" in over.conflicts["minji"]


def test_a_line_beyond_the_last_id_is_a_problem_and_no_range() -> None:
    (found,) = subids.parse(f"minji:{LAST}:2\n")
    assert found.problem == "is empty or goes beyond the last id"
    (whole,) = subids.parse(f"minji:{LAST - 1}:2\n")
    assert whole.problem is None
    beyond = ranges(f"minji:{LAST - SIZE + 2}:{SIZE}\n", ("minji", 20000))
    assert beyond.append["subuid"] == [f"minji:{2**31}:{SIZE}"], "newuidmap does not read that line"


def test_a_range_that_is_there_is_kept_and_no_second_one_is_written() -> None:
    """Files belong to it. That holds with a second range in one of the files, too."""
    here = f"minji:100000:{SIZE}\n"
    plan = subids.plan_subids(
        here + f"minji:300000:{SIZE}\n", here, [("minji", 20000)], base=2**31, size=SIZE, uid_first=20000, real_ids=()
    )
    assert plan.append == {"subuid": [], "subgid": []}
    assert plan.problems == []
    assert plan.conflicts == {}


def test_two_newcomers_of_one_uid_never_share_a_range() -> None:
    """The caller refuses them; should it not, the second gets nothing."""
    plan = ranges("", ("minji", 20000), ("jiho", 20000))
    assert plan.append["subuid"] == [f"minji:{2**31}:{SIZE}"]
    assert "overlaps a range that is there" in plan.conflicts["jiho"]
