"""proxy.py: a network that can misbehave: a TCP proxy on loopback between clients and the broker.

    client ──► proxy.url ──► [ up: held? late? a byte at a time? ] ──► broker
           ◄──               [ down: likewise                    ] ◄──

The proxy keeps the promises of TCP: within a connection bytes are neither lost nor reordered. So a partition *holds* bytes.
Afterwards `heal` delivers them late, or `cut` drops them and resets the connection, as real networks do. Therefore requests are
lost, repeated or reordered only between connections.
"""
import socket
import struct
import threading
import time

UP, DOWN = "up", "down"  # directions: client to broker, broker to client
BOTH = (UP, DOWN)


def close_hard(peer):
    """Closes a socket with a TCP reset."""
    try:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    close(peer)


def close(peer):
    """Closes a socket in which another thread may be blocked, so that this thread wakes."""
    try:
        peer.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    peer.close()


class Link:
    """One connection through the proxy, with one thread per direction."""

    def __init__(self, proxy, client):
        self.proxy = proxy
        self.alive = True
        self.client = client
        self.broker = socket.create_connection(("127.0.0.1", proxy.broker_port), 10)
        self.broker.settimeout(None)
        for peer in (self.client, self.broker):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self):
        """Starts to transfer data. Call `start` when the connection is already in the proxy's list, so that `cut` can find and
        end it.
        """
        for direction, source, sink in ((UP, self.client, self.broker), (DOWN, self.broker, self.client)):
            threading.Thread(target=self._pump, args=(direction, source, sink), daemon=True).start()

    def _pump(self, direction, source, sink):
        try:
            while data := source.recv(65536):
                if not self.proxy.pass_through(self, direction, data, sink):
                    return  # the link was cut or abandoned
        except OSError:
            pass
        if self.alive and not self.proxy.lingers:
            self.end(close)

    def end(self, how):
        """Closes the sockets on both sides: calls `how` with each."""
        self.alive = False
        how(self.client)
        how(self.broker)


class Proxy:
    """A route to the broker. Any thread may call any method at any time."""

    def __init__(self, broker_port):
        self.broker_port = broker_port
        self.changed = threading.Condition()
        self.held = set()       # directions
        self.delay_s = 0.0      # delay before each piece
        self.piece_max = None   # maximum number of bytes per write; None: unlimited
        self.lingers = False    # the end of one side is not passed on, as if its last packet were lost
        self.carried = {UP: 0, DOWN: 0}
        self.links = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.url = f"ws://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                link = Link(self, client)
            except OSError:
                close_hard(client)  # no broker listens there
                continue
            with self.changed:
                self.links = [other for other in self.links if other.alive] + [link]
            link.start()

    def pass_through(self, link, direction, data, sink):
        """Passes on one piece according to the network's state. Returns False if the connection has ended."""
        piece_max = self.piece_max or len(data)
        for at in range(0, len(data), piece_max):
            if self.delay_s:
                time.sleep(self.delay_s)
            with self.changed:
                self.changed.wait_for(lambda: direction not in self.held or not link.alive)
                if not link.alive:
                    return False
                self.carried[direction] += len(data[at:at + piece_max])
            sink.sendall(data[at:at + piece_max])
        return True

    # ---- faults

    def hold(self, *directions):
        """Partitions the network in these directions: open connections and new ones stay open, but transfer nothing."""
        with self.changed:
            self.held |= set(directions or BOTH)

    def heal(self):
        """Ends a partition: held bytes are delivered, late."""
        with self.changed:
            self.held.clear()
            self.changed.notify_all()

    def cut(self):
        """Resets every connection. Held bytes are lost. Returns the number of connections."""
        with self.changed:
            links, self.links = self.links, []
            for link in links:
                link.end(close_hard)
            self.changed.notify_all()
        return len(links)

    def abandon(self, side):
        """Leaves every connection half-open: the end at `side` ("client" or "broker") stays open and receives nothing more; the
        other end was reset. Returns the open sockets; the caller closes them."""
        with self.changed:
            links, self.links = self.links, []
            for link in links:
                link.alive = False
            self.changed.notify_all()
        standing = []
        for link in links:
            stands, goes = (link.client, link.broker) if side == "client" else (link.broker, link.client)
            # Duplicate the open socket, because the connection's thread closes the original.
            try:
                standing.append(stands.dup())
            except OSError:
                pass  # the connection's thread has just closed it
            close_hard(goes)
        return standing

    def slow(self, piece_max, delay_s=0.0):
        """From now on, data is passed on in pieces of at most `piece_max` bytes, each after a delay."""
        self.piece_max, self.delay_s = piece_max, delay_s

    def fast(self):
        self.piece_max, self.delay_s = None, 0.0

    def close(self):
        close(self.listener)
        self.cut()
