"""PAM's own verdict on an account, as sshd asks for it: ends, password ageing, access.conf, a directory's rules.

pam_acct_mgmt(3) alone: no session begins, nothing runs as the person, and no password is asked for.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ..bounded import short
from .subject import Subject

LIBRARY, SERVICE = "libpam.so.0", "sshd"
#: <security/_pam_types.h>
_SUCCESS, _CONVERSATION_ERROR, _NEW_PASSWORD, _TTY, _HOST, _SILENT = 0, 19, 12, 3, 4, 0x8000
_Converse = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class _Conversation(ctypes.Structure):
    _fields_ = (("converse", _Converse), ("data", ctypes.c_void_p))


def pam_account(subject: Subject) -> dict[str, Any] | None:
    """PAM's verdict on the person; None where another root's accounts are looked at."""
    return verdict(subject.name or "") if subject.root == "/" else None


def verdict(name: str, rules: str | None = None) -> dict[str, Any]:
    """PAM's verdict on a person who comes by ssh: ``refused``, ``aged`` (it wants a new password), its ``words``.

    It is asked as for somebody who comes from this host. ``rules``: a directory with other rules
    than the host's. Raises OSError where PAM cannot be asked.
    """
    pam = ctypes.CDLL(LIBRARY)
    talk = _Conversation(_Converse(lambda *_: _CONVERSATION_ERROR), None)
    handle = ctypes.c_void_p()
    words = pam.pam_strerror
    words.restype = ctypes.c_char_p
    about = (SERVICE.encode(), name.encode(), ctypes.byref(talk))
    if rules is None:
        status = pam.pam_start(*about, ctypes.byref(handle))
    else:
        status = pam.pam_start_confdir(*about, rules.encode(), ctypes.byref(handle))
    if status != _SUCCESS:
        raise OSError(0, "PAM cannot be asked")
    try:
        for item, value in ((_TTY, b"ssh"), (_HOST, b"localhost")):  # as sshd sets them: access.conf(5) goes by them
            pam.pam_set_item(handle, item, value)
        status = pam.pam_acct_mgmt(handle, _SILENT)
        text = (words(handle, status) or b"").decode("utf-8", "replace")
        return {"refused": status != _SUCCESS, "aged": status == _NEW_PASSWORD, "words": short(text)}
    finally:
        pam.pam_end(handle, status)
