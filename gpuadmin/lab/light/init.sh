#!/bin/sh
# Process 1 of a light host, until systemd is. It has its own mount, pid, network, hostname, ipc and cgroup namespaces.
# $1: the host's directory; $2: the loop device of its disk; $3: its name; $4: the storage host's data, if this is it;
# $5: that data, if this is a node; $6: the subvolume that is its root; $7: how many GPUs it has (gpus.py); $8: where the
# storage host has its data.
# Nothing here is seen outside: the mounts are this namespace's own.
set -eu
directory=$1 disk=$2 name=$3 data=$4 shared=$5 subvolume=$6 gpus=$7 place=$8
root=$directory/root
mkdir -p "$root"
mount -t btrfs -o noatime,subvol=/$subvolume "$disk" "$root"
mount -t btrfs -o noatime,subvol=/state "$disk" "$root/var"
mount -t btrfs -o noatime,subvol=/local "$disk" "$root/local"
mount --bind "$root/usr/lib/sysimage/dpkg" "$root/var/lib/dpkg"
[ -z "$data" ] || mount -t btrfs -o noatime "$data" "$root$place"
cd "$root"
mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t cgroup2 -o nsdelegate cgroup2 sys/fs/cgroup
mount -t bpf bpf sys/fs/bpf
mount -t tmpfs -o mode=755,nosuid tmpfs dev
mkdir dev/pts dev/shm dev/net dev/mapper dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%:*}" "dev/${number#*:}"; done
node() { mknod -m "$1" "dev/$2" c "$3" "$4"; }
node 666 null 1 3
node 666 zero 1 5
node 666 full 1 7
node 666 random 1 8
node 666 urandom 1 9
node 666 tty 5 0
node 666 fuse 10 229
node 666 net/tun 10 200
node 600 btrfs-control 10 234
node 600 autofs 10 235
number=0
while [ "$number" -lt "$gpus" ]; do
	node 666 "nvidia$number" 203 "$number"
	number=$((number + 1))
done
# The disk under its own name: what mountinfo says can be opened.
cp -a "$disk" "dev/${disk##*/}"
[ -z "$data" ] || cp -a "$data" "dev/${data##*/}"
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp
# Each boot has an id of its own, as on a machine. User namespaces get a /proc only where a whole one is: as with
# systemd-nspawn it is in a place where nobody looks.
mkdir -p -m 0 run/host/proc
mount -t proc proc run/host/proc
cat /proc/sys/kernel/random/uuid >run/host/boot-id
mount --bind run/host/boot-id proc/sys/kernel/random/boot_id
mount -o remount,bind,ro proc/sys/kernel/random/boot_id
if [ -n "$shared" ]; then
	mkdir run/gpuadmin-lab run/gpuadmin-lab/storage # mergerfs goes in as the person whose file it is
	mount -t btrfs -o noatime "$shared" run/gpuadmin-lab/storage
	echo "$place" >run/gpuadmin-lab/place
fi
hostname "$name"
pivot_root . mnt
cd /
umount -l /mnt
# As on a machine: systemd mounts credentials of units (LoadCredential) where only a shared mount brings them back to the host.
mount --make-rshared /
# The console: systemd's own words go where the launcher's output goes.
exec env -i container=gpuadmin-light PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin \
	/sbin/init --log-target=journal --show-status=false
