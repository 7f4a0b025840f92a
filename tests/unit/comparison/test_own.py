"""A host's own name, in what another host has otherwise."""

import pytest

from gpuadmin.comparison.own import Own


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("gpu1", "<host>"),
        ("gpu1.example.org", "<host>"),
        ("gpu1:/srv gpu1.", "<host>:/srv <host>."),
        ("gpu10 xgpu1 gpu1-b my.gpu1", "gpu10 xgpu1 gpu1-b my.gpu1"),
        ("192.0.2.1:22 192.0.2.10 1192.0.2.1", "<address>:22 192.0.2.10 1192.0.2.1"),
        ("root=UUID=ab12-cd34 PARTUUID=0001", "root=UUID=… UUID=…"),
        ("\x1b[2J", "\x1b[2J"),  # data: the console escapes it
    ],
)
def test_what_is_its_own(text: str, plain: str) -> None:
    assert Own(["gpu1", "gpu1.example.org", "", "x" * 10_000], ["192.0.2.1"]).plain(text) == plain


def test_a_host_that_says_nothing_of_itself() -> None:
    assert Own([], []).plain("gpu1 192.0.2.1") == "gpu1 192.0.2.1"
    assert Own(["(.*)+"], ["["]).plain("(.*)+ [ x") == "<host> <address> x", "a name is not a pattern"
