"""People who have each other's uid on some hosts get the one of users.yml on all, with all that carries the other."""

import functools

import pytest

from tests.support import by_hand
from tests.support.lab_cluster import OPEN, PATIENCE, Cluster

pytestmark = [pytest.mark.lab, pytest.mark.slow]

MINJI, JIHO = 20001, 20002
#: By nothing of gpuadmin's: names, owners, modes, times, sizes, blocks and links of all that is theirs, what
#: getxattr(2) says, and the flags of chattr. Owners are names, so that it is the same before and after.
MANIFEST = r"""
import os, subprocess, sys
names = {int(uid): name for name, uid in (word.split("=") for word in sys.argv[2:])}
found = {}
for top in sys.argv[1].split(":"):
    for path, directories, files in os.walk(os.fsencode(top)):
        for entry in sorted([*directories, *files]):
            full = os.path.join(path, entry)
            facts = os.lstat(full)
            if facts.st_uid not in names and facts.st_gid not in names:
                continue
            more = [names.get(facts.st_uid, facts.st_uid), names.get(facts.st_gid, facts.st_gid), oct(facts.st_mode)]
            more += [facts.st_nlink, facts.st_size, facts.st_blocks, facts.st_mtime_ns]
            for one in sorted(os.listxattr(full, follow_symlinks=False)):
                value = os.getxattr(full, one, follow_symlinks=False)
                if one.startswith("system.posix_acl"):
                    parts = [value[at : at + 8] for at in range(4, len(value), 8)]
                    ids = [int.from_bytes(part[4:], "little") for part in parts]
                    value = sorted((part[:4].hex(), names.get(number, number)) for part, number in zip(parts, ids))
                more.append((one, value))
            found[full] = more
files = [full for full in found if not os.path.islink(full) and os.path.isfile(full)]
for at in range(0, len(files), 500):  # one program for many: an emulated host takes minutes for 30,000
    done = subprocess.run(["lsattr", "-d", *files[at : at + 500]], capture_output=True)
    for line in done.stdout.splitlines():
        flags, full = line.split(None, 1)
        found[full].append(flags)
for full, more in found.items():
    print(full, more)
"""


#: An ACL that names people, made by hand: setfacl is not everywhere.
ACL = r"""
import os, struct, sys
nobody = 2**32 - 1
people = sorted(int(one) for one in sys.argv[2:])
entries = [(1, 6, nobody), *((2, 4, one) for one in people), (4, 4, nobody), (16, 6, nobody), (32, 0, nobody)]
value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
os.setxattr(sys.argv[1], "system.posix_acl_access", value)
"""


#: sumin keeps a program of minji's open that has no name any more.
HOLD = """
import os, time
os.set_inheritable(os.open("/local/minji/x", os.O_RDONLY), True)
open("/local/sumin/held", "w").close()
time.sleep(3600)
"""
#: sumin names minji in ACLs of her own files, again and again.
LOOP = """
import os, struct, sys, time
nobody, uid = 2**32 - 1, int(sys.argv[1])
entries = ((1, 6, nobody), (2, 4, uid), (4, 4, nobody), (16, 6, nobody), (32, 0, nobody))
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
while True:
    for number in range(20):
        open(f"/local/sumin/f{number}", "a").close()
        os.setxattr(f"/local/sumin/f{number}", "system.posix_acl_access", acl)
    time.sleep(0.005)
"""
PLAN, ARMED, WHOLE = "/var/lib/gpuadmin/renumber/plan.json", "step....armed", "step....whole"
AS = "setpriv --reuid={0} --regid={0} --clear-groups"


def log(cluster: Cluster, uid: int, words: str) -> None:
    """Have somebody's program log these words on node1, where each person has a journal of their own."""
    cluster.admin("node1", f"{AS.format(uid)} logger '{words}'; sleep 1; journalctl --sync")


def place(cluster: Cluster, host: str, name: str, program: str) -> None:
    cluster.admin(host, f"cat > /root/{name} <<'END'\n{program}\nEND")


