"""What people's files take on a host's disks: bytes, inodes and the largest directories, measured once a day."""
