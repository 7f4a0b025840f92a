"""What a power cut left in the ledger does not take the next line with it."""

from pathlib import Path

import pytest

from gpuadmin.appending import append_synced

pytestmark = pytest.mark.holds("a torn line of the ledger is cut off before the next")


def test_a_torn_line_is_cut_off_before_the_next(tmp_path: Path) -> None:
    """Else the next intent would be a part of it, and nobody would know of that mail."""
    ledger = tmp_path / "mails.jsonl"
    append_synced(ledger, '{"first": 1}\n')
    with ledger.open("ab") as stream:
        stream.write(b'{"torn": ')
    append_synced(ledger, '{"second": 2}\n')
    append_synced(ledger, '{"third": 3}\n')
    assert ledger.read_text().splitlines() == ['{"first": 1}', '{"second": 2}', '{"third": 3}']


def test_a_whole_line_without_its_line_feed_stays(tmp_path: Path) -> None:
    ledger = tmp_path / "mails.jsonl"
    ledger.write_bytes(b'{"first": 1}')
    append_synced(ledger, '{"second": 2}\n', whole=lambda tail: tail == b'{"first": 1}')
    assert ledger.read_text().splitlines() == ['{"first": 1}', '{"second": 2}']
    append_synced(ledger, '{"third": 3}\n', whole=lambda tail: False)
    assert ledger.read_text().splitlines()[-1] == '{"third": 3}'
