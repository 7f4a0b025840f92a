"""Rules for single values. People type these, applicants send them: every one is hostile until it passed here.

Each rule is a function that returns the value or raises ValueError with a sentence that says what would be right.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import unicodedata
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from gpuadmin.common.names import ACCOUNT, KEY_TYPES, LOGIN
from gpuadmin.common.text import UNSEEN

USER_NAME = re.compile(LOGIN)
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
# RFC 5322's dot-atom without quotes. Few servers take addresses beyond ASCII (RFC 6531).
_EMAIL = re.compile(
    r"(?!.*=\?)"  # would begin an encoded word (RFC 2047): no mail can be addressed to it
    r"(?=[^@]{1,64}@)[A-Za-z0-9!#$%&*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&*+/=?^_`{|}~-]+)*"
    r"@(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
)

# Names that a distribution gives to system accounts or groups, or may give in its next release. A person's account
# of this name would shadow them.
RESERVED_NAMES = frozenset(
    """
    root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody nogroup adm
    tty disk kmem dialout fax voice cdrom floppy tape sudo wheel audio dip operator src shadow utmp video sasl
    plugdev staff users input render sgx kvm crontab docker libvirt ssh sshd ntp chrony dbus messagebus polkitd
    tss rpc rpcuser statd nfsnobody nfs avahi bind named postfix exim mysql postgres redis nginx apache http ftp
    git systemd-network systemd-resolve systemd-timesync systemd-coredump systemd-journal systemd-oom
    nvidia-persistenced munge slurm slurmctld prometheus node-exporter gpuadmin admin administrator halt shutdown
    netdev _apt _chrony _slurm _ssh uuidd landscape pollinate tcpdump syslog
    """.split()  # noqa: SIM905  a list of a hundred quoted names hides what is in it
)

# Of GPU instances: their slices, memory and what they lack or have (1g.10gb+me, 1g.24gb-me, 2g.48gb+me.all).
_MIG_PROFILE = re.compile(r"[1-9]g\.[1-9][0-9]{0,3}gb([+-][a-z]{1,8}(\.[a-z]{1,8})?)?")
_MOST_GPUS = 64
_UNSEEN = re.compile(f"[{UNSEEN}]")
TEMPLATE_MARKERS = ("{{", "{%", "{#")


def plain_text(value: str, *, longest: int = 200) -> str:
    """One line of printable text without Ansible's template markers, colons included."""
    if len(value) > longest:
        raise ValueError(f"is {len(value)} characters long; at most {longest} fit")
    # most text is printable ASCII, which needs no look at each character: a site has thousands of keys
    for character in "" if value.isascii() and value.isprintable() else value:
        # guard: a text has no control character
        if unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp"):
            raise ValueError(f"holds the control character {character!r}; use one line of plain text")
        # guard: unseen characters are no data
        if _UNSEEN.match(character):  # it turns text around, or two values would look the same
            raise ValueError(f"holds the invisible character U+{ord(character):04X}; type the text again")
    for marker in TEMPLATE_MARKERS:
        if marker in value:
            raise ValueError(f"holds the template marker '{marker}', which is not allowed in a site's data")
    return value


def user_name(value: str) -> str:
    """A login name that every tool on the way reads as the same name."""
    return _name(value, "a system account's name", "a user name")


def account_name(value: str) -> str:
    """What an account of a host that somebody has set up by hand may be called."""
    if not re.fullmatch(ACCOUNT, plain_text(value)):
        raise ValueError(f"{value!r} is not the name of an account: one word of letters, digits and _ . @ + -")
    return value


def group_name(value: str) -> str:
    """A name of a group, of people or of Unix, within the same bounds."""
    return _name(value, "the name of a group or an account of the system", "a group's name")


def _name(value: str, reserved: str, wanted: str) -> str:
    if value in RESERVED_NAMES or value.startswith(("systemd-", "gpuadmin-")):
        raise ValueError(f"'{value}' is {reserved}; choose another")
    if not USER_NAME.fullmatch(value):  # guard: a name is a plain one
        raise ValueError(f"{value!r} is not {wanted}: 1 to 32 of a-z, 0-9, '_' and '-', first a letter or '_'")
    return value


def ssh_key(value: str) -> str:
    """A plain OpenSSH public key line: type, base64, optional comment; no options such as `command=`."""
    value = plain_text(value.strip(), longest=16384)
    kind, _, rest = value.partition(" ")
    if kind not in KEY_TYPES:  # guard: a key has no options
        if value.startswith("---- BEGIN SSH2 PUBLIC KEY"):
            raise ValueError(
                "is a key as PuTTY saves it (RFC 4716); ssh-keygen -i -f FILE prints it as a .pub file has it"
            )
        if kind.endswith("-cert-v01@openssh.com"):
            raise ValueError("is a certificate; give the key that was signed (the .pub file without -cert)")
        if any(known in value for known in KEY_TYPES):
            raise ValueError("is a key with options in front of it; give the bare public key (type, base64)")
        if "PRIVATE KEY" in value:
            raise ValueError("is a PRIVATE key; give the public one (the .pub file), and make a new pair")
        if value.endswith(".pub") or value.startswith(("/", "~", "./")):
            raise ValueError("is a file's path; a key is what the .pub file holds")
        raise ValueError(f"does not begin with a known key type ({', '.join(sorted(KEY_TYPES))})")
    blob = rest.split(" ", 1)[0]
    try:
        raw = base64.b64decode(blob, validate=True)
    except binascii.Error:
        raise ValueError("is damaged: the part after the key type is not base64") from None
    length = int.from_bytes(raw[:4], "big")
    if raw[4 : 4 + length] != kind.encode() or len(raw) < 4 + length + 32:
        raise ValueError(f"is damaged: its content is not a whole {kind} key")
    return value


