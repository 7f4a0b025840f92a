"""Sources as they stand on real machines → the mirror that the lab takes."""

from pathlib import Path

import pytest

from gpuadmin.lab import mirror

DEB822 = """\
Types: deb deb-src
# http://snapshot.example/archive
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""

STANZA = """\
Types: deb
URIs: https://one.example/debian
Suites: trixie
Components: main
"""

CASES = {
    "deb822": ({"sources.list.d/debian.sources": DEB822}, "http://mirror.example/debian"),
    "deb822, URIs on a continuation line": (
        {"sources.list.d/a.sources": STANZA.replace("URIs: ", "URIs:\n ")},
        "https://one.example/debian",
    ),
    "deb822, disabled": ({"sources.list.d/a.sources": "Enabled: no\n" + STANZA}, None),
    "deb822, sources only": ({"sources.list.d/a.sources": STANZA.replace("Types: deb", "Types: deb-src")}, None),
    "one line": ({"sources.list": "deb http://ftp.example/debian trixie main\n"}, "http://ftp.example/debian"),
    "one line with options and comments": (
        {
            "sources.list": "# deb http://no.example/debian trixie main\n"
            "deb-src http://no.example/debian trixie main\n"
            "deb [arch=amd64 signed-by=/k/debian-archive-keyring.gpg] http://yes.example/debian trixie main # here\n"
        },
        "http://yes.example/debian",
    ),
    "security first": (
        {
            "sources.list": "deb http://s.example/debian-security trixie-security main\n"
            "deb http://m.example/debian trixie main\n"
        },
        "http://m.example/debian",
    ),
    "a vendor's with a component main": (
        {"sources.list": "deb [signed-by=/k/vendor.gpg] https://packages.vendor.example/debian bookworm main\n"},
        None,
    ),
    "a vendor's with a component main, deb822": (
        {
            "sources.list.d/a.sources": "Types: deb\nURIs: https://vendor.example/debian\nSuites: bookworm\n"
            "Components: main\nSigned-By: /k/vendor.gpg\n"
        },
        None,
    ),
    "a vendor's": ({"sources.list": "deb https://download.docker.example/linux/debian bookworm stable\n"}, None),
    "Ubuntu": ({"sources.list": "deb http://archive.example/ubuntu noble main\n"}, None),
    "a file that apt does not read": (
        {"sources.list.d/a.list.save": "deb http://a.example/debian trixie main\n"},
        None,
    ),
    "cdrom": ({"sources.list": "deb cdrom:[Debian]/debian trixie main\n"}, None),
    "nothing": ({}, None),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES.keys())
def test_mirror_from(tmp_path: Path, files: dict[str, str], expected: str | None) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert mirror.mirror_from(tmp_path) == expected


def test_apts_own_is_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUADMIN_LAB_MIRROR", raising=False)
    monkeypatch.setattr(mirror, "mirror_from", lambda _apt: "http://apt.example/debian")
    assert mirror.mirror() == "http://apt.example/debian"


def test_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUADMIN_LAB_MIRROR", "http://mine.example/debian")
    assert mirror.mirror() == "http://mine.example/debian"
