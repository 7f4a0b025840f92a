"""The bundle: for whom it is sealed, and that nothing of it is written unsealed."""

import errno
import io
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from gpuadmin.config.schema import Settings
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.handover import sealing
from gpuadmin.handover.sealing import Secret, recipients, sealed, shown, write
from tests.support.fake_age import fake_age
from tests.support.sites import SETTINGS, public_key

KEY, RSA, ECDSA = public_key("a"), public_key("b", "ssh-rsa"), public_key("c", "ecdsa-sha2-nistp256")
SECRETS = [Secret("metrics_secret", "in the site", b"0123456789abcdef")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{KEY}\n", [KEY]),
        (f"{KEY}\n".replace(" ", "  "), [KEY]),
        (KEY.replace(" ", "\t"), [KEY]),
        (f"# mine\n\n{ECDSA}\n{RSA}\n", [RSA]),
        ("age1xyz\n", ["age1xyz"]),
    ],
)
def test_keys_of_a_file(tmp_path: Path, text: str, found: list[str]) -> None:
    (tmp_path / "keys").write_text(text)
    assert recipients(SETTINGS, str(tmp_path / "keys")) == found


@pytest.mark.holds("a bundle is sealed for keys alone")
@pytest.mark.holds("nobody's private key is asked for")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "is a private key"),
        ("AGE-SECRET-KEY-1X\n", "is a private key"),
        (f"{ECDSA}\n", "no key that age can seal for"),
        ("", "no key that age can seal for"),
        (f"{KEY}\nhello\n", "a line that is not a public key"),
        (f'from="x" {KEY}\n', "a line that is not a public key"),
        ("ssh-ed25519 abc\n", "a line that is not a public key"),
        ("ssh-ed25519\n", "a line that is not a public key"),
        (f"{KEY} kim\x1b[2Kjiwon\n", "a line that is not a public key"),
        ("age1./x1qqqq\n", "a line that is not a public key"),
        ("age1yubikey1qqqq\n", "a line that is not a public key"),
        (None, "No such file"),
    ],
)
def test_what_is_no_key(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "keys").write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        recipients(SETTINGS, str(tmp_path / "keys"))
    assert caught.value.hint


@pytest.mark.holds("nobody seals for an admin whose last day was")
def test_an_admin_of_the_site(tmp_path: Path) -> None:
    admins = [
        {"name": "jiwon", "uid": 901, "keys": [KEY, ECDSA], "until": "2999-01-01"},
        {"name": "old", "uid": 902, "keys": [KEY], "until": "2020-01-01"},
    ]
    settings = Settings.model_validate({"name": "x", "admins": admins})
    assert recipients(settings, "jiwon") == [KEY]
    with pytest.raises(ConfigError, match="no admin since 2020-01-01"):
        recipients(settings, "old")


def test_secrets_reach_age_by_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = fake_age(tmp_path, monkeypatch)
    assert sealed(SECRETS, [KEY], "read me") == b"age-encryption.org/v1\n"
    arguments, _, packed = given.read_bytes().partition(b"\n")
    assert arguments.decode() == f"--encrypt --recipient {KEY}"
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert [(one.name, one.mode) for one in tar] == [("metrics_secret", 0o600), ("README.txt", 0o600)]


@pytest.mark.holds("what age did not seal is not written")
@pytest.mark.parametrize(("says", "code"), [("age-encryption.org/v1", 1), ("0123456789abcdef", 0)])
def test_a_program_that_does_not_seal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, code: int) -> None:
    fake_age(tmp_path, monkeypatch, says, code)
    with pytest.raises(GpuadminError, match="age could not seal: no such key"):
        sealed(SECRETS, [KEY], "")


def test_without_age_the_way_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GpuadminError) as caught:
        sealing.age()
    assert "apt install age" in str(caught.value.hint)


@pytest.mark.holds("what is there is not replaced")
@pytest.mark.holds("a new file is its owner's alone")
def test_the_file(tmp_path: Path) -> None:
    write(tmp_path / "x.age", b"sealed")
    assert stat.S_IMODE((tmp_path / "x.age").stat().st_mode) == 0o600
    with pytest.raises(ConfigError, match="File exists"):
        write(tmp_path / "x.age", b"another")
    assert (tmp_path / "x.age").read_bytes() == b"sealed"


@pytest.mark.holds("half of a file is none")
def test_a_disk_that_is_full_leaves_no_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        write(tmp_path / "x.age", b"sealed")
    assert not list(tmp_path.iterdir()), "the same again is not refused"


def test_a_key_is_shown_by_its_fingerprint() -> None:
    assert shown(KEY).startswith("SHA256:")
    assert shown("age1xyz") == "age1xyz"


@pytest.mark.needs("age")
@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_the_documented_command_opens_it(tmp_path: Path, kind: str) -> None:
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(key)], check=True)
    keys = recipients(SETTINGS, f"{key}.pub")
    bundle = sealed(SECRETS, keys, "read me")
    assert SECRETS[0].content not in bundle
    write(tmp_path / "x.age", bundle)
    command = f"cd {tmp_path} && mkdir -m 700 handed && age -d -i {key} x.age | tar -x -C handed"
    subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True)
    assert (tmp_path / "handed/metrics_secret").read_bytes() == SECRETS[0].content
    assert stat.S_IMODE((tmp_path / "handed/metrics_secret").stat().st_mode) == 0o600
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    command = f"age -d -i {other} {tmp_path}/x.age"
    assert subprocess.run(["bash", "-c", command], check=False, capture_output=True).returncode != 0
