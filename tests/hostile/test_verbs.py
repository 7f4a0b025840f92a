"""The verbs of the storage host and of a node, done by root while hostile people are at work in what they touch.

Nothing of anybody else's is lost, read, delayed beyond the budget or left unlocked, and the report names the culprit.
Each seed is another attack; GPUADMIN_HOSTILE_SEED repeats one, GPUADMIN_HOSTILE_ONLY narrows it to a few tricks.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import files
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import converge
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request as AccountsRequest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set, making, restore
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import attic
from ansible_collections.gpuadmin.node.plugins.module_utils.people import Person
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes, leftovers, scratch, term_facts

from tests.support import independent
from tests.support.hostile_scene import (
    BUDGET,
    HONEST,
    HOSTILE,
    SECOND,
    SEEDS,
    Scene,
    ending,
    scene,
    wanted,
)
from tests.support.storage import FIRST

pytestmark = pytest.mark.btrfs
LEAVERS, STAYING = ("hana", "trudy"), ("jiho", "sora")
PEOPLE = [Person(name, uid) for name, uid in (HONEST | HOSTILE).items()]


def backing_up(it: Scene) -> None:
    """Everybody honest is in the set and verified; whoever is not, is a problem by name."""
    made = it.verb("backup", it.storage.backup)
    it.expect(made is not None and backup_set.load(str(it.storage.directory), FIRST), "there is no backup")
    if made is None:
        return
    for name in HONEST:
        it.expect(name in made.homes and made.homes[name].verified, f"{name}'s home is not backed up and verified")
    for name in HOSTILE:
        it.expect(name in made.homes or name in made.problems, f"nothing is said of {name}'s home")
    it.culprits("backup", [f"{name}: {problem}" for name, problem in made.problems.items()])


def verifying(it: Scene) -> None:
    made = backup_set.load(str(it.storage.directory), FIRST)
    if made is None:
        return
    sound = sorted(name for name, home in made.homes.items() if home.verified)
    others = sorted(made.homes.keys() - sound)
    it.verb("verify-backup", lambda: making.verify(made, sound, 1, again=True))
    if others:  # what could not be restored when the set was made cannot now: nobody but its owner is concerned
        it.verb("verify-backup of the others", lambda: making.verify(made, others, 1, again=True), refusal=True)


def facts(it: Scene) -> None:
    """What a semester's end asks of a host, again and again: no churn keeps it from an answer."""
    tops = [str(one) for one in it.scratch]

    def ask() -> None:
        for _ in range(10):
            term_facts.collect(
                PEOPLE, home_root=str(it.storage.root), mountpoint=str(it.point),
                backup_directory=str(it.storage.directory), directories=tops,
            )  # fmt: skip

    it.verb("facts", ask)


def wiping_scratch(it: Scene) -> None:
    """What leavers left in shared directories goes, as far as it is theirs; what others have there stays."""
    tops = [str(one) for one in it.scratch]
    found = it.verb("scratch facts", lambda: scratch.observe(tops, None, PEOPLE))
    if found is None:
        return
    items = [item for item in found.items if item.user in LEAVERS]
    request = scratch.Request(items, tops, [one for one in PEOPLE if one.name in LEAVERS])
    done = it.verb("scratch wipe", lambda: scratch.wipe(request))
    if done is None:
        return
    plan, _purged = done
    for path, item in plan.entries.items():
        it.expect(item.status != "conflict" or item.user == "trudy", f"scratch: {path} of {item.user}: {item.problem}")
    for top in it.scratch:
        it.expect(not (top / "of-hana").exists(), f"hana's files in {top.name} are still there")


def wiping(it: Scene) -> None:
    """An honest and a hostile home go in one call."""
    request = it.storage.wiping(*((name, (HONEST | HOSTILE)[name]) for name in LEAVERS))
    plan = it.verb("wipe", lambda: homes.converge(request))
    purged = it.verb("wipe's deleting", lambda: homes.empty_trash(request))
    if plan is not None:
        it.culprits("wipe", plan.conflicts)
    it.expect("hana" not in it.storage.names, "hana's home is still there")
    if purged is not None:
        it.expect("hana" in purged and not purged["hana"].kept, "not all of hana's home is deleted")
    waiting = it.verb("leftovers", lambda: leftovers.names(str(it.storage.root))) or []
    it.culprits("leftovers", [name.rpartition("/")[2] for name in waiting])
    wanted = leftovers.Request(str(it.storage.root), str(it.point))
    it.verb("clear-leftovers", lambda: leftovers.clear(wanted), refusal=True)


def restoring(it: Scene) -> None:
    """An honest home comes back beside; parts of a hostile one to where its owner is at work."""
    if backup_set.load(str(it.storage.directory), FIRST) is None:
        return
    jiho = it.verb("restore-home jiho", lambda: restore.execute(wanted(it, "jiho")))
    if jiho is not None:
        it.same("jiho's home, restored beside,", it.before["jiho"], Path(str(jiho["target"])))
    sora = it.verb("restore-home sora --path", lambda: restore.execute(wanted(it, "sora", path="data/set")))
    if sora is not None:
        it.expect(mode_for_others(Path(str(sora["target"]))) == 0, "a part of sora's home is open to others")
    for path in ("thesis", "w0-links", ""):
        part = wanted(it, "mallory", mode="in-place", path=path)
        it.verb(f"restore-home mallory --in-place {path}", lambda part=part: restore.execute(part), refusal=True)


def mode_for_others(path: Path) -> int:
    """What others may do with what was restored, as far as they come to it from the homes."""
    mode, here = 0o777, path
    while here.parent.name != "homes":
        mode, here = mode & here.stat().st_mode, here.parent
    return mode & here.stat().st_mode & 0o077


