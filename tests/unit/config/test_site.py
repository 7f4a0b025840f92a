"""Finding, loading and checking a site."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from pydantic import ValidationError

from gpuadmin.config.check import findings
from gpuadmin.config.inventory import load_inventory
from gpuadmin.config.load import find_site, load_settings, load_site
from gpuadmin.config.reference import json_schemas, reference_page
from gpuadmin.config.schema import Settings
from gpuadmin.config.schema.term import MAIL_PASSWORD
from gpuadmin.config.schema.timers import IdleShutdown
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.config.validate import GONE
from gpuadmin.errors import ConfigError
from tests.support.sites import HOSTS, public_key
from tests.support.verbs import fail, succeed

pytestmark = pytest.mark.holds("what is in a directory stays when a site is written into it")


def test_a_site_is_found_from_the_option_the_environment_or_upwards(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = site / "inventory"
    monkeypatch.chdir(deep)
    assert find_site(None) == site
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"no gpuadmin\.yml in"):
        find_site(None)
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    assert find_site(None) == site
    with pytest.raises(ConfigError, match=r"no gpuadmin\.yml there \(--site\)") as caught:
        find_site(str(tmp_path / "a b"))
    assert caught.value.hint == f"gpuadmin init '{tmp_path}/a b' writes one"
    monkeypatch.setenv("GPUADMIN_SITE", str(tmp_path))
    with pytest.raises(ConfigError, match="GPUADMIN_SITE"):
        find_site(None)


@pytest.mark.root
@pytest.mark.holds("who stands in somebody's directory runs nothing of theirs")
@pytest.mark.parametrize("what", ["", "gpuadmin.yml"], ids=["their home", "below /tmp"])
def test_a_site_that_somebody_else_has_put_where_one_stands_is_not_taken(
    what: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inventory names programs for ssh, and they ran as the admin who looked into somebody's home."""
    lstat = Path.lstat

    def of_another(path: Path) -> os.stat_result:
        found = lstat(path)
        return os.stat_result((*found[:4], os.geteuid() + 1, *found[5:])) if path == site / what else found

    monkeypatch.chdir(site / "inventory")
    assert find_site(None) == site
    monkeypatch.setattr(Path, "lstat", of_another)
    with pytest.raises(ConfigError, match=r"gpuadmin\.yml: is another account's") as refused:
        find_site(None)
    assert f"--site {site}" in str(refused.value.hint)
    assert find_site(str(site)) == site
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", str((site / what).lstat().st_uid))
    assert find_site(None) == site, "it is that of whoever called sudo"


def test_a_new_site_is_valid_and_every_host_is_in_its_groups(site: Path) -> None:
    loaded = load_site(str(site))
    assert {host.name: set(host.groups) for host in loaded.inventory.hosts} == {
        "storage1": {"storage"},
        "node1": {"gpu", "golden"},
        "node2": {"gpu"},
    }
    assert [found for found in findings(loaded) if found.level == "error"] == []
    assert (site / "runs").stat().st_mode & 0o777 == 0o700


def test_no_setting_is_lost_that_the_new_file_has_as_a_comment(tmp_path: Path) -> None:
    mail = {"host": "smtp.example.org", "sender": "gpu@example.org", "guide": "https://example.org/안내"}
    given = {
        "term": {"name": "2026-2", "deadline": "2027-01-31"},
        "mail": {**mail, "security": "none"},
        "backups": {"schedule": "daily"},
        "homes": {"export": "/srv/homes"},
        "limits": {"memory": "64G", "people": [{"names": ["minji"], "tasks": "100"}]},
    }
    write_site(tmp_path / "site", name="test", settings=given, hosts=HOSTS)
    assert load_settings(tmp_path / "site") == Settings.model_validate({"name": "test", **given})


def test_writing_a_site_again_keeps_what_people_wrote(site: Path) -> None:
    (site / "users.yml").write_text("# mine\nusers: []\n")
    (site / "gpuadmin.yml").write_text("# mine\nname: mine\n")
    write_site(site, name="other", settings={}, hosts=HOSTS[:1])
    assert (site / "users.yml").read_text() == "# mine\nusers: []\n"
    assert load_settings(site).name == "mine"


