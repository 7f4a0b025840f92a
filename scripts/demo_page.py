"""A picture of the dashboard as a browser shows it to who has a link: the demo's."""

from __future__ import annotations

import base64
import hashlib
import ssl
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.browser import browser  # from the checkout


def picture(link: str, fingerprint: str, path: Path) -> None:
    """Open a link, enter, and keep the first page as PNG. `fingerprint`: the certificate's that must be shown."""
    with tempfile.TemporaryDirectory(prefix="gpuadmin-demo-", ignore_cleanup_errors=True) as profile:
        trusted = f"--ignore-certificate-errors-spki-list={key_of(link, fingerprint)}"
        with browser(Path(profile), trusted) as page:
            page.screen(1100, 640)
            page.go(link)
            page.ask("""document.querySelector('form[action="/enter"] button').click()""")
            page.wait("location.pathname === '/' && document.readyState === 'complete'")
            page.picture(path)


def key_of(link: str, fingerprint: str) -> str:
    """The SHA-256, as browsers take it, of the key in the certificate that is shown where a link leads."""
    at = urlsplit(link)
    pem = ssl.get_server_certificate((str(at.hostname), at.port or 443))
    actual = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    if actual != fingerprint.replace(":", "").lower():
        raise SystemExit(f"the demo stopped: {link} shows another certificate: {actual}")
    key = x509.load_pem_x509_certificate(pem.encode()).public_key()
    return base64.b64encode(
        hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    ).decode()
