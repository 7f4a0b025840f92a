"""A host's files and databases, renumbered for real: killed in the middle, and gone on with."""

import errno
import functools
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import inode_flags
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.takeover.node.renumbering import (
    journal,
    journals,
    looking,
    running,
    trees,
    work,
)
from gpuadmin.takeover.node.renumbering.decide import Numbers, Wanted
from gpuadmin.takeover.node.renumbering.ids import Move, phases
from gpuadmin.takeover.node.renumbering.journal import Journal, Plan
from gpuadmin.takeover.node.renumbering.sweeping import run_phases
from gpuadmin.takeover.node.renumbering.task import Tally, Task
from tests.support.storage import mounted, run

pytestmark = [pytest.mark.root, pytest.mark.needs("setcap", "chattr")]

ROOT = Path(__file__).resolve().parents[5]
MINJI, JIHO = 39101, 39102
SWAP = [Wanted("minji", JIHO), Wanted("jiho", MINJI)]
EXPECTED = {"minji": [MINJI, JIHO], "jiho": [JIHO, MINJI]}
SUBIDS = 2**31
CAPABILITY = struct.pack("<IIIII", 0x02000001, 0x2000, 0, 0, 0)
OF_A_NAMESPACE = struct.pack("<IIIIII", 0x03000001, 0x2000, 0, 0, 0, MINJI)
#: Slow enough to be killed in the middle on any machine.
PROGRAM = """
import os, sys, time
sys.path[:0] = sys.argv[1:3]
lchown = os.lchown
os.lchown = lambda *given: (time.sleep(0.0005), lchown(*given))
from gpuadmin.takeover.node.renumbering import crawl, work
crawl.count_workers = lambda: 2
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
print(work.carry_out(Host(sys.argv[3]), sys.argv[4:]))
"""


