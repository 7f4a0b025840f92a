"""What people's guide names is installed under the name that it has on each family of distributions."""

from pathlib import Path

import pytest
import yaml
from ansible.plugins.filter.core import FilterModule
from ansible.plugins.filter.mathstuff import FilterModule as Sets
from jinja2.nativetypes import NativeEnvironment

from gpuadmin.config.schema import Settings

ROOT = Path(__file__).resolve().parents[2]
USUAL = Settings(name="lab").nodes.packages


def packages(family: str, wanted: list[str]) -> list[str]:
    environment = NativeEnvironment()
    environment.filters |= {**FilterModule().filters(), **Sets().filters()}
    environment.filters["extract"] = lambda key, container: container[key]
    text = yaml.safe_load((ROOT / "roles/node_state/vars/main.yml").read_text())
    names = {
        "ansible_facts": {"gpuadmin": {"family": family}}, "node_state_packages": wanted, "dict": dict,
        "_node_state_packages_elsewhere": text["_node_state_packages_elsewhere"],
    }  # fmt: skip
    names["_node_state_package_names"] = environment.from_string(text["_node_state_package_names"]).render(names)
    found: list[str] = environment.from_string(text["_node_state_packages"]).render(names)
    return found


@pytest.mark.parametrize(
    ("family", "found"),
    [
        ("debian", USUAL),
        ("redhat", ["at", "cronie", "git", "python3-pip", "rsync", "tmux", "wget"]),
        ("archlinux", ["at", "cronie", "curl", "git", "python-pip", "rsync", "tmux", "wget"]),
    ],
)
def test_names_of_a_family(family: str, found: list[str]) -> None:
    assert packages(family, USUAL) == found
    assert packages(family, ["emacs-nox", "cron"])[0] == "emacs-nox", "a site's own come as they are"
    assert packages(family, []) == []


def test_a_light_host_has_them_all() -> None:
    """Without a network a lab installs what is in its image."""
    there = (ROOT / "gpuadmin/lab/packages.txt").read_text().splitlines()
    assert set(USUAL) <= set(there)


@pytest.mark.parametrize("name", ["--allow-downgrades", "tmux git", "", "tmux;id"])
def test_a_package_is_one_name(name: str) -> None:
    with pytest.raises(ValueError, match=r"nodes\.packages\.0"):
        Settings.model_validate({"name": "lab", "nodes": {"packages": [name]}})
