"""What a power cut left in the ledger does not take the next line with it."""

from __future__ import annotations

from pathlib import Path

from gpuadmin.mail.ledger import append_synced


def test_a_torn_line_is_cut_off_before_the_next(tmp_path: Path) -> None:
    """Else the next intent would be a part of it, and nobody would know of that mail."""
    ledger = tmp_path / "mails.jsonl"
    append_synced(ledger, '{"first": 1}\n')
    with ledger.open("ab") as stream:
        stream.write(b'{"torn": ')
    append_synced(ledger, '{"second": 2}\n')
    append_synced(ledger, '{"third": 3}\n')
    assert ledger.read_text().splitlines() == ['{"first": 1}', '{"second": 2}', '{"third": 3}']
