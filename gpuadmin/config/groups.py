"""The groups that every site has, and what each is for."""

from __future__ import annotations

GROUPS: dict[str, str] = {
    "gpu": "nodes that people log in to",
    "golden": "the node on which updates are made (one of gpu)",
    "storage": "the host that serves homes and images",
    "monitor": "the host that collects metrics",
    "slurm": "the host that has the queue for GPUs (Slurm's controller)",
    "backup": "the host that holds the second copy of backups",
}
