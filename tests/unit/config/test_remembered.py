"""What Ansible made of an inventory is remembered until a file of it changes, and no longer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuadmin.config import resolve
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
        assert fresh(site) == f"10.0.0.{number}"


@pytest.mark.parametrize("value", ["2026-01-01", "!vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162"])
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
        with pytest.raises(ConfigError, match="ansible_port 'many' is no port"):
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
        _pipe,
        _directory,
    ],
)
def test_what_is_odd_is_read_again(site: Path, asked: list[str], spoil: Callable[[Path], object]) -> None:
    load_inventory(site)
    spoil(memory(site))
    assert address(load_inventory(site)) == "10.0.0.1"
    assert asked == ["hosts", "hosts"]


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


def test_a_login_by_a_template_of_the_site_s_is_asked_each_time(site: Path, asked: list[str]) -> None:
    """A lookup in it may say something else tomorrow, although no file has changed."""
    (site / "inventory/host_vars").mkdir()
    (site / "inventory/host_vars/gpu1.yml").write_text("ansible_user: \"{{ 'min' ~ 'ji' }}\"\n")
    for _ in range(2):
        inventory = load_inventory(site)
        assert inventory.login(inventory.named(["gpu1"])[0], load_settings(site)).user == "minji"
    assert asked == ["hosts", "login", "login"]