SETTINGS_MISTAKES = {
    "name: x\nslurm: {groups: [{name: lab, people: [minji]}]}\n": [
        "there is no such field any more: say it in users.yml: `group: NAME`"
    ],
    "label: x\n": ["gpuadmin.yml:1: label: there is no such field", "name: is missing"],
    "name: x\nhomes:\n  path: home\n": ["gpuadmin.yml:3: homes.path: 'home' must be an absolute path"],
    "name: x\nadmin: {user: Kim Min}\n": ["gpuadmin.yml:2: admin.user: 'Kim Min' is not the name of an account"],
    "name: x\nhomes: /home\n": ["gpuadmin.yml:2: homes: must hold fields"],
    "name: x\naccounts:\n  source: ldap\n": ["gpuadmin.yml:3: accounts.source: ", "'registry' or 'directory'"],
    "name: x\naccounts:\n  uid_first: many\n": ["gpuadmin.yml:3: accounts.uid_first: ", "a whole number, not 'many'"],
    "name: '{{ x }}'\n": ["gpuadmin.yml:1: name: holds the template marker '{{'"],
    "name: x\nterm: {name: 2026-2, deadline: soon}\n": ["gpuadmin.yml:2: term.deadline: 'soon' is not a date"],
    "name: x\nhomes: {server: '-oProxyCommand=id'}\n": ["homes.server: '-oProxyCommand=id' is not a host name"],
    "name: x\ngpus: {driver: nvidia}\n": ["gpuadmin.yml:2: gpus.driver: ", "'repository' or 'elsewhere'"],
    "name: x\ngpus: {power_cap: 500W}\n": ["gpuadmin.yml:2: gpus.power_cap: must be watts from 30 to 3000 (`500`)"],
    "name: x\ngpus: {power_cap: {'': 500}}\n": ["gpuadmin.yml:2: gpus.power_cap: must be watts from 30 to 3000"],
    "name: x\ngpus: {version: 570.10}\n": ["gpuadmin.yml:2: gpus.version: 570.1 is not a driver version in quotes"],
    "name: x\ngpus: {driver: repository}\n": ["gpus: ", "driver: repository needs repository with url and key"],
    "name: x\ngpus: {toolkit: repository}\n": ["gpus: ", "toolkit: repository needs toolkit_repository"],
    "name: [\n": ["gpuadmin.yml:", "is not valid YAML"],
    "": ["name: is missing"],
}


@pytest.mark.parametrize("name", sorted(GONE.keys() - {"slurm.groups.people"}))  # which is in a list, and above
def test_a_setting_that_is_gone_says_what_happens_now_and_that_its_line_can_go(site: Path, name: str) -> None:
    *sections, field = name.split(".")
    opened = "".join(f"{one}: {{" for one in sections)
    (site / "gpuadmin.yml").write_text(f"name: x\n\n{opened}{field}: 5{'}' * len(sections)}\n")
    with pytest.raises(ConfigError) as caught:
        load_site(str(site))
    words = f"gpuadmin.yml:3: {name}: there is no such field any more: {GONE[name]}; remove the line"
    assert words in caught.value.message


