"""Rules of nftables and iptables, chain by chain, without what they count."""

from __future__ import annotations

import re

from .place import Place, Settings

_COUNTED = re.compile(r"\bcounter packets \d+ bytes \d+|\[\d+:\d+\]|# handle \d+|\bpackets \d+ bytes \d+")
#: What Docker makes up: a bridge, a pair of interfaces.
_MADE_UP = re.compile(r"\b(br|veth)-?[0-9a-f]{7,12}\b")


def firewall(place: Place) -> Settings:
    """Chain → its rules. Raises NodeError where a program is there and says nothing."""
    found: Settings = {}
    ruleset = place.output("nft", "--stateless", "list", "ruleset")
    if ruleset is None:
        found["nft"] = "is not installed"
    else:
        found.update(of_nft(ruleset))
    for program in ("iptables-save", "ip6tables-save"):
        rules = place.output(program)
        if rules is not None:
            found.update(of_iptables(rules, program.partition("-")[0], nft=ruleset is not None))
    return found


def of_nft(text: str) -> Settings:
    """`nft list ruleset` → `inet filter chain input` and its lines."""
    found: dict[str, list[str]] = {}
    table, name = "", ""
    for line in text.splitlines():
        plain = _plain(line)
        begin = re.match(r"table (\S+ \S+) \{", plain)
        inner = re.match(r"(chain|set|map|flowtable) (\S+) \{", plain)
        if begin:
            table, name = begin.group(1), ""
            found[f"table {table}"] = ["is there"]
        elif inner and not name:
            name = f"{table} {inner.group(1)} {inner.group(2)}"
            found[name] = []
        elif plain == "}":
            name = ""
        elif plain and name:
            found[name].append(plain)
    return {key: "\n".join(lines) for key, lines in found.items()}


def of_iptables(text: str, program: str, *, nft: bool) -> Settings:
    """`iptables-save` → `iptables filter INPUT` and its rules. ``nft``: nft's list has what iptables-nft made, too."""
    if nft and "nf_tables" in text.partition("\n")[0]:
        return {}
    found: dict[str, list[str]] = {}
    table = ""
    for line in text.splitlines():
        plain = _plain(line)
        if plain.startswith("*"):
            table = plain[1:]
        elif plain.startswith(":"):
            chain, _, policy = plain[1:].partition(" ")
            found[f"{program} {table} {chain}"] = [f"policy {policy.strip()}"]
        elif plain.startswith("-A "):
            words = plain.split(" ", 2)
            found.setdefault(f"{program} {table} {words[1]}", []).append(words[2] if len(words) > 2 else "")
    return {key: "\n".join(lines) for key, lines in found.items()}


def _plain(line: str) -> str:
    plain = _MADE_UP.sub(r"\1-…", _COUNTED.sub("", line))
    return re.sub(r"\s+", " ", plain).strip()
