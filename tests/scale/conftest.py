"""What is here needs many cheap ssh hosts."""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)  # tests/conftest.py reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.scale)
