"""beanstalk.py: a client of beanstalkd's protocol, byte by byte, and a real beanstalkd to compare with."""
import os
import re
import shutil
import socket
import subprocess
import time

import ports

WITH_BODY = (b"RESERVED", b"FOUND", b"OK")
# YAML keys whose values differ between two servers, or change with time.
VARIES = ("age", "time-left", "pid", "uptime", "rusage-utime", "rusage-stime", "id", "hostname", "os", "platform", "file",
          "version", "pause-time-left", "binlog-max-size", "total-connections", "current-connections")


class Client:
    """One connection."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.settimeout(30)
        self.stream = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        """Returns one reply with its body, as bytes; b"": the connection has ended."""
        line = self.stream.readline()
        words = line.split()
        if words and words[0] in WITH_BODY:
            line += self.stream.read(int(words[-1]) + 2)
        return line

    def ask(self, line, body=None):
        data = line.encode() + b"\r\n" + (b"" if body is None else body + b"\r\n")
        self.send(data)
        return self.reply()

    def put(self, body=b"x", pri=1024, delay=0, ttr=60):
        reply = self.ask(f"put {pri} {delay} {ttr} {len(body)}", body)
        assert reply.startswith(b"INSERTED "), reply
        return int(reply.split()[1])

    def close(self):
        self.stream.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Beanstalkd:
    """A real beanstalkd from Debian's package."""

    def __init__(self, *arguments, port=None):
        program = shutil.which("beanstalkd") or "/usr/bin/beanstalkd"
        if not os.path.exists(program):
            raise FileNotFoundError("beanstalkd is not installed: apt-get install beanstalkd")
        self.port = port or ports.free_port()
        said = subprocess.run([program, "-v"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.version = tuple(map(int, re.search(r"(\d+)\.(\d+)", said).groups()))
        self.process = subprocess.Popen([program, "-l", "127.0.0.1", "-p", str(self.port), *arguments],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while True:
            try:
                Client(self.port).close()
                return
            except OSError:
                if time.monotonic() > end:
                    self.stop()
                    raise
                time.sleep(0.01)

    def stop(self):
        self.process.kill()
        self.process.wait()


class Player:
    """Sends lines to a server. In the lines, $1, $2, … are replaced by the ids of jobs in the order of their puts."""

    def __init__(self, port):
        self.port = port
        self.clients = {}
        self.ids = []

    def client(self, name):
        if name not in self.clients:
            self.clients[name] = Client(self.port)
        return self.clients[name]

    def own_ids(self, data):
        return re.sub(rb"\$(\d+)", lambda found: str(self.ids[int(found[1]) - 1]).encode(), data)

    def named(self, reply):
        """Returns the reply without this server's ids and variable values."""
        head, _, body = reply.partition(b"\r\n")
        words = head.split(b" ")
        if words[0] == b"INSERTED":
            self.ids.append(int(words[1]))
        if words[0] in (b"INSERTED", b"RESERVED", b"FOUND"):
            words[1] = b"$%d" % (self.ids.index(int(words[1])) + 1)
        if words[0] == b"OK":
            words[1] = b"SIZE"
            lines = body.decode().splitlines()
            body = "\n".join(self.named_line(line) for line in lines).encode()
        return b" ".join(words) + b"\r\n" + body

    def named_line(self, line):
        key, colon, value = line.partition(":")
        if key == "id" and value.strip().isdigit() and int(value) in self.ids:
            return f"id: ${self.ids.index(int(value)) + 1}"
        return f"{key}:" if colon and key in VARIES else line

    def play(self, name, data):
        client = self.client(name)
        client.send(self.own_ids(data))
        return self.named(client.reply())

    def drop(self, name):
        self.clients.pop(name).close()

    def close(self):
        for client in self.clients.values():
            client.close()
