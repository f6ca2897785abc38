"""foreign_pynng.py: a client of tarryd with a library of another project, pynng (nng's Python binding): its REQ and PULL sockets and its TLS. The
messages are made by foreign.py. Run by foreign_library_test.py if pynng is installed.

pynng's own `dial` cannot set HTTP headers, so this program makes and starts the dialer with nng's functions, which pynng exports."""
import sys
from urllib.parse import urlsplit

import foreign
import pynng
from pynng import options
from pynng.nng import to_char

PATIENCE_MS = 20_000
SIZE_MAX = 64 << 20


class Socket:
    def __init__(self, url, path, protocol, bearer, authority):
        kind = pynng.Req0 if protocol.startswith("rep.") else pynng.Pull0
        self.socket = kind(recv_timeout=PATIENCE_MS, recv_max_size=SIZE_MAX)
        made = pynng.ffi.new("nng_dialer *")
        pynng.check_err(pynng.lib.nng_dialer_create(made, self.socket.socket, to_char(url + path)))
        dialer = pynng.Dialer(made, self.socket)
        if bearer:
            options._setopt_string(dialer, "ws:request-headers", f"Authorization: Bearer {bearer}")
        if authority:
            dialer.tls_config = pynng.TLSConfig(pynng.TLSConfig.MODE_CLIENT, server_name=urlsplit(url).hostname, ca_files=authority,
                                                auth_mode=pynng.TLSConfig.AUTH_MODE_REQUIRED)
        pynng.check_err(pynng.lib.nng_dialer_start(dialer.dialer, 0))

    def ask(self, request):
        self.socket.send(request)
        return self.receive()

    def receive(self):
        return self.socket.recv()


if __name__ == "__main__":
    foreign.main(Socket, *sys.argv[1:])
