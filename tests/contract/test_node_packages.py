"""What people's guide names is there on a light host, and a package is one name."""

from pathlib import Path

import pytest

from gpuadmin.config.schema import Settings

ROOT = Path(__file__).resolve().parents[2]
USUAL = Settings(name="lab").nodes.packages


def test_a_light_host_has_them_all() -> None:
    """Without a network a lab installs what is in its image."""
    there = (ROOT / "gpuadmin/lab/packages.txt").read_text().splitlines()
    assert set(USUAL) <= set(there)


@pytest.mark.parametrize("name", ["--allow-downgrades", "tmux git", "", "tmux;id"])
def test_a_package_is_one_name(name: str) -> None:
    with pytest.raises(ValueError, match=r"nodes\.packages\.0"):
        Settings.model_validate({"name": "lab", "nodes": {"packages": [name]}})
