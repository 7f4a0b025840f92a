"""Giving people other uids on a host: accounts and all that carries the old ids, each inode once."""