def key_fingerprint(blob: str) -> str:
    """Given a public key's content in base64, return what `ssh-keygen -l` shows of it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(blob)).digest()).decode().rstrip("=")


def email(value: str) -> str:
    plain_text(value, longest=254)
    if not _EMAIL.fullmatch(value):
        raise ValueError(f"{value!r} is not an e-mail address")
    return value


def absolute_path(value: str) -> str:
    """An absolute, normalised path of printable characters without spaces (it goes into fstab-like files)."""
    plain_text(value, longest=1024)
    path = PurePosixPath(value)
    # guard: a path is a plain absolute one
    if not path.is_absolute() or ".." in path.parts or re.search(r"[\s:\"'\\$*?\[\]%]", value):
        raise ValueError(f"{value!r} must be an absolute path without '..', spaces or quotes")
    return "/" + "/".join(path.parts[1:])


def not_root_path(value: str) -> str:
    if absolute_path(value) == "/":
        raise ValueError("must not be /")
    return absolute_path(value)


def host_name(value: str) -> str:
    if not _HOST_NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not a host name")
    return value


def iso_date(value: Any) -> Any:
    """YAML gives dates as dates and quoted ones as text; both are meant."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            looks = re.match(r"\d{4}-\d\d-\d\d", value)
            what = "is a day or a time that does not exist" if looks else "is not a date"
            raise ValueError(f"{value[:40]!r} {what}; write YYYY-MM-DD") from None
    if isinstance(value, datetime):
        raise ValueError(f"{value:%Y-%m-%d %H:%M} is a time; write the day alone, {value:%Y-%m-%d}")
    if not isinstance(value, date):
        raise ValueError(f"{str(value)[:40]} is not a date; write YYYY-MM-DD")
    return value


def local_file(value: str) -> str:
    """A file on this machine, wherever a command is run: an absolute path, or one below somebody's home."""
    plain_text(value, longest=1024)
    if not value.startswith(("/", "~")):
        raise ValueError(f"{value!r} must be an absolute path, or begin with ~")
    return value


def pattern(value: str) -> str:
    plain_text(value)
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"{value!r} is not a regular expression: {error}") from None
    return value


def driver_version(value: Any) -> Any:
    """A branch of NVIDIA's driver, or a version. Without quotes 570.10 would be the number 570.1."""
    if value is not None and not (isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{2}(\.[0-9]{1,3}){0,2}", value)):
        raise ValueError(f'{str(value)[:40]} is not a driver version in quotes, such as "570" or "570.172.08"')
    return value


def mig_layout(value: Any) -> Any:
    """The profiles of each GPU, by its number. YAML takes 0 and "0" for two keys; they are one GPU."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"{str(value)[:40]} does not list profiles for each GPU, such as {{0: [3g.20gb, 4g.20gb]}}")
    found: dict[int, list[str]] = {}
    for gpu, profiles in value.items():
        name = str(gpu)
        if isinstance(gpu, bool) or not re.fullmatch(r"[0-9]{1,2}", name) or int(name) >= _MOST_GPUS:
            raise ValueError(f"{name[:40]} is not the number of a GPU, as nvidia-smi has it: 0 to {_MOST_GPUS - 1}")
        if int(name) in found:
            raise ValueError(f"GPU {int(name)} is listed twice")
        if not isinstance(profiles, list):
            raise ValueError(f"GPU {name}: {str(profiles)[:40]} is not a list of profiles, such as [3g.20gb, 4g.20gb]")
        for one in profiles:
            if not isinstance(one, str) or not _MIG_PROFILE.fullmatch(one):
                raise ValueError(
                    f"GPU {name}: {str(one)[:40]} is not a profile, such as 3g.20gb: nvidia-smi mig -lgip lists them"
                )
        found[int(name)] = list(profiles)
    return found


Text = Annotated[str, AfterValidator(plain_text)]
AccountName = Annotated[str, AfterValidator(account_name)]
UserName = Annotated[str, AfterValidator(user_name), Field(json_schema_extra={"pattern": f"^{USER_NAME.pattern}$"})]
GroupName = Annotated[str, AfterValidator(group_name), Field(json_schema_extra={"pattern": f"^{USER_NAME.pattern}$"})]
SshKey = Annotated[str, AfterValidator(ssh_key)]
Email = Annotated[str, AfterValidator(email), Field(json_schema_extra={"format": "email"})]
Path = Annotated[str, AfterValidator(not_root_path), Field(json_schema_extra={"pattern": "^/."})]
LocalFile = Annotated[str, AfterValidator(local_file)]
PackageName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+_@-]{0,99}$")]
DriverVersion = Annotated[str, BeforeValidator(driver_version)]
MigLayout = Annotated[dict[int, list[str]], BeforeValidator(mig_layout)]
Pattern = Annotated[str, AfterValidator(pattern), Field(json_schema_extra={"format": "regex"})]
HostName = Annotated[str, AfterValidator(host_name)]
Date = Annotated[date, BeforeValidator(iso_date)]