@pytest.mark.parametrize(("text", "words"), SETTINGS_MISTAKES.items())
def test_mistakes_in_the_settings_name_file_line_and_path(site: Path, text: str, words: list[str]) -> None:
    (site / "gpuadmin.yml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_site(str(site))
    for word in words:
        assert word in caught.value.message
    assert caught.value.exit_code == 2


def test_a_file_that_is_no_text(site: Path) -> None:
    (site / "gpuadmin.yml").write_bytes(b"name: \xff\xfe\n")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load_site(str(site))


@pytest.mark.parametrize("text", ["all: [\n", "- a\n"])
def test_an_inventory_that_ansible_would_only_warn_about(site: Path, text: str) -> None:
    (site / "inventory/hosts.yml").write_text(text)
    with pytest.raises(ConfigError, match=r"hosts\.yml"):
        load_site(str(site))


def test_a_limit_names_hosts(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    inventory = load_site(str(site)).inventory
    (site / "some").write_text("node2\n")
    for pattern, names in (("gpu:!node2", ["node1"]), ("node*", ["node1", "node2"]), (f"@{site}/some", ["node2"])):
        assert [host.name for host in inventory.limited(pattern)] == names
    with pytest.raises(ConfigError, match="names no host of this site"):
        inventory.limited("a-node-that-no-other-test-names")  # Ansible says a warning once in a process
    assert capfd.readouterr() == ("", "")


@pytest.mark.holds("an empty limit is not taken for all hosts")
@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        *((one, "is not a host pattern") for one in ("", "  ", ",", ":", "~", "~[", "node[9:")),
        *((one, "is not a host pattern that Ansible understands") for one in ("node1[7]", "~(")),
        ("node1:!", "nothing follows '!'"),
        ("node1,&", "nothing follows '&'"),
        ("@", "nothing follows '@'"),
        ("@/nonexistent/hosts", "/nonexistent/hosts: No such file or directory"),
        ("@/", "/: is a directory, where a regular file has to be"),
        ("@/dev/zero", "is a device"),
    ],
)
def test_a_limit_that_is_none_is_not_taken_for_all_hosts(site: Path, pattern: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        load_site(str(site)).inventory.limited(pattern)
    assert caught.value.hint


def test_known_hosts_that_is_no_text(site: Path, cli: Callable[..., tuple[int, str, str]]) -> None:
    for data in (b"\0" * 100, bytes(range(256)) * 20):
        (site / "known_hosts").write_bytes(data)
        for verb in ("check", "trust"):
            code, _, err = cli(verb, *(["--all"] if verb == "trust" else []), "--site", str(site))
            assert (code, "move it away: gpuadmin trust --all then writes a new one" in err) == (2, True), err


@pytest.mark.parametrize("variables", ["ansible_host: 10.1.0.300", "ansible_host: 1.2.3.4567", "ansible_host: -oX"])
def test_what_is_no_address_is_refused(site: Path, variables: str) -> None:
    (site / "inventory/host_vars").mkdir(exist_ok=True)
    (site / "inventory/host_vars/node1.yml").write_text(f"{variables}\n")
    name, value = variables.split(": ")
    with pytest.raises(ConfigError, match=f"node1: {name} '{value}' is not the name or address of a host"):
        load_site(str(site))


ADMINS = f"admins: [{{name: minji, uid: 901, keys: ['{public_key('x')}'], until: 2020-02-28}}]\n"
USER = f"  - name: minji\n    uid: 20000\n    keys: ['{public_key('minji')}']\n"
TODAY = date(2026, 11, 21)


def hosts_yml(**groups: list[str]) -> str:
    lines = ["all:", "  children:"]
    for group, hosts in groups.items():
        lines += [f"    {group}:", "      hosts:", *(f"        {host}: {{}}" for host in hosts)]
    return "\n".join(lines) + "\n"


QUEUE = "slurm: {hosts: {storage1: {}}}\n"


def with_queue(text: str, settings: str = "slurm: {}") -> dict[str, str]:
    """The files of a site with a queue."""
    return {"gpuadmin.yml": f"name: x\n{settings}\n", "inventory/queue.yml": text}


CHECKS = {
    "timers without a monitor host": (
        {"gpuadmin.yml": "name: x\ntimers: {verbs: [drift]}\n"}, "error", "gpuadmin.yml: timers", "group monitor",
    ),
    "timers that mail, and no mail": (
        {"gpuadmin.yml": "name: x\ntimers: {verbs: [notify]}\n"}, "error", "gpuadmin.yml: timers", "no mail can be",
    ),
    "timers that cannot log in to the mail server": (
        {"gpuadmin.yml": "name: x\ntimers: {verbs: [idle]}\nmail: {host: h, user: u, sender: a@example.org}\n"},
        "error", "gpuadmin.yml: timers", "no environment",
    ),
    "a timer that switches off, and nobody said when": (
        {"gpuadmin.yml": "name: x\ntimers: {verbs: [shutdown]}\n"}, "error", "gpuadmin.yml: timers", "alone",
    ),
    "a time to switch off at, and no timer": (
        {"gpuadmin.yml": "name: x\ntimers: {verbs: [drift], shutdown: {when: Fri 20:00, nodes: 2}}\n"},
        "error", "gpuadmin.yml: timers", "alone",
    ),
    "a host to switch off that is none": (
        {"gpuadmin.yml": "name: x\ntimers: {verbs: [shutdown], shutdown: {when: Fri 20:00, nodes: 2, hosts: gpu9}}\n"},
        "error", "gpuadmin.yml", "timers.shutdown.hosts gpu9: names no host of this site",
    ),
    "a host to switch off that is no node": (
        {
            "gpuadmin.yml": "name: x\ntimers: {verbs: [shutdown], shutdown: {when: Fri, nodes: 2, hosts: storage}}\n"
        },
        "error", "gpuadmin.yml: timers.shutdown.hosts", "names no node",
    ),
    "nodes for a queue, and no queue": (
        {"gpuadmin.yml": "name: x\ntimers: {verbs: [power]}\n"}, "error", "gpuadmin.yml: timers", "there is no queue",
    ),
    "notebooks without a queue": (
        {"gpuadmin.yml": "name: x\nnotebooks: {}\n"}, "error", "gpuadmin.yml: notebooks", "there are no notebooks",
    ),
    "buttons without a queue": (
        {"gpuadmin.yml": "name: x\nmetrics: {dashboard: {buttons: true}}\n"}, "warning", "buttons", "there is none",
    ),
    "free GPUs that are everybody's": (
        {"gpuadmin.yml": "name: x\ngpus: {self_service: {}}\n"}, "warning", "self_service", "open to everybody",
    ),
    "notebooks at the dashboard's port": (
        {"gpuadmin.yml": "name: x\nnotebooks: {port: 9443}\n"}, "error", "notebooks.port", "the dashboard's port, too",
    ),
    "notebooks at the exporter's port": (
        {"gpuadmin.yml": "name: x\nnotebooks: {front_port: 9100}\n"}, "error", "front_port", "the exporter's port, too",
    ),
    "no host": ({"inventory/hosts.yml": "all: {}\n"}, "error", "inventory/", "no file there names a host"),
    "no storage": (
        {"inventory/hosts.yml": hosts_yml(gpu=["n1"])}, "error", "inventory/hosts.yml: storage", "no host is in it",
    ),
    "a slip in a group": (
        {"inventory/hosts.yml": hosts_yml(storages=["s"], gpu=["n"])}, "warning", "hosts.yml: s",
        "in no group that gpuadmin knows: 'storages'; did you mean 'storage'?",
    ),
    "a slip in a second group": (
        {"inventory/hosts.yml": hosts_yml(storage=["s"], gpu=["n"], monitr=["s"])}, "warning", "hosts.yml: s",
        "is also in a group that gpuadmin does not know: 'monitr'; did you mean 'monitor'?",
    ),
    "no node": ({"inventory/hosts.yml": hosts_yml(storage=["s"])}, "error", "hosts.yml: gpu", "no host is in it"),
    "two golden": (
        {"inventory/hosts.yml": hosts_yml(storage=["s"], gpu=["n1", "n2"], golden=["n1", "n2"])},
        "error", "golden", "holds n1, n2",
    ),
    "a host of no group": (
        {"inventory/hosts.yml": hosts_yml(storage=["s"], gpu=["n1"], printers=["p"])},
        "warning", "inventory/hosts.yml: p", "is in no group",
    ),
    "two names for one machine": (
        {"inventory/hosts.yml": hosts_yml(storage=["s"]) + "    gpu: {hosts: {n1: {ansible_host: s}}}\n"},
        "error", "inventory/hosts.yml: s", "like n1",
    ),
    "a host named like a group": (
        {"inventory/hosts.yml": hosts_yml(storage=["storage"], gpu=["n1"])},
        "error", "inventory/hosts.yml: storage", "a host and a group have this name",
    ),
    "a host named like a group of the site's": (
        {"inventory/hosts.yml": hosts_yml(storage=["s"], gpu=["rack"], rack=["n1"])},
        "error", "inventory/hosts.yml: rack", "a host and a group have this name",
    ),
    "a node that serves homes": (
        {"inventory/hosts.yml": hosts_yml(storage=["s"], gpu=["s", "n1"])},
        "error", "inventory/hosts.yml: s", "is in gpu and in storage",
    ),
    "a golden node that serves homes": (
        {"inventory/hosts.yml": hosts_yml(storage=["s"], gpu=["n1"], golden=["s"])},
        "error", "inventory/hosts.yml: s", "is in golden, whose host is a node, and in storage",
    ),
    "a password that is not there": (
        {"gpuadmin.yml": "name: x\nmail: {host: h, user: u, sender: a@example.org, password_file: /no/such}\n"},
        "warning", "gpuadmin.yml", "mail.password_file: /no/such: No such file",
    ),
    "one that is not pinned": (
        {"known_hosts": "".join(f"{name} {public_key(name)}\n" for name in ("[127.0.0.1]:1", "[127.0.0.1]:2"))},
        "warning", "known_hosts", "of 1 host are not pinned: node2",
    ),
    "no pinned key": ({}, "warning", "known_hosts", "of 3 hosts are not pinned: node1, node2, storage1"),
    "a server that is none": (
        {"gpuadmin.yml": "name: x\nhomes: {server: node1}\n"}, "error", "homes.server", "not a host of group storage",
    ),
    "a server of images that is none": (
        {"gpuadmin.yml": "name: x\nimages: {server: node1}\n"}, "error", "images.server", "not a host of group storage",
    ),
    "a mountpoint elsewhere": (
        {"gpuadmin.yml": "name: x\nhomes: {export: /srv/homes, mountpoint: /data}\n"},
        "error", "homes.mountpoint", "is not below it",
    ),
    "backups that nodes can see": (
        {"gpuadmin.yml": "name: x\nbackups: {directory: /srv/storage/homes/backups}\n"},
        "error", "backups.directory", "which every node can see",
    ),
    "a copy beside the original": (
        {"inventory/hosts.yml": hosts_yml(storage=["s"], gpu=["n1"], backup=["s"])},
        "error", "inventory/hosts.yml: s", "a copy on the same host does not count",
    ),
    "a copy where people work": (
        {"inventory/hosts.yml": hosts_yml(storage=["s"], gpu=["n1", "n2"], backup=["n2"])},
        "warning", "inventory/hosts.yml: n2", "people who work on it can fill its disks",
    ),
    "docker on NFS": (
        {"gpuadmin.yml": "name: x\ndocker: {data: /home/docker}\n"}, "error", "docker.data", "which is NFS",
    ),
    "expired": (
        {"users.yml": "users:\n" + USER + "    expires: 2026-11-20\n"}, "warning", "users.yml:2", "expired on",
    ),
    "no key": ({"users.yml": "users: [{name: minji, uid: 20000}]\n"}, "warning", "users.yml:1", "no ssh key"),
    "a slip in protected": (
        {"gpuadmin.yml": "name: x\nprotected: [minij]\n"}, "warning", "protected", "'minij' is not in users.yml",
    ),
    "a term that is over": (
        {"gpuadmin.yml": "name: x\nterm: {name: a, deadline: 2026-11-20}\n"}, "warning", "term.deadline", "ended on",
    ),
    "somebody without an address": (
        {"gpuadmin.yml": "name: x\nmail: {host: h, sender: a@example.org}\n", "users.yml": "users:\n" + USER},
        "warning", "users.yml", "no e-mail address, so never notified: minji",
    ),
    "an old site without limits": (
        {"gpuadmin.yml": "name: x\n"}, "warning", "gpuadmin.yml: limits", "one person can take all memory of a node",
    ),
    "limits of a host where the site has none": (
        {"gpuadmin.yml": "name: x\n", "inventory/group_vars/gpu.yml": "limits_memory: 64G\n"},
        "error", "inventory: node1", "limits_memory does nothing: gpuadmin.yml has no section limits",
    ),
    "limits of nobody": (
        {"gpuadmin.yml": "name: x\nlimits: {people: [{names: [minij], memory: 64G}]}\n"},
        "warning", "limits.people", "'minij' is not in users.yml",
    ),
    "a queue without a host": (
        {"gpuadmin.yml": "name: x\nslurm: {}\n"}, "error", "gpuadmin.yml: slurm", "no host is in the group slurm",
    ),
    "a queue that nobody needs": (
        with_queue(QUEUE), "warning", "gpus.access", "without waiting for their turn on node1, node2",
    ),
    "a queue on a node": (
        with_queue(QUEUE.replace("storage1", "node1")), "error", "inventory: node1", "is in the groups slurm and gpu",
    ),
    "a host that takes no jobs, whatever it says": (
        with_queue("slurm: {hosts: {storage1: {slurm_node: true}}}\n"),
        "error", "inventory: storage1", "slurm_node does nothing",
    ),
    "a node that is called by a word of Slurm's": (
        with_queue(f"{QUEUE}gpu: {{hosts: {{default: {{ansible_host: 10.0.0.9}}}}}}\n"),
        "error", "inventory: default", "has a name that Slurm takes for something else",
    ),
    "two queues": (
        with_queue("slurm: {hosts: {storage1: {}, x: {}}}\n"), "error", "inventory: slurm", "holds storage1, x",
    ),
    "a queue without a node": (
        with_queue(f"{QUEUE}gpu: {{vars: {{slurm_node: false}}}}\n"),
        "error", "inventory: slurm_node", "no node takes jobs",
    ),
    "a queue's host without a queue": (
        {"gpuadmin.yml": "name: x\n", "inventory/queue.yml": QUEUE},
        "warning", "inventory: storage1", "provision takes the queue away",
    ),
    "a queue that no backup has": (
        with_queue("slurm: {hosts: {x: {}}}\n"), "warning", "inventory: x", "no backup has the queue's accounting",
    ),
    "buttons on a host without accounts": (
        with_queue("slurm: {hosts: {x: {}}}\n", "slurm: {}\nmetrics: {dashboard: {buttons: true}}"),
        "warning", "gpuadmin.yml: metrics.dashboard.buttons", "the dashboard has no buttons",
    ),
    "a queue for people of a directory": (
        with_queue(QUEUE, "slurm: {}\naccounts: {source: directory}"),
        "error", "gpuadmin.yml: slurm", "accounts.source is directory",
    ),
    "a group of nobody's": (
        with_queue(QUEUE, "slurm: {groups: [{name: labb}]}"),
        "warning", "slurm.groups", "nobody in users.yml has `group: labb`",
    ),
    "a node of two groups": (
        with_queue(QUEUE, "slurm: {groups: [{name: a, owns: {nodes: [node1]}}, {name: b, owns: {nodes: [node1]}}]}"),
        "error", "slurm.groups: b: owns", "nodes: node1 is a's already",
    ),
    "a type of two groups": (
        with_queue(QUEUE, "slurm: {groups: [{name: a, owns: {types: [H100]}}, {name: b, owns: {types: [h100]}}]}"),
        "error", "slurm.groups: b: owns", "types: h100 is a's already",
    ),
    "a group's node that is none": (
        with_queue(QUEUE, "slurm: {groups: [{name: a, owns: {}}]}"),
        "error", "slurm.groups: a: owns", "names neither nodes nor types",
    ),
    "a group that owns nothing of what it owns": (
        with_queue(QUEUE, "slurm: {groups: [{name: a, owns: {nodes: [nodee1]}}]}"),
        "error", "slurm.groups: a: owns", "nodes: nodee1 is not a node of the queue",
    ),
    "limits of a group of nobody's": (
        {"gpuadmin.yml": "name: x\nlimits: {people: [{groups: [labb], memory: 8G}]}\n"},
        "warning", "limits.people", "nobody in users.yml has `group: labb`",
    ),
    "a home's amount that nobody measures": (
        {"gpuadmin.yml": "name: x\nlimits: {home: 500G}\n"},
        "warning", "gpuadmin.yml: limits.home", "nothing measures homes without a monitor host",
    ),
    "a home's amount that btrfs does not hold": (
        {"gpuadmin.yml": "name: x\nlimits: {people: [{names: [minji], home: 500G}]}\n"},
        "warning", "gpuadmin.yml: limits.home", "on btrfs, which backups need, nothing refuses more",
    ),
    "an amount of scratch without quotas": (
        {"gpuadmin.yml": "name: x\nlimits: {scratch: 200G, disk_reserve: 0}\n"},
        "warning", "gpuadmin.yml: limits.scratch", "nothing enforces it: limits.disk_reserve is 0",
    ),
    "an amount of Docker's data without quotas": (
        {"gpuadmin.yml": "name: x\nlimits: {docker: 200G, disk_reserve: 0}\n"},
        "warning", "gpuadmin.yml: limits.docker", "nothing enforces it: limits.disk_reserve is 0",
    ),
    "an admin who is a person": (
        {"gpuadmin.yml": f"name: x\n{ADMINS}", "users.yml": "users:\n" + USER}, "error", "gpuadmin.yml: admins[0].name",
        "'minji' is in users.yml",
    ),
    "an admin whose last day was": (
        {"gpuadmin.yml": f"name: x\n{ADMINS}"}, "warning", "gpuadmin.yml: admins[0].until", "no admin since 2020-02-28",
    ),
    "nearly all uids": (
        {"gpuadmin.yml": "name: x\naccounts: {uid_first: 20000, uid_last: 20000}\n", "users.yml": "users:\n" + USER},
        "warning", "accounts", "1 of 1 uids are taken",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "level", "where", "message"), CHECKS.values(), ids=CHECKS.keys())
def test_what_check_finds(site: Path, files: dict[str, str], level: str, where: str, message: str) -> None:
    for name, text in files.items():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text(text)
    found = findings(load_site(str(site)), today=TODAY)
    assert [one for one in found if one.level == level and where in one.where and message in one.message], found
    assert all(one.hint for one in found)


@pytest.mark.parametrize(
    "own",
    [
        {"storage": ["s"], "gpu": ["n1", "n2"], "gpu_a": ["n1"], "old": ["s", "n1"]},
        {"storage": ["s"], "gpu": ["n1", "n2"], "gpu_a": ["n1"], "gpus": ["n2"]},
    ],
)
def test_groups_of_the_sites_own_are_let_be(site: Path, own: dict[str, list[str]]) -> None:
    (site / "inventory/hosts.yml").write_text(hosts_yml(**own))
    assert not any("does not know" in one.message for one in findings(load_site(str(site)), today=TODAY))


def test_hosts_to_switch_off_may_name_others_beside_nodes(site: Path) -> None:
    timers = {"verbs": ["shutdown"], "shutdown": {"when": "Fri 20:00", "nodes": 2, "hosts": "all"}}
    (site / "gpuadmin.yml").write_text(json.dumps({"name": "x", "timers": timers}))
    assert not any("shutdown" in one.where for one in findings(load_site(str(site)), today=TODAY))


@pytest.mark.parametrize(
    ("verbs", "alerts", "user", "environment", "looked"),
    [
        ("drift", False, True, "", True),
        ("drift", False, True, "x", False),
        ("drift", False, False, "", False),
        ("notify", False, True, "", False),
        ("notify", True, True, "", True),
        ("idle", False, True, "", False),
        ("report", False, True, "", False),
    ],
)
def test_a_mail_password_is_looked_for_where_this_machine_needs_it(
    site: Path, verbs: str, alerts: bool, user: bool, environment: str, looked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timers that mail have a file of the monitor host's; alerts have the password from here."""
    monkeypatch.setenv(MAIL_PASSWORD, environment)
    mail = {"host": "h", "sender": "a@example.org", "password_file": "/no/such", **({"user": "u"} if user else {})}
    metrics = {"mail_to": ["a@example.org"] if alerts else []}
    settings = {"name": "x", "mail": mail, "timers": {"verbs": [verbs]}, "metrics": metrics}
    (site / "gpuadmin.yml").write_text(json.dumps(settings))
    found = [one for one in findings(load_site(str(site)), today=TODAY) if "mail.password_file" in one.message]
    assert len(found) == looked
    assert all(one.hint == f"write the password there (chmod 600), or set {MAIL_PASSWORD}" for one in found)


def say_when(site: Path, when: str) -> list[tuple[str, str]]:
    """What check says of a time."""
    timers = {"verbs": ["shutdown"], "shutdown": {"when": when, "nodes": 2}}
    (site / "gpuadmin.yml").write_text(json.dumps({"name": "x", "timers": timers}))
    found = findings(load_site(str(site)), today=TODAY)
    return [(one.level, one.message) for one in found if "shutdown.when" in one.where]


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize(
    ("when", "level"),
    [("Friday evening", "error"), ("--version", "error"), ("2020-01-01", "warning"), ("Fri 20:00", None)],
)
def test_a_time_that_systemd_does_not_know_is_found(site: Path, when: str, level: str | None) -> None:
    assert [one for one, _ in say_when(site, when)] == ([level] if level else [])


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("exit 1", [("error", "no such time")]),
        ("exit 127", []),  # a library that it needs is not there
        ("kill $$", []),
        (None, []),
    ],
)
def test_a_systemd_that_cannot_tell_is_no_mistake_of_the_site(
    site: Path, program: str | None, found: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program:
        (tmp_path / "systemd-analyze").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "systemd-analyze").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert say_when(site, "Fri 20:00") == found


