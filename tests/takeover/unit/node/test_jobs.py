"""Jobs of the take-over run in units from a copy of the code, which has the take-over's as well."""

import json
import subprocess
from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.module_utils import background, ship

from gpuadmin.takeover.node.moving import jobs as moving
from gpuadmin.takeover.node.root_docker import jobs as root_docker


def test_a_unit_finds_the_job_in_its_copy(tmp_path: Path) -> None:
    place = str(tmp_path)
    ship.ship_package(place)
    for function, arguments in ((moving.tasks, {"homes": []}), (root_docker.carry, {"socket": str(tmp_path / "none")})):
        job = background.Job("x", function, arguments, "x")
        request = {"start": "1", "module": job.function.__module__, "work": function.__name__, "order": arguments}
        background._write(place, background.REQUEST, request)
        subprocess.run(background.command(place), check=False, capture_output=True, cwd="/")
        result = json.loads((tmp_path / background.RESULT).read_text())
        assert result["start"] == "1"
        assert (result["value"], result["problem"]) in (([], None), (None, "root's Docker does not run"))
