"""Certificates: the same bytes from the same secret, and who can speak to whom with them."""

import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509

from gpuadmin.monitoring.certificates import (
    JOURNALS,
    SECRET_BYTES,
    Identity,
    authority,
    dashboard,
    exporter,
    scraper,
    sender,
    web_authority,
)

SECRET, OTHER = bytes(SECRET_BYTES), bytes([1]) * SECRET_BYTES


def test_the_same_secret_gives_the_same_bytes() -> None:
    assert exporter(SECRET, "gpu1", "10.1.0.1") == exporter(SECRET, "gpu1", "10.1.0.1")
    assert (authority(SECRET), scraper(SECRET)) == (authority(SECRET), scraper(SECRET))


def test_every_host_has_a_key_of_its_own() -> None:
    keys = {
        exporter(SECRET, "gpu1", "10.1.0.1").key, exporter(SECRET, "gpu2", "10.1.0.1").key,
        exporter(OTHER, "gpu1", "10.1.0.1").key, scraper(SECRET).key, scraper(OTHER).key,
    }  # fmt: skip
    assert len(keys) == 5
    assert "PRIVATE" not in repr(scraper(SECRET))


@pytest.mark.parametrize("identity", [exporter(SECRET, "gpu1", "10.1.0.1"), scraper(SECRET)], ids=["host", "scraper"])
def test_no_host_can_sign(identity: Identity) -> None:
    """What a host has signs nobody, and nobody below the authority does: else one host could be any other."""
    theirs = x509.load_pem_x509_certificate(identity.certificate.encode())
    assert theirs.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(False, None)
    top = x509.load_pem_x509_certificate(authority(SECRET).encode())
    constraints = top.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value) == (True, x509.BasicConstraints(True, 0))


def test_a_secret_of_another_length_is_none() -> None:
    with pytest.raises(ValueError, match="31 bytes"):
        authority(bytes(31))


def context(side: ssl._SSLMethod, identity: Identity | None, ca: str, directory: Path) -> ssl.SSLContext:
    found = ssl.SSLContext(side)
    found.minimum_version = ssl.TLSVersion.TLSv1_3
    found.load_verify_locations(cadata=ca)
    if identity is not None:
        path = directory / f"{len(list(directory.iterdir()))}.pem"
        path.write_text(identity.key + identity.certificate)
        found.load_cert_chain(path)
    return found


def speak(
    directory: Path, server: Identity, client: Identity | None, *, asked: str, ca: str | None = None,
    trusted: str | None = None,
) -> bool:  # fmt: skip
    """Whether a client that asks an address gets an answer of a server that wants a certificate of the site's."""
    theirs = context(ssl.PROTOCOL_TLS_SERVER, server, trusted or authority(SECRET), directory)
    theirs.verify_mode = ssl.CERT_REQUIRED
    ours = context(ssl.PROTOCOL_TLS_CLIENT, client, ca or authority(SECRET), directory)
    one, two = socket.socketpair()

    def serve() -> None:
        try:
            with theirs.wrap_socket(one, server_side=True) as connection:
                connection.sendall(b"answer")
        except OSError:
            one.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours.wrap_socket(two, server_hostname=asked) as connection:
            return connection.recv(100) == b"answer"
    except OSError:
        return False
    finally:
        two.close()
        thread.join(10)


GPU1, GPU2 = exporter(SECRET, "gpu1", "10.1.0.1"), exporter(SECRET, "gpu2", "gpu2.example.org")
CASES = {
    "prometheus asks a host": (GPU1, scraper(SECRET), "10.1.0.1", True),
    "prometheus asks a host by name": (GPU2, scraper(SECRET), "gpu2.example.org", True),
    "a host answers for another": (GPU2, scraper(SECRET), "10.1.0.1", False),
    "a host asks another": (GPU1, GPU2, "10.1.0.1", False),
    "a host asks another with what it sends its journal with": (GPU1, sender(SECRET, "gpu2"), "10.1.0.1", False),
    "nobody asks a host": (GPU1, None, "10.1.0.1", False),
    "prometheus of another site asks": (GPU1, scraper(OTHER), "10.1.0.1", False),
    "prometheus' own certificate answers for a host": (scraper(SECRET), scraper(SECRET), "10.1.0.1", False),
}


@pytest.mark.parametrize("case", CASES)
def test_who_speaks_to_whom(case: str, tmp_path: Path) -> None:
    server, client, asked, answered = CASES[case]
    assert speak(tmp_path, server, client, asked=asked) is answered


SENDERS = {
    "a host": (sender(SECRET, "gpu2"), True), "nobody": (None, False), "prometheus": (scraper(SECRET), False),
    "a host's exporter": (GPU2, False), "a host of another site": (sender(OTHER, "gpu2"), False),
}  # fmt: skip


@pytest.mark.parametrize("case", SENDERS)
def test_who_sends_a_journal(case: str, tmp_path: Path) -> None:
    client, heard = SENDERS[case]
    assert speak(tmp_path, GPU1, client, asked="10.1.0.1", trusted=authority(SECRET, JOURNALS)) is heard


def test_a_host_of_another_site_is_not_believed(tmp_path: Path) -> None:
    assert not speak(tmp_path, GPU1, scraper(SECRET), asked="10.1.0.1", ca=authority(OTHER))


NAMES = ["dashboard.lab", "10.1.0.9", "localhost", "127.0.0.1"]


def test_what_browsers_are_shown_is_the_same_each_time() -> None:
    assert dashboard(SECRET, NAMES) == dashboard(SECRET, NAMES)
    assert web_authority(SECRET) == web_authority(SECRET)
    assert dashboard(OTHER, NAMES).key != dashboard(SECRET, NAMES).key


@pytest.mark.parametrize(
    ("asked", "well"), [*((name, True) for name in NAMES), ("other.lab", False), ("10.1.0.8", False)]
)
def test_a_browser_that_trusts_the_authority(asked: str, well: bool, tmp_path: Path) -> None:
    """By the strictest rules that Python has (RFC 5280), which are those of browsers and more."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = tmp_path / "pair.pem"
    identity = dashboard(SECRET, NAMES)
    pair.write_text(identity.key + identity.certificate)
    server.load_cert_chain(pair)
    client = ssl.create_default_context(cadata=web_authority(SECRET))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()

    def answer() -> None:
        with contextlib.suppress(OSError):
            server.wrap_socket(theirs, server_side=True).close()

    thread = threading.Thread(target=answer)
    thread.start()
    with contextlib.suppress(OSError), contextlib.closing(ours):
        if well:
            client.wrap_socket(ours, server_hostname=asked).close()
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                client.wrap_socket(ours, server_hostname=asked)
    thread.join(10)


def test_the_two_authorities_know_nothing_of_each_other() -> None:
    """Whoever tells a browser to trust the dashboard's gives nothing that exporters or Prometheus would take."""
    ours, theirs = (x509.load_pem_x509_certificate(one(SECRET).encode()) for one in (authority, web_authority))
    shown = x509.load_pem_x509_certificate(dashboard(SECRET, NAMES).certificate.encode())
    assert ours.public_key() != theirs.public_key()
    assert ours.subject != theirs.subject
    shown.verify_directly_issued_by(theirs)
    with pytest.raises((ValueError, TypeError)):
        shown.verify_directly_issued_by(ours)
