#!/bin/sh
# The builder VM's init: fills /dev/vda (partitioned, GRUB in place) with the root that /dev/vdb holds as a tar.
# /gpuadmin/layout says which layout; the boot files lie beside it.
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
for module in virtio_blk btrfs ext4; do modprobe "$module" || give_up "module $module"; done
tries=0
while [ ! -b /dev/vda1 ] || [ ! -b /dev/vdb ]; do
	tries=$((tries + 1))
	[ "$tries" -lt 50 ] || give_up "no disks"
	sleep 0.2
done

unpack() {
	step "unpacking"
	tar -xpf /dev/vdb -C /target/"$1" || give_up "unpacking the root"
	rm -rf /target/"$1"/boot/builder
}

node() {
	step "making file systems"
	/gpuadmin/mke2fs -q -t ext4 -L gpuadmin-boot /dev/vda1 || give_up "mke2fs"
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
	mount -t ext4 /dev/vda1 /bootpart || give_up "mounting the boot partition"
	cp /gpuadmin/grub.cfg /gpuadmin/grubenv /bootpart
	umount /bootpart
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
node) node ;;
ordinary) ordinary ;;
*) give_up "unknown layout" ;;
esac
umount /target || give_up "unmounting"
sync
echo "gpuadmin-build: done"
reboot -f