def manifest(cluster: Cluster, host: str, minji: int, jiho: int) -> list[str]:
    """What they have on a host, by name. The databases are left out, in which the uids are text."""
    place(cluster, host, "manifest.py", MANIFEST)
    names = {f"{name}={uid}" for name, uid in (("minji", minji), ("jiho", jiho))}
    names |= {f"in-minjis-container={subid(minji)}"}
    text = cluster.admin(
        host, f"python3 -I /root/manifest.py /srv/storage/homes:/local:/var/spool:/opt {' '.join(sorted(names))}"
    )
    return sorted(text.splitlines())


def subid(uid: int) -> int:
    """One of those that are counted from a uid (docs/decisions/0002)."""
    return 2**31 + (uid - 20000) * 65536 + 999


def ids(cluster: Cluster, host: str) -> str:
    return " ".join(cluster.admin(host, "id -u minji; id -g minji; id -u jiho; id -g jiho").split())


def register(cluster: Cluster, **uids: int) -> None:
    by_hand.register(cluster, PEOPLE | uids)


PEOPLE = {"minji": MINJI, "jiho": JIHO}


def swap(cluster: Cluster, host: str) -> None:
    """Accounts by hand, with each other's uid."""
    cluster.admin(
        host,
        f"{OPEN} 2>/dev/null; useradd -M -u {JIHO} -s /bin/bash minji && useradd -M -u {MINJI} -s /bin/bash jiho"
        "; for file in subuid subgid; do sed -i -e /^minji/d -e /^jiho/d /etc/$file; "
        f"echo minji:{subid(JIHO) - 999}:65536 >> /etc/$file; done"
        "; btrfs property set -ts / ro true 2>/dev/null; true",
    )


