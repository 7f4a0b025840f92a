"""Accounts of a host: what is wanted, what is there, and the files of the account databases."""
