"""The key of one push: whoever shows it is a node of its chain. Nobody else gets or sends a byte of an image.

The controller makes a key and a certificate for each push, which all nodes of its chain share. They are in a file of
root's below /run until the push is over. Both ends of a link show the certificate over TLS 1.3 and accept that very
one. A listener without the key is found out before anything is sent to it, and a caller without it before anything
is read.
"""

from __future__ import annotations

import os
import re
import ssl
import stat
from dataclasses import dataclass
from socket import socket

from ..errors import NodeError, in_words
from ..files import unlink_if_present, write_atomic
from .places import Places

FILE = "image-relay.pem"
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\s", re.DOTALL)


@dataclass(frozen=True)
class Credentials:
    """What this node shows at both ends of its place in the chain, and the certificate (DER) that it wants to see."""

    called: ssl.SSLContext
    calling: ssl.SSLContext
    certificate: bytes

    def answer(self, raw: socket, seconds: float) -> ssl.SSLSocket:
        """Given an accepted connection, return it encrypted and proven. Takes some ``seconds`` at most.

        Raises OSError or NodeError, with the connection closed.
        """
        raw.settimeout(seconds)  # guard: a caller has so many seconds to prove itself
        return self._proven(self.called.wrap_socket(raw, server_side=True))

    def call(self, raw: socket, seconds: float) -> ssl.SSLSocket:
        """The same for a connection that this node has opened."""
        raw.settimeout(seconds)
        return self._proven(self.calling.wrap_socket(raw))

    def _proven(self, connection: ssl.SSLSocket) -> ssl.SSLSocket:
        # guard: the other end shows the very certificate of this push
        if connection.getpeercert(binary_form=True) != self.certificate:
            connection.close()
            raise NodeError("the other end does not hold the key of this push")
        return connection


def store(places: Places, pem: str) -> None:
    """Keep the push's key (PEM: private key and certificate) on this node, for root alone."""
    # guard: an old key's mode does not stay
    remove(places)  # an old file's mode would stay
    os.makedirs(places.run, mode=0o755, exist_ok=True)
    write_atomic(os.path.join(places.run, FILE), pem.encode(), mode=0o600, sync=False)


def remove(places: Places) -> None:
    """Forget the push's key."""
    unlink_if_present(os.path.join(places.run, FILE))


def load(places: Places) -> Credentials:
    """Read the push's key. Raises NodeError if there is none, or where others could have read or made it."""
    path = os.path.join(places.run, FILE)
    try:
        facts = os.lstat(path)
        if (
            not stat.S_ISREG(facts.st_mode)
            or facts.st_uid != os.geteuid()  # guard: a key that somebody else made is not used
            or facts.st_mode & 0o077  # guard: a key that others can read is not used
        ):
            raise NodeError(f"{path} is not a file of root's alone; the key of this push is not used")
        with open(path, encoding="ascii") as stream:
            found = CERTIFICATE.search(stream.read())
        if found is None:
            raise NodeError(f"{path} holds no certificate")
        contexts = [_context(side, path, found[0]) for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)]
        return Credentials(contexts[0], contexts[1], ssl.PEM_cert_to_DER_cert(found[0]))
    except FileNotFoundError:
        raise NodeError("this node has no key of this push") from None
    except (OSError, ValueError) as error:
        raise NodeError(f"{path} cannot be used: {in_words(error)}") from error


def _context(side: int, path: str, certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is compared as a whole, and has no names
    context.verify_mode = ssl.CERT_REQUIRED  # guard: both ends of a link ask for a certificate -> ssl.CERT_NONE
    context.load_verify_locations(cadata=certificate)
    context.load_cert_chain(path)
    if side == ssl.PROTOCOL_TLS_SERVER:
        # A caller never reads them, and what lies unread when it closes makes a reset of it, which loses the rest.
        context.num_tickets = 0
    return context
