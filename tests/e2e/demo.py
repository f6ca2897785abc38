"""demo.py: `./dev demo`: simulates a day of orders, and kills the broker and one consumer meanwhile. Starts tarryd on a
temporary directory, and the example `order_timeout`. At 40 % of the day the broker gets SIGKILL, and starts again after half
a second on the same port and directory; at 65 % one consumer process is killed. Clients get no notice. order_timeout checks
every order, prints the summary and sets the exit status. With --pair there are two brokers and more disturbances:
demo_pair.py."""
import os
import sys
import time

import demo_pair
import demo_play
import harness

KILL_BROKER_AT, KILL_CONSUMER_AT = 0.40, 0.65
DOWN_S = 0.5


class OneBroker(demo_play.Demo):
    def start(self):
        self.broker = harness.Broker(os.path.join(self.directory, "data"))
        self.brokers.append(self.broker)
        return self.broker.start().url

    def disturb(self):
        if not self.wait_day(KILL_BROKER_AT):
            return
        pid = self.broker.process.pid
        self.broker.kill()
        time.sleep(DOWN_S)
        self.broker.start()
        self.say(f"the broker (pid {pid}) was killed with SIGKILL; it is back on {self.broker.url} with "
                 f"{self.broker.ready['recovered_tasks']} tasks after {self.broker.ready['took_ms']} ms")
        if self.wait_day(KILL_CONSUMER_AT) and self.consumers:
            self.kill_consumer()


def story(arguments):
    """Returns the story that the command line selects."""
    arguments = list(arguments)
    is_pair, coordinator = False, None
    rest = []
    while arguments:
        word = arguments.pop(0)
        if word == "--pair":
            is_pair = True
        elif word == "--coordinator" and arguments:
            coordinator = arguments.pop(0)
        elif word.startswith("--coordinator="):
            coordinator = word.partition("=")[2]
        else:
            rest.append(word)
    if coordinator and not is_pair:
        sys.exit("demo: --coordinator is for a pair: say --pair too")
    return demo_pair.TwoBrokers(rest, coordinator) if is_pair else OneBroker(rest)


def main():
    demo = story(sys.argv[1:])
    try:
        return demo.run()
    finally:
        demo.end()


if __name__ == "__main__":
    sys.exit(main())
