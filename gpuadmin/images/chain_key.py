"""The key of one push, which the nodes of its chain show to each other (docs/decisions/0021)."""

from __future__ import annotations

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make_key() -> str:
    """A new private key and a certificate of it, PEM. Nothing is kept of it here.

    The certificate holds for ever, because a node's clock can be wrong, and its key is forgotten after the push.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gpuadmin chain")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))  # RFC 5280, 4.1.2.5: no end
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (private + certificate.public_bytes(serialization.Encoding.PEM)).decode()