def acl(*people: int) -> bytes:
    named = [(0x02, 6, uid) for uid in people]
    nobody = 2**32 - 1
    entries = [(0x01, 7, nobody), *named, (0x04, 5, nobody), (0x10, 7, nobody), (0x20, 0, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


def close(host: Host, *, armed: bool = False) -> None:
    """As people are closed for the swap, and the boot that carries it out is armed."""
    assert work.close(SWAP, EXPECTED, Numbers(), host)[1] == {}
    if armed:
        work.arm(host)


@pytest.fixture
def disk(host: Host, tmp_path: Path) -> Iterator[Path]:
    """The two people's accounts on a host, and a tree in which they and others have things."""
    etc = Path(host.path("etc"))
    for name, text in {
        "passwd": f"minji:x:{MINJI}:{MINJI}::/home/minji:/bin/sh\njiho:x:{JIHO}:{JIHO}::/home/jiho:/bin/sh\n",
        "shadow": "minji:$y$hers:20000:0:99999:7:::\njiho:$y$his:20000:0:99999:7::20999:\n",
        "group": f"minji:x:{MINJI}:\njiho:x:{JIHO}:\n",
        "subuid": f"minji:{SUBIDS + 19101 * 65536}:65536\njiho:{SUBIDS + 19102 * 65536}:65536\n",
        "subgid": f"minji:{SUBIDS + 19101 * 65536}:65536\njiho:{SUBIDS + 19102 * 65536}:65536\n",
    }.items():
        with (etc / name).open("a") as stream:
            stream.write(text)
    top = tmp_path / "disk"
    for name, uid, other in (("minji", MINJI, JIHO), ("jiho", JIHO, MINJI)):
        home = top / name
        for number in range(30):
            place = home / f"d{number % 6}" / f"e{number}"
            place.mkdir(parents=True)
            for file in range(40):
                (place / f"f{file}").touch()
        (home / "link").symlink_to("/etc/passwd")
        os.mkfifo(home / "pipe")
        for kind in ("setuid", "capable", "still", "shared", "of-a-container", "in-a-container", "hard"):
            (home / kind).write_bytes(b"x")
        os.truncate(home / "hard", 1 << 30)
        (home / os.fsdecode(b"odd\xff\n")).touch()
        os.link(home / "capable", home / "d0/capable too")
        os.link(home / "setuid", home / "d1/setuid too")
        os.link(home / "hard", home / "d5/e5/hard too")
        for entry in (home, *home.rglob("*")):
            os.lchown(entry, uid, uid)
        (home / "d2/others").touch()
        os.chown(home / "d2/others", 33000, uid)
        os.setxattr(home / "shared", "system.posix_acl_access", acl(other, 33000))
        os.setxattr(home / "d3", "system.posix_acl_default", acl(uid))
        os.chown(home / "in-a-container", SUBIDS + (uid - 20000) * 65536 + 999, uid)
        (home / "setuid").chmod(0o6755)
        os.setxattr(home / "capable", "security.capability", CAPABILITY)
        os.setxattr(home / "of-a-container", "security.capability", OF_A_NAMESPACE)
        subprocess.run(["chattr", "+i", str(home / "still"), str(home / "d4/e4/f7")], check=True)
    yield top
    for whose in ("minji", "jiho"):
        subprocess.run(["chattr", "-i", str(top / whose / "still"), str(top / whose / "d4/e4/f7")], check=True)


def manifest(top: Path, names: Mapping[int, str]) -> dict[str, tuple[object, ...]]:
    """All that is in a tree, with names for ids."""

    def name(one: int) -> object:
        return names.get(one, one) if one < SUBIDS else (names.get((one - SUBIDS) // 65536 + 20000), one % 65536)

    found: dict[str, tuple[object, ...]] = {}
    for full in top.rglob("*"):
        facts = full.lstat()
        regular = full.is_file() and not full.is_symlink()
        attributes = []
        for one in sorted(os.listxattr(full, follow_symlinks=False)):
            value = os.getxattr(full, one, follow_symlinks=False)
            parts: list[object] = [value]
            if one.startswith("system.posix"):
                entries = struct.iter_unpack("<HHI", value[4:])
                parts = sorted(((tag, rights, str(name(uid))) for tag, rights, uid in entries), key=str)
            elif len(value) == 24:
                parts = [value[:20], name(struct.unpack("<I", value[20:])[0])]
            attributes.append((one, parts))
        flag = 0
        if regular:
            handle = inode_flags.opened(str(full))
            flag = inode_flags.read_inode_flags(handle) & inode_flags.STOPS
            os.close(handle)
        found[str(full.relative_to(top))] = (
            name(facts.st_uid), name(facts.st_gid), oct(facts.st_mode), facts.st_nlink, facts.st_size,
            facts.st_blocks, facts.st_mtime_ns, str(attributes), flag,
        )  # fmt: skip
    return found


BEFORE, AFTER = {MINJI: "minji", JIHO: "jiho"}, {JIHO: "minji", MINJI: "jiho"}


def carry_out(host: Host, *trees: Path) -> subprocess.Popen[str]:
    words = [str(ROOT), str(ROOT / "gpuadmin/collections"), host.root, *map(str, trees)]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def database(host: Host, name: str) -> str:
    return Path(host.path(f"etc/{name}")).read_text()


@pytest.mark.parametrize("seed", range(4))
def test_killed_again_and_again_the_end_is_the_same(host: Host, disk: Path, seed: int) -> None:
    before = manifest(disk, BEFORE)
    shadow = database(host, "shadow")
    close(host, armed=True)
    assert "minji:!$y$hers:20000:0:99999:7::1:" in database(host, "shadow")
    chance = random.Random(seed)
    kills = 0
    while True:
        process = carry_out(host, disk)
        try:
            process.communicate(timeout=0.3 + chance.random() * 0.7 if kills < 8 else 120)
        except subprocess.TimeoutExpired:
            # the one that leads, or all at once, as systemd does it
            (os.kill if chance.random() < 0.5 else os.killpg)(process.pid, signal.SIGKILL)
            process.communicate()
            kills += 1
            continue
        break
    assert process.returncode == 0
    assert "minji:!$y$hers:20000:0:99999:7::1:" in database(host, "shadow"), "other hosts may not be done"
    assert work.reopen(host) == ["minji", "jiho"]
    assert kills, "it was too quick to be killed"
    assert manifest(disk, AFTER) == before
    assert f"minji:x:{JIHO}:{JIHO}:" in database(host, "passwd")
    assert f"jiho:x:{MINJI}:" in database(host, "group")
    assert f"minji:{SUBIDS + 19102 * 65536}:65536" in database(host, "subuid")
    assert database(host, "shadow") == shadow
    assert journal.load(host.path(host.state)) is None


@pytest.mark.holds("what was confirmed is what is done")
def test_what_was_decided_for_other_ids_is_not_done(host: Host, disk: Path) -> None:
    with pytest.raises(NodeError, match="not as it was decided"):
        work.close(SWAP, {"minji": [1001, JIHO]}, Numbers(), host)
    assert journal.load(host.path(host.state)) is None


@pytest.mark.holds(
    "what was begun is not given up", "no account is opened whose files are half another's",
    "nobody logs in while they are renumbered",
)  # fmt: skip
def test_what_was_closed_and_not_begun_is_given_up(host: Host, disk: Path) -> None:
    shadow = database(host, "shadow")
    close(host)
    work.close(SWAP, EXPECTED, Numbers(), host)  # once more, after the controller was killed
    assert looking.look([], Numbers(), host, measure=False)["closed"] == EXPECTED
    assert "minji:!$y$hers:20000:0:99999:7::1:" in database(host, "shadow"), "locked, and expired"
    assert "jiho:!$y$his:20000:0:99999:7::1:" in database(host, "shadow")
    assert work.give_up(host) == ["minji", "jiho"]
    assert database(host, "shadow") == shadow
    assert not work.give_up(host)
    close(host)
    work.arm(host)
    assert not work.give_up(host)
    with pytest.raises(NodeError, match="has not ended"):
        work.reopen(host)
    look = looking.look(SWAP, Numbers(), host, measure=False)
    assert (look["under_way"], look["closed"]) == (True, {})


@pytest.mark.holds("a password that somebody has set meanwhile stays", "another expiry stays")
def test_who_got_a_password_meanwhile_is_let_in_with_it(host: Host, disk: Path) -> None:
    close(host)
    shadow = Path(host.path("etc/shadow"))
    text = shadow.read_text().replace("!$y$hers", "$y$new")
    shadow.write_text(text.replace("!$y$his:20000:0:99999:7::1:", "!$y$his:20000:0:99999:7::20500:"))
    assert work.give_up(host)
    assert "minji:$y$new:20000:0:99999:7:::" in database(host, "shadow")
    assert "jiho:$y$his:20000:0:99999:7::20500:" in database(host, "shadow"), "an expiry that an admin has set"


@pytest.mark.holds("only a boot that was armed changes ids")
def test_a_boot_that_nobody_armed_changes_nothing(host: Host, disk: Path) -> None:
    """A power cut while accounts are being closed: another host may not be ready, or the controller gives up."""
    before = manifest(disk, BEFORE)
    close(host)
    assert work.carry_out(host, [str(disk)])["seen"] == 0
    assert manifest(disk, BEFORE) == before
    assert work.give_up(host) == ["minji", "jiho"]


@pytest.mark.holds(
    "what is mounted read-only stays so", "a look says what the disk has, and not memory",
    "a read-only root is opened only where somebody's files are in it, and not for a look",
    "what has changed hands is on the disk before it is looked at again",
)  # fmt: skip
@pytest.mark.parametrize("theirs", [{("uid", MINJI): "'x' still has an old id"}, {}], ids=["files in the root", "none"])
def test_what_is_read_only(
    host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch, theirs: dict[tuple[str, int], str]
) -> None:
    close(host, armed=True)
    local = [trees.Tree(f"{one} /", one) for one in ("/", "/fixed", "/data")]
    events: list[object] = []
    changed: set[int] = set()

    def crawl(handle: int, task: Task, **_: object) -> Tally:
        events.append((handle, "change" if task.apply else "look"))
        changed.update([task.phase] if (handle, task.apply) == (0, True) else [])
        return Tally(stuck={} if task.apply or handle or task.phase in changed else theirs)

    @contextmanager
    def open_root(*_: object, **__: object) -> Iterator[None]:
        events.append("open")
        yield
        events.append("closed")

    monkeypatch.setattr(work.trees, "detach", lambda _: nullcontext(range(3)))
    monkeypatch.setattr(work.trees, "is_read_only", lambda handle: handle < 2)
    monkeypatch.setattr(work, "lifted", lambda handles, _: nullcontext(events.append(handles)))
    monkeypatch.setattr(work, "crawl", crawl)
    monkeypatch.setattr(work, "open_root", open_root)
    monkeypatch.setattr(work, "sync_filesystem", lambda path: events.append(f"sync {Path(path).name}"))
    monkeypatch.setattr(work, "_drop_caches", lambda: events.append("drop"))
    found = journal.load(host.path(host.state))
    assert found is not None
    work._change(host, found, local)
    root = [(0, "look"), *(["open", (0, "change"), "closed"] if theirs else []), "drop", (0, "look")]
    data = [(2, "change"), "sync 2", "drop", (2, "look")]
    assert events == [[2], *([*root, "drop", *data] * 2)]


@pytest.mark.holds("ids change when every file system is there that had something")
def test_a_file_system_that_is_not_mounted_at_boot_is_named(
    host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = trees.Trees(
        (trees.Tree("/ /", "/"), trees.Tree("/data /", "/data"), trees.Tree("/run /", "/run", True)), ()
    )
    monkeypatch.setattr(trees, "find_local", lambda: there)
    close(host, armed=True)
    monkeypatch.setattr(work, "MOUNT_SECONDS", 0.0)
    monkeypatch.setattr(trees, "find_local", lambda: trees.Trees(there.local[:1], ()))
    with pytest.raises(NodeError, match="/data: not mounted at boot"):
        work.carry_out(host)
    assert f"minji:x:{MINJI}" in database(host, "passwd")


def test_a_file_system_that_comes_late_is_waited_for(host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `nofail`, local-fs.target does not wait for a disk (systemd.mount(5))."""
    there = trees.Trees((trees.Tree("/ /", "/"), trees.Tree("/data /", "/data")), ())
    monkeypatch.setattr(trees, "find_local", lambda: there)
    close(host, armed=True)
    answers = [trees.Trees(there.local[:1], ()), trees.Trees(there.local[:1], ()), there]
    monkeypatch.setattr(trees, "find_local", lambda: answers.pop(0))
    walked: list[object] = []
    monkeypatch.setattr(work, "_change", lambda _host, _found, local: walked.extend(local) or [])
    work.carry_out(host)
    assert walked == list(there.local)


@pytest.mark.holds("a grant of GPUs is not another's after a renumbering")
def test_who_has_a_grant_is_neither_closed_nor_renumbered(
    host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close(host, armed=True)
    given = types.SimpleNamespace(uid=JIHO)
    monkeypatch.setattr(running.grants, "read", lambda *_: ([given], []))
    with pytest.raises(NodeError, match="minji has a grant of GPUs"):
        work.carry_out(host, [str(disk)])
    journal.end(host.path(host.state))
    shadow = database(host, "shadow")
    assert set(work.close(SWAP, EXPECTED, Numbers(), host)[1]) == {"minji", "jiho"}
    assert database(host, "shadow") == shadow


@pytest.mark.holds("what a boot cannot have before people are there is in their way")
def test_who_has_files_on_a_disk_that_waits_for_the_network_is_refused(
    host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(host.path("etc/passwd")).open("a") as stream:
        stream.write("sora:x:39103:39103::/home/sora:/bin/sh\n")
    monkeypatch.setattr(trees, "find_local", lambda: trees.Trees((trees.Tree("x /", str(disk), late=True),), ()))
    monkeypatch.setattr(looking, "crawl", functools.partial(looking.crawl, workers=1))
    wanted = [Wanted("minji", 39111), Wanted("sora", 39112)]
    look = looking.look(wanted, Numbers(), host, measure=True)
    assert list(look["problems"]) == ["minji"]
    assert f"{disk} waits for the network" in look["problems"]["minji"]


def test_a_container_of_roots_that_runs_as_somebody_is_named(
    host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the old uid inside for ever, and would go on as the next owner."""
    for number, user in enumerate((f"{MINJI}:100", "root", "", str(JIHO), "minji")):
        place = Path(host.path(f"srv/docker/containers/{number}"))
        place.mkdir(parents=True)
        (place / "config.v2.json").write_text(json.dumps({"Name": f"/web{number}", "Config": {"User": user}}))
    Path(host.path("srv/docker/containers/broken")).mkdir()
    monkeypatch.setattr(trees, "find_local", lambda: trees.Trees((), ()))
    look = looking.look([Wanted("minji", 39111)], Numbers(), host, measure=True, docker=host.path("srv/docker"))
    assert look["notes"] == [
        f"container '/web0' of root's Docker runs as uid {MINJI}, minji's until now: make it again with another -u"
    ]


def test_what_a_boot_could_not_do_is_kept_for_whoever_asks(
    host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trees, "find_local", lambda: trees.Trees((), ()))  # other tests mount, and unmount
    close(host, armed=True)
    monkeypatch.setattr(work, "_change", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error", "/local/x")))
    assert work.main(host) == 1
    monkeypatch.setattr(looking, "_measured", lambda _: {"seen": 2400})
    look = looking.look(SWAP, Numbers(), host, measure=True)
    assert (look["under_way"], look["whole"]) == (True, False)
    assert look["seen"] == 2400, "the boot that goes on has time for its files, too"
    assert "Input/output error" in look["problem"]
    work.arm(host)
    assert looking.look(SWAP, Numbers(), host, measure=False)["problem"] == "", "of the boot before"
    monkeypatch.setattr(work, "_change", lambda *_: (_ for _ in ()).throw(NodeError("/mnt/\udcff: not mounted")))
    assert work.main(host) == 1
    assert looking.look(SWAP, Numbers(), host, measure=False)["problem"] == "/mnt/\\udcff: not mounted"

    def finish(host: Host, found: Journal, _local: object) -> list[Tally]:
        journal.save(host.path(host.state), replace(found, step=journal.WHOLE, problem=""))
        return []

    monkeypatch.setattr(work, "_change", finish)
    assert work.main(host) == 0
    look = looking.look(SWAP, Numbers(), host, measure=False)
    assert (look["whole"], look["problem"]) == (True, "")


@pytest.mark.holds("who fills the disk stops nobody's renumbering")
def test_a_disk_that_somebody_fills_stops_no_boot(host: Host, disk: Path) -> None:
    """Whoever fills /var once the accounts are closed would keep all of the plan locked out."""
    state = Path(host.path(host.state))
    state.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "size=80M", "state", state)
    try:
        close(host, armed=True)
        subprocess.run(["dd", "if=/dev/zero", f"of={state / 'junk'}", "bs=1M"], check=False, stderr=subprocess.DEVNULL)
        assert shutil.disk_usage(state).free == 0
        with carry_out(host, disk) as process:  # what it mounts is seen by it alone
            assert process.wait() == 0
        assert work.reopen(host) == ["minji", "jiho"]
    finally:
        run("umount", "--lazy", state)


@pytest.mark.btrfs
@pytest.mark.holds("no person keeps old ids in a tree that they have made read-only")
def test_a_home_that_is_mounted_and_made_read_only_after_the_look_changes_hands(host: Host, disk: Path) -> None:
    """Its setuid programs would run as the next owner of the uid."""
    top = disk.parent
    with mounted(top / "image", top / "point", 200) as point:
        run("btrfs", "subvolume", "create", point / "home")
        (top / "home").mkdir()
        device = run("findmnt", "-no", "SOURCE", point).strip()
        run("mount", "-o", "subvol=home", device, top / "home")
        try:
            (top / "home/program").touch()
            for one in (top / "home", top / "home/program"):
                os.chown(one, MINJI, MINJI)
            close(host, armed=True)
            run("btrfs", "property", "set", "-ts", top / "home", "ro", "true")
            with carry_out(host, top / "home") as process:  # what it mounts is seen by it alone
                assert process.wait() == 0
            assert (top / "home/program").stat().st_uid == JIHO
        finally:
            run("umount", top / "home")


@pytest.mark.holds("a log has its name on the disk before the step is done")
def test_a_journal_goes_with_its_person(host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(host.path("var/log/journal/0123"))
    place.mkdir(parents=True)
    for name in (f"user-{MINJI}.journal", f"user-{MINJI}@00-01-02.journal", f"user-{JIHO}.journal", "system.journal"):
        (place / name).write_text(name)
    synced: list[tuple[str, bool]] = []

    def sync(path: str) -> None:
        found = journal.load(host.path(host.state))
        assert found is not None
        synced.append((path, found.plan.uid.first == ()))

    monkeypatch.setattr(journals, "sync_directory", sync)
    close(host, armed=True)
    work.carry_out(host, [str(disk)])
    assert synced[0] == (str(place), False)
    assert {path.name: path.read_text() for path in place.iterdir()} == {
        f"user-{JIHO}.journal": f"user-{MINJI}.journal",
        f"user-{JIHO}@00-01-02.journal": f"user-{MINJI}@00-01-02.journal",
        f"user-{MINJI}.journal": f"user-{JIHO}.journal",
        "system.journal": "system.journal",
    }


@pytest.mark.holds("no log is replaced by another")
def test_what_a_unit_logs_as_somebody_after_a_boot_that_failed_stops_no_boot(
    host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit of root's with User=minji: it has her new uid once the first phase is over, and both logs are hers."""
    place = Path(host.path("var/log/journal/0123"))
    place.mkdir(parents=True)
    (place / f"user-{MINJI}.journal").write_text("before")
    close(host, armed=True)
    crawl, phases = work.crawl, list[int]()

    def broken(handle: int, task: Task, **more: Any) -> Tally:
        phases.append(task.phase)
        return Tally(failed=1, words=["Input/output error"]) if task.phase == 2 else crawl(handle, task, **more)

    with monkeypatch.context() as patch:
        patch.setattr(work, "crawl", broken)
        with pytest.raises(NodeError, match="Input/output error"):
            work.carry_out(host, [str(disk)])
    assert set(phases) == {1, 2}
    assert f"minji:x:{JIHO}:{JIHO}:" in database(host, "passwd"), "what she runs now is not taken for jiho's"
    (place / f"user-{JIHO}.journal").write_text("between")
    work.carry_out(host, [str(disk)])
    found = {path.read_text(): path.name for path in place.iterdir()}
    assert found["between"] == f"user-{JIHO}.journal"
    assert re.fullmatch(rf"user-{JIHO}@[0-9a-f]{{16}}-[0-9a-f]{{16}}\.journal~", found["before"])


def test_a_journal_of_somebody_who_left_is_in_the_way(host: Host, disk: Path) -> None:
    place = Path(host.path("var/log/journal/0123"))
    place.mkdir(parents=True)
    (place / "user-39109.journal").touch()
    look = looking.look([Wanted("minji", 39109)], Numbers(), host, measure=False)
    assert "is the log of somebody who had uid 39109" in look["problems"]["minji"]


@pytest.mark.holds(
    "what is not known to have changed hands keeps all out",
    "what has become read-only since the look keeps no old ids within reach",
)  # fmt: skip
@pytest.mark.parametrize("look", [Tally(failed=1, words=["was not looked at"]), Tally(within_reach=["'snapshots/1'"])])
def test_what_is_not_known_to_have_changed_hands_keeps_all_out(look: Tally) -> None:
    finished: list[int] = []
    with pytest.raises(NodeError, match="not everything could change hands"):
        run_phases(
            Journal((), plan=Plan(phases([Move(MINJI, JIHO)]))), ["x"],
            lambda _plan, _phase, _number, apply: Tally() if apply else look,
            lambda _: None, lambda phase, *_: finished.append(phase),
        )  # fmt: skip
    assert finished == []


CYCLE = {"minji": (MINJI, JIHO), "jiho": (JIHO, MINJI), "sora": (39103, 39104), "hana": (39104, 39105)}


@pytest.fixture
def four(host: Host, disk: Path) -> Host:
    """Minji and jiho change places, and sora gets what hana leaves; the boot is armed."""
    for name, text in {
        "passwd": "sora:x:39103:39103::/home/sora:/bin/sh\nhana:x:39104:39104::/home/hana:/bin/sh\n",
        "shadow": "sora:$y$s:20000:0:99999:7:::\nhana:$y$h:20000:0:99999:7:::\n",
        "group": "sora:x:39103:\nhana:x:39104:\n",
    }.items():
        with Path(host.path(f"etc/{name}")).open("a") as stream:
            stream.write(text)
    for name in ("sora", "hana"):
        (disk / name).mkdir()
        (disk / name / "file").touch()
        for one in (disk / name, disk / name / "file"):
            os.chown(one, CYCLE[name][0], CYCLE[name][0])
    wanted = [Wanted(name, new) for name, (_, new) in CYCLE.items()]
    assert work.close(wanted, {name: list(pair) for name, pair in CYCLE.items()}, Numbers(), host)[1] == {}
    work.arm(host)
    return host


def closed(host: Host) -> set[str]:
    return {name for name in CYCLE if f"\n{name}:!" in "\n" + database(host, "shadow")}


def boot(host: Host, disk: Path, keep: Sequence[str] = ()) -> tuple[dict[str, str], list[str]]:
    """One boot, and what the controller does after it. Returns who stays out, and who was let in."""
    work.carry_out(host, [str(disk)])
    look = looking.look([], Numbers(), host, measure=False)
    assert look["whole"]
    return look["kept"], work.reopen(host, [*look["kept"], *keep])


@pytest.mark.holds(
    "an error is a failure, whatever memory says of the owner afterwards",
    "what an inode has lost, and not back yet, stays written down",
    "what did not get all back in one phase waits for the other",
)  # fmt: skip
@pytest.mark.parametrize("call", ["chown", "setxattr", "chmod"])
def test_a_file_that_cannot_change_hands_keeps_out_those_whom_it_concerns(
    four: Host, disk: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Whose it is, and who was to have its id. Everybody else is let in, and the next boot goes on for those two."""
    before = manifest(disk, BEFORE)
    target = {"chown": "minji/setuid", "setxattr": "minji/shared", "chmod": "minji/setuid"}[call]
    inode, act = (disk / target).stat().st_ino, getattr(os, call)

    def fail(path: Any, *given: Any, **more: Any) -> None:
        if Path(path).stat().st_ino == inode:
            raise OSError(errno.EDQUOT, "Disk quota exceeded", path)
        act(path, *given, **more)

    monkeypatch.setattr(work, "crawl", functools.partial(work.crawl, workers=1))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        for attempt in range(2):
            kept, opened = boot(four, disk)
            assert sorted(kept) == ["jiho", "minji"]
            assert kept["minji"].endswith(f"'{target}' Disk quota exceeded")
            assert f"'{target}' Disk quota exceeded" in kept["jiho"]
            assert opened == ([] if attempt else ["sora", "hana"])
            assert closed(four) == {"minji", "jiho"}
            look = looking.look([], Numbers(), four, measure=False)
            assert (look["under_way"], look["whole"], look["rest"]) == (True, False, True)
            assert MINJI in look["staying"] or call != "chown"
            assert target in look["problem"]
            assert (disk / "sora/file").stat().st_uid == 39104, "which was hana's"
            with pytest.raises(NodeError, match="has not ended"):
                work.reopen(four)
            work.arm(four)
    (disk / "sora/new").touch()
    os.chown(disk / "sora/new", 39104, 39104)
    assert boot(four, disk) == ({}, ["minji", "jiho"])
    assert journal.load(four.path(four.state)) is None
    assert (disk / "sora/new").stat().st_uid == 39104, "sora's, who was let in"
    after = manifest(disk, AFTER)
    assert after.pop("sora/new")
    assert {path: one for path, one in after.items() if not path.startswith(("sora", "hana"))} == {
        path: one for path, one in before.items() if not path.startswith(("sora", "hana"))
    }
    assert closed(four) == set()


@pytest.mark.holds("who has files on a disk that came up read-only is kept out")
def test_a_disk_that_came_up_read_only_keeps_out_those_who_have_files_on_it(four: Host, disk: Path) -> None:
    other = disk.parent / "other"
    other.mkdir()
    run("mount", "-t", "tmpfs", "tmpfs", other)
    try:
        (other / "hers").touch()
        os.chown(other / "hers", 39103, 39103)
        run("mount", "-o", "remount,ro", other)
        found = journal.load(four.path(four.state))
        assert found is not None
        local = [trees.Tree(str(disk), str(disk)), trees.Tree(str(other), str(other), read_only=True)]
        work._change(four, replace(found, points=(str(disk), str(other))), local)
        look = looking.look([], Numbers(), four, measure=False)
        assert look["kept"] == {"sora": f"{other}: 'hers' still has an old id"}
        assert work.reopen(four, look["kept"]) == ["minji", "jiho", "hana"]
    finally:
        run("umount", "--lazy", other)


def test_who_waits_for_another_host_stays_out_where_all_is_done(four: Host, disk: Path) -> None:
    assert boot(four, disk, ["minji"]) == ({}, ["jiho", "sora", "hana"])
    look = looking.look([], Numbers(), four, measure=False)
    assert (look["whole"], look["rest"], look["people"]) == (True, True, {"minji": [JIHO, JIHO]})
    assert closed(four) == {"minji"}
    assert work.reopen(four) == ["minji"]


def test_what_came_into_a_tree_after_a_boot_that_failed_changes_hands_too(
    host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is not of the plan is let in then: by a setuid program of the old uid they make files that have it."""
    close(host, armed=True)
    with monkeypatch.context() as patch:
        patch.setattr(work, "run_phases", broken := (lambda *_: (_ for _ in ()).throw(NodeError("EIO"))))
        assert broken
        with pytest.raises(NodeError, match="EIO"):
            work.carry_out(host, [str(disk)])
    (disk / "late").touch()
    os.chown(disk / "late", MINJI, MINJI)
    work.carry_out(host, [str(disk)])
    assert (disk / "late").stat().st_uid == JIHO
