"""Numbers in words: the controller and the nodes have one way."""

from gpuadmin.common.text import counted, size_words


def test_what_is_counted() -> None:
    assert [counted(number, "home") for number in (0, 1, 2)] == ["0 homes", "1 home", "2 homes"]
    assert [counted(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]


def test_sizes() -> None:
    assert [size_words(size) for size in (1, 999, 1000, 10**12)] == ["1 byte", "999 bytes", "1.0 kB", "1.0 TB"]
    assert [size_words(size) for size in (999.94, 999.95, 999_949, 999_950)] == [
        "1000 bytes", "1.0 kB", "999.9 kB", "1.0 MB",
    ]  # fmt: skip
