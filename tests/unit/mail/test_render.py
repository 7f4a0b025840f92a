"""Mails as they are read, and what nobody can put into them."""

import email
import email.policy
import re
from datetime import UTC, date, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from gpuadmin.applications.letters import welcome
from gpuadmin.common.mail.letter import Letter
from gpuadmin.common.mail.message import build_message, one_line
from gpuadmin.common.records.mail import Head
from gpuadmin.config.fields import Email
from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings, User
from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError
from gpuadmin.mail.render import Renderer
from gpuadmin.text import korean_term

DAY = date(2026, 12, 31)
LOGIN = ["gpu1.example.org", "gpu2.example.org"]
WELCOME: dict[str, Any] = {
    "account": "minji", "person": "김민지", "expires": DAY, "term_ends": None, "docker": True,
    "login": LOGIN, "nodes": LOGIN, "port": 22,
    "queue": False, "queue_nodes": [], "granted": False, "self_service": None, "dashboard": False,
}  # fmt: skip
PROBLEMS = [
    "form", "group", "name", "student_id", "email", "key_missing", "key_private", "key_bad", "docker", "terms",
]  # fmt: skip
VALUES: dict[str, list[dict[str, Any]]] = {
    "notice": [
        {"days": days, "term": "2026-2", "items": [{"account": "minji", "kind": kind, "day": DAY, "days": days}],
         "login": login, "port": 2222}
        for days in (0, 1, 7)
        for kind in ("term", "expiry")
        for login in (LOGIN, [])
    ],
    "closing": [
        {"term": "2026-2", "accounts": accounts, "backup_until": until}
        for accounts in (["minji"], ["minji", "jiho"])
        for until in (None, date(2027, 6, 30))
    ],
    "welcome": [
        WELCOME,
        {**WELCOME, "docker": False, "expires": None},
        {**WELCOME, "term_ends": DAY, "expires": None, "port": 2222},
        {**WELCOME, "queue": True, "queue_nodes": ["gpu1"], "granted": True, "dashboard": True},
        {**WELCOME, "granted": True},
    ],
    "announcement": [
        {"texts": {"ko": {"subject": "정전", "lines": lines}, "en": {"subject": "No power", "lines": lines}},
         "until": DAY, "login": login, "hosts": hosts}
        for lines in ([], ["x", "", "y"])
        for login in (True, False)
        for hosts in ([], ["gpu1"])
    ],
    "idle": [
        {"items": [{"node": "gpu1", "index": "0", "name": "H100", "containers": some, "job": job,
                    "since": "2026-11-23 09:10"}],
         "hours": 2, "stop_hours": stop}
        for some in ([], ["train", "jupyter"])
        for stop in (None, 4)
        for job in ("", "7")
    ],
    "ungranted": [
        {"items": [{"node": "gpu1", "index": "0", "name": "H100", "containers": some, "since": "2026-11-23 18:00"}],
         "stop_hours": stop}
        for some in ([], ["train", "jupyter"])
        for stop in (1, 4)
    ],
    "report": [
        {"month": "2026-11", "lines": lines, "notes": "n",
         "tables": [{"title": "All", "columns": ["a", "b"], "rows": [["x", "1"], ["y", "2"]]}]}
        for lines in ([], ["one", "two"])
    ],
    "incomplete": [
        {"person": person, "missing": missing, "domains": domains, "form": form}
        for person in ("김민지", None)
        for missing in (PROBLEMS, ["group"], ["form"])
        for domains in ([], ["example.ac.kr"])
        for form in (None, "https://example.org/form")
    ],
}  # fmt: skip
ALL = [(template, values) for template, found in VALUES.items() for values in found]


def settings(**more: Any) -> Settings:
    mail = {"host": "localhost", "sender": "gpu@example.org", **more.pop("mail", {})}
    return Settings.model_validate({"name": "GPU 클러스터", "mail": mail, **more})


def letter(template: str, values: dict[str, Any], address: str = "minji@example.org") -> Letter:
    return Letter(template, address, ("k",), ("minji",), "", values)


def parsed(message: EmailMessage) -> EmailMessage:
    """As a mail program reads it."""
    read = message_from_bytes(message.as_bytes(), EmailMessage, policy=default)
    assert not read.defects
    return read


def test_every_template_has_both_languages_and_is_tested() -> None:
    found = {path.name for path in content_path("templates", "mail").iterdir()}
    assert found == {f"{template}.{language}.j2" for template in VALUES for language in ("ko", "en")}


