"""What a site says of groups, shared directories, mounts and images: what is refused, and what check finds."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gpuadmin.config.check import findings
from gpuadmin.config.load import load_site
from gpuadmin.config.schema import Settings

VISION = {"name": "vision", "gid": 50001}
DATA = {"from": "nas2:/data", "at": "/data"}


def test_what_the_issue_asks_for_is_taken() -> None:
    given = Settings.model_validate(
        {
            "name": "x",
            "groups": [VISION],
            "shared": [{"name": "imagenet", "group": "vision", "size": "2T", "backup": "no"}, {"name": "all"}],
            "mounts": [{**DATA, "options": "ro", "hosts": ["gpu1", "storage"]}, {**DATA, "at": "/srv/data"}],
            "docker": {"mirror": True, "images": [{"name": "PyTorch", "from": "pytorch/pytorch:2.4"}]},
        }
    )
    assert [(one.backup, one.size) for one in given.shared] == [(False, "2T"), (True, "unlimited")]
    assert given.mounts[0].source == "nas2:/data"
    assert Settings.model_validate(given.model_dump(mode="json")) == given  # as a playbook has it


@pytest.mark.holds(
    "nothing is mounted over what a system needs", "no mount hides another", "a group has one gid",
    "a gid is one group's and nobody's uid", "what goes into a unit or a path is a plain word",
    "an image of the site's is named as Docker Hub names it",
)  # fmt: skip
@pytest.mark.parametrize(
    ("given", "words"),
    [
        *(({"mounts": [{**DATA, "at": at}]}, "is the system's")
          for at in ("/home", "/etc", "/etc/x", "/usr/local", "/var/lib/x", "/proc", "/tmp/x", "/srv", "/shared/x")),
        ({"mounts": [{**DATA, "at": "/"}]}, "must not be /|plain path"),
        ({"mounts": [{**DATA, "at": "/home/data"}]}, "/home/data and /home are one inside of the other"),
        ({"mounts": [{**DATA, "at": "/srv/storage"}]}, "/srv/storage and /srv/storage/homes are one inside"),
        ({"mounts": [{**DATA, "at": "/docker/x"}], "docker": {"data": "/docker"}}, "/docker are one inside"),
        ({"mounts": [DATA, DATA]}, "/data and /data are one inside of the other"),
        ({"mounts": [DATA, {**DATA, "at": "/data/x"}]}, "/data/x and /data are one inside"),
        ({"mounts": [{**DATA, "at": "/a=b"}]}, "is not a plain path"),
        ({"mounts": [{**DATA, "from": "nas2:/a b"}]}, "is not HOST:/PATH"),
        ({"mounts": [{**DATA, "from": "nas2:/a%h"}]}, "is not HOST:/PATH"),
        ({"mounts": [{**DATA, "from": "//nas/share"}]}, "say its type, such as `type: cifs`"),
        ({"mounts": [{**DATA, "options": "ro, soft"}]}, "is not options of mount"),
        ({"mounts": [{**DATA, "options": "user=x,password=y"}]}, "everybody on the node could read"),
        ({"mounts": [{**DATA, "type": "NFS 4"}]}, "is not a file system"),
        ({"shared": [{"name": "imagenet", "group": "vision"}]}, r"groups: \[\{name: vision, gid: 60000\}\]"),
        ({"shared": [{"name": "x"}, {"name": "x"}]}, "x is there twice"),
        *(({"shared": [{"name": name}]}, "is not a name for a directory") for name in ("..", "a/b", "A", "x" * 25)),
        ({"groups": [{"name": "vision", "gid": 20001}]}, "gid 20001 is taken, or among people's uids; 60000 is free"),
        ({"groups": [{"name": "vision", "gid": 19999}]}, "gid 19999 is taken"),
        ({"groups": [VISION, {"name": "nlp", "gid": 50001}]}, "nlp: gid 50001 is taken"),
        ({"groups": [VISION, {"name": "vision", "gid": 50002}]}, "vision is there twice"),
        ({"groups": [{"name": "gpuusers", "gid": 50002}]}, "is the group of all"),
        ({"groups": [{"name": "video", "gid": 50002}]}, "choose another"),
        ({"docker": {"images": [{"name": "x", "from": "nvcr.io/nvidia/x:1"}]}}, "is not an image of Docker Hub"),
        ({"docker": {"upstream": "registry-1.docker.io"}}, "is not the address of a registry"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"name": "x", **given})
    assert re.search(words, str(caught.value)), caught.value


def test_a_directory_has_the_groups_itself() -> None:
    """`shared[].group` is one that the directory knows, and needs no gid here."""
    shared = [{"name": "imagenet", "group": "vision"}]
    Settings.model_validate({"name": "x", "accounts": {"source": "directory"}, "shared": shared})


@pytest.mark.parametrize(
    ("text", "level", "message"),
    [
        ("groups: [{name: minji, gid: 50001}]", "error", "minji is somebody's name in users.yml"),
        ("groups: [{name: vision, gid: 50001}]", "warning", "nobody in users.yml has `group: vision`"),
        ("shared: [{name: a, size: 1T}]", "warning", "a: on btrfs nothing enforces the size of what backups have"),
        ("shared: [{name: a, size: 1T, backup: no}]", "warning", "quotas are on with limits.disk_reserve alone"),
        ("mounts: [{from: 'n:/d', at: /data, hosts: [gpus]}]", "error", "gpus: no host and no group"),
        ("docker: {mirror: elsewhere}", "error", "no storage host and no monitor host has this name"),
        ("groups: [{name: v, gid: 50001}]\naccounts: {source: directory}", "warning", "does nothing"),
    ],
)
def test_what_check_finds(site: Path, text: str, level: str, message: str) -> None:
    (site / "users.yml").write_text("users: [{name: minji, uid: 20001}]\n")
    (site / "gpuadmin.yml").write_text(f"name: x\n{text}\n")
    found = findings(load_site(str(site)))
    assert [one for one in found if one.level == level and message in one.message], found


def test_what_is_right_is_not_found(site: Path) -> None:
    (site / "users.yml").write_text("users: [{name: minji, uid: 20001, group: vision}]\n")
    text = "shared: [{name: a, group: vision, size: 1T, backup: no}]\nmounts: [{from: 'n:/d', at: /data}]\nlimits: {}\n"
    (site / "gpuadmin.yml").write_text(
        f"name: x\ngroups: [{{name: vision, gid: 50001}}]\ndocker: {{mirror: true}}\n{text}"
    )
    words = ("groups", "shared", "mounts", "mirror")
    found = findings(load_site(str(site)))
    assert not [one for one in found if any(word in one.where for word in words)], found
