"""What a look for privileges is given."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import parse


@pytest.mark.parametrize("names", [{"admin": ""}, {"admin": "x\n"}, {"admin": "a", "declared": [5]}, {}])
def test_names_that_nobody_has_are_refused(names: dict[str, object]) -> None:
    with pytest.raises(NodeError, match="is refused"):
        parse(names)


def test_only_whole_paths_are_left_out() -> None:
    aside = ["/home/", "x", "/", "//", "/home/a", "/homes"]
    place = parse({"admin": "gpuadmin", "declared": ["ubuntu"], "aside": aside})
    assert place.aside == ("/home", "/homes")
    assert place.expected == {"root", "gpuadmin", "ubuntu"}


def test_keys_of_admins_who_have_sudo() -> None:
    """One who has none, or whose last day was, is not asked about: they are not declared."""
    admins = [
        {"name": "jiwon", "sudo": True, "keys": ["ssh-ed25519 AAAA jiwon@x"]},
        {"name": "guest", "sudo": False, "keys": []},
        {"name": "ended", "sudo": True, "keys": []},
    ]
    place = parse({"admin": "gpuadmin", "declared": ["jiwon"], "admins": admins})
    assert place.keys == {"jiwon": {"ssh-ed25519 AAAA"}}
