"""One mail of each kind, and the page of docs/ that shows them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

from gpuadmin.common import turns
from gpuadmin.common.mail.letter import Letter
from gpuadmin.common.turns import Turn
from gpuadmin.config.schema import Settings
from gpuadmin.errors import ConfigError
from gpuadmin.mail.render import Renderer
from gpuadmin.mail.reporting import WORDS

_SETTINGS = Settings.model_validate(
    {
        "name": "GPU cluster",
        "mail": {"host": "smtp.example.org", "sender": "gpu@example.org", "guide": "https://example.org/gpu"},
    }
)
_END = date(2026, 12, 31)

_NIGHT = datetime(2026, 11, 23, 22, 0).timestamp()  # the same words in every zone
_TURNS = [
    Turn("begun", "", "minji", "12", 0, 2, "gpu1", _NIGHT, "train.sh"),
    Turn("ended", "", "minji", "12", _NIGHT, 2, "gpu1", None, "train.sh", (("time", 1),), (0.63, 41.2e9, 80e9)),
]

# template -> when it is sent, and what is in it
_EXAMPLES: dict[str, tuple[str, Letter]] = {
    "notice": (
        "A reminder, `term.reminders` days before the deadline, or before an account's own end (`gpuadmin notify`)",
        Letter(
            "notice",
            "minji@example.org",
            ("example",),
            ("minji",),
            "",
            {
                "days": 7,
                "term": "2026-2",
                "items": [{"account": "minji", "kind": "term", "day": _END, "days": 7}],
                "login": ["gpu1", "gpu2"],
                "port": 22,
            },
        ),
    ),
    "closing": (
        "When the term has ended, to those who are locked out (`gpuadmin semester-reset`, phase `lock`)",
        Letter(
            "closing",
            "minji@example.org",
            ("example",),
            ("minji",),
            "",
            {"term": "2026-2", "accounts": ["minji"], "backup_until": date(2027, 6, 30)},
        ),
    ),
    "welcome": (
        "A new account (`gpuadmin import-applications --apply`; `add-user`, with `mail.welcome` or `--mail`)",
        Letter(
            "welcome",
            "minji@example.org",
            ("example",),
            ("minji",),
            "",
            {
                "account": "minji",
                "person": "김민지",
                "expires": _END,
                "term_ends": None,
                "docker": True,
                "login": ["gpu1", "gpu2"],
                "nodes": ["gpu1", "gpu2"],
                "port": 22,
                "queue": True,
                "queue_nodes": [],
                "granted": True,
                "self_service": None,
                "dashboard": True,
            },
        ),
    ),
    "announcement": (
        "Something that admins announce (`gpuadmin announce`)",
        Letter(
            "announcement",
            "minji@example.org",
            ("example",),
            ("minji",),
            "",
            {
                "texts": {
                    "ko": {"subject": "11월 28일 정전", "lines": ["28일 9시부터 18시까지 모든 노드가 꺼집니다."]},
                    "en": {"subject": "No power on 28 November", "lines": ["All nodes are off from 9 to 18 that day."]},
                },
                "until": date(2026, 11, 28),
                "login": True,
                "hosts": [],
            },
        ),
    ),
    "idle": (
        "GPUs that are held and not used (`gpuadmin idle --act`)",
        Letter(
            "idle",
            "minji@example.org",
            ("example",),
            ("minji",),
            "",
            {
                "items": [
                    {
                        "node": "gpu1",
                        "index": "3",
                        "name": "NVIDIA H100",
                        "containers": ["jupyter"],
                        "job": "",
                        "since": "2026-11-23 09:10",
                    },
                ],
                "hours": 2,
                "stop_hours": 4,
            },
        ),
    ),
    "ungranted": (
        "GPUs that are held after a grant has ended (`gpuadmin idle --act`)",
        Letter(
            "ungranted",
            "minji@example.org",
            ("example",),
            ("minji",),
            "",
            {
                "items": [
                    {
                        "node": "gpu1",
                        "index": "3",
                        "name": "NVIDIA H100",
                        "containers": ["jupyter"],
                        "since": "2026-11-23 18:00",
                    },
                ],
                "stop_hours": 4,
            },
        ),
    ),
    "incomplete": (
        "An application that lacks something (`gpuadmin import-applications --apply`)",
        Letter(
            "incomplete",
            "minji@example.org",
            ("example",),
            ("minji",),
            "",
            {
                "person": "김민지",
                "missing": ["student_id", "key_private", "terms"],
                "domains": [],
                "form": "https://example.org/form",
            },
        ),
    ),
    "report": (
        "The report of a month that is over (`gpuadmin report`); it is in the first of `mail.languages` alone",
        Letter(
            "report",
            "professor@example.org",
            ("example",),
            ("report",),
            "",
            {
                "month": "2026-11",
                "lines": ["Of 5,760.0 GPU-hours available, 61% were held and 43% used."],
                "notes": WORDS["notes"][0],
                "tables": [
                    {
                        "title": "In all",
                        "columns": ["Figure", "2026-11", "2026-10"],
                        "rows": [["GPU-hours held", "3,513.6", "3,001.2"], ["GPU-hours used", "2,476.8", "2,410.0"]],
                    }
                ],
            },
        ),
    ),
}


def template_mistakes(settings: Settings, site: Path) -> list[ConfigError]:
    """What is wrong with a site's own templates of mails, each of which is rendered with an example."""
    if settings.mail is None or not (site / "templates" / "mail").is_dir():
        return []
    renderer, found = Renderer(settings, site), []
    for _, letter in _EXAMPLES.values():
        try:
            renderer.message(letter)
        except ConfigError as error:
            found.append(error)
    return found


def mails_page() -> str:
    """The page that shows every mail, as Markdown."""
    lines = [
        "# The mails that people get",
        "",
        "Made from templates/mail: `make docs`. Mails carry all of `mail.languages`, both by default; the report and "
        "the queue's may be in one. A file of the same name in your site's `templates/mail/` takes a template's place; "
        "`gpuadmin notify --preview` and `gpuadmin import-applications … --preview` show what would be sent.",
    ]
    renderer = Renderer(_SETTINGS, Path("/nonexistent"))
    for name, (when, letter) in _EXAMPLES.items():
        # a report's figures are in one language
        message = renderer.message(replace(letter, languages=("en",)) if name == "report" else letter)
        text = "\n".join(line.rstrip() for line in message.get_content().strip().splitlines())
        lines += ["", f"## {name}", f"{when}: `{name}.ko.j2`, `{name}.en.j2`.", "```text"]
        lines += [f"From: {message['From']}", f"To: {message['To']}", f"Subject: {message['Subject']}", "", text, "```"]
    lines += [
        "",
        "## Turns",
        "What becomes of a job with GPUs, by the queue's host (`slurm.mail`): up to a mail for each person and minute, "
        "in both languages or the one of `gpu mail`. Its words are gpuadmin's own; the page `slurm` says when.",
    ]
    for turn in _TURNS:
        parts = [turns.mail([turn], language, "GPU cluster", "gpu@example.org") for language in ("ko", "en")]
        lines += ["```text", *(f"Subject: {subject}\n\n{text}\n" for subject, text in parts), "```"]
    return "\n".join(lines) + "\n"
