"""What Ansible says of an inventory, whoever's directory one stands in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuadmin.config import resolve
from gpuadmin.config.inventory import load_inventory
from gpuadmin.config.load import load_settings
from gpuadmin.config.skeleton import SiteHost, write_site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    hosts = [SiteHost("nas1", ("storage",), {"ansible_host": "10.0.0.1"}), SiteHost("gpu1", ("gpu",))]
    write_site(tmp_path / "site", name="test", settings={}, hosts=hosts, schemas=False)
    (tmp_path / "site" / "runs").mkdir(exist_ok=True)
    return tmp_path / "site"


def fresh(site: Path, asked: str = "inventory.named(['nas1'])[0].address") -> str:
    """What a new process says of an inventory: Ansible keeps what it read of a directory while a process lives."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom gpuadmin.config.inventory import load_inventory\n"
        "from gpuadmin.config.load import load_settings\n"
        f"inventory = load_inventory(Path(sys.argv[1]))\nprint({asked})\n"
    )
    return subprocess.run([sys.executable, "-c", code, site], capture_output=True, text=True, check=True).stdout.strip()


PLUGIN = """
from ansible.plugins.vars import BaseVarsPlugin
DOCUMENTATION = "{name: mine, short_description: x, description: x, options: {}}"
class VarsModule(BaseVarsPlugin):
    def get_vars(self, loader, path, entities, cache=True):
        return {"ansible_host": "10.0.0.%d"}
"""


@pytest.mark.parametrize("value", ["2026-03-02", "2026-03-02 10:00:00", "{1: a}", "0x10"])
def test_a_value_of_any_kind_is_no_error(site: Path, value: str) -> None:
    (site / "inventory/host_vars").mkdir()
    (site / "inventory/host_vars/gpu1.yml").write_text(f"gpuadmin_address: {value}\n")
    assert sorted(host.name for host in load_inventory(site).hosts) == ["gpu1", "nas1"]


def test_a_login_is_what_the_settings_and_the_site_s_templates_say(site: Path) -> None:
    inventory, settings = load_inventory(site), load_settings(site)
    assert inventory.login(inventory.named(["gpu1"])[0], settings).user == "gpuadmin"
    (site / "inventory/host_vars").mkdir()
    (site / "inventory/host_vars/gpu1.yml").write_text("ansible_user: \"{{ 'min' ~ 'ji' }}\"\n")
    user = "inventory.login(inventory.named(['gpu1'])[0], load_settings(inventory.directory.parent)).user"
    assert fresh(site, user) == "minji"


@pytest.mark.holds("group_vars where somebody stands are nobody's")
@pytest.mark.parametrize("name", ["group_vars/all.yml", "host_vars/nas1.yml"])
def test_where_somebody_stands_says_nothing_of_a_host(site: Path, name: str) -> None:
    """Ansible read these of the current directory as well: in somebody's home they said where ssh goes, and as whom."""
    (site.parent / name).parent.mkdir()
    (site.parent / name).write_text("gpuadmin_address: 10.6.6.6\nansible_user: mallory\n")
    assert fresh(site) == "10.0.0.1"
    settings = {"admin": {"user": "root", "ssh_key": None}}
    assert resolve.login(site / "inventory", "nas1", settings, ["ansible_user"]) == {"ansible_user": "root"}


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
