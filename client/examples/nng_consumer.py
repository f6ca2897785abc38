"""nng_consumer.py: nng_consumer.c with pynng, nng's Python binding: it subscribes to a queue, prints each task and acks it.

    protoc --proto_path=/usr/share/tarry --python_out=. tarry.proto      (packages protobuf-compiler, python3-protobuf)
    python3 nng_consumer.py tcp://127.0.0.1:7272 close-order [COUNT]      or ws://, ipc:///PATH …
"""
import sys

import pynng
import tarry_pb2


def ask(rpc, **body):
    """Sends a request and returns its reply, whose code is OK."""
    rpc.send(tarry_pb2.Request(version=1, **body).SerializeToString())
    reply = tarry_pb2.Reply.FromString(rpc.recv())
    if reply.code != tarry_pb2.OK:
        sys.exit(f"nng_consumer: refused: {reply.message}")
    return reply


def subscribe(rpc, queue, ticket):
    """Begins a session. Its lane is the connection whose first message had this ticket."""
    session = ask(rpc, subscribe=tarry_pb2.Subscribe(queues=[queue])).subscribe
    ask(rpc, attach=tarry_pb2.Attach(ticket=ticket, lane=session.lane, secret=session.secret))
    return session


def consume(url, queue, count):
    paths = ("/rpc", "/lane") if url.startswith("ws") else ("", "")  # nng's own transports have no secrets in headers
    with pynng.Req0(resend_time=-1, recv_timeout=10000) as rpc, pynng.Pull0(recv_timeout=10000, recv_max_size=64 << 20) as lane:
        rpc.dial(url + paths[0], block=True)
        lane.dial(url + paths[1], block=True)
        producer = ask(rpc, hello=tarry_pb2.Hello()).hello.producer
        session, sequence = None, 0
        while sequence != count:
            if session:  # without heartbeats, the broker gives the tasks to another session
                ask(rpc, heartbeat=tarry_pb2.Heartbeat(session=session.session))
            try:
                delivery = tarry_pb2.Delivery.FromString(lane.recv())
            except pynng.Timeout:
                continue
            if delivery.ticket:  # the first message of the lane
                session = subscribe(rpc, queue, delivery.ticket)
                lane.recv_timeout = session.silence_ms // 3
            for task in delivery.tasks[:count - sequence if count else None]:
                payload = tarry_pb2.Content.FromString(task.content).payload
                print(task.key.decode(), payload.decode(), flush=True)  # the real work would be here
                sequence += 1
                ack = tarry_pb2.Op(ack=tarry_pb2.Ack(id=task.id, token=task.token))
                commit = tarry_pb2.Commit(producer=producer, sequence=sequence, oldest_unanswered=sequence, ops=[ack])
                result = ask(rpc, commit=commit).commit.results[0]
                if result.code != tarry_pb2.OK:
                    print(result.message, file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: nng_consumer.py URL QUEUE [COUNT]")
    consume(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
