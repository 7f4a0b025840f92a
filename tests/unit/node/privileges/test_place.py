"""What a look for privileges is given."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place, build_place

from gpuadmin.common.records.audits import PrivilegesOrder


def look_for(order: dict[str, object]) -> Place:
    return build_place(parse(PrivilegesOrder, order, "order"))


@pytest.mark.parametrize("names", [{"admin": ""}, {"admin": "x\n"}, {"admin": "a", "declared": [5]}, {}])
def test_names_that_nobody_has_are_refused(names: dict[str, object]) -> None:
    with pytest.raises(NodeError, match=r"is refused|is missing|is 5, not text"):
        look_for(names)


def test_only_whole_paths_are_left_out() -> None:
    aside = ["/home/", "x", "/", "//", "/home/a", "/homes"]
    place = look_for({"admin": "gpuadmin", "declared": ["ubuntu"], "aside": aside})
    assert place.aside == ("/home", "/homes")
    assert place.expected == {"root", "gpuadmin", "ubuntu"}


def test_keys_of_admins_who_have_sudo() -> None:
    """One who has none, or whose last day was, is not asked about: they are not declared."""
    admins = [
        {"name": "jiwon", "uid": 990, "sudo": True, "keys": ["ssh-ed25519 AAAA jiwon@x"]},
        {"name": "guest", "uid": 990, "sudo": False, "keys": []},
        {"name": "ended", "uid": 990, "sudo": True, "keys": []},
    ]
    place = look_for({"admin": "gpuadmin", "declared": ["jiwon"], "admins": admins})
    assert place.keys == {"jiwon": {"ssh-ed25519 AAAA"}}
