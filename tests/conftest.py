"""What holds for all tests: what a test needs of the machine, and that nothing is left out unnoticed."""

import os
import signal
import tempfile

import pytest

from tests.support.machine import Skips, marked


def pytest_configure(config: pytest.Config) -> None:
    # A script's background jobs and `nohup` hand on ignored signals, which gpuadmin keeps ignored; tests send them.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    os.environ["LC_ALL"] = "C.UTF-8"  # Ansible refuses to start in another
    # with pytest-xdist, reports come together in the process that started the workers
    place = os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir()
    if os.statvfs(place).f_flag & os.ST_NOEXEC:
        raise pytest.UsageError(
            f"{place} is mounted noexec, and tests run programs there: TMPDIR chooses another place"
        )
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(bool(os.environ.get("CI"))), "skips")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marked(item)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lane", choices=("virtual", "light"), help="only what uses the virtual cluster, or only what does not"
    )
