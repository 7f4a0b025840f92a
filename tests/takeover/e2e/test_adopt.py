"""A cluster that people have grown by hand: adopt reads it, changes nothing there, and names all that is crooked."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.config.load import load_site
from tests.support import by_hand, crooked
from tests.support.lab_cluster import GPUADMIN, LAB, Cluster
from tests.support.labs import nothing_left

pytestmark = pytest.mark.lab
#: What adopt may not touch: all of a host but what logins, the kernel and services write by themselves.
_LASTING = "/etc /home /data /root /srv /opt /usr /var/home /var/lib/docker /var/lib/gpuadmin"


@pytest.fixture(scope="module")
def grown() -> Iterator[Cluster]:
    """Four hosts without gpuadmin, as somebody has grown them."""
    with by_hand.grown("crooked", crooked.grow, "--gpus", "2", ordinary=3) as found:
        yield found


def gpuadmin(site: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    line = [GPUADMIN, *arguments, "--site", str(site), "--json"]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def named(cluster: Cluster) -> list[str]:
    hosts = json.loads(cluster.lab("status", "--json"))["hosts"]
    return [f"{one['name']}=127.0.0.1:{one['ssh_port']}" for one in hosts]


def touched(cluster: Cluster) -> dict[str, str]:
    """The files of each host that are newer than its mark, which is set anew."""
    line = f"test -e /run/mark && find {_LASTING} -xdev -newer /run/mark 2>/dev/null; touch /run/mark"
    return {name: cluster.admin(name, line) for name in cluster.hosts()}


def what(found: list[dict[str, Any]]) -> set[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Of conflicts, what does not depend on words: kind, hosts, people."""
    return {(one["kind"], tuple(sorted(one["hosts"])), tuple(sorted(one["people"]))) for one in found}


@pytest.mark.long
def test_the_twin_of_a_grown_cluster_is_as_crooked(grown: Cluster, tmp_path: Path) -> None:
    site = tmp_path / "lab"
    login = ("--admin", "gpuadmin", "--yes", "--identity")
    key = str(load_site(str(grown.site)).settings.admin.ssh_key)
    original = gpuadmin(site, "adopt", *named(grown), *login, key)["result"]["conflicts"]
    twin = Cluster(tmp_path / "twin", f"{LAB}-crooked-twin", light=True)
    up = ("up", "--like", str(site), "--state", str(site / "adoption.json"), "--site", str(twin.site))
    try:
        twin.lab(*up)
        key = str(load_site(str(twin.site)).settings.admin.ssh_key)
        found = gpuadmin(tmp_path / "seen", "adopt", *named(twin), *login, key)["result"]["conflicts"]
        assert what(found) == what(original)
        assert {one["words"] for one in original} - {one["words"] for one in found} <= {
            one["words"]
            for one in original
            if one["kind"] in ("key with options", "sudo by hand", "key damaged", "key to be decided")
        }
        assert twin.lab("ssh", "-l", "minji", "plain1", "stat", "-c", "%U", "'/home/minji old'") == "minji\n"
        people = [(one / "users.yml").read_text() for one in (tmp_path / "seen", twin.site)]
        seen = "\n".join(line for text in people for line in text.splitlines() if not line.startswith("#"))
        for real in (*crooked.KEYS.values(), crooked.HASH, "minji@example.org"):
            assert real not in seen

        # again: what is there stays as somebody has left it since
        twin.admin("plain1", "userdel yuna")
        twin.lab(*up)
        assert twin.admin("plain1", "getent passwd yuna || echo gone").strip() == "gone"
    finally:
        twin.end_commands()
        twin.lab("down", "--purge")
        nothing_left(twin.name)


