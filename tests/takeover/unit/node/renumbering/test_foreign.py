"""Which file systems keep the old numbers, by what is mounted."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import Mount, parse_mountinfo

from gpuadmin.takeover.node.renumbering.foreign import (
    MOST,
    describe_foreign,
    find_programs,
)
from gpuadmin.takeover.node.renumbering.journal import Renumbering

SITE = ("storage1", "10.0.0.9", "fd00::9")
PEOPLE = [Renumbering("minji", 1004, 20004, group=1004), Renumbering("jiho", 1005, 20005)]


def lines(*mounts: str) -> list[str]:
    """``mounts``: what mountinfo has after the mount's own options."""
    return describe_foreign(table(*mounts), SITE, PEOPLE)


def table(*mounts: str) -> list[Mount]:
    text = "".join(f"{number} 1 0:{number} / {mount}\n" for number, mount in enumerate(mounts, start=40))
    return parse_mountinfo(text)


@pytest.mark.parametrize(
    ("mount", "said"),
    [
        ("/home rw - nfs4 storage1:/homes rw,vers=4.2", ""),
        ("/home rw - nfs4 nas:/homes rw,vers=4.2,clientaddr=10.0.0.2,addr=10.0.0.9", ""),
        ("/home rw - nfs4 [fd00::9]:/homes rw", ""),
        ("/nfs rw - nfs4 nas:/homes rw,addr=10.9.9.9", "10.9.9.9 is not a host of this site"),
        ("/nfs rw - nfs 10.9.9.9:/x rw", "/nfs (10.9.9.9:/x): 10.9.9.9 is not a host of this site"),
        ("/s rw - cifs //win/share rw,uid=0,noforceuid,gid=0", "/s (//win/share): win is not a host of this site"),
        ("/s rw - cifs //10.0.0.9/share rw", ""),
        ("/l rw - lustre 10.9.9.9@tcp:/fs rw", "10.9.9.9 is not a host"),
        ("/c rw - ceph 10.9.9.1:6789,10.9.9.2:6789:/ rw", "10.9.9.1 is not a host"),
        ("/g rw - fuse.glusterfs gl:/vol rw,user_id=0,allow_other", "gl is not a host"),
        ("/b rw - beegfs beegfs_nodev rw", "beegfs_nodev is not a host"),
        # a person can make a thousand of these
        ("/home/minji/x rw - fuse.sshfs me@evil:/ rw,user_id=1004,group_id=1004", ""),
        ("/lx rw - fuse.lxcfs lxcfs rw,user_id=0", ""),
        ("/usb rw - vfat /dev/sdc1 rw,uid=1004,gid=1004,fmask=0022",
         "uid=1004,gid=1004, the old number of minji: mount it with uid=20004,gid=20004"),
        ("/usb rw - exfat /dev/sdc1 rw,gid=1004", "gid=1004, the old number of minji: mount it with gid=20004"),
        ("/usb rw - ntfs3 /dev/sdc1 rw,uid=1005", "uid=1005, the old number of jiho"),
        ("/s rw - cifs //win/share rw,uid=1005,forceuid", "uid=1005, the old number of jiho"),
        ("/usb rw - vfat /dev/sdc1 rw,uid=10045,gid=100", ""),
        ("/run/user/1004 rw - tmpfs tmpfs rw,mode=700,uid=1004,gid=1004", ""),
        ("/data rw - ext4 /dev/sdb1 rw", ""),
    ],
)  # fmt: skip
def test_what_is_named(mount: str, said: str) -> None:
    found = lines(mount)
    assert [said in line for line in found] == ([True] if said else []), found


@pytest.mark.holds("mounts that a person makes are no lines of the plan")
def test_what_is_hidden_is_not_named_and_many_are_counted() -> None:
    assert lines("/nfs rw - nfs nas:/x rw", "/nfs rw - nfs storage1:/x rw") == []
    many = [f"/n{number} rw - nfs nas:/{number} rw" for number in range(MOST + 3)]
    assert lines(*many)[-1] == "and 3 more file systems"
    own = [f"/n{number} rw - fuse.x x rw,user_id=1004" for number in range(1000)]
    assert lines(*own) == []
    assert "\\x1b" in lines("/a\x1b rw - nfs nas:/x rw")[0]


@pytest.mark.holds("nobody's program on another's server runs as the next owner of their id")
def test_where_a_setuid_bit_counts_on_another_s_server() -> None:
    found = table(
        "/a rw,relatime - nfs4 nas:/a rw", "/b rw,nosuid,nodev - nfs4 nas:/b rw", "/c rw - nfs4 storage1:/c rw",
        "/d rw - fuse.sshfs me@evil:/ rw,user_id=1004", "/e rw - ext4 /dev/sdb1 rw",
    )  # fmt: skip
    assert find_programs(found, SITE) == ["/a"]
