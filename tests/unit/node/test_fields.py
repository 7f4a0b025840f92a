"""Hostile input is refused with a reason, or safe."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import key_problem, parse_user

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
    user, problem = parse_user({"name": name, "uid": 20001})
    assert user is None
    assert problem


@pytest.mark.parametrize(
    "change",
    [
        {"gecos": "a:b"},
        {"gecos": "a\nroot::0:0::/:/bin/sh"},
        {"gecos": "a\u2028b"},
        {"home": "home/x"},
        {"home": "/home/../etc"},
        {"home": "/home/a:b"},
        {"shell": "/bin/sh\n"},
        {"uid": "20001 "},
        {"uid": True},
        {"uid": None},
        {"expires": "soon"},
        {"expires": -1},
        {"keys": ['command="rm -rf /" ' + KEY]},
        {"keys": [KEY + "\n" + KEY]},
        {"keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]},
        {"keys": KEY},
        {"locked": "yes"},
    ],
)
def test_fields(change: dict[str, object]) -> None:
    user, problem = parse_user({"name": "minji", "uid": 20001, **change})
    assert user is None
    assert problem


def test_the_longest_name_and_hangul_gecos_are_fine() -> None:
    user, problem = parse_user(
        {"name": "a" * 32, "uid": "20001", "gecos": "김민지", "keys": [KEY, KEY + " 민지 @ home"]}
    )
    assert problem is None
    assert user is not None
    assert (user.uid, user.gid, user.gecos, len(user.keys)) == (20001, 20001, "김민지", 2)


@pytest.mark.parametrize("key", ["restrict " + KEY, " " + KEY, "ssh-dss AAAAB3NzaC1kc3MAAACB", KEY + "\r", "# comment"])
def test_keys(key: str) -> None:
    assert key_problem(key)
