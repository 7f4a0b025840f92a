"""What people and other hosts can shape, such as the name of a directory."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import KEY as PLAIN
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import valid_name

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEwH0f5bI8ZzvWgIbc5uK1h6H8l2fFrj1v6J2p7mWb2T"


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "-rf",
        "a b",
        "{{ x }}",
        "a\nb",
        "minji\n",
        "a" * 33,
        "김민지",
        "",
        "A",
        "1a",
        "a:b",
        ".",
        "a/b",
        "a.b",
        None,
        5,
    ],
)
def test_names(name: object) -> None:
    assert not valid_name(name)


@pytest.mark.parametrize(
    "key", ["restrict " + KEY, KEY + "\n" + KEY, " " + KEY, "ssh-dss AAAAB3NzaC1kc3MAAACB", KEY + "\r", "# comment"]
)
def test_keys(key: str) -> None:
    assert not PLAIN.match(key)


def test_the_longest_name_and_a_comment_in_hangul_are_fine() -> None:
    assert valid_name("a" * 32)
    assert PLAIN.match(KEY + " 민지 @ home")
