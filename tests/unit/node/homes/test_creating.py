"""Whether a home is still as it was made: what is in it that the skeleton has not is somebody's."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import open_directory
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import creating

from tests.support.storage import mounted, run

pytestmark = pytest.mark.root
JIHO = 31302


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    found = tmp_path / "skel"
    (found / "dir/inner").mkdir(parents=True)
    (found / ".profile").write_text("umask 022\n")
    (found / "odd").symlink_to("there")
    os.mkfifo(found / "pipe")
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    found = tmp_path / "home"
    found.mkdir()
    return found


def untouched(home: Path, skeleton: Path) -> bool:
    handle = open_directory(str(home))
    try:
        return creating.is_untouched(handle, str(skeleton), JIHO)
    finally:
        os.close(handle)


def give(home: Path) -> None:
    for one in (home, *home.rglob("*")):
        os.lchown(one, JIHO, JIHO)


@pytest.mark.parametrize(
    ("make", "is_new"),
    [
        (lambda top: None, True),
        (lambda top: (top / ".profile").write_text("umask 022\n"), True),
        (lambda top: (top / ".profile").write_text("umask 002\n"), False),
        (lambda top: (top / "x").write_text(""), False),
        (lambda top: (top / "odd").symlink_to("there"), True),
        (lambda top: (top / "odd").symlink_to("elsewhere"), False),
        (lambda top: (top / "dir/inner").mkdir(parents=True), True),
        (lambda top: (top / "dir").write_text("work"), False),
        (lambda top: (top / "dir").symlink_to("/etc"), False),
        (lambda top: os.mkfifo(top / "pipe"), False),
    ],
    ids=[
        "nothing", "a file", "a changed file", "another file", "a link", "a link that leads elsewhere", "directories",
        "a file for a directory", "a link for a directory", "a pipe",
    ],
)  # fmt: skip
@pytest.mark.holds(
    "something else under a name of the skeleton is somebody's",
    "a link that leads elsewhere than the skeleton's is somebody's",
)
def test_what_is_a_new_home(home: Path, skeleton: Path, make: Callable[[Path], object], is_new: bool) -> None:
    make(home)
    give(home)
    assert untouched(home, skeleton) is is_new


def test_what_is_another_s_in_it_is_not_new(home: Path, skeleton: Path) -> None:
    (home / ".profile").write_text("umask 022\n")
    assert not untouched(home, skeleton)


@pytest.mark.holds("what was compared before is compared again: a changed file may have its old size and time")
def test_a_file_that_was_changed_is_seen_whatever_its_time_says(home: Path, skeleton: Path) -> None:
    model = (skeleton / ".profile").stat()
    for content, is_new in (("umask 022\n", True), ("umask 002\n", False)):
        (home / ".profile").write_text(content)
        os.utime(home / ".profile", ns=(model.st_atime_ns, model.st_mtime_ns))
        give(home)
        assert untouched(home, skeleton) is is_new


@pytest.mark.btrfs
@pytest.mark.holds("what was not looked into, as a subvolume, is somebody's")
def test_a_subvolume_is_somebody_s(tmp_path: Path, skeleton: Path) -> None:
    """Also under a name of the skeleton: nothing in it was looked at."""
    with mounted(tmp_path / "disk", tmp_path / "point", 200) as point:
        (point / "home").mkdir()
        run("btrfs", "subvolume", "create", point / "home/dir")
        give(point / "home")
        assert not untouched(point / "home", skeleton)
