"""link.py: the connection to the primary. One WebSocket at a time; the addresses in turn (proto/WIRE.md)."""
import asyncio
import inspect
import ipaddress
import logging
import os
import random
import socket
import ssl
import stat
from urllib.parse import urlsplit

import websockets

from . import tarry_pb2 as pb
from .errors import Closed, Denied

log = logging.getLogger("tarry")

DEFAULT_URL = "ws://127.0.0.1:7272"
DIAL_PATIENCE_S = 1.0        # limit for one connection attempt if there are other addresses
DIAL_PATIENCE_ALONE_S = 5.0
DIAL_AGAIN_MIN_S = 0.025     # pause after a round over all addresses, doubled each time
DIAL_AGAIN_MAX_S = 0.4
SILENCE_S = 5.0              # a connection without a reply for this long is given up
HOST_DEAD_AFTER_MS = 800     # a host that acknowledges nothing for this long is given up, if there are others
MESSAGE_SIZE_MAX = 64 << 20
FIRST_NUMBER = 0x80000000    # SP: the first bit marks a request's number

_parameters = inspect.signature(websockets.connect.__init__).parameters
_HEADERS = "additional_headers" if "additional_headers" in _parameters else "extra_headers"
_OPTIONS = {"proxy": None} if "proxy" in _parameters else {}


class Lost(ConnectionError):
    """Raised when the connection has ended."""


