"""Who may see what, and the settings' file."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.dashboard.files import DashboardError
from gpuadmin.dashboard.viewer import Viewer, load_settings, parse_viewer_settings

GOOD: dict[str, Any] = {"cluster": "c", "nodes": ["gpu01"]}


@pytest.mark.parametrize(
    ("viewer", "private"),
    [
        (Viewer("minji", False), False),
        (Viewer("root", True), True),
        (Viewer("jiho", False), True),
        (Viewer("", False), False),
    ],
)
def test_who_may_see_what_is_private_of_jiho(viewer: Viewer, private: bool) -> None:
    assert viewer.may_see_private("jiho") is private


def test_what_the_role_writes(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(GOOD | {"sees": "own", "people": {"minji": None}}))
    found = load_settings(str(path))
    assert (found.nodes, found.languages) == (("gpu01",), ("en", "ko"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nodes": "gpu01"}, "nodes"), ({"nodes": [1]}, "nodes"),
        ({"idle_hours": True}, "idle_hours"), ({"languages": ["fr"]}, "languages"), ({"languages": []}, "languages"),
        ({"cluster": None}, "cluster"),
    ],
)  # fmt: skip
def test_what_is_no_setting(change: dict[str, Any], says: str) -> None:
    with pytest.raises(DashboardError, match=says):
        parse_viewer_settings(GOOD | change)


@pytest.mark.parametrize("missing", ["cluster", "nodes"])
def test_what_must_be_there(missing: str) -> None:
    with pytest.raises(DashboardError, match=f"{missing} is missing"):
        parse_viewer_settings({key: value for key, value in GOOD.items() if key != missing})


def test_a_file_that_is_none(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(DashboardError):
            load_settings(str(path))
    (tmp_path / "torn").write_text('{"cluster": "c"')
    with pytest.raises(DashboardError, match="torn"):
        load_settings(str(tmp_path / "torn"))
