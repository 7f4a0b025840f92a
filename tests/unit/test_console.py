"""What a person reads: plans and tables, with whatever stands in them shown as it is."""

import re

import pytest
from rich.text import Text

from gpuadmin.display import _fold, make_console, make_table, show_hosts, show_plan, show_table
from gpuadmin.plan import Plan, PlanBuilder, Step
from gpuadmin.progress import Progress
from gpuadmin.report import alike, shortened
from gpuadmin.results import HostResult


def test_hosts_that_get_the_same_stand_together(capsys: pytest.CaptureFixture[str]) -> None:
    builder = PlanBuilder("Add minji")
    builder.add("site", "users.yml: write minji")
    builder.add_all(["node1", "node2"], ["account minji"])
    builder.add("node3", "account minji, locked")
    builder.warn("minji has no key")
    show_plan(make_console(json=False), builder.build(), check=True)
    out = capsys.readouterr().out
    assert [line.rstrip() for line in out.splitlines()] == [
        "Add minji (check: nothing will be changed)",
        "  site",
        "    users.yml: write minji",
        "  node1, node2",
        "    account minji",
        "  node3",
        "    account minji, locked",
        "  Note: minji has no key",
    ]


def test_nothing_is_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console(json=False)
    text = "[red]x[/red] [/] :smile: \\[a]"
    show_plan(console, Plan(text, (Step("a[b]", text),), (text,)), check=False)
    show_hosts(console, {"n[1]": HostResult("failed", [text], text)}, check=False)
    with Progress(console, verbose=1) as progress:
        progress.task(text)
        progress.host("n", "failed", text)
    out = capsys.readouterr().out
    assert out.count(text) == 7
    assert "n[1]" in out


def test_many_files_of_a_directory_are_one_line() -> None:
    files = [f"write /var/lib/x/{number}.py" for number in range(20)]
    assert shortened(["install docker.io", *files, "write /etc/motd", "write /etc/{a}"]) == [
        "install docker.io", "write 20 files in /var/lib/x", "write /etc/motd", "write /etc/{a}",
    ]  # fmt: skip
    assert shortened(files[:3]) == files[:3]
    assert shortened([f"do {n}" for n in range(20)], run="ID")[-1] == "… and 9 more: with -v, or gpuadmin runs ID"
    assert shortened([f"write /{number}" for number in range(4)]) == ["write 4 files in /"]
    assert shortened(["user minji: write 1 ssh key"] * 2) == ["user minji: write 1 ssh key"] * 2


def test_hosts_to_which_the_same_happened_share_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    same = HostResult("changed", ["install x"])
    hosts = {"n1": same, "s1": HostResult("failed", ["install x"], "no space"), "n2": same, "n3": HostResult("ok")}
    assert [names for names, _ in alike(hosts)] == [["n1", "n2"], ["s1"], ["n3"]]
    show_hosts(make_console(json=False), hosts, check=False)
    assert re.search("n1, n2 +changed +install x", capsys.readouterr().out)
    show_hosts(make_console(json=False), hosts, check=True)
    assert re.search("n1, n2 +would change +install x", capsys.readouterr().out), "a look has changed nothing"


def test_long_lists_are_shortened_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console(json=False)
    show_plan(console, Plan("x", tuple(Step("n", f"step {number}") for number in range(100))), check=False)
    show_hosts(console, {"n": HostResult("changed", [f"did {number}" for number in range(100)])}, check=False)
    out = capsys.readouterr().out
    assert "… and 62 more" in out
    assert "… and 89 more" in out
    assert "step 37" in out
    assert "step 38" not in out


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console(json=False)
    long = "a reason that is much longer than eighty characters, because it quotes what a program on the host said"
    show_hosts(console, {"node1": HostResult("failed", [], long)}, check=False)
    with Progress(console, verbose=0) as progress:
        progress.task("Quiet")
        progress.host("node1", "changed", "quiet")
        progress.host("node1", "unreachable", "loud")
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if long in line], "one line, so that grep finds it"
    assert "uiet" not in out
    assert "loud" in out


def test_with_json_people_are_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(make_console(json=True), Plan("Add minji", (Step("n", "x"),)), check=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Add minji" in captured.err


def test_a_plan_in_a_record() -> None:
    plan = Plan("x", (Step("n", "y"),), ("z",), destroys=True)
    assert plan.document() == {
        "title": "x", "steps": [{"host": "n", "action": "y"}], "warnings": ["z"], "destroys": True,
    }  # fmt: skip
    assert not plan.empty
    assert Plan("x").empty


def test_a_table_of_many_rows_looks_like_a_small_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table("Name", "uid", "State", right=("uid",))
    for name, uid, state in (("minji", "20000", "active"), ("이름", "1", "locked"), ("a\nb\x1b", "—", "x" * 30)):
        table.add_row(name, uid, Text(state, style="green"))
    shown = []
    for many in (200, 2):
        monkeypatch.setattr("gpuadmin.display._MANY_ROWS", many)
        show_table(make_console(json=False), table)
        shown.append([line.rstrip() for line in capsys.readouterr().out.splitlines()])
    assert shown[0] == shown[1]
    assert any("a\\nb\\x1b" in line for line in shown[0])


def test_cells_of_several_lines_in_a_long_table(capsys: pytest.CaptureFixture[str]) -> None:
    """As rich lays them out: below each other, and the row is as high as the highest."""
    table = make_table("Node", "°C", right=("°C",))
    for number in range(300):
        table.add_row(f"gpu{number}", Text("1\n22") if number == 7 else "333")
    show_table(make_console(json=False), table)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    at = lines.index(" gpu7       1")
    assert lines[at + 1 : at + 3] == ["           22", " gpu8     333"]


def test_a_table_without_a_terminal_is_as_wide_as_it_has_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    """In a cron job's mail every line was as wide as the longest sentence, 270 columns; so was the head's."""
    long = "a reason that is much longer than a line of a mail, " * 4
    many = {f"gpu{number}": HostResult("ok") for number in range(60)}
    show_hosts(make_console(json=False), {**many, "nas1": HostResult("failed", [], long.strip())}, check=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 101] == [line for line in lines if long.strip() in line]
    assert len([line for line in lines if long.strip() in line]) == 1, "one line, so that grep finds it"
    assert all(line == line.rstrip() for line in lines)
    words = " ".join(lines).replace(",", " ").split()
    assert [name for name in many if name not in words] == [], "no name is broken or left out"


@pytest.mark.parametrize("cell", ["x" * 59, "x y " * 15, "x " * 31, "김" * 30, "김 " * 21, ""])
def test_a_cell_that_has_room_is_not_folded_and_another_is_as_rich_folds_it(cell: str) -> None:
    console = make_console(json=False)
    assert [one.plain for one in _fold(console, Text(cell), 60)] == [one.plain for one in Text(cell).wrap(console, 60)]


def test_a_table_of_nothing_but_a_head(capsys: pytest.CaptureFixture[str]) -> None:
    make_console(json=False).print(make_table("Name", "uid"))
    assert capsys.readouterr().out.splitlines() == ["", " Name   uid", " " + "─" * 10, ""]
