"""Verify an image in the store."""

from __future__ import annotations

from gpuadmin.actions.shared.images import variables
from gpuadmin.console import echo
from gpuadmin.errors import ExitCode
from gpuadmin.images.facts import check_name
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened
from gpuadmin.text import one_line


def verify_image(options: Options, name: str) -> int:
    """Verify an image's signature, digests and chain. Returns the exit code: 1 where something is not right."""
    with opened("verify-image", options, changes=False) as session:
        builder = PlanBuilder(f"Verify the image {check_name(name)}")
        builder.add_all(session.storage(), ["verify it in the store"])
        session.planned(builder.build())
        given = variables(session.site, gpuadmin_verify_images=[name])
        run = session.run("verify-image", None, given, check=True)
        answers = run.reported("verified").values()
        problems = [one for found in answers for one in found.get(name, ["the store did not say anything of it"])]
        verdict = run.code or (ExitCode.ERROR if problems else ExitCode.DONE)

        def show() -> None:
            for problem in problems:
                echo(one_line(f"{name}: {problem}"))
            if answers and not problems:
                echo(f"{name}: signature, digests and chain are right")
            for host, reason in run.bad.items():
                echo(one_line(f"Whether {name} is right is not known: {host} ({reason})"))

        return report(session, run, {"problems": problems}, code=verdict, show=show)
