"""What the report prints is pasted as it is: each line is run here, in a namespace of its own."""

import subprocess
from typing import Any

import pytest

from gpuadmin.takeover.adoption.proposal import propose
from tests.support.adoptable import ROOT, account, homes, host, keys, storage
from tests.support.sites import public_key

pytestmark = [pytest.mark.root, pytest.mark.needs("unshare")]
NAMES = {"minji": 51001, "taeho": 51002, "j.doe": 51003}
#: A host of the test's own: nothing outside of the namespace changes.
SETUP = """
set -e; mount --make-rprivate /; mount -t tmpfs none /mnt; cp -a /etc /mnt/etc; mount --bind /mnt/etc /etc
mkdir /mnt/home /mnt/data /mnt/homes; chmod 755 /mnt
for one in minji:51001 taeho:51002 j.doe:51003; do
    name=${one%:*}; echo "$name:x:${one#*:}:${one#*:}::/mnt/home/$name:/bin/sh" >> /etc/passwd
    echo "$name:!::::::::" >> /etc/shadow; echo "$name:x:${one#*:}:" >> /etc/group
    mkdir -m 700 /mnt/home/$name; echo "of $name" > /mnt/home/$name/thesis; chown -R $name: /mnt/home/$name
done
"""


def entry(name: str, **more: Any) -> dict[str, Any]:
    return {**homes(name)["entries"][0], "uid": NAMES.get(name, 70001), "owner": name, **more}


def node(*entries: dict[str, Any], **more: dict[str, Any]) -> Any:
    """A node with these in /mnt/home; `more`: what differs of accounts."""
    accounts = [{**account(name, uid, home=f"/mnt/home/{name}"), **more.get(name, {})} for name, uid in NAMES.items()]
    data = {**homes(path="/mnt/data"), "entries": [entry("taeho")]}
    return host("gpu1", accounts=[ROOT, *accounts], keys={"minji": keys(public_key("minji"))},
                homes=[{**homes(path="/mnt/home"), "entries": list(entries)}, data])  # fmt: skip


def run(kind: str, hosts: list[Any], before: str, after: str) -> str:
    """What `after` prints on a host where `before` was done, and then every line that a conflict prints."""
    lines = [line for one in propose("lab", hosts, login="root").conflicts if one.kind == kind for line in one.remedies]
    pasted = [line for line in lines if not line.startswith("gpuadmin")]
    script = "\n".join([SETUP, before, "set +e", *pasted, "set -e", after])
    done = subprocess.run(["unshare", "--mount", "bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_a_home_elsewhere_comes_to_its_place_and_stays_where_it_was() -> None:
    elsewhere = {"taeho": {"home": "/mnt/data/taeho"}}
    hosts = [storage(), node(entry("minji"), **elsewhere)]
    before = "mv /mnt/home/taeho /mnt/data/ && usermod -d /mnt/data/taeho taeho"
    after = "cat ~taeho/thesis /mnt/data/taeho/thesis; stat -c '%U %a' ~taeho; echo ~taeho"
    assert run("home elsewhere", hosts, before, after) == "of taeho\nof taeho\ntaeho 700\n/mnt/home/taeho\n"


@pytest.mark.holds("a home is brought to its place only where nothing is there")
@pytest.mark.parametrize("there", [entry("taeho"), entry("taeho", kind="link", link={"leads": "/mnt/x", "uid": None})])
def test_a_home_elsewhere_is_left_where_something_has_its_place(there: dict[str, Any]) -> None:
    hosts = [storage(), node(there, taeho={"home": "/mnt/data/taeho"})]
    (one,) = (one for one in propose("lab", hosts, login="root").conflicts if one.kind == "home elsewhere")
    assert all(line.startswith("#") for line in one.remedies)


def test_a_directory_comes_in_place_of_the_link_to_it() -> None:
    link = entry("taeho", kind="link", uid=0, link={"leads": "/mnt/data/taeho", "uid": NAMES["taeho"]})
    before = "mv /mnt/home/taeho /mnt/data/ && ln -s /mnt/data/taeho /mnt/home/taeho"
    after = "cat /mnt/home/taeho/thesis /mnt/data/taeho/thesis; stat -c '%F %U' /mnt/home/taeho"
    printed = run("home that is a link", [storage(), node(link)], before, f"{after}; ls /mnt/home")
    assert printed.endswith("of taeho\nof taeho\ndirectory taeho\nj.doe\nminji\ntaeho\n")


def test_what_is_nobody_s_is_kept_and_every_home_stays() -> None:
    entries = [*(entry(name) for name in NAMES), entry("old things"), entry("-rf")]
    after = "ls -A /mnt/home; ls -A /mnt/home.before"
    before = "mkdir /mnt/home/'old things' /mnt/home/-rf"
    printed = run("homes on the node", [storage(), node(*entries)], before, after)
    assert printed.split("\n") == ["j.doe", "minji", "taeho", "-rf", "old things", ""]


def test_whose_first_group_is_docker_gets_one_of_their_own() -> None:
    groups = {"groups": [{"name": "docker", "gid": 990, "members": ["minji"]}]}
    there = node(taeho={"gid": 990})
    hosts = [storage(), type(there)(there.name, {**there.answer, **groups})]
    before = "sed -i '/^docker:/d; /^taeho:/d' /etc/group; echo docker:x:990:minji >> /etc/group; usermod -g 990 taeho"
    printed = run("in the group docker", hosts, before, "id -gn taeho; id -Gn minji; id -g taeho")
    assert printed.split("\n")[-4:] == ["taeho", "minji", "51002", ""]


def test_what_the_storage_host_has_beside_what_it_serves_is_copied_as_its_person() -> None:
    server = storage(
        exports=[{"path": "/mnt/homes", "clients": "*(rw)"}],
        accounts=[ROOT, account("minji", NAMES["minji"], home="/mnt/home/minji")],
        homes=[{**homes(path="/mnt/home"), "entries": [entry("minji")]}],
    )
    before = "install -d -m 700 -o minji /mnt/homes/minji"
    after = (
        "cat /mnt/homes/minji/before-nas1/thesis /mnt/home/minji/thesis; stat -c %U /mnt/homes/minji/before-nas1/thesis"
    )
    assert run("homes of the storage host's own", [server, node()], before, after) == "of minji\nof minji\nminji\n"
