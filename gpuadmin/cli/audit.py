"""gpuadmin audit"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import pattern
from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("audit")
@click.argument("hosts", metavar="[HOST]...", nargs=-1, shell_complete=pattern())
@click.option("--record", is_flag=True, help="Write what is where into hardware.json of the site, after it was shown.")
@run_options()
def command(hosts: tuple[str, ...], record: bool, options: Options) -> int:
    """Say which box is which and whose, what moved since it was recorded, and who has power over the hosts.

    First the boxes: place, owner and purpose as the inventory has them, and the chassis' serial number. Then GPUs,
    network cards and disks that moved, were swapped or vanished since --record; who is root, or could be, beside those
    whom the site declares; sshd's settings against audit.ssh of gpuadmin.yml; and private keys, tokens and the like
    that others can read, by name and owner. It changes nothing on the hosts, and nothing of the site without --record.

    \b
    gpuadmin audit --record     # once, and whenever what it says is meant
    gpuadmin audit

    Exit code 0: nothing found; 6: something was; 3: some host failed, or nothing was found and a part could not be
    looked at; 4: some host did not answer.
    """
    from gpuadmin.actions.audit import audit

    return audit(options, hosts, record=record)
