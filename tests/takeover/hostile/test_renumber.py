"""A boot that changes ids, after hostile people were at work until the reboot: nothing keeps an old id or is lost."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.takeover.node.renumbering.crawl import crawl
from gpuadmin.takeover.node.renumbering.journal import Journal, Plan, Renumbering
from gpuadmin.takeover.node.renumbering.sweeping import run_phases
from gpuadmin.takeover.node.renumbering.task import Tally
from tests.support import independent
from tests.support.hostile_scene import HONEST, HOSTILE, SEEDS, alive, scene
from tests.support.storage import run

pytestmark = [pytest.mark.root, pytest.mark.btrfs]


def without_owner(found: dict[str, Any], uid: int) -> dict[str, Any]:
    """The same tree with nothing said of its owner, whose all of it is."""
    assert {(one["uid"], one["gid"]) for one in found.values()} == {(uid, uid)}
    return {
        path: {key: value for key, value in one.items() if key not in ("uid", "gid")} for path, one in found.items()
    }


def owners(point: Path) -> Counter[int]:
    """How many entries each uid has, by find, which goes into subvolumes too."""
    return Counter(int(line) for line in run("find", point, "-printf", "%U\n").split())


@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_people_and_an_honest_one_change_places(seed: int, tmp_path: Path) -> None:
    with scene(seed) as it:
        jiho, mallory, trudy = HONEST["jiho"], HOSTILE["mallory"], HOSTILE["trudy"]
        people = [
            Renumbering("jiho", jiho, mallory, jiho), Renumbering("mallory", mallory, jiho, mallory),
            Renumbering("trudy", trudy, trudy + 50, trudy),
        ]  # fmt: skip
        it.attack(*HOSTILE)
        it.end_sessions()  # as the reboot does
        assert {name: alive(uid) for name, uid in HOSTILE.items()} == {name: [] for name in HOSTILE}
        it.loot()
        before = owners(it.point)
        tree = os.open(it.point, os.O_RDONLY | os.O_DIRECTORY)

        def sweep(plan: Plan, phase: int, _number: int, apply: bool) -> Tally:
            return crawl(tree, plan.task(phase, "x", apply), workers=2, directory=str(tmp_path))

        begun = Journal(tuple(people), plan=Plan.of(people))
        _walks, left = run_phases(begun, ["x"], sweep, lambda _: None, lambda *_: None)
        os.close(tree)
        assert (left.plan, left.kept) == (Plan(), {})
        moved = {one.old: one.new for one in people}
        assert owners(it.point) == Counter({moved.get(uid, uid): count for uid, count in before.items()})
        want, now = it.before["jiho"], independent.manifest(str(it.storage.root / "jiho"))
        assert independent.differences(without_owner(want, jiho), without_owner(now, mallory)) == []
        for name in ("sora", "hana", "minji"):
            it.same(f"{name}'s home", it.before[name], it.storage.root / name)
        assert it.failures == []
