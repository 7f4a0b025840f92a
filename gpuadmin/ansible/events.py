"""Ansible's events, turned into one result per host."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gpuadmin.results import DENIED, OTHER_KEY, UNPINNED, UNRESOLVED, HostResult

LONGEST_MESSAGE = 600
_LONGEST_REMARKS = 4000
_LONGEST_CHANGE = 8192
MOST_CHANGES = 200_000
#: Modules that fail with what a playbook says.
_SAYS = ("ansible.builtin.fail", "ansible.builtin.assert")
_STEP = ' (at the step "{}")'
_ODD = "its answer is not understood"
_MOST_OBSTACLES = 50
_ENDED = ("runner_on_ok", "runner_on_failed", "runner_on_skipped", "runner_on_unreachable")


class Collector:
    """Takes ansible-runner's events one by one."""

    def __init__(self, *, on_task: Callable[[str], None], on_host: Callable[[str, str, str], None]) -> None:
        self.hosts: dict[str, HostResult] = {}
        self._on_task = on_task
        self._on_host = on_host
        self._items: dict[tuple[str, str], list[str]] = {}
        self._done: dict[tuple[str, str], list[str]] = {}

    def event(self, event: Mapping[str, Any]) -> bool:
        """Take one event. Returns False: nothing of it has to be kept on disk."""
        kind = event.get("event", "")
        data = event.get("event_data") or {}
        if kind in ("playbook_on_task_start", "playbook_on_handler_task_start"):
            self._on_task(_task_name(data))
        elif kind.startswith("runner_") and "host" in data:
            self._runner_event(kind, data)
        return False

    def _runner_event(self, kind: str, data: Mapping[str, Any]) -> None:
        name = str(data["host"])
        result = data.get("res")
        result = result if isinstance(result, Mapping) else {}
        host = self.hosts.setdefault(name, HostResult())
        task = name, str(data.get("task_uuid"))
        if kind == "runner_on_start":
            self._on_host(name, "begun", _task_name(data))
        elif kind in _ENDED:
            self._on_host(name, "skipped" if kind == "runner_on_skipped" else "done", "")
        match kind:
            case "runner_on_ok":
                odd = _gather(host, result)
                changed = result.get("changed") is True
                if changed and not host.bad:
                    host.status = "changed"
                elif host.status == "skipped":
                    host.status = "ok"
                if changed:
                    changes = _sentences(result, "operations", odd) or self._done.pop(task, []) or [_task_name(data)]
                    host.changed.extend(changes)
                    for change in changes:
                        self._on_host(name, "changed", change)
                if (seconds := _limit(result)) is not None:
                    self._on_host(name, "limit", seconds)
                if remarks := [re.sub(r"\s+", " ", remark) for remark in _sentences(result, "remarks", odd)]:
                    host.message = "; ".join(filter(None, [host.message, *remarks]))[:_LONGEST_REMARKS]
                if odd:
                    self._failed(name, host, f"{_ODD}: {odd[0]}{_STEP.format(_task_name(data))}")
            case "runner_on_failed":
                if data.get("ignore_errors"):
                    return
                odd = _gather(host, result)
                # guard: what does not say that it began nothing began something -> True
                unbegun = host.reports.pop("begun", True) is False
                # guard: what a host began before it refused is not forgotten -> True
                first = host.refused or not host.bad
                host.refused = unbegun and first
                host.obstacles = parse_obstacles(result)
                # what a module did before it failed is done
                host.changed.extend(_sentences(result, "operations", odd) or self._done.pop(task, []))
                items = self._items.pop(task, [])
                self._failed(name, host, failure_message(result, items, _task_name(data), str(data.get("task_action"))))
            case "runner_on_unreachable":
                host.status = "unreachable"
                host.changed.extend(self._done.pop(task, []))
                host.message = unreachable_message(str(result.get("msg", "")))
                self._on_host(name, "unreachable", host.message)
            case "runner_retry":
                if isinstance(result.get("progress"), str) and result["progress"]:
                    self._on_host(name, "progress", result["progress"][:LONGEST_MESSAGE])
            case "runner_item_on_failed":
                message = str(result.get("msg") or "failed")[:LONGEST_MESSAGE]
                self._items.setdefault(task, []).append(message)
            case "runner_item_on_ok" if result.get("changed") is True:
                self._item_changed(task, host, result, _task_name(data))

    def _item_changed(self, task: tuple[str, str], host: HostResult, result: Mapping[str, Any], step: str) -> None:
        """Keep what an item of a loop did: the loop's own result does not have it."""
        odd: list[str] = []
        if found := _sentences(result, "operations", odd):
            self._done.setdefault(task, []).extend(found)
        if odd:
            self._failed(task[0], host, f"{_ODD}: {odd[0]}{_STEP.format(step)}")

    def _failed(self, name: str, host: HostResult, message: str) -> None:
        host.status = "failed"
        # a role that goes on after a failure, for the sake of the other hosts, ends with the same message
        if host.message is None or _without_step(host.message) != _without_step(message):
            host.message = message
            self._on_host(name, "failed", message)