@pytest.mark.story("renumber")
def test_people_who_have_each_others_uid(cluster: Cluster) -> None:
    register(cluster)
    for host in ("node1", "storage1"):
        swap(cluster, host)
    accounts = f"useradd -M -u {MINJI} -s /bin/bash minji && useradd -M -u {JIHO} -s /bin/bash jiho"
    cluster.admin("node2", f"{OPEN} 2>/dev/null; {accounts}; btrfs property set -ts / ro true 2>/dev/null; true")
    place(cluster, "storage1", "acl.py", ACL)
    cluster.admin(
        "storage1", "cd /srv/storage/homes; for name in minji jiho; do install -d -m 700 -o $name -g $name $name; done"
    )
    cluster.admin(
        "storage1",
        "cd /srv/storage/homes/minji; echo hers > file; ln file hard; truncate -s 1G sparse; cp /bin/true setuid; "
        "cp /bin/true capable; ln -s file link; touch still; chown -h minji:minji *; chmod 6755 setuid; "
        "setcap cap_net_raw+ep capable; chattr +i still; "
        f"touch shared; python3 /root/acl.py shared {JIHO} {MINJI}; chown minji:minji shared; "
        "mkdir many; cd many; for d in $(seq 60); do mkdir $d; (cd $d; touch $(seq 500)); done; cd ..; "
        "chown -R minji:minji many; "
        "echo his > ../jiho/file; chown jiho:jiho ../jiho/file",
    )
    cluster.admin(
        "node1",
        "install -d -o minji -g minji /local/minji; install -o jiho -g minji /dev/null /local/minji/both; "
        f"install -o {subid(JIHO)} -g {subid(JIHO)} /dev/null /local/minji/in-a-container",
    )
    # a lab host has no cron: this is what `crontab` leaves
    crontabs = "/var/spool/cron/crontabs"
    cluster.admin(
        "node1",
        f"mkdir -p {crontabs}; echo '0 4 * * * true' > {crontabs}/minji; chown minji {crontabs}/minji;"
        f" chmod 600 {crontabs}/minji",
    )
    before = {host: manifest(cluster, host, JIHO, MINJI) for host in ("node1", "storage1")}
    assert any("capable" in line for line in before["storage1"])

    # a check changes nothing, and says what would happen
    predicted = cluster.gpuadmin("renumber", "--check")
    assert predicted["result"]["hosts"]["node1"] == {"minji": [JIHO, MINJI], "jiho": [MINJI, JIHO]}
    assert ids(cluster, "node1") == f"{JIHO} {JIHO} {MINJI} {MINJI}"
    assert {host: manifest(cluster, host, JIHO, MINJI) for host in before} == before

    # what would go on as somebody else: minji's program without a name, which sumin holds, and an ACL set for ever
    cluster.admin("node1", "install -d -o 20003 -g 20003 /local/sumin; install -d -m 700 -o jiho -g jiho /local/jiho")
    cluster.admin("node1", "echo confidential > /local/jiho/thesis; chown jiho: /local/jiho/thesis")
    cluster.admin("node1", "install -m 4755 -o minji -g minji /bin/cat /local/minji/x")
    for name, program in (("hold", HOLD), ("loop", LOOP)):
        place(cluster, "node1", f"{name}.py", program)
        cluster.admin("node1", f"install -m 644 /root/{name}.py /local/sumin/{name}.py")
        as_sumin = f"systemd-run --quiet --unit=sumin-{name} {AS.format(20003)}"
        cluster.admin("node1", f"{as_sumin} python3 /local/sumin/{name}.py {MINJI}")
    cluster.wait(lambda: cluster.ssh("admin", "node1", "test -e /local/sumin/held && echo so"))
    cluster.admin("node1", "rm /local/minji/x")
    cluster.admin("node1", "mkdir -p /var/log/journal && journalctl --flush")
    log(cluster, JIHO, "old words of minji")
    log(cluster, MINJI, "old words of jiho")
    before["node1"] = manifest(cluster, "node1", JIHO, MINJI)

    # the storage host's unit is killed in the middle: nobody is let in anywhere, and the nodes keep their ids
    unit = "/etc/systemd/system/gpuadmin-renumber.service.d"
    limit = f"mkdir {unit} && printf '[Service]\\nTimeoutStartSec=1\\n' > {unit}/cut.conf"
    cluster.admin("storage1", f"{OPEN} 2>/dev/null; {limit}; btrfs property set -ts / ro true 2>/dev/null; true")
    killed = cluster.gpuadmin("renumber", "--yes", "--force", code=3)
    assert killed["hosts"]["storage1"]["status"] == "failed"
    for host in ("node1", "node2"):
        assert cluster.ssh("minji", host, "true").returncode == 255, "nobody is in while files are half another's"
        assert cluster.admin(host, "getent shadow minji | cut -d: -f8").strip() == "1"
    assert ids(cluster, "node1") == f"{JIHO} {JIHO} {MINJI} {MINJI}"
    assert cluster.admin("storage1", "getent shadow minji | cut -d: -f8").strip() == "1"
    cluster.admin("storage1", f"{OPEN} 2>/dev/null; rm -r {unit}; btrfs property set -ts / ro true 2>/dev/null; true")
    done = cluster.gpuadmin("renumber", "--yes", "--force")
    assert done["hosts"]["node1"]["changed"] == [
        f"jiho: uid {MINJI} becomes {JIHO}",
        f"minji: uid {JIHO} becomes {MINJI}",
    ]
    for host in before:
        assert ids(cluster, host) == f"{MINJI} {MINJI} {JIHO} {JIHO}"
    assert {host: manifest(cluster, host, MINJI, JIHO) for host in before} == before
    assert f"minji:{subid(MINJI) - 999}:65536" in cluster.admin("node1", "cat /etc/subuid")
    assert cluster.gpuadmin("renumber", "--yes")["result"] == {}
    assert cluster.admin("node2", "getent shadow minji | cut -d: -f8").strip() == ""
    assert cluster.admin("node1", "pgrep -u 20003 || true") == "", "sumin, whom it does not concern, holds nothing"
    log(cluster, JIHO, "new words of jiho")
    for uid, name, other in ((MINJI, "minji", "jiho"), (JIHO, "jiho", "minji")):
        words = cluster.admin("node1", f"{AS.format(uid)} journalctl -q --no-pager -o cat 2>&1 | grep words || true")
        assert f"old words of {name}" in words
        assert f"words of {other}" not in words
    assert cluster.admin("storage1", "ls /etc/systemd/system | grep renumber || true") == ""

    # the controller is killed when jiho is kept out and nothing of theirs has changed; then somebody changes their mind
    register(cluster, jiho=20009)
    process = cluster.start("renumber", "jiho", "--yes")
    closed = "getent shadow jiho | cut -d: -f8"
    cluster.admin("storage1", f"timeout 200 sh -c 'until [ \"$({closed})\" = 1 ]; do sleep 0.02; done'")
    process.kill()
    process.communicate()
    register(cluster)
    begun = f"grep -E '{ARMED}|{WHOLE}' {PLAN} || true"
    assert [cluster.admin(host, begun) for host in ("node1", "node2", "storage1")] == [""] * 3
    predicted = cluster.gpuadmin("renumber", "--check")
    assert {host["changed"][0] for host in predicted["hosts"].values()} == {"jiho: open again"}
    assert cluster.admin("storage1", closed).strip() == "1"
    cluster.gpuadmin("renumber", "--yes")
    assert cluster.admin("storage1", closed).strip() == ""
    assert cluster.gpuadmin("renumber", "--yes")["result"] == {}

    # what users.yml says is what hosts have by now: everybody is let in, with their own files
    cluster.gpuadmin("sync-users", "--yes")
    assert cluster.person("minji", "node1", "cat file; id -u").split() == ["hers", str(MINJI)]
    assert cluster.person("jiho", "node2", "cat file; id -u").split() == ["his", str(JIHO)]


