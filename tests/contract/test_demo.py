"""The end of `make demo` names what one can try on its site, and nothing that the site has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scripts import load


@pytest.mark.parametrize("measured", [True, False])
def test_its_end_says_how_to_open_the_dashboard(
    measured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo, called = load("demo"), []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "run", lambda *words: called.append(words[1:]))
    monkeypatch.setattr(demo, "all_measured", lambda: True)
    if measured:
        (tmp_path / "inventory").mkdir()
        (tmp_path / demo.MONITOR_FILE).write_text(demo.MONITOR)
    demo.farewell(60.0)
    said = capsys.readouterr().out
    assert called == ([("top", "--once")] if measured else [])
    assert ("  gpuadmin dashboard" in said) is measured
    assert ("no web page" in said) is not measured
