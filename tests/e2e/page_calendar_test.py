"""page_calendar_test.py: the page's calendar in a real browser: minutes, hours, days, months, of one queue and of all; many
tasks due at midnight; a click on a cell shows its tasks; keyboard, light and dark, small screens; only what the token may
see; hostile text stays text."""
import time

import harness
import tokens
from browser import needs_one
from page_test import CONTRAST, HOSTILE, NAMES, READY, Looks, guard

HERD = 40


def midnight_ms(days):
    """Returns a midnight in the local time zone, which is also the browser's time zone."""
    now = time.localtime()
    return int(time.mktime((now.tm_year, now.tm_mon, now.tm_mday + days, 0, 0, 0, 0, 0, -1))) * 1000


@needs_one
class Calendar(Looks):
    def fill(self):
        tasks = [{"queue": "orders.close", "key": f"herd-{n:02}", "due_ms": midnight_ms(2) + n * 1000} for n in range(HERD)]
        tasks += [{"queue": "mail", "key": f"mail-{n}", "due_ms": midnight_ms(2) + 60_000} for n in range(3)]
        tasks += [{"queue": "mail", "key": f"soon-{n}", "delay_ms": 1_800_000} for n in range(2)]
        tasks += [{"queue": "mail", "key": f"far-{n}", "due_ms": midnight_ms(150)} for n in range(7)]
        tasks += [{"queue": "mail", "key": "after-years", "due_ms": midnight_ms(1000)}]
        self.broker.schedule_all(tasks)

    def look(self):
        self.browser.open(f"http://127.0.0.1:{self.broker.port}/")
        self.browser.log()
        self.browser.wait(READY)
        self.told("hours ")

    def told(self, what):
        self.browser.wait("return document.body.dataset.calendar === arguments[0]", what)

    def view(self, name, queue=""):
        self.browser.run("const v = document.getElementById('calendar-view'), q = document.getElementById('calendar-queue'); v.value = arguments[0]; q.value = arguments[1];"
                         "v.dispatchEvent(new Event('change'))", name, queue)
        self.told(f"{name} {queue}")
        return self.said()

    def said(self):
        return self.browser.run("return document.getElementById('calendar-said').textContent")

    def cells(self):
        return self.browser.run("return [...document.querySelectorAll('.heat')].filter((b) => !b.title.endsWith(': 0')).map((b) => b.title)")

    def due(self):
        return self.browser.run("return [...document.querySelectorAll('#due-rows tr')].map((r) => r.cells[0].textContent)")

    def press_most(self):
        self.browser.run("document.querySelector('.heat.most').focus()")
        self.browser.keys("\ue007")
        self.browser.wait("return document.activeElement.id === 'due-title' && document.getElementById('due-state').textContent !== 'Reading …'")

    def test_the_herd_of_midnight_is_in_plain_sight_and_its_tasks_a_key_away(self):
        self.fill()
        self.look()
        self.assertIn("45 tasks fall due in this time; most in one hour: 43,", self.said())
        self.assertIn("Earlier: 0; later: 8.", self.said())
        self.assertEqual(self.browser.run("const b = document.querySelectorAll('.heat.most'); return [b.length, b[0].dataset.at, b[0].querySelector('.bar').style.height]"), [1, "2 0", "100%"])
        self.assertEqual(len(self.cells()), 2)
        for view, sum_of, most in (("minutes", 2, "2,"), ("days", 45, "43,"), ("months", 52, ""), ("hours", 45, "43,")):
            said = self.view(view)
            self.assertIn(f"{sum_of} tasks fall due", said)
            self.assertIn(f": {most}", said)
        self.assertIn("most in one hour: 40,", self.view("hours", "orders.close"))
        self.press_most()
        self.assertEqual(self.due(), [f"“herd-{n:02}”" for n in range(25)])
        self.browser.run("document.getElementById('due-next').focus()")
        self.browser.keys("\ue007")
        self.browser.wait("return document.querySelectorAll('#due-rows tr').length === 15")
        self.browser.run("document.querySelector('#due-rows button').focus()")
        self.browser.keys("\ue007")
        self.browser.wait("return document.activeElement.id === 'task' && document.getElementById('task-title').textContent === '“herd-25”'")
        self.assertEqual(self.browser.log(), [])

    def test_of_all_together_the_queues_come_first_and_arrows_lead_from_cell_to_cell(self):
        self.fill()
        self.look()
        self.press_most()
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('#due-queues button')].map((b) => b.textContent)"), ["orders.close: 40", "mail: 3"])
        self.browser.run("document.querySelectorAll('#due-queues button')[1].focus()")
        self.browser.keys("\ue007")
        self.browser.wait("return document.querySelectorAll('#due-rows tr').length === 3")
        self.assertEqual(self.due(), ["“mail-0”", "“mail-1”", "“mail-2”"])
        self.browser.run("document.getElementById('due-close').focus()")
        self.browser.keys("\ue007")
        self.browser.run("document.querySelector(\".heat[data-at='2 0']\").focus()")
        for key, at in (("\ue014", "2 1"), ("\ue015", "3 1"), ("\ue012", "3 0"), ("\ue012", "3 0"), ("\ue013", "2 0")):
            self.browser.keys(key)
            self.assertEqual(self.browser.run("return document.activeElement.dataset.at"), at)
        self.assertEqual(self.browser.run("return document.querySelectorAll(\".heat[tabindex='0']\").length"), 1)

    def test_it_lives(self):
        self.fill()
        self.look()
        self.broker.ok("schedule", "mail", "--due-ms", midnight_ms(2))
        self.browser.wait("return document.getElementById('calendar-said').textContent.includes('most in one hour: 44,')")
        self.broker.ok("cancel", "orders.close", "herd-00")
        self.browser.wait("return document.getElementById('calendar-said').textContent.includes('most in one hour: 43,')")

    def fill_the_picture(self):
        """Schedules some orders at each hour of seven days, and many tasks due at midnight."""
        hours = [(day, hour, 90 + 7 * day if hour == 0 else 3 + (5 * hour + 7 * day) % 19) for day in range(1, 8) for hour in (0, *range(7, 22))]
        self.broker.schedule_all([{"queue": "orders.close" if n % 3 else "mail", "key": f"{day}-{hour}-{n}", "due_ms": midnight_ms(day) + hour * 3_600_000 + n}
                                  for day, hour, tasks in hours for n in range(tasks)])

    def test_accessible_in_light_and_dark_and_on_a_telephone(self):
        self.fill()
        self.fill_the_picture()
        self.look()
        self.press_most()
        for scheme in ("light", "dark"):
            self.browser.media(prefers_color_scheme=scheme)
            self.browser.size(1280, 1000)
            self.assertEqual(self.browser.run(CONTRAST), [], scheme)
            self.browser.run("document.getElementById('calendar-title').scrollIntoView()")
            self.shoot(f"calendar-{scheme}")
        self.assertEqual(self.browser.run(NAMES), [])
        self.assertEqual(self.browser.run("return document.querySelectorAll('th:not([scope])').length"), 0)
        self.browser.size(360, 740, mobile=True)
        for view in ("minutes", "days", "months", "hours"):
            self.view(view)
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360, view)
        self.browser.run("document.getElementById('calendar-title').scrollIntoView()")
        self.shoot("calendar-phone")
        self.browser.size(1280, 1000)

    def test_whoever_is_confined_sees_his_queues_and_whoever_may_not_is_told(self):
        self.fill()
        guard(self.broker, tokens.row("shop", "read", "queue=orders."), tokens.row("maker", "produce"))
        self.become("shop")
        self.told("hours ")
        self.assertIn("40 tasks fall due in this time; most in one hour: 40,", self.said())
        self.view("hours", "orders.close")
        self.browser.run("const q = document.getElementById('calendar-queue'); q.value = 'mail'; q.dispatchEvent(new Event('change'))")
        self.browser.wait("return document.getElementById('calendar-said').textContent.startsWith('Not told: ')")
        self.assertTrue(self.browser.run("return document.getElementById('calendar-table').hidden"))

    def test_hostile_names_are_text(self):
        self.broker.schedule_all([{"queue": text, "key": text, "due_ms": midnight_ms(2)} for text in HOSTILE])
        self.look()
        self.press_most()
        self.assertEqual(sorted(self.browser.run("return [...document.querySelectorAll('#due-queues button')].map((b) => b.textContent)")), sorted(f"{text}: 1" for text in HOSTILE))
        self.browser.run("document.querySelectorAll('#due-queues button')[3].click()")
        self.browser.wait("return document.querySelectorAll('#due-rows tr').length === 1")
        self.assertEqual(self.browser.run("return [window.xss ?? null, document.querySelectorAll('iframe, main img, #due script, #due a').length]"), [None, 0])
        self.assertEqual(self.browser.log(), [], "the policy had nothing to refuse")


if __name__ == "__main__":
    harness.main()
