"""hand-over: the list, without hosts as well; and the bundle, of which nothing is printed or recorded."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from gpuadmin.config.fields import key_fingerprint
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_age import fake_age
from tests.support.fake_ansible import KEY, NOBODY, Ansible, Cli, ansible

__all__ = ["ansible"]  # a fixture

SECRET, PASSWORD, SIGNING = "5e" * 32, "hunter2hunter2", "-----BEGIN OPENSSH PRIVATE KEY----- s1gn"
GONE = HostResult("unreachable", message="does not answer (timed out)")
HOSTS = ("storage1", "node1", "node2")


def says(**more: object) -> RunResult:
    return RunResult({name: HostResult("ok", reports={"privileges": NOBODY | more}) for name in HOSTS})


@pytest.fixture
def site(ansible: Ansible, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with all secrets; its admin has nothing else on this machine, but age."""
    assert ansible.site is not None
    site = ansible.site
    (site / "image_signing_key").write_text(SIGNING)
    (site / "image_signing_key.pub").write_text(KEY)
    (site / "metrics_secret").write_text(SECRET)
    (site / "metrics_secret").chmod(0o600)
    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    password.chmod(0o600)
    mail = f"mail: {{host: x.example.org, sender: a@example.org, user: kim, password_file: {password}}}\n"
    (site / "gpuadmin.yml").write_text((site / "gpuadmin.yml").read_text() + mail)
    (tmp_path / "bmc").write_text("bmc-secret\n")
    (tmp_path / "bmc").chmod(0o600)
    bmcs = f"gpu: {{hosts: {{node1: {{bmc: {{address: 10.9.0.1, password_file: {tmp_path}/bmc}}}}}}}}\n"
    (site / "inventory/bmcs.yml").write_text(bmcs)
    monkeypatch.delenv("GPUADMIN_BMC_PASSWORD", raising=False)
    (tmp_path / "jiwon.pub").write_text(f"{KEY}\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").symlink_to("/usr/bin/ssh")
    fake_age(tmp_path / "bin", monkeypatch)
    monkeypatch.delenv("GPUADMIN_SMTP_PASSWORD", raising=False)
    ansible.answer = says()
    return site


def items(cli: Cli, *words: str, code: int = 6) -> dict[tuple[str, str], str]:
    left, out, _ = cli("hand-over", "--json", *words)
    assert left == code
    return {(one["what"], one["state"]): one["words"] for one in json.loads(out)["result"]["items"]}


def test_the_list(site: Path, cli: Cli) -> None:
    found = items(cli)
    for what in ("signing key", "metrics secret", "SMTP password", "BMCs' password"):
        assert (what, "only yours") in found
    assert "all of it" not in str(found), "the site is in no repository"
    assert found["admins", "missing"].startswith("no admin is declared")
    assert found["backup host", "missing"].startswith("none")
    assert found["backups", "unknown"] == "no record says that one was verified"
    assert "storage1" in found["host keys", "only yours"]


def test_without_hosts_the_rest_is_said(site: Path, cli: Cli, ansible: Ansible) -> None:
    ansible.answer = RunResult(dict.fromkeys(HOSTS, GONE))
    found = items(cli, code=4)
    assert ("metrics secret", "only yours") in found
    assert found["admins", "unknown"] == "could not be asked: does not answer (timed out)"


@pytest.mark.holds("a host that is silent is not handed over")
def test_one_host_is_silent(site: Path, cli: Cli, ansible: Ansible) -> None:
    ansible.answer.hosts["node2"] = HostResult("ok")
    assert "could not be asked" in items(cli, code=3)["admins", "unknown"]


def test_who_has_power_and_is_not_declared(site: Path, cli: Cli, ansible: Ansible) -> None:
    ansible.answer = says(found=[{"key": "kim in group sudo", "words": "may become root", "rank": "root"}])
    path = site / "gpuadmin.yml"
    path.write_text(path.read_text() + f"admins: [{{name: jiwon, uid: 901, keys: ['{KEY}']}}]\n")
    found = items(cli)
    assert "kim in group sudo" in found["admins", "missing"]
    assert found["admins", "in order"] == "1 key, sudo, without an end"


