"""What is not ours in the dashboard's files is what its authors published, and everything else is ours."""

import hashlib
import json

from tests.support.scripts import ROOT

STATIC = ROOT / "gpuadmin/dashboard/static"
#: Written here.
OURS = {"dashboard.css", "dashboard.js", "enter.css", "icon.svg", "vendored.json"}


def test_each_file_is_as_it_was_published() -> None:
    known = json.loads((STATIC / "vendored.json").read_text())
    named = set()
    for library in known.values():
        assert library["version"] in library["source"]
        for name, digest in library["sha256"].items():
            named.add(name)
            assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest, name
    assert {path.name for path in STATIC.iterdir()} == named | OURS


def test_its_licence_and_version_are_there() -> None:
    assert "Permission is hereby granted, free of charge" in (STATIC / "uPlot.LICENSE").read_text()
    assert "(v1.6.32)" in (STATIC / "uPlot.iife.min.js").read_text()[:100]
