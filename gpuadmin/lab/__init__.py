"""A virtual cluster on the admin's own machine: QEMU guests with a real boot loader, systemd, NFS and Docker."""