@pytest.mark.parametrize("place", ["room 301, ü/김", "x" * 96, "x" * 97, "a\n", "a;b"])
def test_a_place_to_switch_off_in_is_a_place(place: str) -> None:
    when = {"when": "Fri 20:00", "nodes": 2, "place": place}
    if len(place) > 96 or "\n" in place or ";" in place:
        with pytest.raises(ValidationError):
            IdleShutdown.model_validate(when)
    else:
        assert IdleShutdown.model_validate(when).place == place


def test_a_password_does_not_lie_in_the_site(site: Path) -> None:
    mail = "name: x\nmail: {{host: h, sender: a@example.org, user: u, password_file: {}}}\n"
    (site / "gpuadmin.yml").write_text(mail.format(site / "password"))
    found = [one for one in findings(load_site(str(site)), today=TODAY) if one.level == "error"]
    assert ["is in the site" in one.message for one in found] == [True]
    (site / "gpuadmin.yml").write_text(mail.format("password"))
    with pytest.raises(ConfigError, match="must be an absolute path"):
        load_site(str(site))


def test_the_last_day_still_counts(site: Path) -> None:
    (site / "users.yml").write_text("users:\n" + USER + "    expires: 2026-11-21\n")
    assert not [one for one in findings(load_site(str(site)), today=TODAY) if "expired" in one.message]


