"""A cluster as people grow one by hand: what somebody with a shell did on each host over the years, without gpuadmin.

`grow(cluster)` does it on four light hosts (`lab up --light --nodes 0 --ordinary 3`); PLANTED says what is crooked
then, as `gpuadmin adopt` names it. Nothing here imports gpuadmin or knows how it looks.
"""

from __future__ import annotations

import shlex

from tests.support.lab_cluster import Cluster
from tests.support.sites import public_key

#: Neither may ever be in what adopt writes or shows.
TOKEN, SECRET, HASH = "t0ken-of-a-command", "c2VjcmV0LXByaXZhdGUta2V5", "$6$crooked$notahash"
KEYS = {name: public_key(name) for name in ("minji", "jiho", "boram")}
HOSTILE = r"<script>x</script> | [a](b) `id` {{ 1 }} \033]0;owned\007 \033[2J"


def _person(name: str, uid: int, more: str = "-m") -> str:
    return f"useradd -s /bin/bash -u {uid} {more} {name}"


def _key(name: str, line: str, home: str | None = None) -> str:
    home = home or f"/home/{name}"
    return (
        f"install -d -m 700 -o {name} {home}/.ssh && printf '%s\\n' {shlex.quote(line)} >> {home}/.ssh/authorized_keys"
        f" && chown {name} {home}/.ssh/authorized_keys && chmod 600 {home}/.ssh/authorized_keys"
    )


_GECOS = "-c 'Kim Minji,,,,minji@example.org'"
_MINJI, _WITHOUT_HOME = _person("minji", 1001, f"-m {_GECOS}"), _person("minji", 1001, f"-M {_GECOS}")
_OLDBOY = _person("oldboy", 1005, "-m -e 2024-01-31")

STORAGE = f"""
btrfs property set -ts / ro false  # the lab's own storage host has its root read-only
mkdir -p /srv/storage/oldhomes
echo '/srv/storage/oldhomes *(rw,no_subtree_check) # "the" homes' >> /etc/exports
{_WITHOUT_HOME}
"""
#: Local homes, Docker for all, sudo for some, ranges by hand.
FIRST = f"""
{_MINJI} && {_key("minji", KEYS["minji"])}
{_person("jiho", 1002)} && {_key("jiho", KEYS["jiho"])}
{_person("seo", 1003)} && gpasswd -a seo sudo
{_person("yuna", 1004)}
{_OLDBOY}
{_person("dodam", 1011)}
{_person("boram", 1006)} && {_key("boram", f'from="10.0.0.*",command="run --token {TOKEN}" {KEYS["boram"]}')}
useradd -m --badname -s /bin/bash -u 1007 Park.J
useradd -r -u 1015 -s /usr/sbin/nologin jenkins
groupadd docker; gpasswd -a minji docker; gpasswd -a yuna docker
printf '[Service]\\nExecStart=/bin/sleep infinity\\n' > /etc/systemd/system/docker.service
systemctl daemon-reload && systemctl start docker.service
mkdir -p /var/lib/docker/containers/0123456789abcdef /var/lib/docker/volumes/training/_data
echo 'yuna ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/people && chmod 440 /etc/sudoers.d/people
printf 'minji:100000:65536\\njiho:130000:65536\\nnonsense\\n' > /etc/subuid
cp /etc/subuid /etc/subgid
mkdir -p '/home/minji old' && chown minji '/home/minji old'
mkdir -p /home/hana && chown 70001:70001 /home/hana
ln -sfn /root /home/link
mkdir -p "$(printf '/home/x\\ny\\033[2J')"
printf 'eve:x:1020:1020:{HOSTILE}:/home/eve:/bin/bash\\n' >> /etc/passwd
echo 'eve:x:1020:' >> /etc/group
"""
#: The second admin numbered people anew, edited sshd_config, and keeps homes on another disk.
SECOND = f"""
{_MINJI} && {_key("minji", KEYS["minji"])}
{_person("seo", 1002)}
{_person("jiho", 1003)}
{_person("yuna", 1010)}
{_OLDBOY}
{_person("ham", 1011)}
mkdir -p /data && {_person("taeho", 1008, "-m -d /data/taeho")}
{_key("taeho", "-----BEGIN OPENSSH PRIVATE KEY-----", "/data/taeho")}
{_key("taeho", SECRET, "/data/taeho")}
{_person("shin", 1009)} && usermod -p '!{HASH}' shin
echo 'toor:x:0:0::/root:/bin/bash' >> /etc/passwd
sed -i '/^[[:space:]]*Include/d' /etc/ssh/sshd_config && systemctl reload ssh
"""
#: The newest: homes by NFS, names from a directory that is not there today.
THIRD = f"""
{_WITHOUT_HOME}
{_person("jiho", 1002, "-M")}
sed -i 's/^passwd:.*/passwd: files sss/' /etc/nsswitch.conf
mount -t nfs4 storage1:/srv/storage/oldhomes /home
echo 'storage1:/srv/storage/oldhomes /home nfs4 defaults 0 0' >> /etc/fstab
"""
GROWN = {"storage1": STORAGE, "plain1": FIRST, "plain2": SECOND, "plain3": THIRD}

#: What adopt calls it → the hosts, and a word of what it says.
PLANTED: dict[str, tuple[set[str], str]] = {
    "uid swapped": ({"plain2"}, "jiho and seo"),
    "uid differs": ({"plain2"}, "yuna has 1004 on plain1, 1010 on plain2"),
    "uid shared": ({"plain1", "plain2"}, "1011"),
    "homes on the node": ({"plain1", "plain2"}, "/home of "),
    "several homes": ({"plain1", "plain2"}, "becomes the home"),
    "home mount": ({"plain3"}, "storage1:/srv/storage/oldhomes"),
    "home elsewhere": ({"plain2"}, "taeho has /data/taeho"),
    "home that is odd": ({"plain1"}, "/home/minji old"),
    "owner without an account": ({"plain1"}, "/home/hana belongs to uid 70001"),
    "names from elsewhere": ({"plain3"}, "sss"),
    "in the group docker": ({"plain1"}, "minji, yuna"),
    "Docker of root's": ({"plain1"}, "1 volume (named: training)"),
    "sudo by hand": ({"plain1"}, "yuna"),
    "group of root's": ({"plain1"}, "seo"),
    "root by another name": ({"plain2"}, "toor"),
    "subordinate ids overlap": ({"plain1"}, "jiho 130000-195535"),
    "subordinate ids damaged": ({"plain1"}, "nonsense"),
    "sshd without Include": ({"plain2"}, "does not include"),
    "account ends": ({"plain1", "plain2"}, "oldboy 2024-01-30"),
    "password locked": ({"plain2"}, "shin"),
    "key with options": ({"plain1"}, "from, command"),
    "key damaged": ({"plain2"}, "taeho: of a line in a file of keys: is a private key"),
    "key to be decided": ({"plain1", "plain2"}, "is on plain1, plain2, and not on plain3"),
    "person left out": ({"plain1"}, "Park.J"),
    "account that is no person's": (set(), "jenkins"),
}


def grow(cluster: Cluster) -> None:
    """Do on each host what its people did by hand."""
    for host, script in GROWN.items():
        cluster.admin(host, f"exec 2>&1; set -e\n{script}")
