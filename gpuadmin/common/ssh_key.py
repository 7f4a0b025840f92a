"""A new ssh key: it is there whole, and on the disk, or not at all. Half of one would never be made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def make(path: Path, comment: str, run: Callable[[tuple[str, ...]], object]) -> None:
    """Make an ed25519 key without a passphrase, and its public one beside it, where there is none.

    ``run`` runs a command, and raises where that fails. Raises OSError as well.
    """
    new, public, new_public = (path.with_name(path.name + end) for end in (".new", ".pub", ".new.pub"))
    for left in (new, new_public):  # by an earlier run, which was cut
        left.unlink(missing_ok=True)
    run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(new)))
    # guard: a key that ssh-keygen has made is on the disk: a power cut would leave it empty, and the next run stops
    run(("sync", str(new), str(new_public)))
    new_public.rename(public)  # guard: a key has its public one, wherever it was cut
    new.rename(path)
    run(("sync", str(path.parent)))
