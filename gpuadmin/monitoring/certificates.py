"""The certificates by which Prometheus and the hosts' exporters know each other (docs/decisions/0105).

All of them follow from one secret of the site's: the same secret and name give the same key and the same certificate,
byte for byte. So nothing but the secret is kept, a check shows exactly what a run would write, and a new secret
replaces all.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID

from gpuadmin.common.pressed import ASKER

SECRET_BYTES = 32
_AUTHORITY, _WEB_AUTHORITY, JOURNALS = "gpuadmin metrics", "gpuadmin dashboard", "gpuadmin journals"
_PURPOSES = {_AUTHORITY: "authority", JOURNALS: "journals authority"}  # of their keys
_CURVE = ec.SECP256R1()
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of that curve (SP 800-186, 3.2.1.3)
_Key = Ed25519PrivateKey | ec.EllipticCurvePrivateKey
_PublicKey = Ed25519PublicKey | ec.EllipticCurvePublicKey
# A host's clock can be wrong, and a certificate that ends would end the alerts: RFC 5280, 4.1.2.5 (no end).
_FROM, _UNTIL = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True)
class Identity:
    """A private key and its certificate, both PEM."""

    key: str = field(repr=False)
    certificate: str


def authority(secret: bytes, issuer: str = _AUTHORITY) -> str:
    """Given the site's secret, return the certificate (PEM) that signs all others; JOURNALS: that signs senders'."""
    return _sign(secret, issuer, _key(secret, _PURPOSES[issuer]), usage=None, alternatives=(), issuer=issuer)


def sender(secret: bytes, name: str) -> Identity:
    """Given a host's name, return what it shows where it sends its journal. No exporter believes its authority."""
    key = _key(secret, f"sender {name}")
    found = _sign(
        secret, name, key, usage=ExtendedKeyUsageOID.CLIENT_AUTH, alternatives=(),
        issuer=JOURNALS,  # guard: what a host sends its journal with asks no exporter -> _AUTHORITY
    )  # fmt: skip
    return Identity(_pem(key), found)


def exporter(secret: bytes, name: str, address: str) -> Identity:
    """Given a host's name and the address that it is asked at, return what its exporter shows. Good for that alone:
    with it nobody can ask another host's exporter.
    """
    key = _key(secret, f"exporter {name}")
    found = _sign(
        secret,
        name,
        key,
        # guard: a host's certificate asks no other host -> ExtendedKeyUsageOID.CLIENT_AUTH
        usage=ExtendedKeyUsageOID.SERVER_AUTH,
        alternatives=[address],
    )
    return Identity(_pem(key), found)


def scraper(secret: bytes) -> Identity:
    """What Prometheus shows to exporters, which answer to nobody else."""
    key = _key(secret, "scraper")
    found = _sign(secret, "gpuadmin scraper", key, usage=ExtendedKeyUsageOID.CLIENT_AUTH, alternatives=())
    return Identity(_pem(key), found)


def buttons(secret: bytes) -> Identity:
    """What the dashboard shows to the queue's host, which lets nobody else press buttons; exporters know it, too, and
    tell it what Prometheus tells the dashboard.
    """
    found = _sign(
        secret, ASKER, _key(secret, "buttons"), usage=ExtendedKeyUsageOID.CLIENT_AUTH, alternatives=()
    )  # fmt: skip
    return Identity(_pem(_key(secret, "buttons")), found)


def web_authority(secret: bytes) -> str:
    """The certificate (PEM) of the authority for the dashboard, which browsers can be told to trust: it signs nothing
    else. Browsers know no Ed25519, hence keys of another kind (RFC 6979 makes their signatures deterministic, too).
    """
    return _sign(secret, _WEB_AUTHORITY, _web_key(secret, "web authority"), usage=None, alternatives=(), web=True)


def dashboard(secret: bytes, names: Sequence[str]) -> Identity:
    """Given the names and addresses under which the dashboard is asked, return what it shows to browsers."""
    key = _web_key(secret, "dashboard")
    found = _sign(
        secret, names[0], key, usage=ExtendedKeyUsageOID.SERVER_AUTH, alternatives=list(dict.fromkeys(names)), web=True
    )
    return Identity(_pem(key), found)


def slurm_key(secret: bytes) -> str:
    """The key that Slurm's daemons know each other by, as text."""
    return _derived(secret, "slurm", 64).hex()


def _key(secret: bytes, purpose: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(_derived(secret, purpose, 32))


def _web_key(secret: bytes, purpose: str) -> ec.EllipticCurvePrivateKey:
    # 64 more bits than the order has, so that no key is likelier than another: FIPS 186-5, A.2.1
    number = int.from_bytes(_derived(secret, purpose, 40), "big") % (_ORDER - 1) + 1
    return ec.derive_private_key(number, _CURVE)


def _derived(secret: bytes, purpose: str, length: int) -> bytes:
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"the secret has {len(secret)} bytes; {SECRET_BYTES} are wanted")
    return HKDF(hashes.SHA256(), length, salt=b"gpuadmin metrics", info=purpose.encode()).derive(secret)


def _pem(key: _Key) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _sign(
    secret: bytes,
    name: str,
    key: _Key,
    *,
    usage: x509.ObjectIdentifier | None,
    alternatives: Sequence[str],
    web: bool = False,
    issuer: str = _AUTHORITY,
) -> str:
    """A certificate of a key, signed by the authority's; `usage` None: it is the authority's own."""
    public = (
        key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        if web
        else key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    )
    digest = hashes.Hash(hashes.SHA256())
    digest.update(f"{name} {' '.join(alternatives) or None} ".encode() + public)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(name[:64]))
        .issuer_name(_named(_WEB_AUTHORITY if web else issuer))
        .public_key(key.public_key())
        .serial_number(int.from_bytes(digest.finalize()[:16], "big") >> 1 | 1)
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(
            x509.BasicConstraints(
                ca=usage is None,  # guard: a host's certificate signs nobody -> True
                path_length=0
                if usage is None  # guard: nobody below the authority signs
                else None,
            ),
            critical=True,
        )
    )
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
    if alternatives:
        names = x509.SubjectAlternativeName([_address(one) for one in alternatives])
        builder = builder.add_extension(names, critical=False)
    if web:
        top = _web_key(secret, "web authority")
        builder = _strictly(builder, key.public_key(), top.public_key(), ca=usage is None)
        made = builder.sign(top, hashes.SHA256(), ecdsa_deterministic=True)
    else:
        made = builder.sign(_key(secret, _PURPOSES[issuer]), None)
    return made.public_bytes(serialization.Encoding.PEM).decode()


def _strictly(
    builder: x509.CertificateBuilder, key: _PublicKey, top: _PublicKey, *, ca: bool
) -> x509.CertificateBuilder:
    """What RFC 5280 wants besides, and browsers and Python 3.13 ask for: whose key it is, whose key signed it, and
    for what."""
    usage = x509.KeyUsage(not ca, False, False, False, False, ca, ca, False, False)
    return (
        builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(top), critical=False)
        .add_extension(usage, critical=True)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _address(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