@pytest.mark.holds("a check seals nothing")
def test_the_bundle(site: Path, cli: Cli, tmp_path: Path) -> None:
    bundle = tmp_path / "jiwon.age"
    words = ("--to", str(tmp_path / "jiwon.pub"), "-o", str(bundle))
    code, out, err = cli("hand-over", *words, "--check")
    assert (code, bundle.exists()) == (6, False)
    assert "Would seal image_signing_key, metrics_secret, smtp_password" in err
    code, out, err = cli("hand-over", *words)
    assert code == 6
    assert bundle.read_text() == "age-encryption.org/v1\n"
    assert "age -d -i ~/.ssh/id_ed25519 jiwon.age | tar -x -C ~/handed" in err
    assert key_fingerprint(KEY.split()[1]) in err
    packed = (tmp_path / "bin/given").read_text()
    recorded = "".join(path.read_text() for path in (site / "runs").rglob("*") if path.is_file())
    for secret in (SECRET, PASSWORD, SIGNING, "bmc-secret"):
        assert secret in packed
        assert secret not in out + err + recorded
    assert f"in order    metrics secret: {site}/metrics_secret: is in {bundle}" in out.replace("\n", "")
    assert "is there already" in cli("hand-over", *words)[2]


@pytest.mark.parametrize(("there", "state"), [(True, "in order"), (False, "missing")])
def test_whether_the_new_admin_gets_in(
    site: Path, cli: Cli, ansible: Ansible, tmp_path: Path, there: bool, state: str
) -> None:
    ansible.answer = says(keys={"gpuadmin": [key_fingerprint(KEY.split()[1])] if there else ["SHA256:x"]})
    assert ("login", state) in items(cli, "--to", str(tmp_path / "jiwon.pub"), "--check")


def test_a_secret_that_cannot_be_read_is_said(site: Path, cli: Cli, tmp_path: Path) -> None:
    (site / "metrics_secret").chmod(0o644)
    (site / "image_signing_key").unlink()
    (tmp_path / "password").unlink()
    found = items(cli)
    assert "others can read it" in found["metrics secret", "missing"]
    assert found["signing key", "missing"] == "is not there"
    assert "No such file" in found["SMTP password", "missing"]


@pytest.mark.parametrize(
    ("days", "state", "words"),
    [
        (400, "in order", "ends on"),
        (20, "missing", "in 19 days"),
        (-3, "missing", "ended on"),
        (None, "missing", "no certificate"),
    ],
)
def test_when_a_certificate_ends(
    site: Path, cli: Cli, tmp_path: Path, days: int | None, state: str, words: str
) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    now = datetime.now(UTC)
    name = x509.Name([])
    text = b"nothing"
    if days is not None:
        builder = x509.CertificateBuilder(
            name, name, key.public_key(), 1, now - timedelta(days=900), now + timedelta(days=days)
        )
        text = builder.sign(key, None).public_bytes(serialization.Encoding.PEM)
    (tmp_path / "web.crt").write_bytes(text)
    (tmp_path / "web.key").write_text("k3y")
    path = site / "gpuadmin.yml"
    web = f"certificate: {tmp_path}/web.crt, key: {tmp_path}/web.key"
    path.write_text(path.read_text() + f"metrics: {{dashboard: {{{web}}}}}\n")
    found = items(cli)
    assert words in found["certificates", state]
    assert ("dashboard's key", "only yours") in found
    assert "outside of the site" in found["file", "only yours"]


def test_records_and_backups(site: Path, cli: Cli) -> None:
    now = datetime.now(UTC)
    folder = site / "runs" / f"{now:%Y%m%dT%H%M%S}-verify-backup-0001"
    folder.mkdir(parents=True)
    run = {
        "id": folder.name, "verb": "verify-backup", "arguments": [], "check": False, "who": "a@b",
        "started": now.isoformat(timespec="seconds"), "plan": {"title": "x", "steps": [], "warnings": []},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    ended = {"status": "ok", "exit_code": 0, "ended": now.isoformat(timespec="seconds"), "hosts": {}}
    (folder / "result.json").write_text(json.dumps(ended))
    (site / "runs/term-2026-2").mkdir()
    found = items(cli)
    assert found["backups", "in order"] == f"one was verified on {now:%Y-%m-%d}"
    assert "resets of 2026-2" in found["records", "only yours"]


def test_an_output_without_a_key_is_refused(site: Path, cli: Cli, tmp_path: Path) -> None:
    assert cli("hand-over", "-o", str(tmp_path / "x"))[0] == 2
