"""Light hosts: a Debian with its own systemd in namespaces of this machine, instead of a virtual machine.

They start in seconds without KVM, but are not machines: no kernel and no boot loader of their own, no power cut that
loses what was not on disk, no NFS (docs/lab.md, "Light hosts"). Only root can make them.
"""
