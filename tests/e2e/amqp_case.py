"""amqp_case.py: the base class of tests with a broker that listens for AMQP."""
from amqp import Client, Closed
from harness import Case


class AmqpCase(Case):
    arguments = ("--listen", "amqp://127.0.0.1:0")

    def amqp_port(self):
        return next(int(url.rsplit(":", 1)[1]) for url in self.broker.ready["urls"].split() if url.startswith("amqp://"))

    def client(self, **options):
        client = Client(self.amqp_port(), **options)
        self.addCleanup(client.socket.close)
        return client

    def assert_closed(self, code, ask, *arguments, **options):
        with self.assertRaises(Closed) as caught:
            ask(*arguments, **options)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception.text

    def is_missing(self, queue):
        try:
            self.client().declare(queue, passive=True)
        except Closed as closed:
            return closed.code == 404
        return False