def _gather(host: HostResult, result: Mapping[str, Any]) -> list[str]:
    """Keep what a module reports, as far as it can be understood. Returns what cannot, in words.

    An invalid report is dropped, and so is an earlier one of the same name: the current state is unknown.
    """
    from gpuadmin.ansible.reports import REPORTS, OddError, of_text, parsed  # a verb that asks no host needs none

    found: list[str] = []
    given: list[tuple[str, Callable[[str, object], Any], object]] = []
    # an entry for each person comes as text: Ansible does not walk it
    ways: tuple[tuple[str, Callable[[str, object], Any]], ...] = (("each", of_text), ("report", parsed))
    for key, parse in ways:
        part = result.get(key)
        if isinstance(part, Mapping):
            given += [(name, parse, value) for name, value in part.items() if name in REPORTS]
        elif part is not None:
            found.append(f"{key} is not an object")
    for name, parse, value in given:
        try:
            report = parse(name, value)  # guard: a report is parsed before it is kept -> value
        except OddError as error:
            found.append(str(error))
            host.reports.pop(name, None)
            continue
        host.reports[name] = [*host.reports.get(name, ()), *(report or ())] if name == "problems" else report
    return found


def _sentences(result: Mapping[str, Any], key: str, odd: list[str]) -> list[str]:
    """A module's list of sentences; what is wrong with it is added to `odd`."""
    found = result.get(key)
    if found is None:
        return []
    if (
        not isinstance(found, list)
        # guard: operations are texts
        or not all(isinstance(one, str) for one in found)
    ):
        odd.append(f"{key} is not a list of texts")
        return []
    if len(found) > MOST_CHANGES:
        odd.append(f"{key} has more than {MOST_CHANGES} entries")
    return [one if len(one) <= _LONGEST_CHANGE else one[:_LONGEST_CHANGE] + "…" for one in found[:MOST_CHANGES]]


def _task_name(data: Mapping[str, Any]) -> str:
    task = str(data.get("task") or data.get("name") or "")
    # "role : Task" is how Ansible names a role's task
    return task.rpartition(" : ")[2]


def _limit(result: Mapping[str, Any]) -> str | None:
    """The seconds that a host's next task may take, as a role reports them with ansible.builtin.set_stats."""
    stats = result.get("ansible_stats")
    data = stats.get("data") if isinstance(stats, Mapping) else None
    found = str(data.get("gpuadmin_seconds")) if isinstance(data, Mapping) else ""
    # a host's answer, too, may have such a key
    return found if re.fullmatch("[0-9]{1,7}", found) else None


def parse_obstacles(result: Mapping[str, Any]) -> list[str]:
    """Why gpuadmin.node.preflight left a host as it is. Anything of another shape, as a host may send, is ignored."""
    found = result.get("obstacles")
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        return []
    return [one[:LONGEST_MESSAGE] for one in found[:_MOST_OBSTACLES]]


def _without_step(message: str) -> str:
    return message.partition(_STEP.partition("{}")[0])[0]


