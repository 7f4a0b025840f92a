"""gpuadmin list-users"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options
from gpuadmin.console import say_document

if TYPE_CHECKING:
    from gpuadmin.cli._verb import Verb
    from gpuadmin.run import RunResult


@click.command("list-users")
@click.option("--offline", is_flag=True, help="Only what users.yml says; ask no host.")
@run_options(changes=False)
@click.pass_context
def command(ctx: click.Context, offline: bool, options: Options) -> None:
    """Show every account, and where it is missing or differs. Changes nothing."""
    from gpuadmin.accounts import variables
    from gpuadmin.cli._verb import Work, opened, perform
    from gpuadmin.plan import PlanBuilder

    with opened("list-users", options, changes=False) as verb:
        registry = verb.site.registry.registry
        builder = PlanBuilder("List accounts")
        if not offline:
            builder.add_all(verb.named("gpu", "storage"), ["look at the accounts"])
        result: dict[str, Any] = {}

        def collect(run: RunResult) -> dict[str, Any]:
            result.update(_result(verb, run))
            return result

        work = Work(
            plan=builder.build(),
            variables=variables(
                verb.site.registry,
                verb.site.settings,
                registry.users,
                [(entry.name, entry.uid) for entry in registry.retired],
            ),
            result=collect,
            check_only=True,
            show_table=False,
        )
        if builder.steps:
            code = perform(verb, work)
        else:
            code = 0
            result = _result(verb, None)
            if options.json:
                from gpuadmin.report import as_json, document

                say_document(
                    as_json(
                        document(
                            "list-users",
                            site=verb.site.directory,
                            run=None,
                            check=True,
                            status="ok",
                            result=result,
                        )
                    )
                )
        if not options.json:
            _show(verb, result)
        # a table that could not be filled everywhere is still an answer; the exit code says the rest
        ctx.exit(code)


def _result(verb: Verb, run: RunResult | None) -> dict[str, Any]:
    from gpuadmin.accounts import subid_range
    from gpuadmin.answers import Answers
    from gpuadmin.cli._accounts import account_result

    seen = account_result(run)["users"] if run else {}
    rows = []
    for user in verb.site.registry.registry.users:
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
            first, last = subid_range(user.uid, verb.site.settings)
            row["subids"] = {"first": first, "last": last}
        rows.append(row)
    unknown = {
        name: sorted(hosts)
        for name, hosts in seen.items()
        if verb.site.registry.find(name) is None and any(entry["status"] == "unknown" for entry in hosts.values())
    }
    asked = [] if run is None else verb.named("gpu", "storage")
    unreachable = [] if run is None else [*Answers.of(run.hosts, asked, "users").unknown]
    return {"users": rows, "unregistered": unknown, "not_asked": unreachable}


def _state(expires: date | None, locked: bool) -> str:
    if locked:
        return "locked"
    return "expired" if expires is not None and expires < date.today() else "active"


def _show(verb: Verb, result: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gpuadmin.console import make_console

    console = make_console(json=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Name", "uid", "State", "Until", "Docker", "Keys", "Hosts"):
        table.add_column(title, no_wrap=title != "Hosts", justify="right" if title in ("uid", "Keys") else "left")
    for row in result["users"]:
        style = {"active": "green", "locked": "yellow", "expired": "red"}[row["state"]]
        table.add_row(
            row["name"],
            str(row["uid"] or "—"),
            Text(row["state"], style=style),
            str(row["expires"] or "—"),
            "yes" if row["docker"] else "no",
            str(len(row["keys"])),
            _hosts_in_words(row["hosts"], everywhere=not result["not_asked"]),
        )
    console.print(table)
    if not result["users"]:
        console.print("Nobody is registered yet: gpuadmin add-user NAME")
    for name, hosts in result["unregistered"].items():
        console.print(f"Not registered, kept as it is: {name} on {', '.join(hosts)}")
    if result["not_asked"]:
        console.print(f"Not known, because they did not say: {', '.join(result['not_asked'])}")


def _hosts_in_words(hosts: dict[str, Any], *, everywhere: bool) -> str:
    if not hosts:
        return "—"
    by_status: dict[str, list[str]] = {}
    for name, entry in hosts.items():
        by_status.setdefault(entry["status"], []).append(name)
    if set(by_status) == {"ok"}:
        return "everywhere" if everywhere else "wherever it is known"
    return "; ".join(f"{status}: {', '.join(names)}" for status, names in by_status.items() if status != "ok")
