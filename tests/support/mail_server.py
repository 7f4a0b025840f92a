"""A mail server to send to, and what its tests need."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email import message_from_string
from email.message import EmailMessage
from email.policy import default
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).with_name("smtp_server.py")


@dataclass
class Server:
    """A running mail server."""

    port: int
    process: subprocess.Popen[str]
    accepted: Path

    @property
    def mails(self) -> list[dict[str, Any]]:
        """What it took, oldest first."""
        if not self.accepted.exists():
            return []
        return [json.loads(line) for line in self.accepted.read_text().splitlines()]

    @property
    def messages(self) -> list[EmailMessage]:
        """The same, as messages."""
        return [message_from_string(mail["text"], EmailMessage, policy=default) for mail in self.mails]

    @property
    def recipients(self) -> list[str]:
        return [address for mail in self.mails for address in mail["to"]]


StartServer = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[StartServer]:
    """Start mail servers: `serve(security="starttls", answers={"x@example.org": "550 no"})`."""
    processes: list[subprocess.Popen[str]] = []

    def start(**options: Any) -> Server:
        number = len(processes)
        accepted = tmp_path / f"accepted-{options.pop('shared', number)}.jsonl"
        settings = tmp_path / f"server-{number}.json"
        settings.write_text(json.dumps({"accepted": str(accepted), **options}))
        process = subprocess.Popen([sys.executable, str(SERVER), str(settings)], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        return Server(int(process.stdout.readline()), process, accepted)

    yield start
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate for 127.0.0.1 that nobody signed but itself: paths of `certificate` and `key`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail.example.org")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    directory = tmp_path_factory.mktemp("certificate")
    (directory / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (directory / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return {"certificate": str(directory / "certificate.pem"), "key": str(directory / "key.pem")}
