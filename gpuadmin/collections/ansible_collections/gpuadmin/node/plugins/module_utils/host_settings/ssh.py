"""sshd's settings in effect, all of them, and the Match lines of its files."""

from __future__ import annotations

from ..errors import NodeError
from ..privileges.place import Place as Privileges
from ..privileges.sshd import matches
from ..sshd_settings import PROGRAM, printed
from .place import Place, Settings


def sshd(place: Place) -> Settings:
    """Keyword → its values, as `sshd -T` has them for a connection that no Match is for. Raises NodeError."""
    text = place.output(PROGRAM, "-T")
    if text is None:
        return {"sshd": "is not installed"}
    found: Settings = {}
    for keyword, value in printed(text):
        found[keyword] = f"{found[keyword]}\n{value}" if keyword in found else value
    if not found:
        raise NodeError("sshd said nothing")
    conditions = matches(Privileges(root=place.root))
    return {**found, **({"Match": "\n".join(conditions)} if conditions else {})}