def is_local(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def keep_watch(web_socket):
    """Makes the kernel find out within about a second that the host is dead."""
    raw = web_socket.transport.get_extra_info("socket")
    for level, option, value in ((socket.SOL_SOCKET, "SO_KEEPALIVE", 1), (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 1),
                                 (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 1), (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", HOST_DEAD_AFTER_MS)):
        if hasattr(socket, option):
            raw.setsockopt(level, getattr(socket, option), value)


class Identity:
    """Credentials that the client sends to a broker. Files are read at each connection attempt, so they may be replaced."""

    def __init__(self, token=None, token_file=None, tls_ca=None, tls_cert=None, tls_key=None, unsafe_plain_token=False):
        if token and token_file:
            raise ValueError("give token or token_file, not both")
        env = os.environ.get
        self.token = token
        self.token_file = token_file or (None if token else env("TARRY_TOKEN_FILE"))
        self.ca, self.cert, self.key = tls_ca or env("TARRY_TLS_CA"), tls_cert or env("TARRY_TLS_CERT"), tls_key or env("TARRY_TLS_KEY")
        self.unsafe_plain_token = unsafe_plain_token or env("TARRY_UNSAFE_PLAIN_TOKEN") == "1"

    def bearer(self, url):
        if not (self.token or self.token_file):
            return None
        if url.scheme == "ws" and not is_local(url.hostname) and not self.unsafe_plain_token:
            raise Denied("DENIED", f"the token is not sent over ws:// to {url.hostname}, where others can read it: use wss://, or set unsafe_plain_token")
        return self.token or self._read(self.token_file)

    @staticmethod
    def _read(path):
        try:
            if os.stat(path).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise Denied("DENIED", f"other users may read the token file {path}: chmod 600 {path}")
            with open(path, encoding="ascii") as file:
                token = file.read().strip()
        except (OSError, UnicodeError) as error:
            raise Denied("DENIED", f"the token file {path} cannot be read: {error}") from None
        if not token or any(character.isspace() for character in token):
            raise Denied("DENIED", f"the token file {path} must hold one token without blanks")
        return token

    def context(self, url):
        if url.scheme != "wss":
            return None
        context = ssl.create_default_context(cafile=self.ca or None)
        if self.cert:
            context.load_cert_chain(self.cert, self.key or None)
        return context

    async def open(self, url, path, protocol, bearer, patience_s):
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        return await asyncio.wait_for(websockets.connect(
            url.geturl().rstrip("/") + path, subprotocols=[protocol], compression=None, max_size=MESSAGE_SIZE_MAX, ping_interval=None,
            close_timeout=0.2, open_timeout=None, ssl=self.context(url), **{_HEADERS: headers}, **_OPTIONS), patience_s)


class Connection:
    """A WebSocket to /rpc of one address, with requests and replies in any order."""

    def __init__(self, web_socket, index):
        self.web_socket, self.index = web_socket, index
        self.waiting = {}
        self.number = random.getrandbits(30)
        self.is_open = True
        self.is_useful = False  # true: the last request on this connection was answered
        self.reader = asyncio.ensure_future(self._read())

    async def _read(self):
        try:
            async for message in self.web_socket:
                future = self.waiting.pop(int.from_bytes(message[:4], "big"), None)
                if future is not None and not future.done():
                    future.set_result(pb.Reply.FromString(message[4:]))
        except Exception as error:  # after any error, the requests of the connection are repeated elsewhere
            log.debug("connection lost: %s", error)
        finally:
            self.is_open = False
            for future in self.waiting.values():
                if not future.done():
                    future.set_exception(Lost())
            self.waiting.clear()

    async def exchange(self, request):
        """Sends a request and returns its reply. Raises Lost if the connection ends, or after SILENCE_S without a reply."""
        if not self.is_open:
            raise Lost()
        self.number = (self.number + 1) % FIRST_NUMBER
        number = FIRST_NUMBER | self.number
        future = self.waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self.web_socket.send(number.to_bytes(4, "big") + request)
            reply = await asyncio.wait_for(future, SILENCE_S)
        except asyncio.TimeoutError:
            self.is_useful = False
            self.close()
            raise Lost() from None
        except (websockets.WebSocketException, OSError):
            self.close()
            raise Lost() from None
        finally:
            self.waiting.pop(number, None)
        self.is_useful = True
        return reply

    def close(self):
        self.is_open = False
        self.reader.cancel()
        self.web_socket.transport.abort()


class Link:
    """Finds the primary. `ready` returns the open connection; `leave` leaves it for the next address."""

    def __init__(self, urls, identity, on_connection):
        texts = [text.strip() for text in (urls or os.environ.get("TARRY_BROKER") or DEFAULT_URL).split(",")]
        self.urls = [urlsplit(text) for text in texts]
        for text, url in zip(texts, self.urls):
            if url.scheme not in ("ws", "wss") or not url.hostname or url.path not in ("", "/") or url.query:
                raise ValueError(f"the broker's address {text!r} must look like ws://host:7272 or wss://host:7272")
        self.identity, self.on_connection = identity, on_connection
        self.connection = None
        self.dialing = None
        self.is_closed = False
        self.index = 0          # index of the next address to try
        self.tried = set()      # addresses of this round
        self.rounds = 0
        self.said = {}          # address → why it was of no use
        self.denied = set()     # addresses that do not accept this client

    @property
    def name(self):
        return self.urls[self.index].geturl()

    def explain(self):
        return "; ".join(f"{self.urls[index].geturl()}: {text}" for index, text in sorted(self.said.items())) or "no broker has replied"

    def is_up(self):
        return self.connection is not None and self.connection.is_open

    async def ready(self):
        if self.is_closed:
            raise Closed("the client is closed")
        if self.is_up():
            return self.connection
        if self.dialing is None or self.dialing.done():
            self.dialing = asyncio.ensure_future(self._dial())
            self.dialing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self.dialing)

    def useful(self):
        """Records that the current broker handled a request."""
        self.tried, self.rounds = set(), 0
        self.said.pop(self.index, None)

    def leave(self, connection, hint, why):
        """Leaves the broker at `connection`, because it is not the primary. `hint` is the address that it names as the
        primary, or "".
        """
        if connection is not self.connection:
            return
        self._drop(why)
        self.tried.add(self.index)
        texts = [url.geturl().rstrip("/") for url in self.urls]
        named = texts.index(hint.rstrip("/")) if hint.rstrip("/") in texts else None
        self._go_on(named)

    def _drop(self, why):
        self.said[self.index] = why
        if self.connection is not None:
            self.connection.close()
            self.connection = None
            self.on_connection(self.name, False, why)

    def _go_on(self, named=None):
        """Chooses the next address. The address `named` comes next if it was not tried in this round."""
        count = len(self.urls)
        order = [(self.index + step) % count for step in range(1, count + 1)]
        if named is not None:
            order.insert(0, named)
        self.index = next((index for index in order if index not in self.tried), (self.index + 1) % count)

    async def _dial(self):
        if self.connection is not None:  # after a lost connection that was useful, try the same address first
            is_useful = self.connection.is_useful
            self._drop("the connection was lost" if is_useful else "the broker does not answer requests")
            if not is_useful:
                self.tried.add(self.index)
                self._go_on()
        while True:
            if len(self.tried) >= len(self.urls):
                self.tried = set()
                self.rounds += 1
                pause_s = min(DIAL_AGAIN_MIN_S * 2 ** self.rounds, DIAL_AGAIN_MAX_S)
                await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            try:
                connection = await self._attempt()
            except asyncio.CancelledError:
                raise
            except Exception as error:  # an error of DNS, TCP, TLS or HTTP: try the next address
                self._failed(error)
                self.tried.add(self.index)
                if len(self.denied) == len(self.urls):
                    raise Denied("DENIED", self.explain()) from None
                self._go_on()
                continue
            self.denied.discard(self.index)
            self.connection = connection
            self.on_connection(self.name, True, "")
            return connection

    def _failed(self, error):
        response = getattr(error, "response", None)
        status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
        if status in (401, 403) or isinstance(error, Denied):
            self.denied.add(self.index)
        else:
            self.denied.discard(self.index)
        if isinstance(error, asyncio.TimeoutError):
            error = "no answer to the connection attempt"
        elif status in (401, 403):
            error = f"the broker does not accept this client's token or certificate (HTTP {status})"
        self.said[self.index] = getattr(error, "message", None) or str(error) or type(error).__name__

    async def _attempt(self):
        url = self.urls[self.index]
        is_alone = len(self.urls) == 1
        web_socket = await self.identity.open(url, "/rpc", "rep.sp.nanomsg.org", self.identity.bearer(url),
                                              DIAL_PATIENCE_ALONE_S if is_alone else DIAL_PATIENCE_S)
        if not is_alone:
            keep_watch(web_socket)
        return Connection(web_socket, self.index)

    async def open_lane(self, index, lane, secret):
        """Opens the WebSocket that brings a session's tasks."""
        web_socket = await self.identity.open(self.urls[index], f"/lane/{lane}", "push.sp.nanomsg.org", secret.hex(), DIAL_PATIENCE_ALONE_S)
        if len(self.urls) > 1:
            keep_watch(web_socket)
        return web_socket

    def close(self):
        self.is_closed = True
        if self.dialing is not None:
            self.dialing.cancel()
        if self.connection is not None:
            self._drop("the client was closed")
