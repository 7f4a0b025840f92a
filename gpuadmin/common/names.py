"""What names and keys may be: sites and hosts refuse all others."""

from __future__ import annotations

import re

#: A login name, as useradd(8) has it in Debian and Fedora, without the trailing `$` of Samba's machine accounts, and
#: without capital letters and dots, which chown(1)'s `user.group` and mail systems read differently.
LOGIN = r"[a-z_][a-z0-9_-]{0,31}"
#: What accounts are called on hosts that somebody has set up by hand; it is a file's name, and one word in a shell.
ACCOUNT = r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}"
#: The types of keys that OpenSSH 9 and 10 accept, without DSA (removed) and certificates (a trust of its own).
KEY_TYPES = (
    "ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com",
)  # fmt: skip
#: An image's name becomes a path, a word in grubenv and a kernel argument. `+` is not in it: roots/NAME+2 is the second
#: root made from an image.
IMAGE = r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*"
#: What Slurm understands as something else where a node's name stands, in any case of letters (slurm.conf(5)).
SLURM_WORDS = ("ALL", "DEFAULT")


def name_gpu_type(model: str) -> str:
    """What Slurm calls GPUs of a model: `NVIDIA H100 80GB HBM3` is `h100-80gb-hbm3`."""
    # guard: no line for Slurm is made of a GPU's name -> [model]
    words = re.findall(r"[a-z0-9]+", model.lower())
    return "-".join(word for word in words if word not in ("nvidia", "geforce"))[:40].strip("-")
