"""People who get another name: home, crontab, mail and lingering go with them; cut off anywhere, and gone on with."""

import os
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import mounts
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import desired
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import User

from gpuadmin.takeover.node import operations
from gpuadmin.takeover.node.renumbering import looking, renaming, work
from gpuadmin.takeover.node.renumbering.decide import Numbers, Wanted

pytestmark = pytest.mark.root

DOE, MINJI, OTHER = 39201, 39202, 39203  # of no other file: they run at the same time
SUBIDS = 2**31 + 19201 * 65536
WANTED = [Wanted("jdoe", DOE, was="j.doe"), Wanted("minji", MINJI + 10, was="MinJi")]
EXPECTED = {"jdoe": [DOE, DOE], "minji": [MINJI, MINJI + 10]}
CRONTABS = "var/spool/cron/crontabs"


@pytest.fixture
def grown(host: Host) -> Host:
    """A host with accounts that users.yml cannot name, and somebody called nearly so."""
    etc = Path(host.path("etc"))
    people = (("j.doe", DOE), ("MinJi", MINJI), ("jxdoe", OTHER))
    with (etc / "group").open("a") as stream:
        stream.write("lab:x:39999:jxdoe,j.doe,MinJi\n")
    with (etc / "gshadow").open("a") as stream:
        stream.write("lab:!:j.doe:jxdoe,j.doe,MinJi\n")
    for name, uid in people:
        for file, line in {
            "passwd": f"{name}:x:{uid}:{uid}:{name}:/home/{name}:/bin/sh",
            "shadow": f"{name}:$y${uid}:20000:0:99999:7:::",
            "group": f"{name}:x:{uid}:", "gshadow": f"{name}:!::",
            "subuid": f"{name}:{2**31 + (uid - 20000) * 65536}:65536",
        }.items():  # fmt: skip
            with (etc / file).open("a") as stream:
                stream.write(f"{line}\n")
        for place in (f"home/{name}", f"{CRONTABS}/{name}", f"var/mail/{name}", f"var/lib/systemd/linger/{name}"):
            path = Path(host.path(place))
            path.parent.mkdir(parents=True, exist_ok=True)
            if place.startswith("home"):
                path.mkdir()
                (path / "thesis").write_text(name)
                os.chown(path / "thesis", uid, uid)
            else:
                path.write_text(name)
            if "linger" not in place:
                os.chown(path, uid, uid)
    Path(host.path("var/spool/mail")).symlink_to("../mail")
    return host


def close(host: Host, wanted: list[Wanted] | None = None, expected: dict[str, list[int]] | None = None) -> None:
    assert work.close(wanted or WANTED, expected or EXPECTED, Numbers(), host)[1] == {}


def databases(host: Host) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(Path(host.path("etc")).iterdir()) if path.name.isalpha()}


def entries(host: Host) -> dict[str, tuple[int, str]]:
    """All files of people: owner, and what is in it."""
    found = {}
    for top in ("home", "var/spool", "var/mail", "var/lib/systemd"):
        for path in sorted(Path(host.path(top)).rglob("*")):
            words = path.read_text() if path.is_file() else ""
            found[str(path.relative_to(host.root))] = (path.lstat().st_uid, words)
    return found


def test_names_change_and_nothing_of_others_does(grown: Host) -> None:
    before = entries(grown)
    seen = looking.look(WANTED, Numbers(), grown, measure=False)
    assert seen["problems"] == {}
    assert (seen["people"], seen["has"]["jdoe"], "j.doe" in seen["has"]) == (EXPECTED, DOE, False)
    assert seen["renamed"]["jdoe"] == {"was": "j.doe", "homes": [["/home/j.doe", "/home/jdoe"]], "left": []}
    close(grown)
    assert f"j.doe:!$y${DOE}:20000:0:99999:7::1:\n" in databases(grown)["shadow"], "closed by the name that is there"
    work.arm(grown)
    work.carry_out(grown, [grown.root])
    assert work.reopen(grown) == ["jdoe", "minji"]
    after = databases(grown)
    assert f"jdoe:x:{DOE}:{DOE}:j.doe:/home/jdoe:/bin/sh\n" in after["passwd"]
    assert f"minji:x:{MINJI + 10}:{MINJI + 10}:MinJi:/home/minji:/bin/sh\n" in after["passwd"]
    assert f"jdoe:$y${DOE}:20000:0:99999:7:::\n" in after["shadow"]
    assert "lab:x:39999:jxdoe,jdoe,minji\n" in after["group"]
    assert f"jdoe:x:{DOE}:\n" in after["group"]
    assert "lab:!:jdoe:jxdoe,jdoe,minji\n" in after["gshadow"]
    assert f"jdoe:{SUBIDS}:65536\n" in after["subuid"]
    assert f"minji:{2**31 + 19212 * 65536}:65536\n" in after["subuid"]
    assert not any(name in line.split(":")[0] for text in after.values() for line in text.splitlines()
                   for name in ("j.doe", "MinJi"))  # fmt: skip
    uids = {MINJI: MINJI + 10}
    names = {"j.doe": "jdoe", "MinJi": "minji"}
    assert entries(grown) == {
        "/".join(names.get(part, part) for part in path.split("/")): (uids.get(uid, uid), words)
        for path, (uid, words) in before.items()
    }