def archiving(it: Scene) -> None:
    """remove-user --archive-home, for an honest and for a hostile person."""
    minji = it.verb("remove-user minji --archive-home", lambda: archive(it, "minji"))
    it.verb("remove-user eve --archive-home", lambda: archive(it, "eve"), refusal=True)
    it.expect("minji" not in it.storage.names, "minji's home is not in the attic")
    if minji is not None:
        it.same("minji's home in the attic", it.before["minji"], Path(minji))


def archive(it: Scene, name: str) -> str:
    return attic.move(str(it.storage.root), name, name, (HONEST | HOSTILE)[name])


def locking(it: Scene) -> None:
    """An account is locked, whoever holds what of the files that they can open."""
    root = it.base / "node"
    host = converge.Host(root=str(root), subvolume="/roots/a", network=lambda _path: None)
    users = [{"name": name, "uid": 20000 + number, "locked": False} for number, name in enumerate(HONEST | HOSTILE)]
    for number in range(3):
        locked = number % 2 == 0
        asked = [{**user, "locked": locked and user["name"] == "mallory"} for user in users]
        it.verb(f"lock-user {number}", lambda asked=asked: converge.converge(AccountsRequest(Settings(), asked), host))
        for line in (root / "etc/shadow").read_text().splitlines():
            name, password, *_ = line.split(":")
            if name in HONEST | HOSTILE:
                it.expect(
                    (password.startswith("!") and line.split(":")[7] != "") == (locked and name == "mallory"),
                    f"{name} is {'not ' * locked}locked after step {number}: {line}",
                )
    for lock in (backup_set.LOCK, homes.LOCK, str(root / "run/gpuadmin/accounts.lock")):
        it.verb(f"taking {lock}", lambda lock=lock: taken(lock))


def taken(lock: str) -> None:
    with files.flocked(lock, seconds=BUDGET - 1):
        pass


def make_node(it: Scene) -> None:
    """A directory that looks like a node's root, which people can look into."""
    root = it.base / "node"
    for part in ("etc", "var/lib/systemd/linger", "run/gpuadmin"):
        (root / part).mkdir(parents=True)
    for name, text, mode in (
        ("passwd", "root:x:0:0:root:/root:/bin/bash\n", 0o644),
        ("shadow", "root:*:20000:0:99999:7:::\n", 0o640),
        ("group", "root:x:0:\n", 0o644),
        ("gshadow", "root:*::\n", 0o640),
        ("subuid", "", 0o644),
        ("subgid", "", 0o644),
    ):
        (root / "etc" / name).write_text(text)
        (root / "etc" / name).chmod(mode)


def afterwards(it: Scene) -> None:
    """The dust has settled: homes are what they were, and a hostile home comes back as it is."""
    for name in STAYING:
        it.same(f"{name}'s home", it.before[name], it.storage.root / name)
    it.same("what is root's", it.canaries, it.elsewhere)
    for path, before in it.theirs.items():
        if not path.endswith("hana"):
            it.same(f"scratch {Path(path).name}", before, Path(path))
    it.loot()
    made = backup_set.load(str(it.storage.directory), FIRST)
    if made is not None and "hana" in made.homes:
        back = it.verb("restore-home hana", lambda: restore.execute(wanted(it, "hana", mode="in-place")))
        if back is not None:
            it.same("hana's home, restored,", it.before["hana"], Path(str(back["target"])))
    for name in HOSTILE:
        if made is not None and name in made.homes and made.homes[name].verified:
            back_again(it, made, name, it.snapshot(made, name), f"{name}'s home as it was under attack,")
    archived_at_last(it)
    last = it.verb("the backup afterwards", lambda: it.storage.backup(SECOND))
    if last is not None:
        home = it.storage.root / "mallory"
        it.expect("mallory" in last.homes, f"mallory's home is not backed up: {last.problems.get('mallory')}")
        if "mallory" in last.homes:
            back_again(it, last, "mallory", dict(independent.manifest(str(home))), "mallory's home as it is,")


def archived_at_last(it: Scene) -> None:
    """A hostile home whose owner has gone is moved as it is, if it is still there."""
    home = it.storage.root / "eve"
    if not home.exists():
        return
    before = independent.manifest(str(home))
    place = it.verb("remove-user eve --archive-home afterwards", lambda: archive(it, "eve"))
    it.same("eve's home, moved to the attic,", before, home if place is None else Path(place))


def back_again(it: Scene, made: backup_set.Backup, name: str, want: dict[str, object], what: str) -> None:
    target = it.out / f"{name}-{made.name}"
    request = wanted(it, name, backup=made.name, mode="directory", target=str(target))
    if it.verb(f"restore-home {name} --to", lambda: restore.execute(request)) is not None:
        it.same(f"{what} restored,", want, target)
        it.nothing_of_others(target)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_verbs_under_attack(seed: int) -> None:
    seed = seed or time.time_ns() % 10**8
    with scene(seed) as it:
        make_node(it)
        it.start("sora", ["/bin/sleep", "1000"])
        it.attack()
        backing_up(it)
        steps: list[Callable[[Scene], None]] = [
            verifying, facts, wiping_scratch, wiping, restoring, archiving, locking,
        ]  # fmt: skip
        random.Random(seed).shuffle(steps)
        for step in steps:
            step(it)
        ending(it)
        afterwards(it)
        slow = [what for what, seconds in it.took.items() if seconds > BUDGET]
        it.expect(not slow, f"beyond the budget: {slow}")
        it.done()
