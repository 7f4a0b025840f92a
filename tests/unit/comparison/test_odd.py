"""Which hosts are not like the others, as tables."""

from typing import Any

import pytest

from gpuadmin.comparison.odd import GROUPS, ODD, UNDECIDED, Answer, compare, find_kind

NODES = {f"gpu{number}": {"gpu"} for number in range(1, 7)}
SITE = {**NODES, "nas": {"storage"}, "gpu1": {"gpu", "golden"}}


def answer(settings: dict[str, str] | None, *, names: tuple[str, ...] = (), addresses: tuple[str, ...] = ()) -> Answer:
    """What a host says whose section `ssh` has these settings; None: it could not read it."""
    sections = {} if settings is None else {"ssh": settings}
    unknown = {"ssh": "late"} if settings is None else {}
    return {"sections": sections, "unknown": unknown, "names": list(names), "addresses": list(addresses)}


def of(values: dict[str, str | None]) -> list[tuple[str, str | None, tuple[str, ...]]]:
    """Given one setting's value on each host (None: not there), return how it differs, what is usual, who is odd."""
    answers = {host: answer({} if value is None else {"x": value}) for host, value in values.items()}
    return [(one.how, one.usual, one.odd) for one in compare(answers, SITE, ["ssh"]).found]


@pytest.mark.holds("of two hosts, or without a majority, none is called the odd one")
@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"gpu1": "0", "gpu2": "0", "gpu3": "0"}, []),
        ({"gpu1": "0", "gpu2": "0", "gpu3": "300"}, [(ODD, "0", ("gpu3",))]),
        ({"gpu1": "0", "gpu2": "0", "gpu3": None}, [(ODD, "0", ("gpu3",))]),
        ({"gpu1": None, "gpu2": None, "gpu3": "300"}, [(ODD, None, ("gpu3",))]),
        ({"gpu1": "0", "gpu2": "0", "gpu3": "0", "gpu4": "1", "gpu5": "2"}, [(ODD, "0", ("gpu4", "gpu5"))]),
        # of two hosts, and without a majority, nobody knows
        ({"gpu1": "0", "gpu2": "300"}, [(UNDECIDED, None, ())]),
        ({"gpu1": "0", "gpu2": "0", "gpu3": "1", "gpu4": "1"}, [(UNDECIDED, None, ())]),
        ({"gpu1": "0", "gpu2": "0", "gpu3": "1", "gpu4": "2"}, [(UNDECIDED, None, ())]),
        # by group
        ({"gpu1": "0", "gpu2": "0", "gpu3": "0", "nas": "1"}, [(GROUPS, None, ())]),
        ({"gpu1": "0", "gpu2": "0", "gpu3": "1", "nas": "1"}, [(ODD, "0", ("gpu3",))]),
        ({"gpu1": "0", "gpu2": "1", "nas": "0"}, [(ODD, "0", ("gpu2",))]),
        ({"gpu1": "0", "gpu2": "1", "nas": "2"}, [(UNDECIDED, None, ())]),
    ],
)
def test_who_is_odd(values: dict[str, str | None], found: list[Any]) -> None:
    assert of(values) == found


def test_hosts_of_another_kind_do_not_say_what_is_usual() -> None:
    """Two storage hosts that differ from each other, and from the nodes."""
    answers = {host: answer({"x": "0"}) for host in NODES} | {"nas": answer({"x": "1"}), "nas2": answer({"x": "2"})}
    (one,) = compare(answers, {**SITE, "nas2": {"storage"}}, ["ssh"]).found
    assert (one.how, one.values) == (UNDECIDED, (("nas", "1"), ("nas2", "2")))


def test_the_golden_node_is_a_node() -> None:
    assert find_kind({"gpu", "golden"}) == find_kind({"gpu"})


@pytest.mark.holds("a section that a host could not read is unknown there, and not empty")
def test_what_could_not_be_read_is_unknown() -> None:
    answers = {"gpu1": answer({"x": "0"}), "gpu2": answer({"x": "0"}), "gpu3": answer(None)}
    found = compare(answers, SITE, ["ssh"])
    assert (found.found, found.unknown, found.differing) == ((), {"gpu3": {"ssh": "late"}}, [])


def test_the_own_name_address_and_identifiers_of_a_host_do_not_differ() -> None:
    answers = {
        host: answer(
            {
                "listen": f"192.0.2.{number} and fe80:0:0:0:1:2:3:{number}",
                "banner": f"this is {host}, {host}.example.org",
                f"/etc/cron.d/{host}": "x",
                "root": f"UUID=0000000{number}-0000-0000-0000-000000000000",
                "id": f"{number}" * 32,
                "mac": f"00:00:00:00:00:0{number}",
            },
            names=(f"{host}.example.org",),
            addresses=(f"192.0.2.{number}", f"fe80:0:0:0:1:2:3:{number}"),
        )
        for number, host in enumerate(("gpu1", "gpu2", "gpu3"), 1)
    }
    assert compare(answers, SITE, ["ssh"]).found == ()


def test_a_name_that_is_a_word_or_the_beginning_of_one_hides_nothing() -> None:
    # the host `nas` has the same text as all others, which is not a name there
    texts = {host: answer({"x": "a nas is mounted"}) for host in ("gpu1", "gpu2", "nas")}
    assert compare(texts, SITE, ["ssh"]).found == ()
    # gpu1 is not part of gpu10, and an address none of a longer one
    assert of({"gpu1": "gpu10", "gpu2": "gpu2", "gpu3": "gpu3"}) == [(ODD, "<host>", ("gpu1",))]
    answers = {host: answer({"x": "192.0.2.10"}, addresses=("192.0.2.1",)) for host in ("gpu1", "gpu2")}
    answers["gpu3"] = answer({"x": "192.0.2.1"}, addresses=("192.0.2.1",))
    (one,) = compare(answers, SITE, ["ssh"]).found
    assert one.odd == ("gpu3",)


def test_a_host_of_the_name_of_a_setting_keeps_it() -> None:
    answers = {host: answer({"gpu1": "0"}) for host in ("gpu1", "gpu2", "gpu3")}
    assert compare(answers, SITE, ["ssh"]).found == ()


def test_what_a_site_ignores_is_counted() -> None:
    answers = {"gpu1": answer({"x": "0", "y": "0"}), "gpu2": answer({"x": "1", "y": "1"})}
    found = compare(answers, SITE, ["ssh"], ["ssh x"])
    assert ([one.key for one in found.found], found.hidden, found.differing) == (["y"], 1, ["gpu1", "gpu2"])


def test_the_document_has_the_usual_value_first() -> None:
    answers = {"gpu1": answer({"x": "300"}), "gpu2": answer({"x": "0"}), "gpu3": answer({"x": "0"})}
    (one,) = compare(answers, SITE, ["ssh"]).found
    assert one.document() == {
        "section": "ssh", "key": "x", "how": "odd", "odd": ["gpu1"],
        "values": [{"value": "0", "hosts": ["gpu2", "gpu3"]}, {"value": "300", "hosts": ["gpu1"]}],
    }  # fmt: skip