def test_a_grown_cluster_is_read_and_everything_crooked_is_named(grown: Cluster, tmp_path: Path) -> None:
    site = tmp_path / "lab"
    key = str(load_site(str(grown.site)).settings.admin.ssh_key)
    login = ("--admin", "gpuadmin", "--identity", key, "--yes")
    touched(grown)
    document = gpuadmin(site, "adopt", *named(grown), *login)
    assert touched(grown) == dict.fromkeys(grown.hosts(), ""), "hosts are only looked at"
    found = document["result"]["conflicts"]

    # each thing that was planted has its name, its hosts, and words to find it by
    for kind, (hosts, word) in crooked.PLANTED.items():
        of_kind = [one for one in found if one["kind"] == kind]
        assert of_kind, f"{kind} is not in the report"
        assert {host for one in of_kind for host in one["hosts"]} == hosts, kind
        assert any(word in one["words"] for one in of_kind), [one["words"] for one in of_kind]
    assert {one["kind"] for one in found} - set(crooked.PLANTED) == {"no key", "root without images"}
    assert all(one["remedies"] for one in found if one["level"] == "stops")

    # the site is one, with people as most hosts have them
    loaded = load_site(str(site))
    assert gpuadmin(site, "check")["status"] == "ok"
    groups = {one.name: set(one.groups) for one in loaded.inventory.hosts}
    assert groups == {
        "storage1": {"storage"}, "plain1": {"gpu", "golden"}, "plain2": {"gpu"}, "plain3": {"gpu"},
    }  # fmt: skip
    uids = {user.name: user.uid for user in loaded.registry.registry.users}
    assert {name: uids[name] for name in ("minji", "jiho", "seo", "yuna", "dodam")} == {
        "minji": 1001, "jiho": 1002, "seo": 1003, "yuna": 1004, "dodam": 1011,
    }  # fmt: skip
    assert uids["ham"] not in {1011, None}
    assert len(set(uids.values())) == len(uids)
    minji = loaded.registry.find("minji")
    assert minji is not None
    assert (minji.email, minji.keys) == ("minji@example.org", []), "plain3 does not have her key"
    assert "Park.J" not in uids
    assert loaded.settings.homes.export == "/srv/storage/oldhomes"

    # nothing secret, and nothing that anything obeys
    for path in (one for one in site.rglob("*") if one.is_file()):
        text = path.read_text()
        for secret in (crooked.TOKEN, crooked.SECRET, crooked.HASH):
            assert secret not in text, path
        assert not set("\x1b\x07\x9b") & set(text), path

    # provision finds in the way what the report has, and nothing else
    hosts = gpuadmin(site, "provision", "--check", code=3)["hosts"]
    stops = [one for one in found if one["level"] == "stops"]
    assert {name for name, one in hosts.items() if one["status"] == "failed"} == {
        host for one in stops for host in one["hosts"] if "storage" not in groups[host]
    }
    for name, host in hosts.items():
        if host["status"] == "failed":
            told = {person for one in stops if name in one["hosts"] for person in one["people"]}
            said = {
                part.split()[1].rstrip(":") for part in str(host["message"]).split("; ") if part.startswith("user ")
            }
            assert said <= told, f"{name}: {host['message']}"

    # again: nothing is new, and nothing is written
    before = {path: path.read_bytes() for path in site.glob("*.*") if path.is_file()}
    again = gpuadmin(site, "adopt", "--yes")["result"]
    assert (again["new"], again["written"]) == ({"hosts": [], "people": [], "conflicts": []}, [])
    assert {path: path.read_bytes() for path in site.glob("*.*") if path.is_file()} == before

    # what is settled is gone, and whoever comes is new
    grown.admin("plain1", "gpasswd -d minji docker; gpasswd -d yuna docker; useradd -m -u 1030 -s /bin/bash sora")
    later = gpuadmin(site, "adopt", "--yes")["result"]
    assert later["new"]["people"] == ["sora"]
    assert "in the group docker" not in {one["kind"] for one in later["conflicts"]}
    assert later["settled"] >= 1


@pytest.mark.long
def test_a_cluster_that_gpuadmin_has_set_up_is_adopted_already(minji: Cluster, tmp_path: Path) -> None:
    found = minji.gpuadmin("adopt", "--yes")["result"]
    assert (found["new"]["hosts"], found["new"]["people"]) == ([], [])
    assert {one["kind"] for one in found["conflicts"]} <= {"root without images"}, found["conflicts"]
    for name in ("adoption.md", "adoption.json"):
        (minji.site / name).unlink(missing_ok=True)
