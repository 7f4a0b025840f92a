"""Accounts: who gets which ids, what is asked for, and what hosts receive."""
