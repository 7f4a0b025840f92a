"""What Ansible made of an inventory is remembered until a file of it changes, and no longer."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuadmin.config import remembered, resolve
from gpuadmin.config.inventory import Inventory, load_inventory
from gpuadmin.config.load import load_settings
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.errors import ConfigError


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    hosts = [SiteHost("nas1", ("storage",), {"ansible_host": "10.0.0.1"}), SiteHost("gpu1", ("gpu",))]
    write_site(tmp_path / "site", name="test", settings={}, hosts=hosts, schemas=False)
    (tmp_path / "site" / "runs").mkdir(exist_ok=True)
    return tmp_path / "site"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Ansible was asked for, so far."""
    calls: list[str] = []
    for name in ("hosts", "login"):
        real: Callable[..., object] = getattr(resolve, name)

        def counted(*arguments: object, _name: str = name, _real: Callable[..., object] = real) -> object:
            calls.append(_name)
            return _real(*arguments)

        monkeypatch.setattr(resolve, name, counted)
    return calls


def memory(site: Path) -> Path:
    return site / "runs" / "inventory.json"


def address(inventory: Inventory, name: str = "nas1") -> str:
    (host,) = inventory.named([name])
    return host.address


def test_the_second_time_ansible_is_not_asked(site: Path, asked: list[str]) -> None:
    first = load_inventory(site)
    assert asked == ["hosts"]
    second = load_inventory(site)
    assert second == first
    assert asked == ["hosts"]
    assert memory(site).stat().st_mode & 0o777 == 0o600