def test_pinned_hosts(site: Path) -> None:
    key = public_key("host", comment="")
    (site / "known_hosts").write_text(f"[127.0.0.1]:1 {key}\n[127.0.0.1]:2,[127.0.0.1]:3 {key}\n")
    assert list(findings(load_site(str(site)), today=TODAY)) == []


@pytest.mark.parametrize("file", [".schemas/gpuadmin.schema.json", ".schemas/users.schema.json"])
def test_json_schemas_are_closed_and_explain_every_field(file: str) -> None:
    schema = json.loads(json_schemas()[file])
    for node in (schema, *schema.get("$defs", {}).values()):
        assert node["additionalProperties"] is False
        for name, field in node["properties"].items():
            meaning = field.get("description") or schema["$defs"][field["$ref"].rpartition("/")[2]].get("description")
            assert meaning, f"{node['title']}.{name}"


def test_the_reference_names_every_field() -> None:
    page = reference_page()
    for field in ("accounts.uid_first", "docker.repository.url", "users[].expires", "retired[].removed"):
        assert f"| `{field}` |" in page


def test_a_host_name_that_yaml_would_read_as_something_else(tmp_path: Path) -> None:
    hosts = [SiteHost("storage1", ("storage",)), *(SiteHost(name, ("gpu",)) for name in ("no", "1e3", "007"))]
    write_site(tmp_path / "odd", name="yes", settings={}, hosts=hosts)
    loaded = load_site(str(tmp_path / "odd"))
    assert [host.name for host in loaded.inventory.hosts] == ["no", "1e3", "007", "storage1"]
    assert loaded.settings.name == "yes"


