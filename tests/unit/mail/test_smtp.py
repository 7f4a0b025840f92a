"""Sending over SMTP, against a server in a process of its own."""

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gpuadmin.common.mail.deliver import Delivery, deliver
from gpuadmin.config.schema import Mail, Settings
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.render import Renderer
from gpuadmin.mail.smtp import Smtp, read_password
from tests.support.closing_mail import letter, settings
from tests.support.mail_server import Server, StartServer


def send(site: Path, chosen: Settings, names: Sequence[str]) -> tuple[list[Delivery], Ledger]:
    site.mkdir(exist_ok=True)
    assert chosen.mail is not None
    server, ledger = Smtp(chosen.mail), Ledger.of(site)
    done = deliver([letter(name) for name in names], ledger, Renderer(chosen, site).message, lambda: server)
    read = Ledger.of(site)
    assert {entry.key: entry.state for entry in read} == {entry.key: entry.state for entry in ledger}
    return done, read


def states(done: Sequence[Delivery]) -> list[str]:
    return [delivery.state.value for delivery in done]


SECURED: list[dict[str, Any]] = [
    {"security": "none"},
    {"security": "starttls"},
    {"security": "tls"},
    {"security": "starttls", "user": "gpu", "password": "pass word:1"},
    {"security": "tls", "user": "gpu", "password": "secret"},
]


