"""What differs, in as few lines as say it."""

from gpuadmin.comparison.odd import Answer, compare
from gpuadmin.comparison.words import MOST, between_groups, lines, unknown_lines

SITE = {f"gpu{number}": {"gpu"} for number in range(1, 7)} | {"nas": {"storage"}}


def shown(hosts: dict[str, dict[str, str]], section: str = "ssh", whole: tuple[str, ...] = ()) -> list[str]:
    answers: dict[str, Answer] = {
        host: {"sections": {section: settings}, "unknown": {}, "names": [], "addresses": []}
        for host, settings in hosts.items()
    }
    found = lines(compare(answers, SITE, [section]), SITE, whole)
    return [line for one in found.get(section, []) for line in (f"{one.hosts}: {one.text}", *one.below)]


def six(settings: dict[str, str], **others: dict[str, str]) -> dict[str, dict[str, str]]:
    return {host: others.get(host, settings) for host in SITE if host != "nas"}


def test_the_odd_host_and_what_the_others_have() -> None:
    assert shown(six({"clientaliveinterval": "0"}, gpu3={"clientaliveinterval": "300"})) == [
        "gpu3: clientaliveinterval 300; the 5 others: 0"
    ]
    assert shown({"gpu1": {"x": "0"}, "gpu2": {"x": "0"}, "gpu3": {}}) == ["gpu3: x not there; gpu1, gpu2: 0"]
    none = shown(six({"x": "0"}, gpu3={"x": "1"}, gpu4={"x": "1"}, gpu5={"x": ""}))
    assert none == ["no majority: x: 0 on gpu1, gpu2, gpu6; 1 on gpu3, gpu4; empty on gpu5"], "three of six"
    assert shown(six({"x": "0"}, gpu3={"x": "1"}, gpu4={"x": "1"})) == ["gpu3, gpu4: x 1; the 4 others: 0"]


def test_without_a_majority_nobody_is_named() -> None:
    assert shown({"gpu1": {"x": "0"}, "gpu2": {"x": "1"}}) == ["no majority: x: 0 on gpu1; 1 on gpu2"]
    text = {"gpu1": {"x": "a\nb\nc"}, "gpu2": {"x": "a\nc"}}
    assert shown(text) == ["no majority: x, gpu2 compared with gpu1:", "- b"]


def test_of_a_file_the_lines_that_differ() -> None:
    usual = {"sshd": "auth a\nauth b\nsession c"}
    assert shown(six(usual, gpu3={"sshd": "auth a\nauth x\nsession c"}), "pam") == [
        "gpu3: sshd, compared with the 5 others:", "+ auth x", "- auth b",
    ]  # fmt: skip
    assert shown(six(usual, gpu3={"sshd": "auth b\nauth a\nsession c"}), "pam")[1:] == ["the same in another order"]
    assert shown(six(usual, gpu3={}), "pam") == ["gpu3: sshd not there; the 5 others: 3 lines"]
    many = {"sshd": "\n".join(f"line {number}" for number in range(40))}
    assert shown(six(usual, gpu3=many), "pam")[-1] == "and 37 more"
    long = {"x": "rw," * 40 + "hard"}
    assert shown(six(long, gpu3={"x": "rw," * 40 + "soft"}))[1:] == ["+ soft", "- hard"]


def test_many_packages_are_one_line_with_the_largest() -> None:
    usual = {f"p{number}": "1" for number in range(MOST + 1)}
    found = shown(six(usual, gpu3=dict.fromkeys(usual, "2")), "packages")
    assert found == [
        "gpu3: 9 packages differ, the largest: p0, p1, p2, p3, p4; --section packages shows all",
    ]
    assert len(shown(six(usual, gpu3=dict.fromkeys(usual, "2")), "packages", ("packages",))) == MOST + 1


def test_where_hardly_two_hosts_are_alike_hosts_are_counted() -> None:
    hosts = {f"n{number:02}": {f"p{one}": "1" for one in range(60)} for number in range(40)}
    for number, settings in enumerate(hosts.values()):
        settings.update({f"p{one}": "2" for one in range(number)} if number < 19 else {})
    found = shown(hosts, "packages")
    assert len(found) == MOST + 1
    assert found[0].startswith("n18: 18 packages differ, the largest: p0, p1")
    assert found[-1] == "n10, n09, n08, n07, n06, n05, n04, n03, n02, n01: differ, too, each in 10 or fewer"


def test_what_differs_between_groups_is_counted_and_shown_when_asked_for() -> None:
    hosts = {**six({"x": "0"}), "nas": {"x": "1"}}
    assert shown(hosts) == []
    assert shown(hosts, whole=("ssh",)) == ["by group: x: 0 on gpu; 1 on storage"]
    answers: dict[str, Answer] = {
        host: {"sections": {"ssh": one}, "unknown": {}, "names": [], "addresses": []} for host, one in hosts.items()
    }
    assert between_groups(compare(answers, SITE, ["ssh"])) == {"ssh": 1}
    assert between_groups(compare(answers, SITE, ["ssh"]), ["ssh"]) == {}


def test_what_is_unknown_is_said() -> None:
    assert list(unknown_lines({"gpu1": {"ssh": "late"}}, {"gpu2": "did not answer"})) == [
        "gpu2: unknown: did not answer", "gpu1: ssh is unknown: late",
    ]  # fmt: skip