@pytest.mark.parametrize("name", ["2026", "a: b", "#1", "'quoted'", '"', "- x", "한글 서버", "null", "{a}"])
def test_any_name_of_a_cluster_survives_being_written(tmp_path: Path, name: str) -> None:
    write_site(tmp_path / "odd", name=name, settings={}, hosts=HOSTS)
    assert load_site(str(tmp_path / "odd")).settings.name == name


def test_check_finds_all_files_mistakes_at_once(site: Path, cli: Callable[..., tuple[int, str, str]]) -> None:
    (site / "gpuadmin.yml").write_text("name: x\nadmmin: {user: y}\nterm: {name: x, deadline: 2027-02-30}\n")
    (site / "users.yml").write_text("users:\n" + USER + USER + "    locked: maybe\n" + USER)
    (site / "inventory/group_vars").mkdir()
    (site / "inventory/group_vars/gpu.yml").write_text("a: [\n")
    (site / "known_hosts").write_bytes("김".encode("cp949"))
    err = fail(cli, 2, "check", "--site", str(site))
    for words in (
        "gpuadmin.yml:2: admmin: there is no such field; did you mean 'admin'?",
        "gpuadmin.yml:3: term.deadline: '2027-02-30' is a day or a time that does not exist",
        "users[1].locked: must be true or false, not 'maybe'",
        "users[2].name: 'minji' appears twice",
        " inventory/group_vars/gpu.yml:2: is not valid YAML",
        "known_hosts:1: is not UTF-8",
        "iconv -f CP949 -t UTF-8",
        "or move it away: gpuadmin trust --all then writes a new one",
    ):
        assert words in err
    code, out, _ = cli("check", "--json", "--site", str(site))
    assert code == 2
    found = json.loads(out)["result"]["findings"]
    assert {"gpuadmin.yml:2", "gpuadmin.yml:3", "inventory/group_vars/gpu.yml:2"} <= {one["where"] for one in found}