def test_cut_off_anywhere_the_next_boot_goes_on(grown: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rename is a step: databases, marks in the journal, homes, and files."""
    real = os.rename
    left = [0]

    def rename(*names: str, **more: int) -> None:
        if left[0] == 0:
            raise RuntimeError("a power cut")
        left[0] -= 1
        real(*names, **more)

    ends = []
    for steps in count():
        root = tmp_path / f"cut{steps}"
        subprocess.run(["cp", "-a", grown.root, str(root)], check=True)
        host = Host(root=str(root), subvolume="/roots/a", network=lambda _path: None)
        close(host)
        work.arm(host)
        left[0] = steps
        cut = False
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", rename)
            try:
                work.carry_out(host, [host.root])
            except RuntimeError:
                cut = True
        shut = [line for line in databases(host)["shadow"].splitlines() if line.startswith(("j", "M", "m"))]
        assert sorted(line.split(":")[7] for line in shut) == ["", "1", "1"], "kept out by either name"
        if cut:
            work.carry_out(host, [host.root])
        work.reopen(host)
        ends.append((databases(host), entries(host)))
        if not cut:
            break
    assert len(ends) > 20, "it was not cut at each step"
    assert all(end == ends[-1] for end in ends)


def test_what_was_closed_is_opened_by_the_name_that_is_there(grown: Host) -> None:
    before = databases(grown)
    close(grown)
    assert databases(grown) != before
    assert work.give_up(grown) == ["jdoe", "minji"]
    assert databases(grown) == before


def test_a_name_alone_needs_no_walk(grown: Host) -> None:
    close(grown, WANTED[:1], {"jdoe": [DOE, DOE]})
    assert "trees" not in looking.look(WANTED[:1], Numbers(), grown, measure=True)
    work.arm(grown)
    assert work.carry_out(grown, ["/nowhere"])["seen"] == 0
    assert Path(grown.path("home/jdoe/thesis")).read_text() == "j.doe"


def home(host: Host, path: str, uid: int) -> Path:
    full = Path(host.path(path))
    full.mkdir(parents=True, exist_ok=True)
    os.chown(full, uid, uid)
    return full


def test_homes_of_somebody_without_an_account_on_the_storage_host(grown: Host) -> None:
    """The home is known by its name and its owner; what another owns stays."""
    for name, uid in (("m.kim", 39204), ("A.Lee", 33000)):
        home(grown, f"srv/homes/{name}", uid)
    wanted = [Wanted("mkim", 39214, 39204, "m.kim"), Wanted("alee", 33001, 33001, "A.Lee")]
    seen = looking.look(wanted, Numbers(), grown, measure=False, homes="/srv/homes")
    assert seen["renamed"]["mkim"]["homes"] == [["/srv/homes/m.kim", "/srv/homes/mkim"]]
    assert "alee" not in seen["people"]
    assert seen["renamed"]["alee"]["left"] == ["home '/srv/homes/A.Lee' keeps its name: it belongs to uid 33000"]
    # an account that provision has made with the new name has that home, too
    home(grown, "srv/homes/m.kim", OTHER)
    wanted = [Wanted("jxdoe", OTHER, was="m.kim")]
    assert work.close(wanted, {"jxdoe": [OTHER, OTHER]}, Numbers(), grown, "/srv/homes")[1] == {}
    work.arm(grown)
    work.carry_out(grown, ["/nowhere"])
    assert sorted(one.name for one in Path(grown.path("srv/homes")).iterdir()) == ["A.Lee", "jxdoe"]


@pytest.mark.holds("nobody's home gets another's name", "a home is renamed where only root gives names")
def test_a_home_that_keeps_its_name_is_named(grown: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def left() -> list[str]:
        seen = looking.look(WANTED[:1], Numbers(), grown, measure=False)
        return [*seen["renamed"]["jdoe"]["left"], *(str(pair) for pair in seen["renamed"]["jdoe"]["homes"])]

    full = Path(grown.path("home/j.doe"))
    os.chown(full, OTHER, OTHER)
    assert left() == [f"home '/home/j.doe' keeps its name: it belongs to uid {OTHER}"]
    os.chown(full, DOE, DOE)
    full.parent.chmod(0o777)
    assert left() == ["home '/home/j.doe' keeps its name: it is in a directory in which others can give names"]
    full.parent.chmod(0o755)
    line = f"1 2 3:4 / {full}/data rw - ext4 /dev/x rw"
    with monkeypatch.context() as patch:
        patch.setattr(mounts, "read_mountinfo", lambda: line)
        assert "is a mount of its own, or has one in it" in left()[0]
        close(grown, WANTED[:1], {"jdoe": [DOE, DOE]})
        work.arm(grown)
        work.carry_out(grown, ["/nowhere"])
    assert full.is_dir()
    assert f"jdoe:x:{DOE}:{DOE}:j.doe:/home/j.doe:" in databases(grown)["passwd"], "it is where it was"


@pytest.mark.parametrize(("moves", "field"), [(True, "/home/jdoe"), (False, "/home/j.doe")])
def test_a_home_on_the_network_has_the_name_that_the_storage_host_gives_it(
    grown: Host, monkeypatch: pytest.MonkeyPatch, moves: bool, field: str
) -> None:
    monkeypatch.setattr(mounts, "network_filesystem", lambda _path: "nfs4")
    close(grown, [Wanted("jdoe", DOE, was="j.doe", home_moves=moves)], {"jdoe": [DOE, DOE]})
    work.arm(grown)
    work.carry_out(grown, ["/nowhere"])
    assert Path(grown.path("home/j.doe")).is_dir()
    assert f":j.doe:{field}:" in databases(grown)["passwd"]


@pytest.mark.holds("a home is renamed onto nothing")
def test_nothing_is_renamed_onto_what_is_there(grown: Host) -> None:
    path = home(grown, "home/jdoe", OTHER)
    seen = looking.look(WANTED[:1], Numbers(), grown, measure=False)
    assert "/home/jdoe is there already" in seen["problems"]["jdoe"]
    path.rmdir()
    close(grown, WANTED[:1], {"jdoe": [DOE, DOE]})
    work.arm(grown)
    path.mkdir()
    work.carry_out(grown, ["/nowhere"])
    seen = looking.look([], Numbers(), grown, measure=False)
    assert "the new name is taken" in seen["kept"]["jdoe"]
    assert work.reopen(grown) == []
    work.arm(grown)
    assert Path(grown.path("home/j.doe/thesis")).exists()
    path.rmdir()
    work.carry_out(grown, ["/nowhere"])
    assert Path(grown.path("home/jdoe/thesis")).exists()


@pytest.mark.holds("only what is theirs goes with them", "nobody's mail or crontab is replaced")
@pytest.mark.parametrize("prepare", [
    lambda path: os.chown(path, OTHER, OTHER),
    lambda path: (path.unlink(), path.symlink_to("/etc/passwd"), os.lchown(path, DOE, DOE)),
    lambda path: path.with_name("jdoe").write_text("of somebody who left"),
])  # fmt: skip
def test_a_file_that_keeps_its_name_is_named(grown: Host, prepare: Callable[[Path], object]) -> None:
    path = Path(grown.path(f"{CRONTABS}/j.doe"))
    prepare(path)
    before = {one.name: one.lstat().st_uid for one in path.parent.iterdir()}
    (words,) = looking.look(WANTED[:1], Numbers(), grown, measure=False)["renamed"]["jdoe"]["left"]
    assert f"{path} keeps its name" in words
    close(grown, WANTED[:1], {"jdoe": [DOE, DOE]})
    work.arm(grown)
    work.carry_out(grown, ["/nowhere"])
    assert {one.name: one.lstat().st_uid for one in path.parent.iterdir()} == before
    assert Path(grown.path("var/mail/jdoe")).exists()


@pytest.mark.holds("an account that gpuadmin keeps has its name in places that stay as they are")
def test_an_account_of_gpuadmins_own_keeps_its_name(grown: Host) -> None:
    record = desired.Record(User("jxdoe", OTHER, OTHER, home="/home/jxdoe"))
    Path(grown.path(grown.state)).mkdir(parents=True)
    desired.save(grown.path(grown.state), desired.DesiredState(records={"jxdoe": record}))
    (found,) = renaming.find([Wanted("kim", OTHER, was="jxdoe")], grown).values()
    assert "is an account of gpuadmin's own" in found.problem


@pytest.mark.holds("a name leads to no other place")
@pytest.mark.parametrize("was", ["../x", "a/b", ".", "-x", "a b", "x\n"])
def test_a_name_that_is_no_name_is_refused(was: str) -> None:
    with pytest.raises(NodeError, match="not the name of an account"):
        operations.renumber(operations.RenumberOrder([Wanted("jdoe", DOE, was=was)]), False)