@pytest.mark.parametrize(("template", "values"), ALL, ids=str)
def test_both_languages_in_one_mail(tmp_path: Path, template: str, values: dict[str, Any]) -> None:
    message = parsed(Renderer(settings(), tmp_path).message(letter(template, values)))
    korean, _, english = message.get_content().partition("-" * 60)
    assert "안녕하세요" in korean
    assert "Hello" in english
    for text in (korean, english):
        assert "GPU 클러스터" in text
        assert "gpu@example.org" in text
        assert "None" not in text
        assert "{" not in text
        assert "\n\n\n\n" not in text
    korean, _, english = message["Subject"].partition(" / ")
    assert not korean.isascii()
    assert english.startswith("[GPU 클러스터] ")
    assert english.removeprefix("[GPU 클러스터] ").isascii()
    assert all(len(line) <= 998 for line in message.as_bytes().splitlines())


def test_what_a_newcomer_is_told(tmp_path: Path) -> None:
    text = Renderer(settings(mail={"guide": "https://example.org/guide"}), tmp_path).message(letter("welcome", WELCOME))
    for words in ("ssh -i ~/.ssh/id_ed25519 minji@gpu1.example.org", "2026-12-31", "Docker", "conda", "gpu2", "/guide"):
        assert text.get_content().count(words) >= 2, words


@pytest.mark.parametrize(
    ("site", "groups", "there", "lacking"),
    [
        ({}, {}, ["nvidia-smi  ", "gpuadmin-me check", "gpu=0 "], ["gpu get", "gpuadmin-me web", "gpu@example.org: "]),
        ({"slurm": {}, "gpus": {"access": "granted"}}, {"nas1": ("slurm", "monitor")},
         ["gpu get", "gpu release", "gpuadmin-me  ", "gpuadmin-me web"], ["nvidia-smi  ", "CUDA_VISIBLE", " on gpu1"]),
        ({"slurm": {}}, {"nas1": ("slurm",), "gpu9": ("gpu", "none")}, ["gpu get"], ["gpu2, gpu9:", "gpu9 노드"]),
        ({"gpus": {"access": "granted", "self_service": {"hours": 7}}}, {},
         ["gpu run -- ", "gpu release", "gpu list"], ["nvidia-smi  ", "CUDA_VISIBLE"]),
        ({"gpus": {"access": "granted"}}, {}, ["gpuadmin-me  "], ["gpu get", "nvidia-smi  ", "CUDA_VISIBLE"]),
    ],
)  # fmt: skip
def test_a_newcomer_is_told_what_to_type_first_on_this_site(
    tmp_path: Path, site: dict[str, Any], groups: dict[str, tuple[str, ...]], there: list[str], lacking: list[str]
) -> None:
    hosts = [Host(name, ("gpu",)) for name in ("gpu1", "gpu2")]
    hosts += [Host(name, one, {"slurm_node": "none" not in one}) for name, one in groups.items()]
    user = User.model_validate({"name": "minji", "uid": 10001, "email": "minji@example.org", "keys": []})
    sent = welcome(user, settings(**site), hosts)
    text = Renderer(settings(**site), tmp_path).message(sent).get_content()
    for words in there:
        assert text.count(words) == 2, words
    for words in (*lacking, "gpu=all"):
        assert words not in text, words


def test_mails_name_what_this_site_deletes_and_where_it_lets_people_in(tmp_path: Path) -> None:
    own = {
        "homes": {"path": "/data/people"},
        "docker": {"data": "/nvme/docker"},
        "reset": {"scratch": ["/scratch", "/x"]},
    }
    (notice,) = [values for values in VALUES["notice"] if (values["days"], values["login"]) == (7, LOGIN)][:1]
    text = Renderer(settings(**own), tmp_path).message(letter("notice", notice)).get_content()
    for words in ("/data/people/minji", "/nvme/docker/minji", "/scratch, /x", f"minji@{LOGIN[0]}:project/"):
        assert text.count(words) == 2, words
    text = Renderer(settings(**own), tmp_path).message(letter("closing", VALUES["closing"][1])).get_content()
    assert text.count("/scratch, /x") == 2
    bare = settings(docker={"enabled": False}, reset={"scratch": []})
    for template in ("notice", "closing", "welcome"):
        for values in VALUES[template]:
            text = Renderer(bare, tmp_path).message(letter(template, {**values, "docker": False})).get_content()
            for words in ("Docker", "docker", "/tmp", "/local", "NODE"):
                assert words not in text, (template, words)


