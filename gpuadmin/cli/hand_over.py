"""gpuadmin hand-over"""

from __future__ import annotations

from pathlib import Path

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("hand-over")
@click.option("--to", metavar="KEYFILE|ADMIN", help="Seal the secrets for this ssh public key, or a declared admin's.")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path),
    help="The sealed bundle, a new file. [default: hand-over-DATE.age, here]",
)  # fmt: skip
@run_options(changes=False, check="Show what would be sealed; write nothing.")
def command(options: Options, to: str | None, output: Path | None) -> int:
    """List what the next admin needs, and seal the secrets for their key.

    Each line says what it is, where, whether it is in order, missing, only yours or unknown, and which command settles
    it: keys, passwords and certificates, the site's repository, timers, backups, records, admins, and what works only
    from your account. Hosts are only looked at; without them their lines are unknown. The bundle needs age; it holds
    the secrets that are no part of the repository, and no private key that somebody logs in with.

    \b
    gpuadmin hand-over
    gpuadmin hand-over --to jiwon.pub -o jiwon.age
    age -d -i ~/.ssh/id_ed25519 jiwon.age | tar -x -C NEW_DIRECTORY     # the new admin

    Exit code 0: all is in order; 6: something is missing or only yours; 3: some host failed, or a line is unknown; 4:
    some host did not answer.
    """
    from gpuadmin.actions.hand_over import hand_over

    if output is not None and to is None:
        raise click.UsageError("-o goes with --to: only a bundle is written")
    return hand_over(options, to=to, output=output)
