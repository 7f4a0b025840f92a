"""Signed texts that let somebody into the dashboard: links that work once, and sessions (decision 110).

A text is ``KIND~SIGNER~NAME~SECONDS~NONCE~MAC``: there is one way to write each, and it needs no encoding in an address
or a cookie. The MAC is HMAC-SHA256 with a key that is valid for that kind and that signer alone.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass

#: A link for a person, and for an admin; what a browser keeps after one of them was followed.
LINK, ADMIN_LINK, SESSION, ADMIN_SESSION = "link", "admin-link", "session", "admin-session"
FORM = "form"  # what a page gives its forms: it is good for the session that the page was made for
VIEW = "view"  # what a node asks with for itself; it lets nobody in
CONTROLLER = "controller"  # signs admins' links
LINK_SECONDS = 600  # for which a link is good, once: it has to get from a terminal to a browser
SESSION_SECONDS = 12 * 3600  # for which a browser stays in: a working day
VIEW_SECONDS = 120  # for which a node's own question is good
FORM_SECONDS = 3600  # for which a form is good, once
SKEW = 60  # seconds that a signer's clock may be ahead
LONGEST = 600  # characters
# Names of people as accounts have them; an admin is NAME@MACHINE, as records of runs have it. Signers are hosts' names.
_PERSON, _ADMIN, _SIGNER = r"[a-z_][a-z0-9_-]*", r"[A-Za-z0-9._@-]{1,200}", r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}"
_FORM = re.compile(
    rf"(link|admin-link|session|admin-session|form|view)~({_SIGNER})~({_ADMIN})~([0-9]{{1,12}})~([0-9a-f]{{32}})~([0-9a-f]{{64}})",
)


class TokenError(Exception):
    """Nobody comes in by this text. ``str(error)`` is one of: form, signer, signature, early, late."""


@dataclass(frozen=True)
class Token:
    """What was signed. ``at``: when, in seconds since 1970. ``digest`` is the text's own, to remember it by."""

    kind: str
    signer: str
    name: str
    at: int
    digest: str

    @property
    def admin(self) -> bool:
        """Whether it makes its bearer an admin."""
        return self.kind in (ADMIN_LINK, ADMIN_SESSION)


def dashboard_secret(secret: bytes) -> bytes:
    """Given the site's secret for measurements, return the dashboard's: from it no certificate can be made."""
    return derived(secret, "dashboard")


def signing_key(dashboard: bytes, kind: str, signer: str) -> bytes:
    """Given the dashboard's secret, return the key with which a signer signs texts of a kind, and nothing else."""
    return derived(
        dashboard,
        f"{kind}~{signer}",  # guard: a key is good for one kind and one signer -> 'link'
    )


def view_key(link: bytes) -> bytes:
    """Given the key with which a node signs links, return the one with which it asks for itself."""
    return derived(link, VIEW)


def derived(secret: bytes, purpose: str) -> bytes:
    """32 bytes for a purpose: HKDF-SHA256 (RFC 5869), whose first block is all that is needed."""
    extracted = hmac.digest(b"gpuadmin dashboard", secret, "sha256")
    return hmac.digest(extracted, purpose.encode() + b"\x01", "sha256")


def sign(key: bytes, kind: str, signer: str, name: str, at: int) -> str:
    """Return a new text that says what it is given. Raises TokenError (form) for what no reader would take."""
    text = f"{kind}~{signer}~{name}~{at}~{secrets.token_hex(16)}"
    signed = f"{text}~{_mac(key, text)}"
    _parts(signed)
    return signed


def read(text: str, keys: Callable[[str, str], bytes | None], kinds: Collection[str], now: float, life: float) -> Token:
    """Given a text, `keys(kind, signer)`, the kinds that are wanted, the time and for how many seconds one is good,
    return what was signed. Raises TokenError.
    """
    kind, signer, name, at, mac = _parts(text)
    key = (
        keys(kind, signer)
        if kind in kinds
        # guard: a node signs no admin
        else None
    )
    if key is None:
        raise TokenError("signer")
    if not hmac.compare_digest(_mac(key, text.rpartition("~")[0]), mac):  # guard: a link's signature is checked
        raise TokenError("signature")
    if at > now + SKEW:  # guard: a link from the future is none
        raise TokenError("early")
    if now >= at + life:  # guard: a link ends
        raise TokenError("late")
    return Token(kind, signer, name, at, hashlib.sha256(text.encode()).hexdigest())


def _parts(text: str) -> tuple[str, str, str, int, str]:
    found = _FORM.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise TokenError("form")
    kind, signer, name, at, _nonce, mac = found.groups()
    # guard: a text is bounded before it is looked at
    if (
        # guard: a person's session has a person's name -> kind == LINK
        kind in (LINK, SESSION, FORM) and not (len(name) <= 32 and re.fullmatch(_PERSON, name))
    ):
        raise TokenError("form")
    if at != str(int(at)):
        raise TokenError("form")  # one text for each number
    return kind, signer, name, int(at), mac


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), "sha256").hexdigest()