def test_mails_name_the_address_and_port_of_ssh(tmp_path: Path) -> None:
    hosts = [Host("gpu1", ("gpu",), {"ansible_host": "10.0.0.1", "ansible_port": 2222})]
    user = User.model_validate({"name": "minji", "uid": 10001, "email": "minji@example.org", "keys": []})
    text = Renderer(settings(), tmp_path).message(welcome(user, settings(), hosts)).get_content()
    assert text.count("ssh -i ~/.ssh/id_ed25519 -p 2222 minji@10.0.0.1") == 2
    site = settings(mail={"login": ["gpu1.example.org"]})
    text = Renderer(site, tmp_path).message(welcome(user, site, hosts)).get_content()
    for words in ("Log in to:  gpu1.example.org\n", "접속 노드: gpu1.example.org\n"):
        assert words in text.replace("\r", "")
    assert text.count("ssh -i ~/.ssh/id_ed25519 minji@gpu1.example.org") == 2
    values = {**VALUES["notice"][0], "login": ["10.0.0.1"], "port": 2222}
    text = Renderer(settings(), tmp_path).message(letter("notice", values)).get_content()
    assert text.count("rsync -a -e 'ssh -p 2222' minji@10.0.0.1:project/ project/") == 2


@pytest.mark.parametrize(
    ("person", "ends"),
    [
        ({}, True),
        ({"stays": "2026-2"}, False),
        ({"stays": "2026-1"}, True),
        ({"expires": DAY}, False),
        ({"name": "root-like"}, False),
        (None, False),
    ],
)
def test_a_newcomer_is_told_that_an_account_ends_with_the_term(
    tmp_path: Path, person: dict[str, Any] | None, ends: bool
) -> None:
    user = User.model_validate({"name": "minji", "uid": 10001, "email": "m@example.org", "keys": [], **(person or {})})
    deadline = date(2020, 1, 1) if person is None else date(2098, 12, 31)  # None: the reset left a term that is over
    site = settings(term={"name": "2026-2", "deadline": deadline}, protected=["root-like"])
    text = Renderer(site, tmp_path).message(welcome(user, site, [Host("gpu1", ("gpu",))])).get_content()
    found = ["unless it is extended" in text, "연장하지 않으면" in text]
    assert found == [ends, ends]


def test_whoever_is_not_in_the_group_need_not_fill_in_the_form_again(tmp_path: Path) -> None:
    rest = {"person": "민지", "domains": [], "form": "https://form.example.org"}
    for missing, again in ((["group"], None), (["form"], False), (["name"], True)):
        values = {**rest, "missing": missing}
        text = Renderer(settings(), tmp_path).message(letter("incomplete", values)).get_content()
        assert [one in text for one in ("form.example.org", "the last one counts")] == [again is not None] * 2, missing
        assert ["fill in the form again" in text, "설문을 다시" in text] == [bool(again)] * 2, missing


def test_there_is_a_password_where_a_directory_has_it(tmp_path: Path) -> None:
    words = ("비밀번호는 없습니다", "There is no password")
    for source, there in (("registry", True), ("directory", False)):
        site = settings(accounts={"source": source})
        text = Renderer(site, tmp_path).message(letter("welcome", WELCOME)).get_content()
        assert [one in text for one in words] == [there, there], source
        assert text.count("  ssh -i ~/.ssh/id_ed25519 minji@") == 2 * there


def test_a_language_alone_and_headers(tmp_path: Path) -> None:
    chosen = settings(mail={"languages": ["en"], "reply_to": "help@example.org"})
    now = datetime(2026, 12, 1, 9, tzinfo=UTC)
    renderer = Renderer(chosen, tmp_path)
    message = parsed(renderer.message(letter("welcome", WELCOME), now=now))
    assert "안녕" not in message.get_content()
    assert message["Subject"] == "[GPU 클러스터] Your account minji"
    assert message["Reply-To"] == "help@example.org"
    assert "help@example.org" in message.get_content()
    assert message["Date"].datetime == now
    same = renderer.message(letter("welcome", WELCOME))
    assert same["Message-ID"] == message["Message-ID"], "the same letter sent again can be dropped by the mailbox"
    assert renderer.message(letter("welcome", WELCOME, "x@example.org"))["Message-ID"] != message["Message-ID"]


HOSTILE = [
    "x\r\nBcc: everybody@example.org", "x\nSubject: y", "x\u2028Bcc: y", "x\x00y", "{{ 7 * 7 }}", "{% raw %}", "{# #}",
    "=cmd|' /C calc'!A0", "a" * 5000, "\u202eevil", "x\x85Bcc: y", "x\x0bBcc: y", "<script>", "=?utf-8?q?=0ABcc:_x?=",
    "\r\n\r\n.\r\nMAIL FROM:<x>", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)
