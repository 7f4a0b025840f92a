"""People in Slurm's accounting: what sacctmgr is told, and what it is not."""

from dataclasses import replace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.accounts import (
    Person,
    Seen,
    commands,
    find_jobs,
    parse_slurm_people,
    seen,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.booking import Reservation

from gpuadmin.common.records.queue import Group

EVERYBODY = Group("people", 10, 24, 20)
LAB = Group("lab", 30, 72, 50, gpus=4)
GROUPS = (EVERYBODY, LAB)
TODAY = 20000


def words(groups: tuple[Group, ...], people: list[Person], there: Seen) -> list[str]:
    return [" ".join(one).removeprefix("sacctmgr -i ") for one in commands(groups, people, there)]


def settled(people: str) -> Seen:
    """Both groups are there as they should be, and these people."""
    accounts = "root||1|\npeople||10|\nlab||30|\n"
    return seen(
        accounts + people,
        "normal||||\nexception|PartitionTimeLimit|||\npeople|DenyOnLimit||1-00:00:00|20\nlab|DenyOnLimit|gres/gpu=4|3-00:00:00|50\n",
        projects="".join(f"{line.split('|')[1]}|0\n" for line in ("root|root||", *people.splitlines())),
    )


def test_a_new_cluster() -> None:
    people = [Person("jiho", "people", False), Person("minji", "lab", False), Person("sora", "people", False)]
    assert words(GROUPS, people, Seen()) == [
        "add qos exception Priority=1 Flags=PartitionTimeLimit",
        "add qos people",
        "modify qos people set Flags=DenyOnLimit MaxTRESPerUser=cpu=-1,gres/gpu=-1,mem=-1,node=-1 MaxWall=1-00:00:00 "
        "MaxSubmitJobsPerUser=20",
        "add account people fairshare=10",
        "add qos lab",
        "modify qos lab set Flags=DenyOnLimit MaxTRESPerUser=cpu=-1,gres/gpu=4,mem=-1,node=-1 MaxWall=3-00:00:00 "
        "MaxSubmitJobsPerUser=50",
        "add account lab fairshare=30",
        "add user jiho,sora account=people qos=people defaultqos=people",
        "add user minji account=lab qos=lab defaultqos=lab",
        "add user jiho,minji,sora wckey=0",
        "modify user where name=jiho,minji,sora set defaultwckey=0",
    ]


@pytest.mark.parametrize(("memory", "said"), [(400, "400G"), (2048, "2T"), (1536, "1.50T"), (1300, "1.27T")])
def test_what_the_jobs_of_one_person_may_have(memory: int, said: str) -> None:
    """Memory as Slurm 24.11 prints it, or each run would set it again."""
    lab = Group("lab", 30, 72, 50, gpus=4, cpus=64, memory=memory, nodes=2)
    accounts = "root||1|\nlab||30|\n"
    tres = f"cpu=64,gres/gpu=4,mem={said},node=2"
    before = seen(accounts, "exception||||\nlab|DenyOnLimit|gres/gpu=4|3-00:00:00|50\n")
    told = "modify qos lab set Flags=DenyOnLimit MaxTRESPerUser={} MaxWall=3-00:00:00 MaxSubmitJobsPerUser=50"
    assert words((lab,), [], before) == [told.format(tres.replace(said, f"{memory}G"))]
    assert words((lab,), [], seen(accounts, f"exception||||\nlab|DenyOnLimit|{tres}|3-00:00:00|50\n")) == []


def test_nothing_is_told_twice() -> None:
    people = [Person("jiho", "people", False), Person("minji", "lab", False), Person("sora", "people", True)]
    assert words(GROUPS, people, settled("people|jiho|1|\nlab|minji|1|\npeople|sora|1|0\n")) == []


@pytest.mark.holds("whoever is locked keeps nothing from others that they have booked")
def test_what_somebody_has_booked_who_is_locked_goes() -> None:
    people = [Person("jiho", "people", True), Person("minji", "lab", False)]
    booked = [
        Reservation(f"gpu-book-{name}-1", ["gpu1"], users, 1, 2)
        for name, users in (("jiho", ["jiho"]), ("minji", ["minji"]), ("jiho", ["jiho", "minji"]), ("sora", ["jiho"]))
    ]
    there = settled("people|jiho|1|0\nlab|minji|1|\n")
    assert words(GROUPS, people, replace(there, bookings=booked)) == ["scontrol delete ReservationName=gpu-book-jiho-1"]


def test_who_is_locked_submits_nothing() -> None:
    people = [Person("jiho", "people", True)]
    assert words(GROUPS, people, settled("people|jiho|1|\n")) == [
        "modify user where name=jiho account=people set maxsubmitjobs=0",
    ]


def test_what_closes_comes_first() -> None:
    """Whatever Slurm refuses of the rest, or whenever the run is cut off."""
    people = [Person("minji", "lab", False), Person("jiho", "people", True)]
    booked = [Reservation("gpu-book-jiho-1", ["gpu1"], ["jiho"], 1, 2)]
    found = words(GROUPS, people, replace(seen("people||10|\npeople|jiho|1|\n", ""), bookings=booked))
    assert found[:2] == [
        "modify user where name=jiho account=people set maxsubmitjobs=0",
        "scontrol delete ReservationName=gpu-book-jiho-1",
    ]  # fmt: skip


def test_jobs_of_whoever_is_locked_are_found_by_uid() -> None:
    """An account that this host has no more has another name there, and a name of the site may be somebody else's."""
    people = [
        Person("jiho", "people", True, 20001),
        Person("sora", "people", True),
        Person("minji", "lab", False, 20000),
    ]
    lines = ["4|nobody|20001|", "", "5 |minji |20000 |", "6|jiho|20009|", "7|sora|20003|", "4|nobody|20001|"]
    assert find_jobs(people, lines, "|") == ["4", "7"]


def test_who_may_not_is_not_added() -> None:
    assert words(GROUPS, [Person("jiho", "people", True)], settled("")) == []


def test_who_is_unlocked_may_again() -> None:
    assert words(GROUPS, [Person("jiho", "people", False)], settled("people|jiho|1|0\n")) == [
        "modify user where name=jiho account=people set maxsubmitjobs=-1"
    ]


@pytest.mark.holds("nobody asks by a group that they have left", "what whoever is locked has used stays where it was")
def test_who_changes_groups_while_they_are_locked() -> None:
    both = settled("people|minji|1|0\nlab|minji|1|0\n")
    assert words(GROUPS, [Person("minji", "lab", True)], both) == []
    assert words(GROUPS, [Person("minji", "lab", False)], both) == [
        "delete user where name=minji account=people",
        "modify user where name=minji account=lab set maxsubmitjobs=-1",
    ]


def test_who_changes_groups_is_in_the_new_one_before_they_leave_the_old_one() -> None:
    assert words(GROUPS, [Person("minji", "lab", False)], settled("people|minji|1|\n")) == [
        "add user minji account=lab qos=lab defaultqos=lab",
        "modify user where name=minji set defaultaccount=lab",
        "modify user where name=minji account=people set maxsubmitjobs=0",
        "delete user where name=minji account=people",
    ]


def test_who_is_not_mentioned_is_kept() -> None:
    assert words(GROUPS, [], settled("people|jiho|1|\npeople|somebody|1|0\n")) == []


def test_limits_that_were_changed_by_hand_come_back() -> None:
    there = seen(
        "people||11|\nlab||30|\n",
        "exception||||\npeople|DenyOnLimit|gres/gpu=9|1-00:00:00|20\nlab|DenyOnLimit|gres/gpu=4|3-00:00:00|50\n",
    )
    assert words(GROUPS, [], there) == [
        "modify qos people set Flags=DenyOnLimit MaxTRESPerUser=cpu=-1,gres/gpu=-1,mem=-1,node=-1 MaxWall=1-00:00:00 "
        "MaxSubmitJobsPerUser=20",
        "modify account people set fairshare=10",
    ]


def test_whose_account_is_over_or_who_has_left_is_locked() -> None:
    users = [
        {"name": "jiho", "group": "elsewhere"}, {"name": "minji", "locked": True, "group": "lab"},
        {"name": "sora", "expires": TODAY - 1},
        {"name": "yuna", "expires": TODAY},
    ]  # fmt: skip
    found = parse_slurm_people(users, [{"name": "gone"}], GROUPS, TODAY)
    assert {one.name: (one.group, one.locked) for one in found} == {
        "jiho": ("people", False), "minji": ("lab", True), "sora": ("people", True), "yuna": ("people", False),
        "gone": ("people", True),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["-x", "a b", "a,b", "", None, "root;"])
def test_what_is_no_name_is_given_to_no_program(name: object) -> None:
    with pytest.raises(NodeError, match="is not a name"):
        parse_slurm_people([{"name": name}], [], GROUPS, TODAY)


@pytest.mark.holds("nobody computes for a project that they have left", "who is in no project submits jobs as before")
def test_projects_follow_users_yml() -> None:
    """Those of people whom nobody knows stay, and whoever is locked joins none."""
    people = parse_slurm_people(
        [
            {"name": "minji", "projects": ["nlp", "bio"]}, {"name": "jiho"}, {"name": "sora", "projects": ["nlp"]},
            {"name": "kim", "locked": True, "projects": ["nlp"]}, {"name": "yuna", "projects": ["bio"]},
        ],
        [], GROUPS, TODAY,
    )  # fmt: skip
    names = ("minji", "jiho", "sora", "yuna")
    there = settled("".join(f"people|{name}|1|\n" for name in names) + "people|kim|1|0\n")
    lines = "minji|nlp\njiho|nlp\njiho|old\njiho|0\nsora|0\nsora|nlp\nyuna|0\nother|x\nodd\n"
    known = seen("", "", projects=lines).projects
    assert words(GROUPS, people, replace(there, projects=known)) == [
        "add user kim,minji wckey=0", "add user minji wckey=bio", "delete user where name=jiho wckey=nlp,old",
        "add user yuna wckey=bio", "modify user where name=kim,minji,yuna set defaultwckey=0",
    ]  # fmt: skip


@pytest.mark.parametrize("projects", [["-x"], ["a,b"], [7], "nlp", ["*"]])
def test_what_is_no_project(projects: object) -> None:
    with pytest.raises(NodeError, match="projects are not names"):
        parse_slurm_people([{"name": "minji", "projects": projects}], [], GROUPS, TODAY)
