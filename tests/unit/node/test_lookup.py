"""Who somebody is on this host."""

from ansible_collections.gpuadmin.node.plugins.module_utils import lookup

NOBODY = 2**31 - 7  # a uid that no host gives


def test_who_this_host_knows() -> None:
    assert lookup.system_lookup("root") == (0, 0)
    assert lookup.name_of(0) == "root"
    assert lookup.owner(0) == "root (uid 0)"


def test_whom_it_does_not_know_is_a_number() -> None:
    assert lookup.system_lookup("gpuadmin-nobody-has-this") is None
    assert lookup.name_of(NOBODY) is None
    assert lookup.owner(NOBODY) == f"uid {NOBODY}"
