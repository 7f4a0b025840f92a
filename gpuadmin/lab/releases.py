"""The releases of Debian and Ubuntu that a lab's hosts can have, and what differs between their archives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: A root whose /bin is /usr/bin: what debootstrap and the installer make, and mmdebstrap does not. The hook of
#: mmdebstrap wants a package that Debian 11 and Ubuntu 22.04 do not have.
_MERGED = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
_MERGED_BY_HAND = (
    '--setup-hook=for name in bin sbin lib lib32 lib64 libx32; do mkdir -p "$1/usr/$name"; '
    'ln -s "usr/$name" "$1/$name"; done'
)
#: What is not released yet has an index that expires after a week, and a mirror may be older.
_EXPIRED = '--aptopt=Acquire::Check-Valid-Until "false"'
#: Before Debian 13, and in Ubuntu, /tmp is on the root, which is read-only here.
_TMP = (
    '--customize-hook=[ -e "$1/usr/lib/systemd/system/tmp.mount" ] || '
    '{ cp "$1/usr/share/systemd/tmp.mount" "$1/etc/systemd/system/" && chroot "$1" systemctl enable tmp.mount; }'
)
#: OpenSSH knows this word since 9.8, and an older one does not start where it reads it.
_OLD_SSHD = '--customize-hook=sed -i /^PerSourcePenalties/d "$1/etc/ssh/sshd_config.d/10-gpuadmin-lab.conf"'


@dataclass(frozen=True)
class Distribution:
    """Whose releases they are. `package`: what has the keys that it signs its archive with, in /usr/share/keyrings.

    `mirror`: where its archive is; nothing where `gpuadmin.lab.mirror` says it.
    """

    name: str
    package: str
    keyring: str
    mirror: str | None = None
    components: str = "main"


_KEYRINGS = "/usr/share/keyrings"
_DEBIAN = Distribution("Debian", "debian-archive-keyring", f"{_KEYRINGS}/debian-archive-keyring.gpg")
_UBUNTU = Distribution(
    "Ubuntu",
    "ubuntu-keyring",
    f"{_KEYRINGS}/ubuntu-archive-keyring.gpg",
    "http://archive.ubuntu.com/ubuntu",
    "main universe",
)
#: apt and AppArmor, which every server has, are not of priority `required` there, and Docker is in universe. The lab
#: looks for the kernel's links where Debian has them, and masks generators itself.
_OF_UBUNTU = (
    "--include=apparmor,apt",
    _TMP,
    '--essential-hook=echo link_in_boot = no >"$1/etc/kernel-img.conf"',
    "--dpkgopt=path-exclude=/etc/systemd/system-generators/*",
    # The busybox of Ubuntu's initramfs has no tar, by which a host gets its identity: busybox-static takes its place.
    '--essential-hook=mkdir -p "$1/usr/lib/initramfs-tools/bin"; '
    'chroot "$1" dpkg-divert --local --rename --quiet --add /usr/lib/initramfs-tools/bin/busybox; '
    'ln -s ../../../bin/busybox "$1/usr/lib/initramfs-tools/bin/busybox"',
)
#: Before Ubuntu 26.04, modules that virtual machines need are in a package with the kernel's version in its name.
_MODULES = "--include=?name(^linux-modules-extra-.*-generic$)"


@dataclass(frozen=True)
class Release:
    """A release. `packages`: name in Debian's newest → name here, or nothing where another package has it inside.

    `options`: what mmdebstrap is given besides what it is given for each. What is here is part of an image's key.
    """

    number: str
    suite: str
    packages: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    distribution: Distribution = _DEBIAN

    @property
    def title(self) -> str:
        """What it is called."""
        return f"{self.distribution.name} {self.number}"

    def source(self, mirror: str | None) -> tuple[str, ...]:
        """Given a mirror of Debian, return the line of sources.list(5) by which packages of this release come; none
        where mmdebstrap chooses.
        """
        archive = self.distribution
        uri = archive.mirror or mirror
        if uri is None:
            return ()
        words = (
            "deb",
            f"[signed-by={archive.keyring}]",  # guard: no other key that this machine trusts signs for an archive -> ""
            uri,
            self.suite,
            archive.components,
        )
        return (" ".join(words),)

    def named(self, packages: Iterable[str]) -> tuple[str, ...]:
        """Given packages by their names in Debian's newest release, return them by their names in this one."""
        names = (self.packages.get(one, one) for one in packages)
        return tuple(one for one in names if one)


# docker.io has the docker-cli inside until Debian 12, and in all of Ubuntu's; sudo is sudo-rs since Ubuntu 26.04
_INSIDE = {"docker-cli": "", "docker-compose": ""}  # and `docker compose` is not in releases as old
_UBUNTUS = {**_INSIDE, "docker-compose": "docker-compose-v2", "linux-image-cloud-amd64": "linux-image-virtual"}
RELEASES: Mapping[str, Release] = {
    one.number: one
    for one in (
        Release("11", "bullseye", {**_INSIDE, "polkitd": "policykit-1"}, (_MERGED_BY_HAND, _OLD_SSHD, _TMP)),
        Release("12", "bookworm", _INSIDE, (_MERGED, _OLD_SSHD, _TMP)),
        Release("13", "trixie"),
        Release("14", "forky", options=(_EXPIRED,)),
        Release(
            "22.04", "jammy", {**_UBUNTUS, **_INSIDE}, (*_OF_UBUNTU, _MODULES, _MERGED_BY_HAND, _OLD_SSHD), _UBUNTU
        ),
        Release("24.04", "noble", _UBUNTUS, (*_OF_UBUNTU, _MODULES, _OLD_SSHD), _UBUNTU),
        Release("26.04", "resolute", {**_UBUNTUS, "sudo": "sudo-rs"}, _OF_UBUNTU, _UBUNTU),
    )
}
DEFAULT = "13"
NUMBERS = ", ".join(RELEASES)


def parse(words: Iterable[str]) -> dict[str, str]:
    """Given `N` (all hosts) and `HOST=N`, return host → release, that of all under the empty name.

    Raises ConfigError for an unknown release, and for two of one host.
    """
    from gpuadmin.errors import ConfigError  # not above: `make` reads this file before there is an environment

    found: dict[str, str] = {}
    for word in words:
        host, given, number = word.rpartition("=")
        if (given and not host) or number not in RELEASES:
            raise ConfigError(f"--release {word}: no such release", hint=f"N or HOST=N, with N one of {NUMBERS}")
        if found.setdefault(host, number) != number:
            raise ConfigError(f"--release names two releases of {host or 'all hosts'}: {found[host]} and {number}")
    return found