def test_the_same_about_many_is_one_line(site: Path, cli: Callable[..., tuple[int, str, str]]) -> None:
    people = "".join(f"  - {{name: user{n}, uid: {20000 + n}, expires: 2020-01-01}}\n" for n in range(5000))
    (site / "users.yml").write_text(f"users:\n{people}")
    out = succeed(cli, "check", "--site", str(site))
    assert "5000 people have no ssh key there, and log in only with one in their homes on the hosts: user0, " in out
    assert "5000 people have expired: user0, user1, " in out
    assert "and 4990 more" in out
    assert len(out.splitlines()) < 10


def test_what_will_not_work_later_is_found_now(site: Path, cli: Callable[..., tuple[int, str, str]]) -> None:
    (site / "gpuadmin.yml").write_text(
        "name: x\nadmin: {ssh_key: /nonexistent/key}\nmail: {host: localhost, sender: a@example.org}\n"
    )
    (site / "known_hosts").write_text("# ours\n\nnode1 ssh-ed25519 AAAA\n")
    (site / "templates/mail").mkdir(parents=True)
    (site / "templates/mail/notice.en.j2").write_text("Subject: x\n\n{{ nobody }}\n")
    code, out, _ = cli("check", "--site", str(site))
    assert code == 2
    assert "gpuadmin.yml: admin.ssh_key: /nonexistent/key is not a file" in out
    assert "known_hosts:3: is not a host key" in out
    assert "templates/mail/notice.en.j2: " in out


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (("--storage", "nas", "--node", "nas"), "'nas' is named twice"),
        (("--storage", "nas", "--node", "n1", "--node", "n1"), "'n1' is named twice"),
        (("--storage", "gpu", "--node", "n1"), "a host and a group have this name"),
        (("--storage", "nas", "--node", "n1", "--admin", "{{ x }}"), "template marker"),
        (("--name", ""), "name: must hold at least 1"),
    ],
)
def test_init_writes_nothing_that_check_refuses(
    tmp_path: Path, cli: Callable[..., tuple[int, str, str]], hosts: tuple[str, ...], words: str
) -> None:
    assert words in fail(cli, 2, "init", str(tmp_path / "new"), *hosts)
    assert not (tmp_path / "new").exists()


