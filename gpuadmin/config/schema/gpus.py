"""The GPUs of the nodes: where their driver comes from, and what is made of GPUs that are less than expected."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from gpuadmin.config.fields import DriverVersion, MigLayout, Text
from gpuadmin.config.schema.base import Model
from gpuadmin.config.schema.hosts import Repository

#: What a GPU itself takes is narrower: nvidia-smi refuses the rest.
Watts = Annotated[int, Field(ge=30, le=3000)]


def _check_cap(given: object, parse: ValidatorFunctionWrapHandler) -> object:
    """One mistake in one sentence: pydantic has one for each of the two forms."""
    try:
        return parse(given)
    except ValidationError:
        text = "must be watts from 30 to 3000 (`500`), or such watts by model (`{H100: 500}`)"
        raise ValueError(f"{text}, not {str(given)[:60]}") from None


class SelfService(Model):
    """What one person may take of a node's GPUs without asking anybody."""

    gpus: Annotated[int, Field(description="At most so many GPUs of one node at once.", ge=1, le=64)] = 1
    hours: Annotated[int, Field(description="For at most so many hours each time.", ge=1, le=720)] = 8


class Health(Model):
    """For what a node takes no further work. The site's own checks are executable files in its `health.d/`."""

    ignore: Annotated[
        list[Annotated[str, Field(min_length=3)]],
        Field(description="What is found closes no node if one of these is in its sentence, such as `PCIe`."),
    ] = []
    burn_in: Annotated[
        list[Text],
        Field(
            description="The program of `gpuadmin burn-in`, with its arguments; it ends with 0 on a good node. Without "
            "it `dcgmi diag -r 3` of NVIDIA's DCGM."
        ),
    ] = []


class Gpus(Model):
    """GPUs of the nodes. How many a node should have, and of which model, is in the inventory (gpus, gpu_model)."""

    access: Annotated[
        Literal["open", "granted"],
        Field(
            description="Who may open a node's GPUs: everybody who logs in (`open`), or only people to whom "
            "`gpuadmin grant` granted them (`granted`), whether by ssh, in a container or anywhere else. A "
            "host's `gpus_access` wins."
        ),
    ] = "open"
    self_service: Annotated[
        SelfService | None,
        Field(
            description="Where `access` is `granted` and the queue does not decide: people take GPUs that nobody has "
            "with `gpu run` and `gpu get`, at most so many for so long. Without it only `gpuadmin grant` gives some."
        ),
    ] = None
    worse: Annotated[
        Literal["report", "refuse"],
        Field(
            description="What the trial of an image does where GPUs are less than the inventory expects, but usable "
            "(one of eight is lost, PCIe has too few lanes): report it, or refuse the image. A "
            "host's `gpus_worse` wins."
        ),
    ] = "report"
    health: Annotated[Health, Field(description="For what a node takes no further work.")] = Health()
    driver: Annotated[
        Literal["distribution", "repository", "elsewhere"],
        Field(
            description="Where NVIDIA's driver comes from: the distribution's packages, the packages of NVIDIA's own "
            "repository (or a copy of it, named by `repository`), or elsewhere: then it is only checked. A "
            "host's `gpus_driver` wins, and so do `gpus_version` and the like for each of these settings but the "
            "repositories."
        ),
    ] = "elsewhere"
    version: Annotated[
        DriverVersion | None,
        Field(
            description='The driver\'s branch ("570") or version ("570.172.08"), in quotes. Packages of another one '
            "are not installed, and upgrades stay within it. Ubuntu's own packages need the branch."
        ),
    ] = None
    hold: Annotated[
        bool,
        Field(description="Upgrades leave the installed driver as it is, whatever its version."),
    ] = False
    modules: Annotated[
        Literal["open", "proprietary"],
        Field(
            description="Which kernel modules. Open ones are for GPUs from Turing on (RTX 20, T4), and the only ones "
            "for Blackwell; older GPUs (V100, P100, GTX 10) need the proprietary ones."
        ),
    ] = "open"
    repository: Annotated[
        Repository | None,
        Field(
            description="A source of the driver's packages. With `driver: distribution`: such as Debian's non-free, "
            "where the nodes do not have it."
        ),
    ] = None
    persistence: Annotated[
        bool, Field(description="Whether nvidia-persistenced keeps the driver awake while nobody uses a GPU.")
    ] = True
    power_cap: Annotated[
        Watts | dict[Annotated[Text, Field(min_length=1)], Watts] | None,
        WrapValidator(_check_cap),
        Field(
            description="How many watts each GPU may draw: for all, or by a part of the node's `gpu_model`, such as "
            "`{H100: 500}`. Taken away, it holds until the next boot."
        ),
    ] = None
    toolkit: Annotated[
        Literal["repository", "elsewhere"],
        Field(
            description="Where NVIDIA's container toolkit comes from: `toolkit_repository`, or elsewhere: then it is "
            "not touched."
        ),
    ] = "elsewhere"
    toolkit_repository: Annotated[
        Repository | None, Field(description="The source of the container toolkit's packages.")
    ] = None
    mig: Annotated[
        MigLayout | None,
        Field(
            description="Into which MIG devices each GPU is divided: its number, as in nvidia-smi, and a list of "
            "profiles, such as `{0: [3g.20gb, 4g.20gb], 1: []}`. A GPU that is not listed is whole; without this "
            "setting gpuadmin leaves MIG alone. A host's `gpus_mig` wins, and lists all of that host's GPUs."
        ),
    ] = None

    @model_validator(mode="after")
    def _repositories_are_named(self) -> Gpus:
        for name, wanted, repository in (
            ("driver", self.driver, self.repository),
            ("toolkit", self.toolkit, self.toolkit_repository),
        ):
            key = "repository" if name == "driver" else "toolkit_repository"
            if wanted == "repository" and repository is None:
                raise ValueError(f"{name}: repository needs {key} with url and key: where the packages come from")
        return self


#: What the inventory may say otherwise for a group or a host, as gpus_driver and so on.
OF_A_HOST = ("access", "worse", "driver", "version", "hold", "modules", "persistence", "power_cap", "toolkit", "mig")
