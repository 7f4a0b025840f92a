"""Signed texts: who can sign what, and what nobody comes in by."""

import hmac
from collections.abc import Callable

import pytest

from gpuadmin.common import tokens
from gpuadmin.common.tokens import ADMIN_LINK, LINK, SESSION, TokenError, read, sign, signing_key

SITE = bytes(range(32))
SECRET = tokens.dashboard_secret(SITE)
NOW = 1_800_000_000
LIFE = 600


def keys(kind: str, signer: str) -> bytes | None:
    return signing_key(SECRET, kind, signer) if signer in ("node1", "node2") else None


def link(name: str = "minji", at: int = NOW, signer: str = "node1", key: bytes | None = None, kind: str = LINK) -> str:
    return sign(key or signing_key(SECRET, LINK, signer), kind, signer, name, at)


def test_what_was_signed_is_read() -> None:
    text = link()
    found = read(text, keys, (LINK,), NOW, LIFE)
    assert (found.kind, found.signer, found.name, found.at, found.admin) == (LINK, "node1", "minji", NOW, False)
    assert len(text) < 250, "it fits on a line of a terminal or two"
    assert link() != text, "no two are the same"


def test_a_key_is_as_the_standard_derives_it() -> None:
    """RFC 5869, A.1 has a salt and a key of its own; here the same two steps by the cryptography library."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    expected = HKDF(hashes.SHA256(), 32, salt=b"gpuadmin dashboard", info=b"dashboard").derive(SITE)
    assert tokens.dashboard_secret(SITE) == expected != SITE


def again(text: str) -> str:
    """The text with the MAC that its signer would have made."""
    kind, signer, *_ = text.split("~")
    body = text.rpartition("~")[0]
    return f"{body}~{hmac.new(signing_key(SECRET, kind, signer), body.encode(), 'sha256').hexdigest()}"


FORGED: dict[str, tuple[Callable[[], str], str]] = {
    "another name": (lambda: link().replace("minji", "jiho"), "signature"),
    "a later time": (lambda: link().replace(str(NOW), str(NOW + 1)), "signature"),
    "another node's name": (lambda: link().replace("node1", "node2"), "signature"),
    "another node's key": (lambda: link(key=signing_key(SECRET, LINK, "node2")), "signature"),
    "a node that is not of this site": (lambda: link(signer="node9"), "signer"),
    "an admin's link, signed by a node": (
        lambda: link(kind=ADMIN_LINK, key=signing_key(SECRET, LINK, "node1")), "signer",
    ),
    "a session for a link": (lambda: link(kind=SESSION, key=signing_key(SECRET, SESSION, "node1")), "signer"),
    "the dashboard's secret itself": (lambda: link(key=SECRET), "signature"),
    "an empty key": (lambda: link(key=b"x"), "signature"),
    "another digit in the MAC": (lambda: (t := link())[:-1] + ("0" if t[-1] != "0" else "1"), "signature"),
    "capitals in the MAC": (lambda: (t := link())[:-64] + t[-64:].upper().replace("0", "A"), "form"),
    "cut": (lambda: link()[:-1], "form"),
    "cut in the name": (lambda: link()[:12], "form"),
    "nothing": (lambda: "", "form"),
    "a line more": (lambda: link() + "\n", "form"),
    "something before": (lambda: " " + link(), "form"),
    "huge": (lambda: link() + "0" * 10_000_000, "form"),
    "huge, and of the right form": (lambda: link().replace("minji", "m" * 1_000_000), "form"),
    "digits of another script": (lambda: link().replace(str(NOW), "١٨٠٠٠٠٠٠٠٠"), "form"),
    "a zero before the time": (lambda: again(link().replace(str(NOW), f"0{NOW}")), "form"),
    "a person with an admin's name": (lambda: again(link().replace("minji", "root@controller")), "form"),
    "a person with capitals": (lambda: again(link().replace("minji", "Minji")), "form"),
    "a name with a separator": (lambda: again(link().replace("minji", "min~ji")), "form"),
    "a NUL": (lambda: link().replace("minji", "min\0ji"), "form"),
    "a lone surrogate": (lambda: link().replace("minji", "min\udc80ji"), "form"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_nobody_comes_in_by(name: str) -> None:
    make, why = FORGED[name]
    with pytest.raises(TokenError, match=f"^{why}$"):
        read(make(), keys, (LINK,), NOW, LIFE)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (NOW - tokens.SKEW, None),
        (NOW - tokens.SKEW - 1, "early"),
        (NOW + LIFE - 1, None),
        (NOW + LIFE, "late"),
        (NOW + 10 * LIFE, "late"),
    ],
)
def test_when_a_link_is_good(now: float, why: str | None) -> None:
    if why is None:
        assert read(link(), keys, (LINK,), now, LIFE).name == "minji"
        return
    with pytest.raises(TokenError, match=f"^{why}$"):
        read(link(), keys, (LINK,), now, LIFE)


@pytest.mark.parametrize("kind", [LINK, SESSION])
@pytest.mark.parametrize("name", ["", "Minji", "min ji", "a" * 33, "minji\n", "root@controller", "민지", "../x"])
def test_no_text_is_signed_for_what_is_no_persons_name(name: str, kind: str) -> None:
    with pytest.raises(TokenError, match=r"^form$"):
        link(name=name, kind=kind)


def test_an_admin_is_who_ran_the_verb() -> None:
    key = signing_key(SECRET, ADMIN_LINK, tokens.CONTROLLER)
    text = sign(key, ADMIN_LINK, tokens.CONTROLLER, "yseong@desk-1.lab", NOW)
    found = read(text, lambda kind, by: signing_key(SECRET, kind, by), (LINK, ADMIN_LINK), NOW, LIFE)
    assert (found.name, found.admin) == ("yseong@desk-1.lab", True)