#: On which host, and by what root sees there when the moment has come: the power is cut then.
MOMENTS = {
    "closed, and nothing else": ("node1", 'test "$(getent shadow minji | cut -d: -f8)" = 1'),
    "the storage host is armed": ("storage1", f"grep -q {ARMED} {PLAN}"),
    "the node is armed, and the storage host is done": ("node1", f"grep -q {ARMED} {PLAN}"),
    "done, and not open": ("node1", f"grep -q {WHOLE} {PLAN}"),
}


def test_power_is_cut_in_each_step(cluster: Cluster) -> None:
    """A swap, and a chain: minji and jiho change places, and sora gets what hana leaves. Each time it goes on."""
    here = {"minji": MINJI, "jiho": JIHO, "hana": 20011, "sora": 20012}
    for host in ("node1", "storage1"):
        made = " && ".join(f"useradd -M -u {uid} -s /bin/bash {name}" for name, uid in here.items())
        cluster.admin(host, f"{OPEN} 2>/dev/null; {made}; btrfs property set -ts / ro true 2>/dev/null; true")
    place(cluster, "storage1", "acl.py", ACL)
    for host, top in (("storage1", "/srv/storage/homes"), ("node1", "/local")):
        for name, uid in here.items():
            made = f"install -d -m 700 -o {name} -g {name} {top}/{name}; cd {top}/{name}; mkdir d; touch d/{{1..300}}"
            cluster.admin(host, f"{made}; cp /bin/true setuid; chown -R {name}: .; chmod 4755 setuid; echo {uid} > uid")
    cluster.admin("storage1", f"cd /srv/storage/homes/minji; python3 /root/acl.py uid {MINJI} {JIHO}")
    for moment, (host, when) in MOMENTS.items():
        before = [owned(cluster, one, here) for one in ("node1", "storage1")]
        swapped = {"minji": here["jiho"], "jiho": here["minji"]}
        wanted = {**swapped, "sora": here["hana"], "hana": max(here.values()) + 1}
        by_hand.register(cluster, wanted)
        process = cluster.start("renumber", "--yes", "--force", "--json")
        cluster.wait(functools.partial(cluster.ssh, "admin", host, f"sudo bash -c '{when} && echo so'"))
        cluster.lab("power-cut", host)
        cluster.lab("start", host)
        process.communicate(timeout=PATIENCE)
        cluster.settle(host)
        cluster.gpuadmin("renumber", "--yes", "--force")
        assert cluster.gpuadmin("renumber", "--yes")["result"] == {}, moment
        assert [owned(cluster, one, wanted) for one in ("node1", "storage1")] == before, moment
        for one in ("node1", "storage1"):
            assert {by_hand.expiry(cluster, one, name) for name in here} == {""}, moment
        here = wanted


