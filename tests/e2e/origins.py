"""origins.py: servers from which `tarry import` takes items: a real Redis, a proxy that can interfere, and a server that sends
false replies."""
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import ports


class Redis:
    """A real Redis from Debian's package, without persistence."""

    def __init__(self, *arguments, port=None):
        program = shutil.which("redis-server") or "/usr/bin/redis-server"
        if not os.path.exists(program):
            raise FileNotFoundError("redis-server is not installed: apt-get install redis-server")
        self.port = port or ports.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.directory = tempfile.mkdtemp(prefix="tarry-redis-")  # a replica writes its copy of the data into this directory
        self.process = subprocess.Popen([program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                                         "--dir", self.directory, *arguments],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port), 30)
                break
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    self.stop()
                    raise
                time.sleep(0.01)
        self.stream = self.socket.makefile("rb")

    def ask(self, *words):
        """Sends one command. Returns its reply as a Python value; an error is returned as an Exception."""
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self._answer()

    def _answer(self):
        line = self.stream.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._answer() for _ in range(int(rest))]
        return int(rest) if kind == b":" else Exception(rest.decode()) if kind == b"-" else rest

    def add(self, key, tasks):
        """Adds members to the Redis sorted set. `tasks`: pairs of a score and a member."""
        for at in range(0, len(tasks), 1000):
            self.ask("ZADD", key, *[word for pair in tasks[at:at + 1000] for word in pair])

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class Middle:
    """A proxy between the import and the server. The proxy calls `seen(data)` before it forwards data of the import. `seen`
    returns the data to forward; None: the proxy drops the data and closes the connection. `told(data)` is the same for the
    server's replies.
    """

    def __init__(self, port, seen=None, told=None):
        self.port_of_server, self.seen, self.told = port, seen, told
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port_of_server), 30)
            for source, sink, name in ((client, server, "seen"), (server, client, "told")):
                threading.Thread(target=self._pump, args=(source, sink, name), daemon=True).start()

    def _pump(self, source, sink, name):
        try:
            while data := source.recv(1 << 20):
                look = getattr(self, name)
                data = look(data) if look else data
                if data is None:
                    break
                sink.sendall(data)
        except OSError:
            pass
        for peer in (source, sink):
            try:
                peer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def stop(self):
        self.listener.close()


class Liar:
    """A server that sends one of `answers` for each piece that it receives, and then repeats the last one. `then`: after the
    last answer it is silent, or it closes the connection.
    """

    def __init__(self, answers, then="hang up"):
        self.answers, self.then = answers, then
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client):
        try:
            for answer in self.answers:
                if not client.recv(1 << 20):
                    return
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    client.sendall(piece)
            if self.then == "silence":
                while client.recv(1 << 20):
                    pass
        except OSError:
            pass
        finally:
            client.close()

    def stop(self):
        self.listener.close()
