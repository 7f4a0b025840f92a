"""What the storage host's key may ask a node for, and what hostile people in homes can do meanwhile."""

import mmap
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import home_manifest
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked

from gpuadmin.takeover.node.moving import record, serving
from tests.support.moving_homes import Cluster, differ, facts, own
from tests.support.storage import mounted

pytestmark = pytest.mark.root
MINJI, EVE = 31401, 31402


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    found = Cluster(tmp_path / "c")
    found.home("gpu1", "minji", MINJI, {"thesis": b"precious\n"})
    found.home("gpu1", "eve", EVE, {"x": b"x"})
    return found


@pytest.mark.holds("only a home that is being moved is given away")
@pytest.mark.parametrize("request_", ["home eve", "home ../gpu1/home/minji", "shell", "", "home minji eve", "list"])
def test_nothing_else_is_given_away(cluster: Cluster, request_: str) -> None:
    cluster.arguments(cluster.parts("minji", MINJI, "gpu1"))
    with pytest.raises(NodeError, match="not understood"):
        serving.serve(str(cluster.base / "gpu1" / "state"), request_)


def test_what_a_run_that_was_cut_off_left_has_the_home_until_it_ends(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two would write one file of notes, and rename it under each other."""
    cluster.arguments(cluster.parts("minji", MINJI, "gpu1"))
    monkeypatch.setattr(serving, "LEFT_SECONDS", 0.1)
    run = cluster.base / "gpu1" / "run"
    with (
        flocked(str(run / "move-homes.minji.serving.lock")),
        (cluster.base / "sent").open("wb") as sent,
        pytest.raises(NodeError, match="held"),
    ):
        serving.serve(str(cluster.base / "gpu1" / "state"), "home minji", stdout=sent.fileno(), run=str(run))
    assert (cluster.base / "sent").read_bytes() == b""


@pytest.mark.holds("only a home of its person's is moved")
@pytest.mark.holds("what is moved is the directory that was decided on")
@pytest.mark.parametrize("what", ["another's", "exchanged", "a link"])
def test_a_home_that_became_another_is_not_given_away(cluster: Cluster, what: str) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1")
    home = cluster.base / "gpu1" / "home" / "minji"
    if what == "another's":
        os.chown(home, EVE, EVE)
    else:
        home.rename(home.with_name("away"))
        if what == "a link":
            home.symlink_to("/root")
        else:
            cluster.home("gpu1", "minji", MINJI, {"thesis": b"another"})
    problems = cluster.do("copy", parts)["problems"]
    assert "minji" in problems
    assert not (cluster.homes / "minji").exists()


@contextmanager
def busy_with(change: Callable[[], None]) -> Iterator[None]:
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            change()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_person_who_changes_everything_all_the_time_stops_nobody(cluster: Cluster) -> None:
    """Directories are exchanged, files vanish, grow and shrink while her home is copied; his is copied all the same."""
    home = cluster.base / "gpu1" / "home" / "eve"
    for number in range(200):
        (home / f"d{number}" / "in").mkdir(parents=True)
        (home / f"d{number}" / "in" / "file").write_bytes(b"x" * 20000)
    own(home, EVE)
    turn = iter(range(10**9))

    def change() -> None:
        number = next(turn) % 200
        top = home / f"d{number}"
        try:
            (top / "in").rename(home / "away")
            (top / "in").symlink_to("/etc")
            (top / "in").unlink()
            (home / "away").rename(top / "in")
            os.truncate(top / "in" / "file", number % 7 * 4096)
            (top / "in" / "more").touch()
            (top / "in" / "more").unlink()
        except FileNotFoundError:
            pass

    parts = [*cluster.parts("eve", EVE, "gpu1"), *cluster.parts("minji", MINJI, "gpu1")]
    with busy_with(change):
        done = cluster.do("copy", parts)
    assert done["problems"] == {}
    before = facts(home)
    assert cluster.do("take", parts)["problems"] == {}
    assert facts(cluster.homes / "eve").keys() == before.keys()
    assert (cluster.homes / "minji" / "thesis").read_bytes() == b"precious\n"


@pytest.mark.holds("what may change without a new ctime is read again")
def test_what_is_younger_than_the_sync_before_is_read_again(cluster: Cluster) -> None:
    """A write to a page that is dirty already leaves ctime as it is: only older files are taken as they were seen."""
    parts = cluster.parts("minji", MINJI, "gpu1")
    script = cluster.base / "serve.py"
    home = cluster.base / "gpu1" / "home" / "minji"
    script.write_text(
        script.read_text().replace("try:", f"import os\nos.chmod({str(home / 'thesis')!r}, 0o640)\ntry:", 1)
    )
    cluster.do("copy", parts)
    seen = Path(record.directory(str(cluster.base / "gpu1" / "state"))) / "minji.seen.gz"
    lines = [one.path for one in home_manifest.read(str(seen))]
    assert lines == [], "the file was made just now"


@pytest.mark.holds("what may change without a new ctime after it was compared is read again")
def test_a_write_to_a_page_that_was_dirty_is_seen_after_the_manifest(cluster: Cluster, tmp_path: Path) -> None:
    """A container goes on in memory that it has mapped: neither ctime nor size tell."""
    home = cluster.base / "gpu1" / "home" / "minji"
    top = open_directory(str(home))
    one, other = str(tmp_path / "one.gz"), str(tmp_path / "other.gz")
    try:
        with (home / "thesis").open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
            mapped[:1] = b"P"
            first = serving.now(top, one, Budget(60), one)
            (line,) = [line for line in home_manifest.read(one) if line.path == "thesis"]
            assert line.ctime == 0, "too young to be known by it"
            mapped[:1] = b"Q"
            assert serving.now(top, one, Budget(60), other).checksum != first.checksum
    finally:
        os.close(top)


@pytest.mark.holds("nobody's home comes as another's")
def test_a_node_that_gives_a_home_to_another_moves_nothing(cluster: Cluster) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1")
    cluster.do("copy", parts)
    home = cluster.base / "gpu1" / "home" / "minji"
    script = cluster.base / "serve.py"
    lies = "from gpuadmin.takeover.node.moving import place\n"
    lies += f"import os\nos.chown({str(home)!r}, {EVE}, {EVE})\nbefore = place.home\n"
    lies += f"place.home = lambda homes, name, uid, *_: before(homes, name, {EVE})\n"
    script.write_text(script.read_text().replace("try:", f"{lies}try:", 1))
    assert "belongs to uid" in cluster.do("take", parts)["problems"]["minji"]
    assert not (cluster.homes / "minji").exists()


@pytest.mark.holds("what was moved is what the node has")
def test_a_node_that_sends_something_else_than_its_manifest_moves_nothing(cluster: Cluster) -> None:
    parts = cluster.parts("minji", MINJI, "gpu1")
    cluster.do("copy", parts)
    script = cluster.base / "serve.py"
    lies = "from ansible_collections.gpuadmin.node.plugins.module_utils.backups import sending\n"
    lies += "sending.changes = lambda top, new, old, link, budget: sending.Sender(link, budget).end(top)\n"
    script.write_text(script.read_text().replace("try:", f"{lies}try:", 1))
    home = cluster.base / "gpu1" / "home" / "minji"
    (home / "new").write_bytes(b"new")
    own(home, MINJI)
    assert "differs from what is there" in cluster.do("take", parts)["problems"]["minji"]
    assert not (cluster.homes / "minji").exists()


@pytest.mark.holds("what vanishes while it is sent ends nothing")
def test_what_vanishes_while_it_is_sent_is_left_out_and_comes_later(cluster: Cluster) -> None:
    home = cluster.home("gpu1", "minji", MINJI, {"gone": b"x", "dir/inner": b"y", "thesis": b"precious\n"})
    script = cluster.base / "serve.py"
    text = script.read_text()
    lies = "import builtins\nfrom gpuadmin.takeover.node.moving import live\n"
    lies += "before = live.Live._send\n"
    lies += "def send(self, entry):\n    if entry.name in (b'gone', b'dir'):\n        raise FileNotFoundError(2, 'x')\n"
    lies += "    before(self, entry)\nlive.Live._send = send\n"
    script.write_text(text.replace("try:", f"{lies}try:", 1))
    parts = cluster.parts("minji", MINJI, "gpu1")
    assert cluster.do("copy", parts)["problems"] == {}
    script.write_text(text)
    before = facts(home)
    assert cluster.do("take", parts)["problems"] == {}
    assert differ(before, cluster.homes / "minji") == []


@pytest.mark.btrfs
@pytest.mark.holds("who fills the disk leaves it to the others")
def test_whose_home_finds_no_room_has_a_problem_and_the_others_have_none(tmp_path: Path) -> None:
    with mounted(tmp_path / "image", tmp_path / "point", 300) as point:
        cluster = Cluster(tmp_path / "c", point)
        large = cluster.home("gpu1", "eve", EVE, {})
        with (large / "all").open("wb") as stream:
            for _ in range(400):
                stream.write(os.urandom(1 << 20))
        own(large, EVE)
        cluster.home("gpu1", "minji", MINJI, {"thesis": b"precious\n"})
        parts = [*cluster.parts("eve", EVE, "gpu1"), *cluster.parts("minji", MINJI, "gpu1")]
        done = cluster.do("copy", parts)
        assert list(done["problems"]) == ["eve"]
        assert cluster.do("take", parts[1:])["problems"] == {}
        assert (cluster.homes / "minji" / "thesis").read_bytes() == b"precious\n"