def test_ansible_is_not_even_imported(site: Path) -> None:
    load_inventory(site)
    code = (
        "import sys\nfrom pathlib import Path\nfrom gpuadmin.config.inventory import load_inventory\n"
        "print(load_inventory(Path(sys.argv[1])).hosts[0].name, 'ansible' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, site], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == "False"


def _host_vars(site: Path) -> None:
    (site / "inventory/host_vars").mkdir(exist_ok=True)
    (site / "inventory/host_vars/nas1.yml").write_text("ansible_host: 10.0.0.9\n")


def _line(site: Path) -> None:
    """As long as before, and as old."""
    path = site / "inventory/hosts.yml"
    facts = path.stat()
    text = path.read_text()
    assert "10.0.0.1" in text
    path.write_text(text.replace("10.0.0.1", "10.0.0.9"))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _elsewhere(site: Path) -> None:
    """Behind a link, in a directory of its own."""
    folder = site.parent / "elsewhere"
    folder.mkdir(exist_ok=True)
    (folder / "nas1.yml").write_text("ansible_host: 10.0.0.9\n")
    (site / "inventory/host_vars").symlink_to(folder)


def fresh(site: Path) -> str:
    """The address of nas1, for a process of its own."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom gpuadmin.config.inventory import load_inventory\n"
        "print(load_inventory(Path(sys.argv[1])).named(['nas1'])[0].address)\n"
    )
    return subprocess.run([sys.executable, "-c", code, site], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("change", [_host_vars, _line, _elsewhere])
def test_a_change_is_noticed(site: Path, change: Callable[[Path], None]) -> None:
    assert fresh(site) == "10.0.0.1"
    change(site)
    assert fresh(site) == fresh(site) == "10.0.0.9"


def test_a_file_behind_a_link_is_read_again(site: Path) -> None:
    _elsewhere(site)
    assert fresh(site) == "10.0.0.9"
    (site.parent / "elsewhere/nas1.yml").write_text("ansible_host: 10.0.0.7\n")
    assert fresh(site) == "10.0.0.7"


def test_what_ansible_says_of_files_that_changed_under_it_is_not_kept(site: Path) -> None:
    """It remembers for a process's life which files host_vars/ has: its second answer is of the old ones."""
    load_inventory(site)
    _host_vars(site)
    load_inventory(site)
    assert fresh(site) == "10.0.0.9"


def test_what_ansible_says_after_an_inventory_that_is_never_remembered_is_not_kept(site: Path) -> None:
    """Its first answer had no digest: the second is of old files all the same."""
    (site / "inventory/more.yml").write_text("# a plugin\n")
    load_inventory(site)
    (site / "inventory/more.yml").unlink()
    _host_vars(site)
    load_inventory(site)
    assert fresh(site) == "10.0.0.9"


def test_settings_in_a_directory_that_is_named_for_them(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible takes ANSIBLE_CONFIG for a directory, too."""
    folder = site.parent / "settings"
    folder.mkdir()
    monkeypatch.setenv("ANSIBLE_CONFIG", str(folder))
    (folder / "ansible.cfg").write_text("[defaults]\n")
    (site / "inventory/more.yml").write_text("all: {hosts: {nas1: {ansible_host: 10.0.0.5}}}\n")
    assert fresh(site) == "10.0.0.5"
    (folder / "ansible.cfg").write_text("[inventory]\nignore_patterns = more.yml\n")
    assert fresh(site) == "10.0.0.1"


PLUGIN = """
from ansible.plugins.vars import BaseVarsPlugin
DOCUMENTATION = "{name: mine, short_description: x, description: x, options: {}}"
class VarsModule(BaseVarsPlugin):
    def get_vars(self, loader, path, entities, cache=True):
        return {"ansible_host": "10.0.0.%d"}
"""


@pytest.mark.parametrize("way", ["home", "variable", "settings"])
def test_what_a_plugin_of_this_machine_says_is_never_remembered(
    site: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    folder = site.parent / "home/plugins/vars"
    folder.mkdir(parents=True)
    if way == "home":
        monkeypatch.setenv("ANSIBLE_HOME", str(site.parent / "home"))
    elif way == "variable":
        monkeypatch.setenv("ANSIBLE_VARS_PLUGINS", str(folder))
    else:
        (site.parent / "ansible.cfg").write_text(f"[defaults]\nvars_plugins = {folder}\n")
    for number in (3, 4):
        (folder / "mine.py").write_text(PLUGIN % number)
        os.utime(folder / "mine.py", (number, number))  # Python knows what it compiled by second and size
        assert fresh(site) == f"10.0.0.{number}"


@pytest.mark.parametrize("value", ["2026-01-01", "2026-01-01 10:00:00"])
def test_what_json_cannot_say_is_not_kept(site: Path, value: str) -> None:
    (site / "inventory/host_vars").mkdir()
    (site / "inventory/host_vars/nas1.yml").write_text(f"gpuadmin_address: {value}\n")
    assert address(load_inventory(site)) == "10.0.0.1"
    assert not memory(site).exists()


def test_ansible_s_own_settings_are_a_part_of_it(site: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    load_inventory(site)
    monkeypatch.setenv("ANSIBLE_INVENTORY_IGNORE", "~")
    load_inventory(site)
    (site.parent / "ansible.cfg").write_text("[defaults]\n")
    load_inventory(site)
    assert asked == ["hosts"] * 3


def test_what_may_answer_otherwise_tomorrow_is_never_remembered(site: Path, asked: list[str]) -> None:
    script = site / "inventory/more"
    said = {"gpu": {"hosts": ["gpu7"]}}
    script.write_text(f"#!/bin/sh\necho '{json.dumps(said)}'\n")
    script.chmod(0o755)
    assert "gpu7" in [host.name for host in load_inventory(site).hosts]
    script.write_text(script.read_text().replace("gpu7", "gpu8"))
    assert "gpu8" in [host.name for host in load_inventory(site).hosts]
    assert not memory(site).exists()
    script.unlink()
    (site / "inventory/made.yml").write_text("plugin: ansible.builtin.constructed\nstrict: false\n")
    load_inventory(site)
    assert not memory(site).exists()
    assert asked == ["hosts"] * 3


def test_a_mistake_is_said_each_time(site: Path) -> None:
    _host_vars(site)
    (site / "inventory/host_vars/nas1.yml").write_text("ansible_port: many\n")
    for _ in range(2):
        with pytest.raises(ConfigError, match="ansible_port 'many' is not a port"):
            load_inventory(site)
    assert not memory(site).exists()


def _open(path: Path) -> None:
    path.chmod(0o622)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _shift(path: Path, what: object) -> None:
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "hosts": what}))


@pytest.mark.parametrize(
    "spoil",
    [
        _open,
        lambda path: path.write_text("{"),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text('{"digest": 1}'),
        lambda path: _shift(path, 3),
        lambda path: _shift(path, [{"name": "nas1"}]),
        lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "logins": []})),
        _pipe,
        _directory,
    ],
)
def test_what_is_odd_is_read_again(site: Path, asked: list[str], spoil: Callable[[Path], object]) -> None:
    load_inventory(site)
    spoil(memory(site))
    assert address(load_inventory(site)) == "10.0.0.1"
    assert asked == ["hosts", "hosts"]
    assert not memory(site).is_file() or memory(site).stat().st_mode & 0o777 == 0o600


@pytest.mark.root
def test_what_another_account_wrote_is_not_believed(site: Path, asked: list[str]) -> None:
    load_inventory(site)
    os.chown(memory(site), 20001, 20001)
    load_inventory(site)
    assert asked == ["hosts", "hosts"]


@pytest.mark.parametrize("value", ["2026-03-02", "2026-03-02 10:00:00", "{1: a}", "0x10"])
def test_a_value_that_json_has_no_word_for_is_no_error(site: Path, value: str) -> None:
    """A name that YAML reads as a date: it is used as Ansible has it, and the next time Ansible is asked again."""
    (site / "inventory/host_vars").mkdir()
    (site / "inventory/host_vars/gpu1.yml").write_text(f"gpuadmin_address: {value}\n")
    first = load_inventory(site)
    assert load_inventory(site) == first
    assert sorted(host.name for host in first.hosts) == ["gpu1", "nas1"]


def test_a_file_that_changes_while_ansible_reads_is_read_again(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = resolve.hosts

    def slow(*arguments: Any) -> object:
        found = real(*arguments)
        _line(site)
        return found

    monkeypatch.setattr(resolve, "hosts", slow)
    assert address(load_inventory(site)) == "10.0.0.1"
    assert not memory(site).exists(), "whose answer is it?"


def test_a_login_keeps_no_hosts_of_files_that_changed(site: Path) -> None:
    load_inventory(site)
    _host_vars(site)
    inventory = load_inventory(site)  # Ansible says what it said before
    inventory.login(inventory.named(["gpu1"])[0], load_settings(site))
    assert fresh(site) == "10.0.0.9"


def test_a_site_without_records_gets_none_of_it(site: Path, asked: list[str]) -> None:
    (site / "runs").rmdir()
    load_inventory(site)
    load_inventory(site)
    assert not (site / "runs").exists()
    assert asked == ["hosts", "hosts"]


def test_a_login_is_remembered_for_the_settings_that_it_follows_from(site: Path, asked: list[str]) -> None:
    def user() -> str:
        inventory = load_inventory(site)
        return inventory.login(inventory.named(["gpu1"])[0], load_settings(site)).user

    assert user() == user() == "gpuadmin"
    assert asked == ["hosts", "login"]
    settings = site / "gpuadmin.yml"
    text = settings.read_text()
    assert "  user: gpuadmin" in text
    settings.write_text(text.replace("  user: gpuadmin", "  user: root"))
    assert user() == user() == "root"
    assert asked == ["hosts", "login", "login"]


@pytest.mark.holds("a login that a template of the site's own has a part in is asked each time")
def test_a_login_by_a_template_of_the_site_s_is_asked_each_time(site: Path, asked: list[str]) -> None:
    """A lookup in it may say something else tomorrow, although no file has changed."""
    (site / "inventory/host_vars").mkdir()
    (site / "inventory/host_vars/gpu1.yml").write_text("ansible_user: \"{{ 'min' ~ 'ji' }}\"\n")
    for _ in range(2):
        inventory = load_inventory(site)
        assert inventory.login(inventory.named(["gpu1"])[0], load_settings(site)).user == "minji"
    assert asked == ["hosts", "login", "login"]


class Parts:
    """All that Ansible's answer follows from, where a test can change each."""

    def __init__(self, at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.monkeypatch, self.names = at, monkeypatch, ("ansible_host",)
        for name in ("here", "home", "ours", "site", "ansible", "config"):
            (at / name).mkdir()
        here = ("ansible/release.py", "config/remembered.py", "config/resolve.py", "ours/groups.yml", "site/h.yml")
        for name in here:
            (at / name).write_text(f"{name}: 1\n")
        monkeypatch.chdir(at / "here")
        monkeypatch.setenv("HOME", str(at / "home"))
        monkeypatch.setenv("ANSIBLE_CONFIG", str(at / "given.cfg"))
        origin = SimpleNamespace(origin=str(at / "ansible/__init__.py"))
        monkeypatch.setattr(package.importlib.util, "find_spec", lambda _name: origin)
        monkeypatch.setattr(package, "content_path", lambda *names: at.joinpath("ours", *names[1:]))
        monkeypatch.setattr(package, "__file__", str(at / "config/remembered.py"))

    def write(self, name: str, text: str | None = None) -> None:
        """Another text, as long as before."""
        (self.at / name).write_text(f"{name}: 2\n" if text is None else text)

    def digest(self) -> str | None:
        return remembered.digest(self.at / "site", self.names)


package: Any = remembered  # what tests put in place of what it looks at
CHANGES: dict[str, Callable[[Parts], object]] = {
    "Ansible's version": lambda parts: parts.write("ansible/release.py"),
    "how an answer is kept": lambda parts: parts.write("config/remembered.py"),
    "how Ansible is asked": lambda parts: parts.write("config/resolve.py"),
    "gpuadmin's version": lambda parts: parts.monkeypatch.setattr(package, "__version__", "99"),
    "what is asked for": lambda parts: setattr(parts, "names", ("ansible_port",)),
    "the environment": lambda parts: parts.monkeypatch.setenv("ANSIBLE_HASH_BEHAVIOUR", "merge"),
    "settings that the environment names": lambda parts: parts.write("given.cfg"),
    "settings here": lambda parts: parts.write("here/ansible.cfg"),
    "settings of one's own": lambda parts: parts.write("home/.ansible.cfg"),
    "gpuadmin's groups": lambda parts: parts.write("ours/groups.yml"),
    "a file of the site's": lambda parts: parts.write("site/h.yml"),
    "a file more": lambda parts: parts.write("site/i.yml"),
    "an empty file more": lambda parts: parts.write("site/i.yml", ""),
    "another name": lambda parts: (parts.at / "site/h.yml").rename(parts.at / "site/i.yml"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_part_of_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    parts = Parts(tmp_path, monkeypatch)
    before = parts.digest()
    assert before is not None
    assert parts.digest() == before
    CHANGES[change](parts)
    after = parts.digest()
    assert after not in (None, before)


def test_where_one_file_ends_and_the_next_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts(tmp_path, monkeypatch)
    parts.write("site/h.yml", "one")
    parts.write("site/i.yml", "two")
    before = parts.digest()
    (tmp_path / "site/i.yml").unlink()
    parts.write("site/h.yml", "onei.ymltwo")
    assert parts.digest() != before


@pytest.mark.holds("group_vars where somebody stands are nobody's")
@pytest.mark.parametrize("name", ["group_vars/all.yml", "host_vars/nas1.yml"])
def test_where_somebody_stands_says_nothing_of_a_host(site: Path, name: str) -> None:
    """Ansible read these of the current directory as well: in somebody's home they said where ssh goes, and as whom."""
    (site.parent / name).parent.mkdir()
    (site.parent / name).write_text("gpuadmin_address: 10.6.6.6\nansible_user: mallory\n")
    assert fresh(site) == "10.0.0.1"
    assert resolve.login(site / "inventory", "nas1", {"admin": {"user": "root", "ssh_key": None}}, ["ansible_user"])[
        0
    ] != {"ansible_user": "mallory"}


@pytest.mark.holds("nobody else's ansible.cfg has programs of theirs run as us")
@pytest.mark.parametrize("whose", ["the directory", "the file", "nobody else's"])
def test_somebody_else_s_settings_of_ansible_run_nothing(site: Path, whose: str) -> None:
    here, ran = site.parent, site.parent / "ran"
    (here / "plugins").mkdir()
    (here / "plugins/mine.py").write_text(f"open({str(ran)!r}, 'w')\n{PLUGIN % 6}")
    (here / "ansible.cfg").write_text(f"[defaults]\nvars_plugins = {here}/plugins\n")
    theirs = {"the directory": here, "the file": here / "ansible.cfg"}.get(whose)
    code = f"""
import os, sys
from pathlib import Path
lstat = Path.lstat
def of_another(path):
    found = lstat(path)
    return os.stat_result((*found[:4], os.geteuid() + 1, *found[5:])) if str(path) == {str(theirs)!r} else found
Path.lstat = of_another
from gpuadmin.config.inventory import load_inventory
print(load_inventory(Path(sys.argv[1])).named(["nas1"])[0].address)
"""
    done = subprocess.run([sys.executable, "-c", code, site], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), ran.exists()) == (("10.0.0.1", False) if theirs else ("10.0.0.6", True))


@pytest.mark.parametrize("closed", ["lstat", "chdir"], ids=["what is above it", "itself"])
def test_who_may_not_enter_where_they_stand(site: Path, closed: str) -> None:
    """As after sudo -u in one's own home: the way back was closed, and every verb ended there."""
    code = f"""
import os, sys
from pathlib import Path
real, here = {{"lstat": Path.lstat, "chdir": os.chdir}}, os.getcwd()
def refusing(path):
    if str(path) == here:
        raise PermissionError(13, "Permission denied", str(path))
    return real[{closed!r}](path)
from gpuadmin.config import inventory
setattr({{"lstat": Path, "chdir": os}}[{closed!r}], {closed!r}, refusing)
inventory.ours = (lambda path: False) if {closed!r} == "chdir" else inventory.ours
print(inventory.load_inventory(Path(sys.argv[1])).named(["nas1"])[0].address)
"""
    done = subprocess.run([sys.executable, "-c", code, site], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("10.0.0.1", "")


def test_a_home_that_cannot_be_written_to_is_no_obstacle(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible makes a directory in it while it is imported: every verb ended with a traceback."""
    monkeypatch.setenv("HOME", os.devnull)  # nothing can be made below it, by root neither
    monkeypatch.delenv("ANSIBLE_HOME", raising=False)
    monkeypatch.setenv("TMPDIR", str(site.parent))
    assert fresh(site) == "10.0.0.1"
    assert list(site.parent.glob("ansible-local-*")) == []
