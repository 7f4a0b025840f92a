"""The states of the lab, for the take-over's verbs."""

from tests.e2e.conftest import (
    cluster,
    hosts,
    minji,
    provisioned,
    pytest_generate_tests,
    pytest_report_header,
    pytest_sessionfinish,
)
from tests.support.where import pytest_collection_modifyitems, pytest_xdist_make_scheduler

__all__ = [
    "cluster", "hosts", "minji", "provisioned", "pytest_collection_modifyitems", "pytest_generate_tests",
    "pytest_report_header", "pytest_sessionfinish", "pytest_xdist_make_scheduler",
]  # fmt: skip
