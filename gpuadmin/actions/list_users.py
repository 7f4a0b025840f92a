"""Show every account, and where it is missing or differs."""

from __future__ import annotations

from datetime import date
from typing import Any

from rich.text import Text

from gpuadmin.accounts.ids import subid_range
from gpuadmin.actions.shared.accounts import account_result
from gpuadmin.actions.shared.roles import everybody
from gpuadmin.answers import Answers
from gpuadmin.common.text import listed
from gpuadmin.display import make_console, make_table, show_table
from gpuadmin.options import Options
from gpuadmin.outcome import finish, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened

_MOST_PROBLEMS = 40


def list_users(options: Options, *, offline: bool) -> int:
    """Show who is registered and, unless `offline`, what hosts say of them. Returns the exit code."""
    with opened("list-users", options, changes=False) as session:
        asked = [] if offline else session.named("gpu", "storage")
        if asked:
            builder = PlanBuilder("List accounts")
            builder.add_all(asked, ["look at the accounts"])
            session.planned(builder.build())
            run = session.run("sync-users", None, everybody(session), check=True)
            result = _result(session, run, asked)
            # a table that could not be filled everywhere is still an answer; the exit code says the rest
            return report(session, run, result, show=lambda: _show(result))
        result = _result(session, RunResult({}), [])
        if not options.json:
            _show(result)
        return finish(session, 0, result)


def _result(session: Session, run: RunResult, asked: list[str]) -> dict[str, Any]:
    registry = session.site.registry
    seen = account_result(run)["users"]
    rows = []
    for user in registry.registry.users:
        hosts = {
            host: {
                "status": entry["status"],
                "operations": entry.get("operations", []),
                "problem": entry.get("problem"),
            }
            for host, entry in seen.get(user.name, {}).items()
        }
        row = user.model_dump(mode="json") | {"state": _state(user.expires, user.locked), "hosts": hosts}
        if user.uid is not None and user.docker:
            first, last = subid_range(user.uid, session.site.settings)
            row["subids"] = {"first": first, "last": last}
        rows.append(row)
    unknown = {
        name: sorted(hosts)
        for name, hosts in seen.items()
        if registry.find(name) is None and any(entry["status"] == "unknown" for entry in hosts.values())
    }
    silent = Answers.of(run.hosts, asked, "users").unknown
    return {"users": rows, "unregistered": unknown, "not_asked": [*silent], "unknown": dict(silent)}


def _state(expires: date | None, locked: bool) -> str:
    if locked:
        return "locked"
    return "expired" if expires is not None and expires < date.today() else "active"


def _show(result: dict[str, Any]) -> None:
    console = make_console(json=False)
    grouped = any(row["group"] for row in result["users"])
    columns = ("Name", "uid", *(("Group",) if grouped else ()), "State", "Until", "Docker", "Keys", "Hosts")
    table = make_table(*columns, right=("uid", "Keys"))
    for column in table.columns[:-1]:
        column.no_wrap = True
    for row in result["users"]:
        style = {"active": "green", "locked": "yellow", "expired": "red"}[row["state"]]
        table.add_row(
            row["name"],
            str(row["uid"] or "—"),
            *((row["group"] or "—",) if grouped else ()),
            Text(row["state"], style=style),
            str(row["expires"] or "—"),
            "yes" if row["docker"] else "no",
            str(len(row["keys"])),
            _hosts_summary(row["hosts"], everywhere=not result["not_asked"]),
        )
    show_table(console, table)
    for line in _problems(result["users"]):
        console.print(line)
    if not result["users"]:
        console.print("Nobody is registered yet: gpuadmin add-user NAME")
    for name, hosts in result["unregistered"].items():
        console.print(f"Not registered, kept as it is: {name} on {', '.join(hosts)}")
    if result["unknown"]:
        hosts = ", ".join(f"{host} ({reason})" for host, reason in result["unknown"].items())
        console.print(f"Which accounts they have is not known: {hosts}")


def _problems(rows: list[dict[str, Any]]) -> list[str]:
    """What is in the way of somebody's account, a line for each person and sentence, with the hosts that say it."""
    lines = []
    for row in rows:
        by_problem: dict[str, list[str]] = {}
        for host, entry in row["hosts"].items():
            if entry["problem"]:
                by_problem.setdefault(str(entry["problem"]), []).append(host)
        lines += [f"{row['name']} on {listed(hosts)}: {problem}" for problem, hosts in by_problem.items()]
    more = len(lines) - _MOST_PROBLEMS
    return lines[:_MOST_PROBLEMS] + ([f"and {more} more: --json has all"] if more > 0 else [])


def _hosts_summary(hosts: dict[str, Any], *, everywhere: bool) -> str:
    if not hosts:
        return "—"
    by_status: dict[str, list[str]] = {}
    for name, entry in hosts.items():
        by_status.setdefault(entry["status"], []).append(name)
    if set(by_status) == {"ok"}:
        return "everywhere" if everywhere else "wherever it is known"
    return "; ".join(f"{status}: {', '.join(names)}" for status, names in by_status.items() if status != "ok")
