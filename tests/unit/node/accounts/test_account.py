"""What an account, a group or a range of ids of somebody else is kept from."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.compute import compute
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState, Record, Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.observed import Observed
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import User

pytestmark = pytest.mark.holds("a group that others are in is not removed")


FILES = {
    "passwd": "root:x:0:0::/root:/bin/bash\n", "shadow": "root:*:1:0:99999:7:::\n", "group": "root:x:0:\n",
    "gshadow": "root:*::\n", "subuid": None, "subgid": None,
}  # fmt: skip
HASH = "$y$j9T$abc$def"


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


@pytest.mark.parametrize(
    ("group", "joined"),
    [("users:x:100:", True), ("vision:x:1500:", True), ("docker:x:998:", False), ("video:x:44:", False)],
)
def test_a_first_group_that_an_account_leaves_has_it_as_a_member(group: str, joined: bool) -> None:
    """With `AllowGroups users` in sshd's settings nobody of `users` got in after provision: it gave each their own."""
    name, _, gid, _ = group.split(":")
    files = {
        **FILES,
        "passwd": f"{FILES['passwd']}minji:x:20001:{gid}::/home/minji:/bin/bash\n",
        "shadow": f"{FILES['shadow']}minji:*:1:0:99999:7:::\n",
        "group": f"{FILES['group']}{group}\n", "gshadow": f"{FILES['gshadow']}{name}:!::\n",
    }  # fmt: skip
    request = Request(Settings(), [{"name": "minji", "uid": 20001}])
    plan = compute(request, Observed(files, today=20700))
    assert f"set gid '20001' (was '{gid}')" in plan.users["minji"].operations
    assert (f"join {name}" in plan.users["minji"].operations) is joined
    assert (f"{group}minji" in plan.files["group"].splitlines()) is joined
    again = compute(request, Observed({**files, **plan.files}, plan.desired, today=20700))
    assert (again.users["minji"].operations, again.files) == ([], {})


@pytest.mark.parametrize(("missing", "shell"), [(True, "/bin/bash"), (False, "/bin/zsh")])
def test_a_login_shell_that_a_host_lacks_replaces_none(missing: bool, shell: str) -> None:
    """sshd refuses whoever has one: `User minji not allowed because shell /bin/zsh does not exist`."""
    files = {
        **FILES,
        "passwd": f"{FILES['passwd']}minji:x:20001:20001::/home/minji:/bin/bash\n",
        "shadow": f"{FILES['shadow']}minji:*:1:0:99999:7:::\n",
        "group": f"{FILES['group']}minji:x:20001:\n", "gshadow": f"{FILES['gshadow']}minji:!::\n",
    }  # fmt: skip
    request = Request(Settings(), [{"name": "minji", "uid": 20001, "shell": "/bin/zsh"}])
    lacks = frozenset({"/bin/zsh"} if missing else ())
    plan = compute(request, Observed(files, today=20700, missing_shells=lacks))
    assert f"minji:x:20001:20001::/home/minji:{shell}\n" in plan.files.get("passwd", files["passwd"])
    assert plan.remarks == (
        ["user minji: this host has no /bin/zsh, their login shell by users.yml"] if missing else []
    )
    newcomer = compute(request, Observed(FILES, today=20700, missing_shells=lacks))
    assert ":/bin/zsh\n" in newcomer.files["passwd"]
