"""What is observed and wanted → operations, as a table. ``{}`` in the files means the fixture's base system."""

from dataclasses import replace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import docker, subids
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.compute import compute
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import (
    DesiredState,
    Record,
    Settings,
    parse,
    render,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.observed import Observed
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Plan, Request
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import User

from gpuadmin.common.records.people import UnixGroup

pytestmark = pytest.mark.holds(
    "a directory's system accounts are not people",
    "a gid is the uid",
    "a gid of another group is not given twice",
    "a group of another gid is kept",
    "a locked account gets no password back",
    "a locked account is expired too",
    "a uid of somebody else is not given twice",
    "an account of another uid is kept",
    "only people's uids are touched",
    "two lines of one name are touched by nobody",
)


SETTINGS = Settings()
TODAY = 20700
BASE = {
    "passwd": "root:x:0:0::/root:/bin/bash\nadm:x:900:900::/:/bin/sh\n",
    "shadow": "root:*:1:0:99999:7:::\nadm:!:1:0:99999:7:::\n",
    "group": "root:x:0:\nadm:x:900:\nvideo:x:44:adm\ngpuusers:x:19999:minji\n",
    "gshadow": "root:*::\nadm:!::\nvideo:*::adm\ngpuusers:!::minji\n",
    "subuid": None,
    "subgid": None,
}
MINJI = {
    "passwd": "minji:x:20001:20001::/home/minji:/bin/bash\n",
    "shadow": "minji:*:20000:0:99999:7:::\n",
    "group": "minji:x:20001:\n",
    "gshadow": "minji:!::\n",
}
USER = {"name": "minji", "uid": 20001}
RECORD = Record(User("minji", 20001, 20001, home="/home/minji"))
HASH = "$y$j9T$abc$def"


def files(*, account: bool = True, **change: str | None) -> dict[str, str | None]:
    """The base system, with minji's account or without, and whole lines replaced by ``change``."""
    result: dict[str, str | None] = dict(BASE)
    for kind, line in MINJI.items():
        own = change.pop(kind, line if account else "")
        result[kind] = f"{BASE[kind]}{own or ''}"
    return {**result, **change}


def run(observed: dict[str, str | None], *users: dict[str, object], **more: object) -> Plan:
    absent = more.pop("absent", ())
    settings = more.pop("settings", SETTINGS)
    facts: dict = {"root": "/roots/a", "today": TODAY, **more}
    return compute(Request(settings, users, absent), Observed(observed, **facts))


TEAMS = replace(SETTINGS, groups=(UnixGroup("vision", 50001),))
VISION = "vision:x:50001:{}\n"


@pytest.mark.holds("who leaves a group of people loses it")
@pytest.mark.parametrize(
    ("group", "given", "members", "said"),
    [
        ("", "vision", "minji", ["group vision: create gid 50001", "user minji: join vision"]),
        (VISION.format("minji,adm"), "vision", "minji,adm", []),
        (VISION.format("minji,adm"), None, "adm", ["user minji: leave vision"]),
        (VISION.format("minji"), "nlp", "", ["user minji: leave vision"]),
        (VISION.format("adm"), "vision", "adm,minji", ["user minji: join vision"]),
    ],
)
def test_groups_of_people_are_unix_groups(group: str, given: str | None, members: str, said: list[str]) -> None:
    """Whoever is no person, and is in it by hand, stays."""
    observed = files(group=f"{MINJI['group']}{group}")
    desired = DesiredState(TEAMS, {"minji": replace(RECORD, groups=("vision",))}, root="/roots/a")
    plan = run(observed, {**USER, "group": given}, settings=TEAMS, desired=desired)
    assert VISION.format(members).strip() in plan.files.get("group", observed["group"] or "").splitlines()
    assert [one for one in plan.operations if "vision" in one] == said
    assert plan.desired.records["minji"].groups == ()
    assert parse(render(plan.desired), "x") == plan.desired


@pytest.mark.parametrize("line", ["vision:x:1777:\n", "other:x:50001:\n"])
def test_a_group_with_another_gid_is_joined_by_nobody(line: str) -> None:
    plan = run(files(group=f"{MINJI['group']}{line}"), {**USER, "group": "vision"}, settings=TEAMS)
    assert len(plan.failures) == 1
    assert "vision" in plan.failures[0]
    assert not [one for one in plan.operations if "join vision" in one]


def test_who_was_refused_a_home_gets_no_new_account_and_keeps_one() -> None:
    """The others go on, and a lock holds for whoever has an account."""
    refused = {"minji": "uid 20001 was given to seo", "stranger": "nobody asked"}
    other = {"name": "jiho", "uid": 20002}

    def planned(observed: dict[str, str | None], desired: DesiredState | None = None, **more: object) -> Plan:
        request = Request(SETTINGS, ({**USER, **more}, other), refused=refused)
        return compute(request, Observed(observed, desired or DesiredState(), today=TODAY))

    plan = planned(files(account=False, group=""))
    assert plan.conflicts == ["user minji: the storage host refused: uid 20001 was given to seo"]
    assert (own(plan), own(plan, "jiho")) == ([], ["create uid 20002", "join gpuusers"])
    assert (list(plan.desired.records), "minji" in plan.files["passwd"]) == (["jiho"], False)
    locked = planned(files(), locked=True)
    assert (locked.conflicts, own(locked)) == ([], ["lock"])
    # an older root lacks the account, which is on record
    again = planned(files(account=False, group=""), DesiredState(None, {"minji": RECORD}))
    assert (again.conflicts, own(again)) == ([], ["create uid 20001"])
    another = DesiredState(None, {"minji": replace(RECORD, user=replace(RECORD.user, uid=20009))})
    assert own(planned(files(account=False, group=""), another)) == []


def own(plan: Plan, name: str = "minji") -> list[str]:
    return plan.users[name].operations


@pytest.mark.parametrize(
    ("observed", "user", "operations", "status"),
    [
        pytest.param(files(), {}, [], "ok", id="as it should be"),
        pytest.param(files(account=False, group=""), {}, ["create uid 20001"], "missing", id="missing"),
        pytest.param(files(account=False), {"locked": True}, ["create uid 20001", "lock"], "missing", id="born locked"),
        pytest.param(
            files(account=False),
            {"expires": 20800},
            ["create uid 20001", "valid until 2026-12-12"],
            "missing",
            id="expiry",
        ),
        pytest.param(files(), {"expires": 20800}, ["valid until 2026-12-12"], "differs", id="expiry set"),
        pytest.param(
            files(shadow="minji:*:20000:0:99999:7::20800:\n"),
            {},
            ["valid without an end"],
            "differs",
            id="expiry removed",
        ),
        pytest.param(files(), {"locked": True, "expires": 20800}, ["lock"], "differs", id="lock"),
        pytest.param(files(shadow="minji:!*:20000:0:99999:7::1:\n"), {"locked": True}, [], "ok", id="locked already"),
        pytest.param(
            files(shadow=f"minji:!{HASH}:20000:0:99999:7::1:\n"),
            {"expires": 20800},
            ["unlock, valid until 2026-12-12"],
            "differs",
            id="unlock brings the expiry back",
        ),
        pytest.param(
            files(shadow="minji:!!:20000:0:99999:7:::\n"),
            {},
            ["set the password field to '*' (no password)"],
            "differs",
            id="useradd's ! refuses key logins without PAM",
        ),
        pytest.param(
            files(shadow="minji::20000:0:99999:7:::\n"),
            {},
            ["set the password field to '*' (no password)"],
            "differs",
            id="an empty password is none that lets anybody in",
        ),
        pytest.param(
            files(passwd="minji:x:20001:100:old:/home/minji:/bin/bash\n"),
            {},
            ["set gid '20001' (was '100')"],
            "differs",
            id="fields",
        ),
        pytest.param(files(group="", gshadow=""), {}, ["create group gid 20001"], "differs", id="group is missing"),
    ],
)
def test_one_user(observed: dict[str, str | None], user: dict[str, object], operations: list[str], status: str) -> None:
    plan = run(observed, {**USER, **user})
    assert own(plan) == operations
    assert plan.users["minji"].status == status
    after = {**observed, **plan.files}
    again = run(after, {**USER, **user}, desired=plan.desired)
    assert again.operations == []


def test_a_gecos_stays_on_this_root_and_on_the_next() -> None:
    """provision emptied everybody's; a root that an image brings has nobody in it."""
    plan = run(files(passwd="minji:x:20001:20001:Kim, 김:/home/minji:/bin/bash\n"), USER)
    assert own(plan) == []
    fresh = run(files(account=False, group=""), USER, desired=plan.desired, root="/roots/b")
    assert "minji:x:20001:20001:Kim, 김:" in fresh.files["passwd"]
    # somebody's own change on the root that runs holds, also where it empties it
    later = run(files(), USER, desired=plan.desired)
    assert (own(later), later.desired.records["minji"].user.gecos) == ([], "")
    other = replace(plan.desired, records={"minji": replace(RECORD, user=replace(RECORD.user, uid=20009, gecos="Lee"))})
    assert ":Lee:" not in run(files(account=False, group=""), USER, desired=other, root="/roots/b").files["passwd"]
    said = run(files(passwd="minji:x:20001:20001:Kim:/home/minji:/bin/bash\n"), {**USER, "gecos": "Lee"})
    assert own(said) == ["set gecos 'Lee' (was 'Kim')"]


@pytest.mark.holds("a GECOS that is there stays", "a GECOS that node code of an older root cannot read is not recorded")
def test_an_odd_gecos_stays_and_is_not_recorded() -> None:
    plan = run(files(passwd="minji:x:20001:20001:a\x1b[2J\udcb1:/home/minji:/bin/bash\n"), USER)
    assert (own(plan), plan.desired.records["minji"].user.gecos) == ([], "")
    assert parse(render(plan.desired), "accounts.json").records.keys() == {"minji"}


@pytest.mark.parametrize(
    ("observed", "user", "words"),
    [
        pytest.param(files(), {"uid": 20002, "gid": 20002}, "exists here with uid '20001'", id="another uid"),
        pytest.param(files(), {"name": "junho"}, "belongs to 'minji'", id="uid of another name"),
        pytest.param(files(), {"name": "root"}, "exists here with uid '0'", id="root"),
        pytest.param(files(), {"name": "adm"}, "exists here with uid '900'", id="system account"),
        pytest.param(files(), {"name": "video"}, "uid 20001 belongs to 'minji'", id="system group"),
        pytest.param(files(account=False), {"name": "video"}, "a group 'video' exists", id="name of a group"),
        pytest.param(files(), {"uid": 0, "gid": 0}, "outside", id="uid 0"),
        pytest.param(files(), {"uid": 50000}, "outside", id="above the range"),
        pytest.param(files(), {"gid": 27}, "is not the uid", id="gid of sudo"),
        pytest.param(files(passwd=str(MINJI["passwd"]) * 2), {}, "more than one line", id="twice in passwd"),
        pytest.param(files(account=False, group="x:x:20001:\n"), {}, "belongs to the group 'x'", id="gid taken"),
    ],
)
def test_conflicts_leave_everything_alone(observed: dict[str, str | None], user: dict[str, object], words: str) -> None:
    name = str({**USER, **user}["name"])
    good = {"name": "good", "uid": 20100}
    plan = run(observed, {**USER, **user}, good)
    assert plan.users[name].status == "conflict"
    assert words in str(plan.users[name].problem)
    assert own(plan, name) == []
    assert own(plan, "good") == ["create uid 20100", "join gpuusers"]
    assert name not in plan.desired.records
    without = run(observed, good)
    assert plan.files == without.files


@pytest.mark.parametrize(
    ("absent", "status", "operations"),
    [
        ({}, "removed", ["remove account uid 20001", "remove ssh keys", "end linger"]),
        ({"uid": 20002}, "conflict", []),
        ({"name": "root", "uid": 0}, "conflict", []),
        ({"name": "adm", "uid": 20001}, "conflict", []),
        ({"name": "nobody-here", "uid": 20005}, "removed", []),
        ({"uid": None}, "conflict", []),
    ],
)
def test_removal(absent: dict[str, object], status: str, operations: list[str]) -> None:
    wanted = {**USER, **absent}
    observed = files()
    plan = run(
        observed, absent=[wanted], desired=DesiredState(SETTINGS, {"minji": RECORD}),
        keys={"minji": b"k"}, linger=frozenset({"minji"}),
    )  # fmt: skip
    label = str(wanted["name"]) if wanted["uid"] is not None else f"'{wanted['name']}'"
    assert plan.users[label].status == status
    assert own(plan, label) == operations
    if operations:
        assert plan.files["passwd"] == BASE["passwd"]
        assert plan.files["shadow"] == BASE["shadow"]
        assert plan.files["gshadow"] == str(BASE["gshadow"]).replace("::minji", "::")
        assert plan.desired.records == {}
        assert plan.desired.removed == (("minji", 20001),)
        after = {**observed, **plan.files}
        assert run(after, absent=[wanted], desired=plan.desired).operations == []
    else:
        assert plan.files == {}


def test_a_name_with_a_new_uid() -> None:
    user = {"name": "minji", "uid": 20002}
    plan = run(files(), user, absent=[USER])
    assert own(plan)[:2] == ["remove account uid 20001", "create uid 20002"]
    assert "minji:x:20002:20002:" in plan.files["passwd"]
    assert "20001" not in plan.files["passwd"] + plan.files["group"]
    assert run({**files(), **plan.files}, user, absent=[USER], desired=plan.desired).operations == []


def test_password_and_memberships_reach_a_new_root_and_are_observed_on_the_old() -> None:
    group = str(BASE["group"]).replace("video:x:44:adm", "video:x:44:adm,minji")
    seen = {**files(shadow=f"minji:{HASH}:20100:0:99999:7:::\n"), "group": group + str(MINJI["group"])}
    first = run(seen, USER)
    record = first.desired.records["minji"]
    assert (record.password, record.password_changed, record.groups) == (HASH, 20100, ("video",))
    assert first.operations == ["accounts.json: record the accounts"]
    new_root = run(files(account=False), USER, desired=first.desired, root="/roots/b")
    assert f"minji:{HASH}:20100:" in new_root.files["shadow"]
    assert "video:x:44:adm,minji\n" in new_root.files["group"]
    assert "video:*::adm,minji\n" in new_root.files["gshadow"]
    assert new_root.desired.root == "/roots/b"
    # On the root that was applied last, what an admin changed by hand is what counts.
    by_hand = run(files(), USER, desired=first.desired)
    assert by_hand.desired.records["minji"].groups == ()
    assert by_hand.desired.records["minji"].password is None
    # An older root (a fallback) is brought to what was recorded since.
    fallback = run(files(shadow="minji:$old:19000:0:99999:7:::\n"), USER, desired=first.desired, root="/roots/old")
    assert own(fallback) == ["restore the recorded password", "join video"]


def test_a_group_that_a_root_lacks_is_not_forgotten_and_an_orphan_s_hash_is_nobody_s() -> None:
    desired = DesiredState(SETTINGS, {"minji": replace(RECORD, groups=("render",))}, root="/roots/a")
    plan = run(files(), USER, desired=desired)
    assert plan.operations == []
    assert plan.desired.records["minji"].groups == ("render",)
    plan = run(files(passwd="", shadow=f"minji:{HASH}:1:0:99999:7:::\n"), USER)
    assert HASH not in plan.files["shadow"]
    assert f"minji:*:{TODAY}:" in plan.files["shadow"]


def test_a_subset_is_merged() -> None:
    desired = DesiredState(
        SETTINGS, {"junho": Record(User("junho", 20003, 20003, home="/home/junho"))}, root="/roots/z"
    )
    plan = run(files(), USER, desired=desired)
    assert set(plan.desired.records) == {"junho", "minji"}
    assert plan.desired.root == "/roots/z"  # not all were applied to this root
    assert "junho" not in plan.users


def test_who_is_wanted_and_absent_at_once_or_unknown_is_kept() -> None:
    plan = run(files(), USER, absent=[USER])
    assert plan.users["minji"].status == "conflict"
    assert plan.files == {}
    plan = run(files(), {"name": "yuna", "uid": 20004})
    assert plan.users["minji"].status == "unknown"
    assert "minji:x:20001" in plan.files["passwd"]
    assert plan.conflicts == []


@pytest.mark.parametrize(
    ("group", "words"),
    [("gpuusers:x:500:\n", "has gid 500 here"), ("other:x:19999:\n", "belongs to 'other'")],
)
def test_the_sites_group_in_conflict(group: str, words: str) -> None:
    observed = {**files(account=False), "group": f"root:x:0:\n{group}"}
    plan = run(observed, USER)
    assert words in plan.failures[0]
    assert own(plan) == ["create uid 20001"]
    assert group in plan.files["group"]


def test_a_host_without_logins() -> None:
    settings = replace(SETTINGS, login=False, docker_data="/local/.docker")
    plan = run(files(account=False), {**USER, "keys": ["ssh-ed25519 " + "A" * 40]}, settings=settings)
    assert "minji:x:20001:20001::/home/minji:/usr/sbin/nologin\n" in plan.files["passwd"]
    assert plan.keys == {}
    assert plan.docker == []
    assert "subuid" not in plan.files


@pytest.mark.parametrize(
    ("facts", "operations", "problem"),
    [
        ({}, ["make /local/.docker/minji"], None),
        ({"docker_parent": True, "docker": {"minji": ("directory", 20001)}}, [], None),
        (
            {"docker_parent": True, "docker": {"minji": ("directory", 20009)}},
            [],
            "not 20001: kept. If the data is minji's: chown 20001:20001 /local/.docker/minji. If not: mv ",
        ),
        ({"docker_parent": True, "docker": {"minji": ("symbolic link", 20001)}}, [], "symbolic link"),
        ({"docker_problem": "/local/.docker is on nfs4"}, [], "nfs4"),
    ],
)
def test_docker(facts: dict[str, object], operations: list[str], problem: str | None) -> None:
    plan = run(files(), USER, settings=replace(SETTINGS, docker_data="/local/.docker"), **facts)
    assert [one for one in own(plan) if "subuid" not in one and "subgid" not in one] == operations
    assert (problem or "") in str(plan.users["minji"].problem)
    assert plan.files["subuid"] == "minji:2147549184:65536\n"


def test_the_ranges_are_read_once_however_many_people_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each person was 40 seconds on a host with 5,000 of them, where nothing was to be done."""
    calls = []
    read = subids.parse
    for module in (subids, docker):
        name = "parse" if module is subids else "parse_ranges"
        monkeypatch.setattr(module, name, lambda text: calls.append(text) or read(text))
    people = [{"name": f"user{number}", "uid": 20100 + number} for number in range(20)]
    there = {f"user{number}": ("directory", 20100 + number) for number in range(20)}
    settings = replace(SETTINGS, docker_data="/local/.docker")
    plan = run(files(), *people, settings=settings, docker_parent=True, docker=there)
    assert (plan.docker, {one.problem for one in plan.users.values() if one.status == "conflict"}) == ([], set())
    assert len(calls) == 2, "subuid and subgid"


def test_whoever_is_locked_out_gets_no_place_for_docker_data() -> None:
    """A node that boots between the wipe and the end of the account must not make one."""
    settings = replace(SETTINGS, docker_data="/local/.docker")
    locked = run(files(shadow="minji:!*:20000:0:99999:7::1:\n"), {**USER, "locked": True}, settings=settings)
    assert locked.docker == []
    assert "minji:" in (locked.files["subuid"] or ""), "what lies elsewhere under these ids stays hers"


def test_subids_outlive_the_account_while_docker_data_is_there() -> None:
    settings = replace(SETTINGS, docker_data="/local/.docker")
    seen = {**files(), "subuid": "minji:100000:65536\n", "subgid": "minji:100000:65536\n"}
    kept = {"docker_parent": True, "docker": {"minji": ("directory", 20001)}}
    assert "subuid" not in run(seen, absent=[USER], settings=settings, **kept).files
    assert "subuid" not in run(seen, absent=[USER], settings=settings).files  # data could not be looked for
    assert run(seen, absent=[USER], settings=settings, docker_parent=True).files["subuid"] == ""
    assert "subuid" not in run(seen, {**USER, "docker": False}, settings=settings, docker_parent=True).files


def test_directory_mode() -> None:
    settings = replace(SETTINGS, source="directory", docker_data="/local/.docker", gid=19999)
    users = [{"name": name, "uid": None} for name in ("minji", "late", "daemon", "far")]
    identities = {"minji": (40001, 100), "daemon": (1, 1), "far": (1234567, 100)}
    seen = files(account=False)
    plan = run(seen, *users, settings=settings, identities=identities)
    assert {name: entry.status for name, entry in plan.users.items()} == {
        "minji": "differs", "late": "unknown", "daemon": "conflict", "far": "conflict",
    }  # fmt: skip
    assert set(plan.files) == {"subuid", "subgid"}
    assert plan.docker[0] == ("minji", 40001, 100)
    assert plan.files["subuid"] == f"minji:{2147483648 + 20001 * 65536}:65536\n"
    assert "beyond the last id" in str(plan.users["far"].problem)
