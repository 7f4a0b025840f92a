"""A signed Debian repository of small packages that stand in for NVIDIA's driver: modules that modinfo reads, libraries
whose names have a version, and a DKMS that installs such a module for each kernel that has headers.

    python -m tests.support.gpu_packages DIRECTORY FLAVOUR=KERNEL[,KERNEL...]... [--versions 550.163.01 560.35.03]
    python -m tests.support.gpu_packages /tmp/repo cloud-amd64=6.12.57+deb13-cloud-amd64

What Debian's own packages do is not shown by it (docs/gpus.md says where they were tried); what gpuadmin does with
packages, kernels and versions is. Needs cc, dpkg-deb and gpg.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from pathlib import Path

VERSIONS = ("550.163.01", "560.35.03")
LIBRARIES = "usr/lib/x86_64-linux-gnu"

#: As DKMS 3.2 behaves in what matters: without headers it builds nothing and ends with 0; it goes by its own records.
_DKMS = """#!/bin/sh
set -eu
records=/var/lib/dkms/records
mkdir -p "$records"
source() { ls -d /usr/src/nvidia-current-* 2> /dev/null | tail -n 1; }
place() {
    version=${2##*-}
    mkdir -p "/usr/lib/modules/$1/updates/dkms"
    cp "$2/nvidia-current.ko" "/usr/lib/modules/$1/updates/dkms/nvidia-current.ko"
    depmod "$1"
    echo "nvidia-current/$version, $1, x86_64: installed" > "$records/$1"
}
action=$1 kernel=
for word; do case $last in -k) kernel=$word ;; esac; last=$word; done
case $action in
autoinstall)
    [ -e "/usr/src/linux-headers-$kernel" ] || { echo "no headers of $kernel: skipped"; exit 0; }
    from=$(source)
    [ -n "$from" ] || exit 0
    grep -qs "/${from##*-}," "$records/$kernel" || place "$kernel" "$from" ;;
status) cat "$records/$kernel" 2> /dev/null || true ;;
install) place "$kernel" "$(source)" ;;
esac
""".replace("action=$1 kernel=", "action=$1 kernel= last=")
_POSTINST = """#!/bin/sh
set -eu
for kernel in /usr/lib/modules/*; do
    [ ! -d "$kernel/kernel" ] || dkms autoinstall -k "${kernel##*/}"
done
"""
_PERSISTENCED = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"


def make(directory: Path, kernels: Mapping[str, str], versions: Sequence[str] = VERSIONS) -> None:
    """Make the repository: its packages, Packages, InRelease, and key.asc. What is there goes.

    `kernels`: flavour, as in `linux-image-FLAVOUR`, → the kernels that have headers then, with commas. Versions are
    above Debian's.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        found = [_package(work, directory, "dkms", "99:3.2.2", {"usr/sbin/dkms": _DKMS})]
        for flavour, names in kernels.items():
            headers = {f"usr/src/linux-headers-{kernel}/Makefile": "\n" for kernel in names.split(",")}
            found.append(_package(work, directory, f"linux-headers-{flavour}", "99:1", headers))
        for version in versions:
            found += _driver(work, directory, version)
        _index(work, directory, found)


def module(path: Path, version: str) -> None:
    """A kernel module of which modinfo says a version, and nothing else."""
    text = f'__attribute__((section(".modinfo"), used)) static const char v[] = "version={version}";\n'
    subprocess.run(["cc", "-x", "c", "-c", "-o", str(path), "-"], input=text.encode(), check=True)


def _driver(work: Path, directory: Path, version: str) -> list[str]:
    compiled = work / f"{version}.ko"
    module(compiled, version)
    source = {f"usr/src/nvidia-current-{version}/nvidia-current.ko": compiled.read_bytes()}
    library = {f"{LIBRARIES}/{name}.so.{version}": "\n" for name in ("libnvidia-ml", "libcuda")}
    links = {f"{LIBRARIES}/{name}.so.1": f"{name}.so.{version}" for name in ("libnvidia-ml", "libcuda")}
    unit = {"usr/lib/systemd/system/nvidia-persistenced.service": _PERSISTENCED}
    own = f"{version}-1"
    return [
        _package(work, directory, "nvidia-kernel-dkms", own, source, depends="dkms", postinst=_POSTINST),
        _package(work, directory, "libcuda1", own, library, links=links),
        _package(
            work, directory, "nvidia-smi", own, {"usr/bin/nvidia-smi": "#!/bin/sh\n"}, depends=f"libcuda1 (= {own})"
        ),
        _package(work, directory, "nvidia-persistenced", own, unit),
    ]


def _package(
    work: Path, directory: Path, name: str, version: str, files: Mapping[str, str | bytes], *,
    links: Mapping[str, str] | None = None, depends: str = "", postinst: str = "",
) -> str:  # fmt: skip
    """Build one package; return its entry in Packages."""
    tree = work / f"{name}_{version.rpartition(':')[2]}"
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content.encode() if isinstance(content, str) else content)
        if "bin/" in path:
            (tree / path).chmod(0o755)
    for path, target in (links or {}).items():
        (tree / path).symlink_to(target)
    control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: Nobody <nobody@example.org>\n"
    control += (f"Depends: {depends}\n" if depends else "") + "Description: stands in for the real one in tests\n"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(control)
    if postinst:
        (tree / "DEBIAN/postinst").write_text(postinst)
        (tree / "DEBIAN/postinst").chmod(0o755)
    made = directory / f"{name}_{version.rpartition(':')[2]}.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(made)], check=True, stdout=subprocess.DEVNULL
    )
    data = made.read_bytes()
    return f"{control}Filename: ./{made.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"


def _index(work: Path, directory: Path, entries: Sequence[str]) -> None:
    text = "\n".join(entries).encode()
    (directory / "Packages").write_bytes(text)
    (directory / "Packages.gz").write_bytes(gzip.compress(text, mtime=0))
    lines = [f"Date: {formatdate(usegmt=True)}", "Suite: ./", "Architectures: amd64", "SHA256:"]
    for name in ("Packages", "Packages.gz"):
        data = (directory / name).read_bytes()
        lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}")
    home = work / "gnupg"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    user = "tests <nobody@example.org>"
    try:
        subprocess.run([*gpg, "--quick-generate-key", user, "ed25519", "sign", "never"], check=True)
        key = subprocess.run([*gpg, "--armor", "--export"], check=True, capture_output=True).stdout
        (directory / "key.asc").write_bytes(key)
        release = ("\n".join(lines) + "\n").encode()
        signed = subprocess.run([*gpg, "--clearsign"], input=release, check=True, capture_output=True).stdout
        (directory / "InRelease").write_bytes(signed)
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Small packages that stand in for a GPU driver.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("kernels", nargs="*", metavar="FLAVOUR=KERNEL[,KERNEL...]", help="whose headers are in it")
    parser.add_argument("--versions", nargs="+", default=VERSIONS)
    options = parser.parse_args()
    make(options.directory, dict(one.split("=", 1) for one in options.kernels), options.versions)


if __name__ == "__main__":
    main()