def test_a_day_that_ansible_cannot_read_is_said_in_words(site: Path, cli: Callable[..., tuple[int, str, str]]) -> None:
    (site / "inventory/host_vars").mkdir()
    (site / "inventory/host_vars/node1.yml").write_text("a: !vault x\n")
    assert cli("check", "--site", str(site))[0] == 0
    for value in ("2027-02-30", "2027-02-28T10:00:00+99:99"):
        (site / "inventory/host_vars/node1.yml").write_text(f"a: {value}\n")
        assert "node1.yml: holds a day or a time that does not exist" in fail(cli, 2, "check", "--site", str(site))


def test_some_hosts_can_be_named_later(tmp_path: Path, cli: Callable[..., tuple[int, str, str]]) -> None:
    assert cli("init", str(tmp_path / "a"))[0] == 0
    assert cli("init", str(tmp_path / "b"), "--node", "n1")[0] == 0
    assert cli("init", str(tmp_path / "c"), "--storage", "nas")[0] == 0


def test_a_full_disk_below_the_output_is_a_sentence(site: Path) -> None:
    for arguments in (["check"], ["runs", "--json"], ["list-users", "--offline"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "gpuadmin", *arguments, "--site", str(site)],
                stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
        assert (done.returncode, "Error: No space left on device, on this machine" in done.stderr) == (1, True), (
            done.stderr
        )
        assert "Traceback" not in done.stderr


def test_a_directory_that_was_deleted_is_a_sentence(site: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f'cd {gone} && rmdir {gone} && exec "{sys.executable}" -m gpuadmin check --site "{site}"'],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert (done.returncode, "was deleted" in done.stderr) == (1, True), done.stderr


GPU = "all:\n  children:\n    gpu:\n      hosts:\n"
BESIDE = "all:\n  children:\n    gpu: {hosts: {n1: {}}}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{GPU}        - gpu1\n", "hosts.yml:4: gpu.hosts: must hold fields, not a l"),
        (f"{GPU}        n1: 10.0.0.5\n", "hosts.yml:5: gpu.hosts.n1: must hold fi"),
        ("all:\n  children:\n    - gpu\n", "hosts.yml:2: all.children: must hold fields, not a list"),
        (f"{GPU}        n1: {{}}\n      n2: {{}}\n", "hosts.yml:6: gpu.n2: is none of hosts, children, vars"),
        (f"{BESIDE}    monitor: [m1]\n", "hosts.yml:4: monitor: must hold fields, not a list"),
        (f"{BESIDE}    monitor: m1\n", "hosts.yml:4: monitor: must hold fields, not a text"),
        ("gpu: {hosts: 3}\n", "hosts.yml:1: gpu.hosts: must hold fields, not a number"),
        ("gpu:\n  children: true\n", "hosts.yml:2: gpu.children: must hold fields, not yes or no"),
        ("gpu: {vars: x, hosts: {n1: {}}}\n", "hosts.yml:1: gpu.vars: must hold fields, not a text"),
        ("gpu: {vars: [x], hosts: {n1: {}}}\n", "hosts.yml:1: gpu.vars: must hold fields, not a list"),
    ],
)
@pytest.mark.holds(
    "a host that Ansible would leave out is named",
    "a group that Ansible would leave out is named",
    "hosts that Ansible would leave out with the rest of their file are named",
)
def test_a_list_where_ansible_wants_fields_is_named(
    site: Path, cli: Callable[..., tuple[int, str, str]], text: str, words: str
) -> None:
    """Ansible only warns, and leaves out the rest of the file: "no file names a host" would not be so."""
    (site / "inventory" / "hosts.yml").write_text(text)
    code, out, err = cli("check", "--site", str(site))
    assert (code, words in err, "names a host" in out) == (2, True, False), out + err


def test_a_text_is_the_name_of_the_only_host(site: Path, cli: Callable[..., tuple[int, str, str]]) -> None:
    """As Ansible takes it: `gpu: {hosts: n1}`."""
    (site / "inventory" / "hosts.yml").write_text(
        "gpu: {hosts: n1}\nstorage: {hosts: {s1: {}}}\nmine: {children: gpu}\n"
    )
    code, out, err = cli("check", "--site", str(site))
    assert (code, "2 hosts" in out) == (0, True), out + err


def test_what_configures_a_plugin_of_ansible_s_is_no_file_of_hosts(site: Path) -> None:
    (site / "inventory" / "cloud.yml").write_text("plugin: constructed\nmine:\n  hosts: [a, b]\n")
    assert load_inventory(site).hosts
