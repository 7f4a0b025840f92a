"""Moving homes from the disks of nodes to the storage host: copied, compared, renamed in, the old ones set aside."""
