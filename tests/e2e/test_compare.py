"""Why does ssh time out only on one server? compare names the setting, and who has it otherwise."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpuadmin.common.sections import SECTIONS
from tests.support.lab_cluster import Cluster

pytestmark = pytest.mark.lab

OPEN, CLOSED = "btrfs property set -ts / ro false", "btrfs property set -ts / ro true"
#: What is done by hand on one node: (section, setting) → how, and how it is undone.
CHANGES = {
    ("ssh", "clientaliveinterval"): (
        "echo ClientAliveInterval 300 > /etc/ssh/sshd_config.d/98-x.conf", "rm /etc/ssh/sshd_config.d/98-x.conf",
    ),
    ("limits", "* hard nofile"): (
        'echo "* hard nofile 1024" > /etc/security/limits.d/x.conf', "rm /etc/security/limits.d/x.conf",
    ),
    ("sudo", "/etc/sudoers.d/x"): ('echo "Defaults !lecture" > /etc/sudoers.d/x', "rm /etc/sudoers.d/x"),
    ("cron", "/etc/cron.d/x"): ('echo "@daily root PASSWORD=geheim true" > /etc/cron.d/x', "rm /etc/cron.d/x"),
    ("units", "cups.service"): ("systemctl mask --now cups.service", "systemctl unmask cups.service"),
    ("dns", "options"): ("cp -a /etc/resolv.conf /root/; echo options ndots:5 >> /etc/resolv.conf",
                         "cat /root/resolv.conf > /etc/resolv.conf"),
}  # fmt: skip


@contextmanager
def done_by_hand(cluster: Cluster, host: str) -> Iterator[None]:
    cluster.admin(host, " && ".join([OPEN, *(do for do, _ in CHANGES.values())]))
    try:
        yield
    finally:
        cluster.admin(host, "; ".join([*(undo for _, undo in CHANGES.values()), CLOSED]))


def looked(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    """What compare finds, whether something differs or not."""
    process = cluster.start("compare", *arguments, "--json")
    found: dict[str, Any] = json.loads(process.communicate(timeout=300)[0])["result"]
    assert process.returncode in (0, 6)
    return found


def odd(result: dict[str, Any]) -> dict[tuple[str, str], list[str]]:
    return {(one["section"], one["key"]): one["odd"] for one in result["found"] if one["how"] == "odd"}


def test_compare_finds_the_server_on_which_ssh_times_out(cluster: Cluster) -> None:
    # a unit of a light host may have failed while its state was restored
    before = looked(cluster, "--section", "units")
    failed = {key: hosts for key, hosts in odd(before).items() if key[1].startswith("failed ")}
    assert odd(before) == failed, "hosts that gpuadmin set up are alike"
    others = [one for name in SECTIONS if name != "units" for one in ("--section", name)]
    alike = cluster.gpuadmin("compare", *others)["result"]
    assert (alike["differing"], alike["unknown"], odd(alike)) == ([], {}, {})
    with done_by_hand(cluster, "node1"):
        document = cluster.gpuadmin("compare", code=6)
        found = document["result"]
        assert odd(found) == failed | {name: ["node1"] for name in CHANGES}
        (interval,) = [one for one in found["found"] if one["key"] == "clientaliveinterval"]
        assert interval["values"] == [
            {"value": "0", "hosts": ["node2", "storage1"]}, {"value": "300", "hosts": ["node1"]},
        ]  # fmt: skip
        assert "geheim" not in str(document)
        two = cluster.gpuadmin("compare", "node1", "node2", "--section", "ssh", code=6)["result"]
        assert [(one["key"], one["how"], one["odd"]) for one in two["found"]] == [
            ("clientaliveinterval", "undecided", []),
        ], "of two nobody knows which is right"
    assert set(SECTIONS) >= {one["section"] for one in found["found"]}
