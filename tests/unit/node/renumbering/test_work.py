"""A host's files and databases, renumbered for real: killed in the middle, and gone on with."""

import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import inode_flags
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering import journal, looking, sweeping, work
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering.decide import Numbers, Wanted
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering.task import Tally

pytestmark = [pytest.mark.root, pytest.mark.needs("setcap", "chattr")]

ROOT = Path(__file__).resolve().parents[4]
# Nobody else on this machine: processes of other tests that have these uids, or become them, would be in the way.
MINJI, JIHO = 39101, 39102
SWAP = [Wanted("minji", JIHO), Wanted("jiho", MINJI)]
EXPECTED = {"minji": [MINJI, JIHO], "jiho": [JIHO, MINJI]}
SUBIDS = 2**31
CAPABILITY = struct.pack("<IIIII", 0x02000001, 0x2000, 0, 0, 0)
OF_A_NAMESPACE = struct.pack("<IIIIII", 0x03000001, 0x2000, 0, 0, 0, MINJI)
PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:3]
from ansible_collections.gpuadmin.node.plugins.module_utils.renumbering import sweeping, work
sweeping.workers = lambda: 2
print(work.carry_out({"root": sys.argv[3], "trees": sys.argv[4:]}))
"""


def acl(*people: int) -> bytes:
    named = [(0x02, 6, uid) for uid in people]
    nobody = 2**32 - 1
    entries = [(0x01, 7, nobody), *named, (0x04, 5, nobody), (0x10, 7, nobody), (0x20, 0, nobody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


def close(host: Host) -> None:
    """As people are closed for the swap. Nobody may be in the way: a process of anybody's on this machine would be."""
    assert work.close(SWAP, EXPECTED, Numbers(), host)[1] == {}


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
            flag = inode_flags.flags_of(handle) & inode_flags.STOPS
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
    _, busy = work.close(SWAP, EXPECTED, Numbers(), host)
    assert busy == {}
    assert "minji:!$y$hers:20000:0:99999:7::1:" in database(host, "shadow")
    chance = random.Random(seed)
    kills = 0
    while True:
        process = carry_out(host, disk)
        try:
            process.communicate(timeout=0.2 + chance.random() * 0.6 if kills < 8 else 120)
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


@pytest.mark.holds("nobody is renumbered while they run something")
def test_who_runs_something_stays_as_they_are(host: Host, disk: Path) -> None:
    shadow = database(host, "shadow")
    with subprocess.Popen(["sleep", "60"], user=JIHO) as process:
        try:
            _, busy = work.close(SWAP, EXPECTED, Numbers(), host)
        finally:
            process.kill()
    assert busy == {"jiho": "runs sleep (1 process)"}
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
    journal.mark(host.path(host.state), journal.BEGUN)
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


@pytest.mark.holds("what is written in that moment keeps no setuid bit and no capability")
@pytest.mark.parametrize("when", ["chown", "later"])
def test_who_writes_a_setuid_file_meanwhile_gets_no_setuid_program(
    host: Host, disk: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A group may write it; between the look and the end, or while a killed run waits."""
    files = [disk / "minji/setuid", disk / "minji/capable"]
    close(host)
    if when == "later":
        process = carry_out(host, disk)
        time.sleep(0.5)  # it is somewhere in the middle, or at the end
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    real, inodes = os.chown, [file.stat().st_ino for file in files]

    def chown(path: str, uid: int, gid: int, **more: bool) -> None:
        real(path, uid, gid, **more)
        if path.startswith("/proc/") and Path(path).stat().st_ino in inodes:
            Path(path).write_bytes(b"another")

    if when == "chown":
        monkeypatch.setattr(os, "chown", chown)
    else:
        for file in files:
            file.chmod(0o755)
            file.write_bytes(b"another")
    monkeypatch.setattr(sweeping, "workers", lambda: 1)
    work.carry_out({"root": host.root, "trees": [str(disk)]})
    for file in files:
        assert file.read_bytes() == b"another"
        assert not file.stat().st_mode & 0o6000
        assert "security.capability" not in os.listxattr(file)
    assert journal.WHOLE in journal.done(host.path(host.state))


def owners(top: Path) -> set[int]:
    """Whose the file with something in it is, or those that it is by turns."""
    found = set()
    for one in top.iterdir():
        try:
            facts = one.lstat()
        except FileNotFoundError:
            continue
        if facts.st_size:
            found.add(facts.st_uid)
    return found


def exchange(top: Path) -> NoReturn:
    """What the attacker does, for ever: root's file is under each name for a moment."""
    os.chdir(top)
    os.setgroups([])
    os.setgid(33000)
    os.setuid(33000)
    while True:
        for number in range(300):
            try:
                Path(f"f{number}").rename("kept")
                Path("secret").rename(f"f{number}")
                Path(f"f{number}").rename("secret")
                Path("kept").rename(f"f{number}")
            except OSError:
                os._exit(1)


def test_somebody_who_exchanges_files_meanwhile_gets_none_of_roots(host: Host, tmp_path: Path) -> None:
    """A directory of another's, in which a name is minji's file, root's file and a link by turns."""
    top = tmp_path / "shared"
    top.mkdir()
    os.chown(top, 33000, 33000)
    secret = top / "secret"
    secret.write_bytes(b"root's")
    for number in range(300):
        path = top / f"f{number}"
        path.touch()
        os.chown(path, MINJI, MINJI)
    with Path(host.path("etc/passwd")).open("a") as stream:
        stream.write(f"minji:x:{MINJI}:{MINJI}::/home/minji:/bin/sh\n")
    with Path(host.path("etc/shadow")).open("a") as stream:
        stream.write("minji:*:20000:0:99999:7:::\n")
    attacker = os.fork()
    if attacker == 0:
        exchange(top)
    try:
        for _ in range(5):
            work.close([Wanted("minji", JIHO)], {"minji": [MINJI, JIHO]}, Numbers(), host)
            done = carry_out(host, top)
            _out, _err = done.communicate(timeout=120)
            assert owners(top) <= {0}
            if done.returncode == 0:
                break
            time.sleep(0.1)  # its own pace
    finally:
        os.kill(attacker, signal.SIGKILL)
        os.waitpid(attacker, 0)
    assert owners(top) == {0}


def test_who_moves_directories_for_ever_keeps_nobody_out() -> None:
    """The walks are bounded; what was not seen is told. A change or a failure in the last one is neither."""
    marked: list[str] = []

    def drive(tally: Tally) -> list[Tally]:
        return sweeping.drive(["x"], [1], lambda *_: tally, set, marked.append, [], lambda _: None)

    assert len(drive(Tally(moved=1))) == sweeping.PASSES
    assert marked == ["1 x"]
    for odd in (Tally(moved=1, changed=1), Tally(moved=1, failed=1)):
        with pytest.raises(NodeError, match="not everything could change hands"):
            drive(odd)
    assert marked == ["1 x"]


@pytest.mark.holds("nobody is renumbered who has begun something meanwhile")
def test_who_begins_something_after_they_were_closed_is_not_renumbered(host: Host, disk: Path) -> None:
    before = manifest(disk, BEFORE)
    close(host)
    with subprocess.Popen(["sleep", "60"], user=JIHO) as process:
        try:
            with pytest.raises(NodeError, match="jiho runs sleep"):
                work.carry_out({"root": host.root, "trees": [str(disk)]})
        finally:
            process.kill()
    assert manifest(disk, BEFORE) == before
