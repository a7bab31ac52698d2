"""HTTP as OpenAI-compatible servers speak it: address, key, session, and errors in one line each.

Only the given address is contacted: no proxies of the environment, no redirects. The key goes there alone, and
never into a message.
"""

from __future__ import annotations

import json
import os
import re
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from energyscope.errors import RunError, UsageError

if TYPE_CHECKING:
    import aiohttp

KEY_VARIABLES = ("ENERGYSCOPE_API_KEY", "OPENAI_API_KEY")
BODY_BYTES = 1 << 20  # of an answer, at most
SHOWN = 200  # characters of a server's own words
IDLE_S = 2.0  # for which an idle connection is kept; servers close theirs after 5 s
ENDING = re.compile(r"(/v1(/(chat/)?completions|/models)?)?/*$")
ADVICE = {404: " (check --model and the address)", 500: " (its log may say more)"}
EXAMPLE = "give one such as http://localhost:8000"


class ServerError(RunError):
    """A server could not be reached or refused a request.

    ``status`` is HTTP's, None where there was none; ``words`` are the server's own.
    """

    def __init__(self, message: str, status: int | None = None, words: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.words = words


def base_of(url: str) -> str:
    """Return a server's address without a path of its API (`/v1`, `/v1/models`, ...) and without a last slash.

    Raises:
        UsageError: it is no address, or holds what must not be shown: a password, or a query.

    """
    if "@" in url or "?" in url:
        raise UsageError(f"the address holds a password or a query: give it without, a key in {KEY_VARIABLES[0]}")
    try:
        parts = urlsplit(url.strip())
        known = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise UsageError(f"{url!r} is no address of a server: {EXAMPLE}")
    return f"{parts.scheme}://{parts.netloc}{ENDING.sub('', parts.path)}"


def api_key() -> str | None:
    """Return the server's key from the environment, None where there is none.

    Raises:
        UsageError: it cannot be sent.

    """
    variable = key_variable()
    key = os.environ[variable].strip() if variable else ""
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"{variable} holds characters that no key has: set it again")
    return key or None


def key_variable() -> str | None:
    """Return the environment variable from which the key is taken."""
    return next((name for name in KEY_VARIABLES if os.environ.get(name, "").strip()), None)


def open_session(timeout_s: float | None) -> aiohttp.ClientSession:
    """Return a session with the key, in which a request fails after ``timeout_s`` (s) in all."""
    import aiohttp

    key = api_key()
    return aiohttp.ClientSession(
        headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {}),
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        trust_env=False,
    )


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """Return the first MiB of an answer."""
    body = bytearray()
    while len(body) < BODY_BYTES and (data := await response.content.readany()):
        body += data
    return bytes(body[:BODY_BYTES])


def shown(text: str) -> str:
    """Return a server's words as part of a line: printable, without the key, and not too long."""
    key = api_key()
    words = " ".join(text.split())
    clean = "".join(letter for letter in words if letter.isprintable())
    return (clean.replace(key, "***") if key else clean)[:SHOWN]


def message_of(body: bytes) -> str:
    """Return what an error's body says: its message where it is JSON with one, else its text."""
    text = body.decode(errors="replace")
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        return shown(text) or "no message"
    for name in ("error", "message", "detail"):
        document = document.get(name, document) if isinstance(document, dict) else document
    return shown(document if isinstance(document, str) else text) or "no message"


async def refusal(response: aiohttp.ClientResponse) -> ServerError:
    """Return the error of an answer that is not 200."""
    status, url = response.status, response.url
    message = message_of(await read_body(response))
    response.close()  # after an error, servers close the connection at any moment: it is not used again
    if 300 <= status < 400:
        where = shown(response.headers.get("Location", "nowhere"))
        return ServerError(f"{url} redirects to {where}: give the address that answers itself", status)
    if status in {401, 403}:
        variable = key_variable()
        advice = f"check the key in {variable}" if variable else f"set {KEY_VARIABLES[0]} to a key of the server"
        return ServerError(f"{url} refuses access ({status}): {advice}", status)
    if status == 429:
        return ServerError(f"{url} takes no more requests now (429): {message}", status)
    return ServerError(f"{url} answered {status}{ADVICE.get(status, '')}: {message}", status, message)


def failure(error: Exception, url: str, timeout_s: float | None) -> ServerError:
    """Return the error of a request without an answer, or whose answer broke off."""
    return ServerError(_failed(error, url, timeout_s))


def _failed(error: Exception, url: str, timeout_s: float | None) -> str:
    import aiohttp

    if isinstance(error, TimeoutError):
        return f"{url} did not answer within {timeout_s:g} s: raise --timeout, or restart a stuck server"
    if isinstance(error, aiohttp.ClientConnectorError):
        return _unreachable(error, url)
    if isinstance(error, aiohttp.ClientResponseError):  # its text may hold what was sent
        return f"{url} does not speak HTTP: try https://, or check the port"
    return f"the connection to {url} broke: {shown(str(error)) or type(error).__name__}"


def _unreachable(error: aiohttp.ClientConnectorError, url: str) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = shown(str(error.certificate_error))
        return f"the certificate of {url} is not trusted ({why}): name its authority in SSL_CERT_FILE"
    if isinstance(error, aiohttp.ClientSSLError):
        return f"{url} speaks no TLS that is understood here: try http://, or check the port"
    if isinstance(error.os_error, socket.gaierror):
        return f"{error.host} is not a known host: check the address"
    number = error.os_error.errno
    why = os.strerror(number) if number else shown(str(error.os_error))
    return f"no server at {url} ({why}): start it, or check address and port"
