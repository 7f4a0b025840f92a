"""What crosses a border, written down once: hosts, units, disks and the controller parse the same class."""
