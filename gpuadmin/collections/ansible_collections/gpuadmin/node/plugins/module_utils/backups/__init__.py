"""Backups of the homes: making, verifying, copying to another host, restoring."""
