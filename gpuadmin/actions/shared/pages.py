"""Pages for people: printed, or written as Markdown and HTML into a directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpuadmin.actions.shared.monitor import dashboard_host
from gpuadmin.config.load import Site
from gpuadmin.config.login import list_login_nodes
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.console import echo, echo_document
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.mail.letter import Attachment
from gpuadmin.pages.gpus import Gpus, seen
from gpuadmin.pages.guide import NAME, guide
from gpuadmin.pages.render import LANGUAGES, page
from gpuadmin.reading import expanded, is_absent, read_limited
from gpuadmin.records import history
from gpuadmin.report import local_document

_MARK = "<!-- Made by gpuadmin {verb}: your own text belongs into templates/{folder}/ of the site, not here. -->\n"


def languages(site: Site, language: str | None) -> tuple[str, ...]:
    """The languages that a page is wanted in: the one that was asked for, the mails' languages, or both."""
    if language is not None:
        return (language,)
    return tuple(site.settings.mail.languages) if site.settings.mail is not None else LANGUAGES


def guide_pages(site: Site) -> list[Attachment]:
    """The user's guide as pages that a mail carries, in the mails' languages. Raises ConfigError."""
    gpus, wanted = find_gpus(site), languages(site, None)
    return [Attachment(f"{NAME}.{one}.html", page(write_guide(site, one, gpus), one)) for one in wanted]


def write_guide(site: Site, language: str, gpus: Sequence[Gpus]) -> str:
    """The user's guide of a site, as Markdown. Raises ConfigError."""
    nodes, shows = list_login_nodes(site.settings, site.inventory.group("gpu")), dashboard_host(site) is not None
    projects = [one for user in site.registry.registry.users for one in user.projects]
    return guide(
        language,
        site.settings,
        nodes,
        gpus=gpus,
        site=site.directory,
        dashboard=shows,
        hosts=site.inventory.hosts,
        projects=projects,
    )


def find_gpus(site: Site, *, say: bool = False) -> tuple[Gpus, ...]:
    """The GPUs of a site's nodes as `list-gpus` last found them; no host is asked.

    `say`: tell the admin which nodes it never saw. Raises GpuadminError if the record of runs cannot be read.
    """
    names = [host.name for host in site.inventory.group("gpu") if host.gpus != 0]
    gpus, unseen = seen(history(site.runs), names)
    if unseen and say:
        echo(
            f"Note: nothing is known of the GPUs of {', '.join(unseen)}: gpuadmin list-gpus, then this again", err=True
        )
    return gpus


def give(
    verb: str,
    folder: str,
    wanted: Sequence[str],
    write: Callable[[str], str],
    output: str | None,
    *,
    name: str | None = None,
    as_json: bool,
) -> int:
    """Given what writes a page in a language, print the pages, or write them into the directory `output`.

    `name`: what the files are called, if not as the verb.

    Raises ConfigError if a file is there that gpuadmin did not write. Returns the exit code.
    """
    texts = {language: write(language) for language in wanted}
    files: list[Path] = []
    if output is not None:
        mark = _MARK.format(verb=verb, folder=folder)
        files = _write(expanded(output), name or verb, texts, mark)
    if as_json:
        echo_document(local_document(verb, {"pages": texts, "files": [str(path) for path in files]}))
    elif output is None:
        echo_document("\n".join(texts.values()), end=False)
    else:
        for path in files:
            echo(str(path))
    return 0


def _write(directory: Path, name: str, texts: dict[str, str], mark: str) -> list[Path]:
    contents = {}
    for language, text in texts.items():
        contents[directory / f"{name}.{language}.md"] = mark + text
        contents[directory / f"{name}.{language}.html"] = page(text, language).replace("\n", f"\n{mark}", 1)
    write_marked(contents, mark, option="--output")
    return list(contents)


def write_marked(contents: Mapping[Path, str], mark: str, *, option: str) -> None:
    """Given files with their contents, each with a mark of ours in it, write them. What is there already is replaced
    only if it has that mark, too. Raises ConfigError, which names the option that the paths came from.
    """
    try:
        for directory in {path.parent for path in contents}:
            directory.mkdir(parents=True, exist_ok=True)
        for path in contents:
            # guard: a page that gpuadmin usage did not write is not replaced
            if not is_absent(path) and mark.encode() not in read_limited(path):
                raise ConfigError(
                    f"{path}: is there, and gpuadmin did not write it", hint=f"name another {option}, or move it away"
                )
        for path, content in contents.items():
            write_atomically(path, content, mode=0o644)
    except OSError as error:
        raise GpuadminError(f"{error.filename}: {error.strerror}", hint=f"name another {option}") from None
