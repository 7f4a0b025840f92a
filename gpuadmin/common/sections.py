"""The sections in which hosts say what they are set to, and in which they are compared: name → what is in it."""

from __future__ import annotations

SECTIONS = {
    "ssh": "sshd's settings in effect (`sshd -T`), and its `Match` lines",
    "kernel": "release, command line, huge pages, mitigations; the distribution",
    "driver": "NVIDIA's driver, its parameters, the GPUs by model and VBIOS",
    "sysctl": "`/proc/sys`, without counters and values that follow from the machine's size",
    "limits": "`limits.conf`, `limits.d`, systemd's defaults",
    "packages": "packages and their versions",
    "repositories": "where packages come from",
    "mounts": "what is mounted with which options, NFS's among them; fstab",
    "dns": "`resolv.conf`, `/etc/hosts`",
    "time": "zone, service, servers, whether the clock is in step",
    "pam": "PAM's stacks",
    "nss": "`nsswitch.conf`",
    "units": "units that are enabled or masked, have failed, or were changed by hand",
    "timers": "timers: enabled, active",
    "cron": "`/etc/cron*` and root's crontab",
    "sudo": "sudoers and `sudoers.d`",
    "firewall": "nftables and iptables, without counters",
    "firmware": "BIOS, board, microcode, firmware of network cards, NVMe and InfiniBand",
}
