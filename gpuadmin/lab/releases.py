"""The releases of Debian that a lab's hosts can have, and what differs between their archives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuadmin.errors import ConfigError

#: A root whose /bin is /usr/bin: what debootstrap and the installer make, and mmdebstrap does not. The hook of
#: mmdebstrap wants a package that Debian 11 does not have.
_MERGED = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
_MERGED_11 = (
    '--setup-hook=for name in bin sbin lib lib32 lib64 libx32; do mkdir -p "$1/usr/$name"; '
    'ln -s "usr/$name" "$1/$name"; done'
)
#: What is not released yet has an index that expires after a week, and a mirror may be older.
_EXPIRED = '--aptopt=Acquire::Check-Valid-Until "false"'
#: OpenSSH knows this word since 9.8, and an older one does not start where it reads it.
_OLD_SSHD = '--customize-hook=sed -i /^PerSourcePenalties/d "$1/etc/ssh/sshd_config.d/10-gpuadmin-lab.conf"'


@dataclass(frozen=True)
class Release:
    """A release. `packages`: name in the newest releases → name here, or nothing where another package has it inside.

    `options`: what mmdebstrap is given besides what it is given for each. What is here is part of an image's key.
    """

    number: int
    suite: str
    packages: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    #: Whether virtual machines can have it: none was ever booted with Debian 11.
    boots: bool = True

    def named(self, packages: Iterable[str]) -> tuple[str, ...]:
        """Given packages by their names in the newest releases, return them by their names in this one."""
        names = (self.packages.get(one, one) for one in packages)
        return tuple(one for one in names if one)


# docker.io has the docker-cli inside until Debian 12
RELEASES: Mapping[int, Release] = {
    one.number: one
    for one in (
        Release(11, "bullseye", {"docker-cli": "", "polkitd": "policykit-1"}, (_MERGED_11, _OLD_SSHD), boots=False),
        Release(12, "bookworm", {"docker-cli": ""}, (_MERGED, _OLD_SSHD)),
        Release(13, "trixie"),
        Release(14, "forky", options=(_EXPIRED,)),
    )
}
DEFAULT = 13
NUMBERS = ", ".join(map(str, RELEASES))


def parse(words: Iterable[str]) -> dict[str, int]:
    """Given `N` (all hosts) and `HOST=N`, return host → release, that of all under the empty name.

    Raises ConfigError for a release that there is not, and for two of one host.
    """
    found: dict[str, int] = {}
    for word in words:
        host, given, number = word.rpartition("=")
        if (given and not host) or not re.fullmatch("[0-9]{1,3}", number) or int(number) not in RELEASES:
            raise ConfigError(f"--release {word}: is no release", hint=f"N or HOST=N, with N one of {NUMBERS}")
        if found.setdefault(host, int(number)) != int(number):
            raise ConfigError(f"--release names two releases of {host or 'all hosts'}: {found[host]} and {number}")
    return found
