#!/bin/sh
# The builder VM's init: fills /dev/vda with the root that /dev/vdb holds as a tar. /gpuadmin/layout says which layout; the
# boot files lie beside it. The disk is partitioned and has GRUB in place, unless /gpuadmin/partitions says how to divide it.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
give_up() {
	echo "gpuadmin-build: failed: $1"
	sync
	reboot -f
}
# mkfs by path: busybox has a mke2fs of its own, which makes no ext4.
step() { echo "gpuadmin-build: $1"; }
mkdir -p /proc /sys /dev /target /bootpart
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/console >/dev/console 2>&1
# Which of them are modules differs between releases, and what is built in is not found: what is missing shows below.
for module in virtio_pci virtio_blk btrfs ext4 vfat nls_cp437 nls_ascii; do modprobe "$module" || echo "no module $module"; done
wait_for() {
	tries=0
	while [ ! -b "$1" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 50 ] || give_up "there is no $1"
		sleep 0.2
	done
}
wait_for /dev/vda
wait_for /dev/vdb
if [ -e /gpuadmin/partitions ]; then
	/gpuadmin/sfdisk --quiet /dev/vda </gpuadmin/partitions || give_up "sfdisk"
fi
wait_for /dev/vda1

unpack() {
	step "unpacking"
	tar -xpf /dev/vdb -C /target/"$1" || give_up "unpacking the root"
	rm -rf /target/"$1"/boot/builder
}

boot_ext4() {
	/gpuadmin/mke2fs -q -t ext4 -L gpuadmin-boot /dev/vda1 || give_up "mke2fs"
	mount -t ext4 /dev/vda1 /bootpart || give_up "mounting the boot partition"
}

# The ESP, where firmware looks for what to boot on a disk that it was told nothing about (UEFI specification, 3.5.1.1).
boot_vfat() {
	/gpuadmin/mkfs.fat -F 32 -n GPUADMIN /dev/vda1 >/dev/null || give_up "mkfs.fat"
	mount -t vfat /dev/vda1 /bootpart || give_up "mounting the ESP"
	mkdir -p /bootpart/EFI/BOOT
	cp /gpuadmin/bootx64.efi /bootpart/EFI/BOOT/BOOTX64.EFI || give_up "copying GRUB"
}

# $1: the type of the boot partition
node() {
	step "making file systems"
	/gpuadmin/mkfs.btrfs -q -m single -L gpuadmin /dev/vda2 || give_up "mkfs.btrfs"
	mount -t btrfs -o noatime /dev/vda2 /target || give_up "mounting btrfs"
	mkdir /target/roots /target/images /target/incoming
	for subvolume in roots/base state local; do
		btrfs subvolume create /target/$subvolume || give_up "subvolume $subvolume"
	done
	mkdir /target/roots/base/var
	mount -t btrfs -o noatime,subvol=/state /dev/vda2 /target/roots/base/var || give_up "mounting state"
	unpack roots/base
	root=/target/roots/base
	# The package database describes the root, so it lies in it and is bound to where dpkg looks.
	cp -a $root/var/lib/dpkg $root/usr/lib/sysimage/dpkg && rm -rf $root/var/lib/dpkg
	mkdir $root/var/lib/dpkg
	cp /gpuadmin/fstab $root/etc/fstab
	umount $root/var
	boot_"$1"
	cp /gpuadmin/grub.cfg /gpuadmin/grubenv /bootpart || give_up "copying the boot loader's files"
	umount /bootpart || give_up "unmounting the boot partition"
	step "writing"
	btrfs filesystem sync /target
	btrfs property set -ts $root ro true || give_up "setting the root read-only"
	# What every node has in common, under one uuid: the first image that is built goes out as its difference to this.
	btrfs subvolume snapshot -r $root /target/images/base || give_up "snapshot"
	btrfs filesystem sync /target
}

ordinary() {
	step "making file systems"
	/gpuadmin/mke2fs -q -t ext4 -L gpuadmin /dev/vda1 || give_up "mke2fs"
	mount -t ext4 /dev/vda1 /target || give_up "mounting ext4"
	unpack .
	cp /gpuadmin/fstab /target/etc/fstab
	cp /gpuadmin/grub.cfg /gpuadmin/grubenv /target/boot/grub
	step "writing"
}

case $(cat /gpuadmin/layout) in
node) node ext4 ;;
node-uefi) node vfat ;;
ordinary) ordinary ;;
*) give_up "unknown layout" ;;
esac
umount /target || give_up "unmounting"
sync
echo "gpuadmin-build: done"
reboot -f
