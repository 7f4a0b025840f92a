"""Who comes into the dashboard: by a link that works once, or by the header of the site's own reverse proxy.

Nobody has a password here. A link shows a page with one button, and only the button spends it: what looks at addresses
by itself (previews in chats, virus scanners) does not.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from jinja2 import Environment, FileSystemLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ..common import tokens
from ..common.names import LOGIN
from .files import DashboardError, in_words
from .notebooks import NOTEBOOK
from .sign_in import SignIn
from .used_tokens import Full, UsedTokens
from .viewer import Viewer

COOKIE = "__Host-gpuadmin"  # a browser takes it only with Secure, for all paths of this host, and for no other host
BY_PROXY = "proxy"  # the session of whoever the proxy names, who has none of ours
SECRET_HEADER = "x-gpuadmin-proxy-secret"
_PERSON = re.compile(LOGIN)


class Stranger(Exception):
    """Somebody says who they are by the header of the proxy, and is not the proxy."""


class Access:
    """Who comes in. ``secret`` is the dashboard's; what a node outside of ``nodes`` signs is not accepted."""

    def __init__(
        self,
        sign_in: SignIn,
        secret: bytes,
        used: UsedTokens,
        *,
        nodes: tuple[str, ...],
        cluster: str,
        files: str,
        proxy_secret: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        if sign_in.proxy is not None and len(proxy_secret) < 16:  # guard: a proxy without a secret is none
            raise DashboardError("the reverse proxy's secret is missing, or has fewer than 16 characters")
        self._sign_in, self._secret, self._used, self._clock = sign_in, secret, used, clock
        self._nodes, self._cluster = frozenset(nodes), cluster
        self._proxy_secret = proxy_secret.encode()
        templates = Environment(
            loader=FileSystemLoader(f"{files}/templates"),
            autoescape=True,  # guard: what the cluster is called is text -> False
        )
        self._page = templates.get_template("enter.html")

    def viewer(self, request: Request) -> Viewer | None:
        """Who asks; None for somebody who has not come in. Raises Stranger, which Guard answers."""
        named = self._read_proxy_user(request)
        if named is not None:
            proxy = self._sign_in.proxy
            return Viewer(
                named,
                # guard: the proxy makes no admin of whom the site does not name -> True
                admin=proxy is not None and named in proxy.admins,
                session=BY_PROXY,
            )
        token = self._read_session(request)
        return (
            None
            if token is None
            else Viewer(
                token.name,
                admin=token.admin,  # guard: a person's session makes no admin -> True
                session=token.digest,
            )
        )

    def find_node(self, request: Request) -> str | None:
        """The node of the site that asks for itself, for all who are on it; None for whoever else asks."""
        text = request.headers.get("authorization", "").removeprefix("Bearer ")
        try:
            return tokens.read(text, self._find_view_key, (tokens.VIEW,), self._clock(), tokens.VIEW_SECONDS).signer
        except tokens.TokenError:
            return None

    def _find_view_key(self, _kind: str, signer: str) -> bytes | None:
        link = self._find_signer_key(tokens.LINK, signer)
        return None if link is None else tokens.view_key(link)

    def routes(self) -> list[Route]:
        """/enter and /leave."""
        return [
            Route("/enter", self._look, methods=["GET"]),
            Route("/enter", self._enter, methods=["POST"]),
            Route("/leave", self._leave, methods=["POST"]),
        ]

    # -- the proxy

    def _read_proxy_user(self, request: Request) -> str | None:
        """Whom the proxy names, if it is the proxy that asks. Raises Stranger for whoever else names somebody."""
        proxy = self._sign_in.proxy
        given = [] if proxy is None else request.headers.getlist(proxy.header)
        secrets = request.headers.getlist(SECRET_HEADER)
        if proxy is None or not (given or secrets):
            return None
        peer = "" if request.client is None else request.client.host
        known = len(secrets) == 1 and hmac.compare_digest(secrets[0].encode(), self._proxy_secret)
        if (
            not known  # guard: the proxy has its secret
            or peer not in proxy.addresses  # guard: the proxy comes from its address
        ):
            raise Stranger
        if given in ([], [""]):
            return None  # the proxy lets people through whom it does not know: they need a link
        if (
            len(given) != 1 or not _PERSON.fullmatch(given[0])  # guard: the proxy names one person
        ):
            raise Stranger
        return given[0]

    # -- sessions

    def _read_session(self, request: Request) -> tokens.Token | None:
        text = request.cookies.get(COOKIE)
        if text is None:
            return None
        try:
            kinds = (tokens.SESSION, tokens.ADMIN_SESSION)
            token = tokens.read(text, self._find_signer_key, kinds, self._clock(), tokens.SESSION_SECONDS)
        except tokens.TokenError:
            return None
        return (
            None
            if self._used.has(token.digest)  # guard: a session that was left is over
            else token
        )

    def _find_signer_key(self, kind: str, signer: str) -> bytes | None:
        """The key of a signer who may sign such a text: a node for people, the controller for admins."""
        admin = kind in (tokens.ADMIN_LINK, tokens.ADMIN_SESSION)
        # guard: only nodes of the site sign for people, and only the controller for admins
        if signer not in ((tokens.CONTROLLER,) if admin else self._nodes):
            return None
        return tokens.signing_key(self._secret, kind, signer)

    def _parse_link(self, text: str) -> tokens.Token:
        kinds = (tokens.LINK, tokens.ADMIN_LINK)
        token = tokens.read(text, self._find_signer_key, kinds, self._clock(), tokens.LINK_SECONDS)
        if token.at < self._used.since - tokens.SKEW:  # guard: a link from before what is remembered is not taken
            raise tokens.TokenError("late")  # older than the record
        if self._used.has(token.digest):  # guard: a link is good once
            raise tokens.TokenError("spent")
        return token

    # -- forms

    def sign_form(self, viewer: Viewer) -> str:
        """What a form of a page has that was made for this person's session."""
        key = tokens.signing_key(self._secret, tokens.FORM, viewer.session)
        return tokens.sign(key, tokens.FORM, viewer.session, viewer.name, int(self._clock()))

    def spend_form(self, viewer: Viewer, text: str) -> str:
        """Take what a form has: empty if it is this session's and new, or the word for why not: form, spent, full."""

        def find_key(kind: str, signer: str) -> bytes | None:
            # guard: a form is good for its own session -> tokens.signing_key(self._secret, kind, signer)
            return tokens.signing_key(self._secret, kind, signer) if signer == viewer.session else None

        now = self._clock()
        try:
            token = tokens.read(text, find_key, (tokens.FORM,), now, tokens.FORM_SECONDS)
            if token.name != viewer.name:  # guard: a form is good for its own person
                return "form"
            until = token.at + tokens.FORM_SECONDS + tokens.SKEW
            # guard: a form is good once
            if not self._used.spend(token.digest, f"form:{viewer.name}~{viewer.name}", until, now):
                return "spent"
        except tokens.TokenError:
            return "form"
        except (Full, OSError, DashboardError) as error:
            print(f"no form is accepted: {in_words(error)}", flush=True)
            return "full"
        return ""

    # -- pages

    async def _look(self, request: Request) -> Response:
        """What a link shows. It spends nothing."""
        text = request.query_params.get("link", "")
        if not text:
            return self._answer(200)
        try:
            token = self._parse_link(text)
        except tokens.TokenError as error:
            return self._answer(403, problem=str(error))
        return self._answer(
            200, link=text, name=token.name, notebook=_notebook(request.query_params.get("notebook", ""))
        )

    async def _enter(self, request: Request) -> Response:
        """Spend a link, and give its bearer a session."""
        if not self.same_origin(request):
            return self._answer(403, problem="origin")
        fields = await read_form(request)
        text = fields.get("link", "")
        now = self._clock()
        try:
            token = self._parse_link(text)
            # for as long as it could be taken, should this clock be set back by as much as a signer's may be ahead
            # guard: a link is spent for as long as it could be taken -> token.at
            until = token.at + tokens.LINK_SECONDS + tokens.SKEW
            if not self._used.spend(token.digest, f"{token.signer}~{token.name}", until, now):
                raise tokens.TokenError("spent")
        except tokens.TokenError as error:
            return self._answer(403, problem=str(error))
        except (Full, OSError, DashboardError) as error:
            print(f"no link is accepted: {in_words(error)}", flush=True)
            return self._answer(503, problem="full")
        kind = tokens.ADMIN_SESSION if token.admin else tokens.SESSION
        key = tokens.signing_key(self._secret, kind, token.signer)
        print(f"{token.name} came in by a link of {token.signer}", flush=True)
        notebook = _notebook(fields.get("notebook", ""))
        answer = RedirectResponse(f"/notebooks/{notebook}" if notebook else "/", status_code=303)
        answer.set_cookie(
            COOKIE, tokens.sign(key, kind, token.signer, token.name, int(now)),
            max_age=tokens.SESSION_SECONDS, path="/",
            secure=True,  # guard: a cookie goes over TLS alone -> False
            httponly=True, samesite="lax",  # guard: no script reads a cookie -> False
        )  # fmt: skip
        return answer

    async def _leave(self, request: Request) -> Response:
        """End a session: nobody gets in with its cookie any longer."""
        if not self.same_origin(request):
            return self._answer(403, problem="origin")
        token = self._read_session(request)
        if token is not None:
            try:
                # guard: a session that was left is over for as long as it would be good -> token.at
                until = token.at + tokens.SESSION_SECONDS + tokens.SKEW
                self._used.spend(token.digest, f"session:{token.name}", until, self._clock())
            except (Full, OSError, DashboardError) as error:
                print(f"a sign-out could not be recorded: {in_words(error)}", flush=True)
        answer = RedirectResponse("/enter", status_code=303)
        # guard: whoever leaves takes no cookie along
        answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="lax")
        return answer

    def same_origin(self, request: Request, *, certain: bool = False) -> bool:
        """Whether a form came from a page of this dashboard (or, unless it must be certain, from a program, which says
        nothing of where).
        """
        # guard: a browser that says it comes from elsewhere is believed
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        try:
            # guard: a form comes from a page of the dashboard -> True
            return (origin is None and not certain) or urlsplit(origin or "")[:2] == ("https", host)
        except ValueError:  # guard: an origin that is not an address is refused
            return False  # not even an address

    def _answer(self, status: int, **values: str) -> Response:
        minutes = tokens.LINK_SECONDS // 60
        text = self._page.render(cluster=self._cluster, minutes=minutes, nodes=sorted(self._nodes)[:3], **values)
        return HTMLResponse(text, status_code=status, headers={"Cache-Control": "no-store"})


def _notebook(text: str) -> str:
    """The notebook that a link leads to, such as `node1/17`; "" for anything else."""
    return text if NOTEBOOK.fullmatch(text) else ""  # guard: a link leads nowhere else -> text


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; none where it is something else. nginx bounds what one may have."""
    try:
        found = parse_qs((await request.body()).decode("ascii"), keep_blank_values=True, max_num_fields=6)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items() if len(values) == 1}