@pytest.mark.parametrize("secured", SECURED, ids=str)
def test_mails_arrive(
    serve: StartServer, certificate: dict[str, str], tmp_path: Path, secured: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    server = serve(**secured, **certificate)
    monkeypatch.setenv("GPUADMIN_SMTP_PASSWORD", secured.get("password", ""))
    given = {"security": secured["security"]} | ({"user": "gpu"} if "user" in secured else {})
    done, _ = send(tmp_path / "site", settings(server.port, ca_file=certificate["certificate"], **given), ["a", "b"])
    assert states(done) == ["sent", "sent"]
    assert server.recipients == ["a@example.org", "b@example.org"]
    for mail, message in zip(server.mails, server.messages, strict=True):
        assert mail["tls"] == (secured["security"] != "none")
        assert mail["user"] == secured.get("user")
        assert mail["from"] == "gpu@example.org"
        assert message["From"].addresses[0].display_name == "GPU 클러스터"
        assert message["Auto-Submitted"] == "auto-generated"
        assert "학기가 끝났습니다" in message.get_content()
        assert "has ended" in message.get_content()


def test_a_certificate_that_nobody_trusts(serve: StartServer, certificate: dict[str, str], tmp_path: Path) -> None:
    for security in ("starttls", "tls"):
        server = serve(security=security, **certificate)
        with pytest.raises(GpuadminError, match=r"(?i)certificate"):
            send(tmp_path / "site", settings(server.port, security=security), ["a"])
        assert server.mails == []
    assert not (tmp_path / "site/mails.jsonl").exists(), "nothing was handed over, and nothing is recorded"


def test_a_server_without_starttls_gets_nothing_in_clear(serve: StartServer, tmp_path: Path) -> None:
    server = serve(security="none")
    with pytest.raises(ConfigError, match="STARTTLS"):
        send(tmp_path / "site", settings(server.port, security="starttls"), ["a"])
    assert server.mails == []


def test_a_wrong_password(
    serve: StartServer, certificate: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(security="starttls", user="gpu", password="right", **certificate)
    monkeypatch.setenv("GPUADMIN_SMTP_PASSWORD", "wrong")
    chosen = settings(server.port, security="starttls", user="gpu", ca_file=certificate["certificate"])
    with pytest.raises(ConfigError, match="does not let gpu in: 535") as caught:
        send(tmp_path / "site", chosen, ["a"])
    assert "wrong" not in caught.value.message
    assert server.mails == []


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(GpuadminError, match=f"127.0.0.1:{port}: .*refused"):
        send(tmp_path / "site", settings(port), ["a"])
    assert not (tmp_path / "site/mails.jsonl").exists()


def test_a_server_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuadmin.common.mail.smtp.TIMEOUT", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(GpuadminError, match="timed out"):
        send(tmp_path / "site", settings(silent.getsockname()[1]), ["a"])


def test_a_refused_recipient_keeps_nobody_back(serve: StartServer, tmp_path: Path) -> None:
    answers = {"b@example.org": "550 5.1.1 no such user", "c@example.org": "451 4.3.0 try later"}
    server = serve(answers=answers)
    done, ledger = send(tmp_path / "site", settings(server.port), ["a", "b", "c", "d"])
    assert states(done) == ["sent", "refused", "failed", "sent"]
    assert server.recipients == ["a@example.org", "d@example.org"]
    assert done[1].detail == "550 5.1.1 no such user"
    keys = [letter(name).keys[0] for name in "abcd"]
    assert ledger.open_keys(keys, "b@example.org") == (keys[2],), "only the one that may be tried again"
    assert ledger.open_keys([keys[1]], "new@example.org") == (keys[1],), "and the refused one at another address"


@pytest.mark.parametrize(
    ("server", "names", "expected", "last"),
    [
        ({"data_answer": "554 5.7.1 looks like spam"}, "a", ["refused"], "554 5.7.1 looks like spam"),
        ({"close_after": 2}, "abcde", ["sent"] * 5, ""),
        ({"die_in_mail": 3}, "abcd", ["sent", "sent", "failed", "failed"], "not tried: "),
    ],
    ids=str,
)
def test_a_server_that_ends_it(
    serve: StartServer, tmp_path: Path, server: dict[str, Any], names: str, expected: list[str], last: str
) -> None:
    started = serve(**server)
    done, ledger = send(tmp_path / "site", settings(started.port), names)
    assert states(done) == expected
    assert done[-1].detail.startswith(last)
    sent = [name for name, state in zip(names, expected, strict=True) if state == "sent"]
    assert started.recipients == [f"{name}@example.org" for name in sent]
    keys = [letter(name).keys[0] for name, state in zip(names, expected, strict=True) if state != "sent"]
    assert list(ledger.open_keys([letter(name).keys[0] for name in names], "x@example.org")) == keys


def test_a_sender_that_is_refused_is_nobodys_address(serve: StartServer, tmp_path: Path) -> None:
    server = serve(sender_answer="550 5.7.1 not from you")
    done, ledger = send(tmp_path / "site", settings(server.port), ["a", "b"])
    assert states(done) == ["failed", "failed"]
    assert "not from you" in done[0].detail
    keys = [letter(name).keys[0] for name in "ab"]
    assert ledger.open_keys(keys, "a@example.org") == tuple(keys)


def test_a_server_that_dies_with_a_mail_in_its_hands(serve: StartServer, tmp_path: Path) -> None:
    """It took the message and gave no answer: nobody may say that it was sent, nor send it again."""
    server = serve(die_in_data="b@example.org", shared="both")
    done, ledger = send(tmp_path / "site", settings(server.port), list("abc"))
    assert states(done) == ["sent", "unknown", "failed"]
    (uncertain,) = [entry for entry in ledger if entry.uncertain]
    assert uncertain.names == ("b",)
    second: Server = serve(shared="both")
    keys = [letter(name).keys[0] for name in "abc"]
    assert ledger.open_keys(keys, "b@example.org") == (keys[2],)
    send(tmp_path / "site", settings(second.port), ["c"])
    assert second.recipients == ["a@example.org", "b@example.org", "c@example.org"], "nobody twice"


def test_where_the_password_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    plain = {"host": "localhost", "sender": "a@example.org"}
    without = Mail.model_validate({**plain, "user": "gpu"})
    mail = Mail.model_validate({**plain, "user": "gpu", "password_file": str(file)})
    monkeypatch.delenv("GPUADMIN_SMTP_PASSWORD", raising=False)
    assert read_password(Mail.model_validate(plain)) is None
    with pytest.raises(ConfigError, match="no password for gpu"):
        read_password(without)
    for content, mode, words in (
        (None, 0, "No such file"), (b"secret\n", 0o644, "others can read"), (b"", 0o600, "one line"),
        (b"a\nb\n", 0o600, "one line"), (b"\xff\n", 0o600, "UTF-8"), ("비밀\n".encode(), 0o600, "ASCII"),
    ):  # fmt: skip
        if content is not None:
            file.write_bytes(content)
            file.chmod(mode)
        with pytest.raises(ConfigError, match=words) as caught:
            read_password(mail)
        assert "secret" not in caught.value.message
    file.write_text("secret\n")
    assert read_password(mail) == "secret"
    monkeypatch.setenv("GPUADMIN_SMTP_PASSWORD", "other")
    assert read_password(mail) == "other"


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": "gpu", "security": "none", "host": "mail.example.org"},
        {"languages": []},
        {"languages": ["ko", "ko"]},
        {"languages": ["de"]},
        {"sender": "nobody"},
        {"port": 0},
        {"password": "secret"},
    ],
    ids=str,
)
def test_settings_that_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings(25, **wrong)
