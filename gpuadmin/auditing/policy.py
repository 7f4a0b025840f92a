"""sshd's settings against what a site wants: passwords, root."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuadmin.config.schema.hosts import AuditSsh

_PASSWORDS = ("passwordauthentication", "kbdinteractiveauthentication")
#: What sshd -T says of root, and how much that allows: `no` is stricter than `keys`.
_ROOT = {"no": "no", "forced-commands-only": "keys", "without-password": "keys", "prohibit-password": "keys"}


def against(policy: AuditSsh, sshd: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Given a host's settings of sshd in effect, yield in words what is not as the site wants it."""
    if not sshd and policy != AuditSsh():  # guard: what sshd does not say is not what the site wants
        yield "sshd does not say how it is set (sshd -T): it cannot be judged"
        return
    if policy.passwords is False:
        for keyword in _PASSWORDS:
            if "yes" in sshd.get(keyword, ()):
                yield f"sshd {keyword} yes: the site wants no passwords"
    if policy.idle_minutes and f"session:shell={policy.idle_minutes}m" not in " ".join(sshd.get("channeltimeout", ())):
        yield f"sshd closes no idle shell: the site wants it after {policy.idle_minutes} minutes"
    root = next(iter(sshd.get("permitrootlogin", ())), "not said")
    allowed = {"no": ("no",), "keys": ("no", "keys")}.get(policy.root or "", ())
    if allowed and _ROOT.get(root, "yes") not in allowed:
        wants = "root not to log in" if policy.root == "no" else "root to log in with a key at most"
        yield f"sshd permitrootlogin {root}: the site wants {wants}"