def failure_message(result: Mapping[str, Any], items: list[str], task: str, module: str) -> str:
    """Given a failed task's result, return a sentence for an admin. It names the task where the cause alone would not
    say what failed; the log always has it."""
    if obstacles := parse_obstacles(result):  # each is short, and all of them count
        return "; ".join(one.rstrip(".") for one in obstacles)
    message = str(result.get("msg") or "")
    if items:
        message = "; ".join(dict.fromkeys(items))
    # a sentence for admins: an operation's, or a playbook's
    clear = "operations" in result or module in _SAYS
    if not message or message == "non-zero return code" or _NO_ANSWER.search(message):
        message = _last_words(result) or message
    if message == "non-zero return code":
        command = result.get("cmd")
        pasted = " ".join(str(word) for word in command) if isinstance(command, list) else str(command)
        message, clear = f"ended with {result.get('rc')}: {pasted}", True
    message = re.sub(r"\s+", " ", message).strip() or "failed without a message"
    if len(message) > LONGEST_MESSAGE:
        message = message[: LONGEST_MESSAGE - 1] + "…"
    return message if clear or not task else f"{message}{_STEP.format(task)}"


#: A module of Ansible's that did not answer, in Ansible's words: why, only the host says.
_NO_ANSWER = re.compile(
    r"MODULE FAILURE|[Rr]esult deserialization failed|No start of json char found|Premature end of stream"
)
_CAUSES = (
    (r"sudo: .*must have a tty", "requiretty is in its sudoers: visudo there, and take it out"),
    (r"not in the sudoers", "its sudoers has no rule for this account"),
)


def _last_words(result: Mapping[str, Any]) -> str:
    """The last line that the remote program wrote, with its cause where that is known; an empty text for none."""
    premature = str(result.get("msg") or "").rpartition(">>> Standard ")[2].partition("\n")[2]
    for text in (result.get("stderr"), result.get("module_stderr"), result.get("module_stdout"), premature):
        lines = [line.strip() for line in str(text or "").splitlines()]
        lines = [line for line in lines if line and not re.match(r"(Shared c|C)onnection to .* closed", line)]
        if lines:
            causes = [cause for pattern, cause in _CAUSES if re.search(pattern, lines[-1])]
            return f"{lines[-1]} ({causes[0]})" if causes else lines[-1]
    return ""


_CUT = "the ssh connection was cut"
_SSH_REASONS = (
    # ssh ends this one too with "Host key verification failed"
    (r"No .* host key is known|authenticity of host", UNPINNED),
    (r"Host key verification failed|host key for .* has changed|REMOTE HOST IDENTIFICATION", OTHER_KEY),
    (r"Connection refused", "nothing answers on its ssh port (connection refused)"),
    (r"timed out|Timeout|timeout", "does not answer (timed out)"),
    (r"No route to host|Network is unreachable", "cannot be reached over the network"),
    (r"Could not resolve hostname", UNRESOLVED),
    (r"Permission denied", DENIED),  # Session.run finds out whose fault that is
    (
        r"Connection reset|Connection closed|kex_exchange_identification|Broken pipe|closed by remote",
        _CUT,
    ),
)


#: What a host printed before it ended the connection: the words of its /etc/nologin (pam_nologin(8)), or a banner.
_LAST_WORDS = re.compile(
    r"\A(?:.*?(?:via|over) ssh:)?\s*(?P<words>\S.*?)\s*^Connection closed by .*\Z", re.DOTALL | re.MULTILINE
)
_LONGEST_WORDS = 120
_LONGEST_COMPLAINT = 1500


def unreachable_message(message: str) -> str:
    """Given ssh's complaint, return it in plain words; an unknown one stays as ssh printed it."""
    if len(message) > 2 * _LONGEST_COMPLAINT:  # a host's banner is in it, as long as the host likes
        message = f"{message[:_LONGEST_COMPLAINT]} … {message[-_LONGEST_COMPLAINT:]}"
    for pattern, reason in _SSH_REASONS:
        if re.search(pattern, message):
            printed = _LAST_WORDS.match(message) if reason == _CUT else None
            words = re.sub(r"\s+", " ", printed["words"])[:_LONGEST_WORDS] if printed else ""
            return f"{reason}; the host said: {words}" if words else reason
    return re.sub(r"\s+", " ", message).strip()[:LONGEST_MESSAGE] or "unreachable"
