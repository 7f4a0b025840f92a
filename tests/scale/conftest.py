"""What is here needs many cheap ssh hosts."""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)  # tests/conftest.py reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:  # thousands of them
        if item.path.parent == here:
            item.add_marker(pytest.mark.scale)
