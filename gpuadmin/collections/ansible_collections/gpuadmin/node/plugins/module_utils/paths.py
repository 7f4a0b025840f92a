"""Where gpuadmin has what is its own on a host.

root/guard.py, which runs without any other file, has them, too.
"""

from __future__ import annotations

STATE = "/var/lib/gpuadmin"  # survives a boot, and every image
RUN = "/run/gpuadmin"  # until the next boot: locks, mounts, requests and results of jobs
OF_PEOPLE = "disk-of-people"  # in the state: what each person has on the disks, in a file that they alone may read
