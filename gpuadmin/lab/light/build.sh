#!/bin/sh
# Fills the disk of light hosts from the root that virtual machines are made of: the same layout, without a boot partition.
# Run in a mount namespace of its own. $1: the loop device; $2: root.tar; $3: an empty directory; $4: where this file lies.
set -eu
disk=$1 tar=$2 top=$3 here=$4
mkfs.btrfs -q -f -m single -L gpuadmin "$disk"
mount -t btrfs -o noatime "$disk" "$top"
mkdir "$top/roots" "$top/images" "$top/incoming"
for subvolume in roots/base state local; do btrfs -q subvolume create "$top/$subvolume"; done
root=$top/roots/base
mkdir "$root/var"
mount -t btrfs -o noatime,subvol=/state "$disk" "$root/var"
tar -xpf "$tar" -C "$root"
rm -rf "$root/boot/builder"
cp -a "$root/var/lib/dpkg" "$root/usr/lib/sysimage/dpkg"
rm -rf "$root/var/lib/dpkg"
mkdir "$root/var/lib/dpkg"
mount --bind "$root/usr/lib/sysimage/dpkg" "$root/var/lib/dpkg"
mount -t proc proc "$root/proc"
in_root() { DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
in_root apt-get -qq --no-download install --yes mergerfs
# No NFS in this machine's kernel, as far as anybody may count on: a directory of the storage host stands in for it.
# Where its package says that it is: before Debian 13 in /sbin, which is the same directory under another name.
case $(. "$root/etc/os-release" && echo "$VERSION_CODENAME") in
bullseye | bookworm | jammy) in_root dpkg-divert --local --rename --quiet --add /sbin/mount.nfs4 ;;
*) in_root dpkg-divert --local --rename --quiet --add /usr/sbin/mount.nfs4 ;;
esac
install -m 0755 "$here/mount.nfs4" "$root/usr/sbin/mount.nfs4"
# exportfs of Debian 11 hands exports to the kernel, and fails without NFS there; newer ones only write them down.
if grep -q '^VERSION_CODENAME=bullseye' "$root/etc/os-release"; then
	in_root dpkg-divert --local --rename --quiet --add /usr/sbin/exportfs
	install -m 0755 "$here/exportfs" "$root/usr/sbin/exportfs"
fi
cat >"$root/etc/systemd/system/nfs-server.service" <<'UNIT'
[Unit]
Description=Stands in for the NFS server of a light host
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecReload=/bin/true
[Install]
WantedBy=multi-user.target
UNIT
ln -s /dev/null "$root/etc/systemd/system/run-rpc_pipefs.mount"
# Modules are this machine's: an older kmod fails where there is no directory of the running kernel.
mkdir -p "$root/etc/systemd/system/systemd-modules-load.service.d"
printf '[Service]\nSuccessExitStatus=1\n' >"$root/etc/systemd/system/systemd-modules-load.service.d/10-gpuadmin-lab.conf"
# logind has a /proc of its own, with this machine's boot id and not the host's (init.sh): since systemd 262 it takes nobody's
# session then.
mkdir -p "$root/etc/systemd/system/systemd-logind.service.d"
printf '[Service]\nBindReadOnlyPaths=/run/host/boot-id:/proc/sys/kernel/random/boot_id\n' \
	>"$root/etc/systemd/system/systemd-logind.service.d/10-gpuadmin-lab.conf"
# systemd-update-done, which customize.sh masks, would write these. Without, sysusers of systemd 262 fails in the read-only root.
touch "$root/etc/.updated" "$root/var/.updated"
cp "$here/fstab" "$root/etc/fstab"
# What Slurm's daemon on a light host takes for a cgroup v2 of its own.
mkdir -p "$root/usr/local/lib/gpuadmin-lab" "$root/etc/systemd/system/slurmd.service.d"
cc -O2 -shared -fPIC -o "$root/usr/local/lib/gpuadmin-lab/cgroup2.so" "$here/cgroup2.c"
printf '[Service]\nEnvironment=LD_PRELOAD=/usr/local/lib/gpuadmin-lab/cgroup2.so\n' \
	>"$root/etc/systemd/system/slurmd.service.d/10-gpuadmin-lab.conf"
umount "$root/proc" "$root/var/lib/dpkg" "$root/var"
btrfs filesystem sync "$top"
btrfs property set -ts "$root" ro true
btrfs -q subvolume snapshot -r "$root" "$top/images/base"
btrfs filesystem sync "$top"
umount "$top"
