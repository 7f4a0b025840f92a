"""Records of what crosses a border, each written once: hosts, units, disks and the controller parse the same class."""