def owned(cluster: Cluster, host: str, uids: dict[str, int]) -> list[str]:
    """What each person has, with names for ids: the files of each have to be the same ones for ever."""
    names = [f"{name}={uid}" for name, uid in uids.items()]
    place(cluster, host, "manifest.py", MANIFEST)
    text = cluster.admin(host, f"python3 -I /root/manifest.py /srv/storage/homes:/local {' '.join(names)}")
    return sorted(text.splitlines())


@pytest.mark.story("renumber")
def test_somebody_whose_name_cannot_be(cluster: Cluster) -> None:
    """j.doe of a grown cluster becomes jdoe, with home, memberships, crontab and lingering, and logs in."""
    uid = 20004
    by_hand.register(cluster, {"jdoe": uid})
    made = f"groupadd -f lab; useradd --badname -M -u {uid} -s /bin/bash -G lab j.doe"
    for host in ("node1", "storage1"):
        close = "btrfs property set -ts / ro true 2>/dev/null; true"
        cluster.admin(host, f"{OPEN} 2>/dev/null; {made} && {close}")
    homes, crontabs = "/srv/storage/homes", "/var/spool/cron/crontabs"
    cluster.admin("storage1", f"install -d -m 700 -o {uid} -g {uid} {homes}/j.doe; echo hers > {homes}/j.doe/file")
    cluster.admin("storage1", f"chown {uid}:{uid} {homes}/j.doe/file")
    cluster.admin(
        "node1",
        f"mkdir -p {crontabs} /var/lib/systemd/linger; echo '0 4 * * * true' > {crontabs}/j.doe;"
        f" chown {uid} {crontabs}/j.doe; touch /var/lib/systemd/linger/j.doe",
    )
    lib = "/var/lib/gpuadmin/lib"
    assert cluster.admin("node1", f"ls {lib}/gpuadmin_node/cli.py; find {lib} -name '*takeover*'").splitlines() == [
        f"{lib}/gpuadmin_node/cli.py"
    ], "provision brings nothing of the take-over"
    predicted = cluster.gpuadmin("renumber", "--rename", "j.doe=jdoe", "--check")
    assert predicted["hosts"]["node1"]["changed"] == ["j.doe becomes jdoe"]
    assert cluster.admin("node1", "id -un j.doe").strip() == "j.doe"
    done = cluster.gpuadmin("renumber", "--rename", "j.doe=jdoe", "--yes", "--force")
    assert done["result"]["renamed"]["storage1"] == {"jdoe": "j.doe"}
    assert cluster.admin("node1", f"ls {lib} | grep -c '^[0-9a-f]'").strip() == "2", "daily code, and this"
    assert "gpuadmin_takeover" not in cluster.admin("node1", f"ls {lib}"), "the unit that needed it has gone"
    for host in ("node1", "storage1"):
        assert cluster.admin(host, "grep -c j.doe: /etc/passwd /etc/shadow /etc/group /etc/subuid || true").split() == [
            f"/etc/{name}:0" for name in ("passwd", "shadow", "group", "subuid")
        ]
        assert "lab" in cluster.admin(host, "id -nG jdoe").split()
        assert cluster.admin(host, "getent passwd jdoe | cut -d: -f3,6").strip() == f"{uid}:/home/jdoe"
    assert cluster.admin("storage1", f"ls {homes}").split().count("jdoe") == 1
    assert "j.doe" not in cluster.admin("storage1", f"ls {homes}").split()
    assert cluster.admin("node1", f"ls {crontabs} /var/lib/systemd/linger").split().count("jdoe") == 2
    cluster.gpuadmin("sync-users", "--yes")
    assert cluster.person("jdoe", "node1", "cat file; pwd").split() == ["hers", "/home/jdoe"]
    again = cluster.gpuadmin("renumber", "--rename", "j.doe=jdoe", "--yes", code=2)
    assert "no host has an account 'j.doe'" in str(again)
