# Runs in mmdebstrap's customize hook; $1 is the root that it made, @PACKAGES@ what is to be downloaded.
set -eu
root=$1
in_root() { DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }

in_root useradd --system --uid 900 --user-group --home-dir /var/home/gpuadmin --shell /bin/bash gpuadmin
in_root install -d -m 0755 /var/home
in_root install -d -m 0700 -o gpuadmin -g gpuadmin /var/home/gpuadmin
in_root mv /root /var/roothome
in_root ln -s var/roothome /root
in_root install -d /local /srv/storage /boot/grub /usr/lib/sysimage

in_root systemctl enable ssh.service systemd-networkd.service gpuadmin-lab-clock.service
in_root systemctl set-default multi-user.target
# What virtual machines have installed for roles (rootfs.MACHINES) starts where a role says so.
for unit in docker.service docker.socket containerd.service nfs-server.service rpcbind.service rpcbind.socket \
	nfs-blkmap.service prometheus-node-exporter.service; do
	[ ! -e "$root/usr/lib/systemd/system/$unit" ] || in_root systemctl disable "$unit"
done
# What a virtual machine of a few hours has no use for. Each costs a tenth of a second to a second of every boot.
in_root systemctl mask \
	systemd-networkd-wait-online.service systemd-networkd-persistent-storage.service systemd-network-generator.service \
	getty@tty1.service serial-getty@ttyS0.service \
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
	fstrim.timer systemd-pstore.service ldconfig.service systemd-journal-catalog-update.service \
	systemd-update-done.service systemd-hwdb-update.service systemd-binfmt.service proc-sys-fs-binfmt_misc.automount \
	grub-common.service grub-initrd-fallback.service systemd-udev-load-credentials.service \
	sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount modprobe@drm.service
in_root install -d /etc/systemd/system-generators
for generator in systemd-ssh-generator systemd-gpt-auto-generator systemd-hibernate-resume-generator systemd-tpm2-generator; do
	in_root ln -s /dev/null "/etc/systemd/system-generators/$generator"
done
rm -f "$root"/etc/ssh/ssh_host_*

# GRUB for UEFI and mkfs.fat are the builder's alone: the guests' root is the same whatever boots it.
builder=$root/boot/builder
mkdir -p "$builder/conf" "$builder/esp"
in_root sh -c 'cd /boot/builder/esp && apt-get download grub-efi-amd64-bin dosfstools'
for package in "$builder"/esp/*.deb; do in_root dpkg-deb --extract "${package#"$root"}" /boot/builder/esp; done

in_root apt-get clean
in_root apt-get install --yes --download-only @PACKAGES@
# apt reads its whole index at every call, which takes a minute under software emulation. What can be installed from here is
# kept; `apt-get update` in a guest brings the rest.
{
	in_root dpkg-query --show --showformat '${Package}\n'
	in_root find /var/cache/apt/archives -name '*.deb' -exec dpkg-deb --field {} Package \;
} | sort -u >"$root/tmp/kept"
for index in "$root"/var/lib/apt/lists/*_Packages; do
	in_root awk 'BEGIN { while ((getline name < "/tmp/kept") > 0) kept[name]; RS = ""; ORS = "\n\n" } $2 in kept' \
		"${index#"$root"}" >"$root/tmp/index"
	cat "$root/tmp/index" >"$index"
done
rm -f "$root/tmp/kept" "$root/tmp/index" "$root"/var/cache/apt/*.bin

# What the builder boots: the guest's own kernel, an initramfs that can also make file systems, GRUB for BIOS and for UEFI.
kernel=$(basename "$(readlink "$root/vmlinuz")")
cp "$root/boot/$kernel" "$builder/vmlinuz"
cp -r "$root/etc/initramfs-tools/." "$builder/conf"
rm -f "$builder/conf/scripts/local-bottom/gpuadmin-lab-seed"
cat >"$builder/conf/hooks/gpuadmin-lab-builder" <<'HOOK'
#!/bin/sh
[ "${1:-}" != prereqs ] || exit 0
. /usr/share/initramfs-tools/hook-functions
copy_exec /usr/sbin/mkfs.btrfs /gpuadmin/mkfs.btrfs
copy_exec /usr/sbin/mke2fs /gpuadmin/mke2fs
copy_exec /usr/sbin/sfdisk /gpuadmin/sfdisk
copy_exec "$(find /boot/builder/esp -type f -name mkfs.fat)" /gpuadmin/mkfs.fat
manual_add_modules virtio_pci vfat nls_cp437 nls_ascii
HOOK
chmod 0755 "$builder/conf/hooks/gpuadmin-lab-builder"
in_root mkinitramfs -d /boot/builder/conf -o /boot/builder/initrd "${kernel#vmlinuz-}"
cp "$root/usr/lib/grub/i386-pc/boot.img" "$builder/boot.img"
modules="btrfs normal configfile linux loadenv search search_label test echo serial terminal boot reboot halt sleep ls cat"
grub_core() {
	in_root grub-mkimage -O i386-pc -p "(hd0,msdos1)$2" -o "/boot/builder/core-$1.img" biosdisk part_msdos ext2 $modules
}
grub_core node /
grub_core ordinary /boot/grub
# No disk in its prefix: GRUB looks on the ESP that it was loaded from.
in_root grub-mkimage -d /boot/builder/esp/usr/lib/grub/x86_64-efi -O x86_64-efi -p / -o /boot/builder/bootx64.efi \
	part_gpt fat $modules
rm -rf "$builder/esp"
chmod -R a+rX "$builder"