def test_nothing_in_a_name_makes_a_header_or_a_template(tmp_path: Path, hostile: str) -> None:
    (tmp_path / "templates/mail").mkdir(parents=True)
    for language in ("ko", "en"):
        site_template = tmp_path / f"templates/mail/welcome.{language}.j2"
        site_template.write_text("Subject: to {{ person }} and {{ account }}\n\nTo {{ person }}\n")
    message = Renderer(settings(), tmp_path).message(letter("welcome", {**WELCOME, "person": hostile}))
    read = parsed(message)
    expected = {
        "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "Content-Transfer-Encoding",
        "MIME-Version",
    }  # fmt: skip
    assert set(read.keys()) == expected
    assert read["To"] == "minji@example.org"
    assert "49" not in read.get_content()
    for text in (read["Subject"], *read.get_content().splitlines()):
        assert text.isprintable()


@given(value=st.text(alphabet=st.sampled_from("=?utf-8qb_0AD \nBcc:.") | st.characters()))
def test_no_cluster_name_and_no_subject_makes_a_header(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    site = tmp_path_factory.getbasetemp() / "site"
    (site / "templates/mail").mkdir(parents=True, exist_ok=True)
    (site / "templates/mail/welcome.en.j2").write_text("Subject: {{ person }}\n\nx\n")
    chosen = settings(mail={"languages": ["en"]}).model_copy(update={"name": value})
    try:
        message = Renderer(chosen, site).message(letter("welcome", {**WELCOME, "person": f"to {value}"}))
    except ConfigError:
        return
    assert len(parsed(message).keys()) == 9


@given(value=st.text())
def test_one_line_is_one_printable_line(value: str) -> None:
    line = one_line(value)
    assert len(line.splitlines()) <= 1
    assert len(line) <= 1000
    line.encode()


ADDRESS = TypeAdapter(Email)


@given(address=st.from_regex(r"\A[!-~]{1,20}@[A-Za-z0-9.-]{1,20}\Z") | st.emails())
def test_every_address_that_a_registry_takes_can_be_mailed(
    tmp_path_factory: pytest.TempPathFactory, address: str
) -> None:
    try:
        ADDRESS.validate_python(address)
    except ValidationError:
        return
    renderer = Renderer(settings(), tmp_path_factory.getbasetemp())
    (to,) = parsed(renderer.message(letter("welcome", WELCOME, address)))["To"].addresses
    assert to.addr_spec == address


BROKEN = {
    "syntax": ("Subject: x\n\n{% if %}\n", "welcome.ko.j2:3: "),
    "an unknown value": ("Subject: x\n\n{{ nobody }}\n", "'nobody' is undefined"),
    "no subject": ("Hello\n\nworld\n", "must begin with `Subject: "),
    "no text": ("Subject: x\n", "must begin with `Subject: "),
    "a way out": ("Subject: x\n\n{{ person.__class__.__mro__ }}\n", "SecurityError"),
    "a call that fails": ("Subject: x\n\n{{ 1 / 0 }}\n", "ZeroDivisionError"),
    "a file that is none": ("Subject: x\n\n{% include '/etc/passwd' %}\n", "TemplateNotFound"),
}


@pytest.mark.parametrize(("text", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_sites_template_that_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "templates/mail").mkdir(parents=True)
    (tmp_path / "templates/mail/welcome.ko.j2").write_text(text)
    with pytest.raises(ConfigError) as caught:
        Renderer(settings(), tmp_path).message(letter("welcome", WELCOME))
    assert words in caught.value.message
    assert "templates/mail/welcome.ko.j2" in caught.value.message


def test_without_mail_in_the_site(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mail: is missing"):
        Renderer(Settings.model_validate({"name": "x"}), tmp_path)


@pytest.mark.parametrize(
    "subject",
    [
        "[lab] Your GPUs are ready: job 4, on node1 / [lab] GPU를 받았습니다: 작업 4, node1",
        "가 나 다 " * 30,
        "a GPU를 b",
    ],
)
def test_a_subject_arrives_as_it_was_written(subject: str) -> None:
    """EmailMessage lost blanks between Korean words."""
    of = Letter("x", "a@example.org", ("key",), ("a",), "")
    raw = build_message(of, Head("lab", "gpu@example.org"), [(subject, "text")]).as_bytes()
    assert str(email.message_from_bytes(raw, policy=email.policy.default)["Subject"]) == one_line(subject)
    assert max(map(len, raw.splitlines())) < 79


@pytest.mark.parametrize(
    ("name", "words"), [("2026-2", "2026-2학기"), ("여름", "여름 학기"), ("2026년 2학기", "2026년 2학기")]
)
def test_a_term_is_called_one_once(name: str, words: str) -> None:
    assert korean_term(name) == words


@pytest.mark.parametrize("path", sorted(content_path("templates").rglob("*.ko*.j2")), ids=lambda path: path.name)
def test_every_korean_template_calls_a_term_so(path: Path) -> None:
    for expression in re.findall(r"{{.*?}}", path.read_text()):
        assert not re.search(r"\bterm\b(?! \| korean_term| else)", expression), expression
