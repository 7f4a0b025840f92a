"""A verb that has to end well, and a verb that has to end with a certain code."""

from __future__ import annotations

from collections.abc import Callable

Cli = Callable[..., tuple[int, str, str]]


def succeed(cli: Cli, *arguments: str) -> str:
    """Run a verb that ends with 0, and return what it prints. For example, `succeed(cli, "check", "--json")`."""
    code, out, err = cli(*arguments)
    assert code == 0, err
    return out


def fail(cli: Cli, expected: int, *arguments: str) -> str:
    """Run a verb that ends with the code ``expected``, and return its stderr. For example, `fail(cli, 5, "notify")`."""
    code, _out, err = cli(*arguments)
    assert code == expected, err
    return err
