"""page_pictures_test.py: a browser paints each view of the page as recorded: in light and dark colours, on a telephone, and for a pair.

The pixels of a picture depend on fonts, which differ between versions of Debian. So only properties that do not depend on fonts are compared with
page_pictures.json: which blocks exist, their order from top to bottom, where each begins and how wide it is (the layout is in rem and fractions of the
window), its colours, and its font sizes. Of the picture itself, two properties are compared: the colour at the edge of each block, and the share of its
pixels that have another colour, within a factor. So a block that is empty, covered or filled is found, but another font is not a failure. Heights are not
compared, nor widths of blocks that are as wide as their text. A block that is not in the file is new, and not a failure. TARRY_RECORD=1 writes the file
again; with TARRY_AXE=…/axe.min.js (npm's axe-core), axe checks each view, too."""
import json
import os

import harness
import page_test
import pair
import webhooks_test
from browser import Browser, needs_one
from page_test import CONTRAST, READY

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page_pictures.json")
MEDIA = {"light": ("light", 1280), "dark": ("dark", 1280), "phone": ("light", 360)}
INK_FACTOR, INK_LEAST = 3.0, 0.02  # allowed factor, and minimum share of a block's pixels
BLOCKS = """
const wide = 'header, main > *, .cards > section, .tiles, .tiles > div, figure, svg, .card, .scroll, .facts';
const also = 'h1, h2, h3, button, input, th, td, tbody tr:first-child, dt, dd, .life > li, .sign, .reason, .warn, .bad, .good, .quiet, polyline, dialog, pre';
const label = (e) => e.getAttribute('aria-labelledby'), same = (e) => [...e.parentElement.children].filter((o) => o.localName + o.className === e.localName + e.className);
const path = (e) => e.id ? '#' + e.id : e.localName === 'section' && label(e) ? 'section ' + label(e) : e.parentElement === document.body ? e.localName
  : path(e.parentElement) + ' ' + e.localName + (e.className && e.localName === 'div' ? '.' + e.className : '') + ':' + same(e).indexOf(e);
const style = (e) => { const s = getComputedStyle(e); return [s.color, s.backgroundColor, s.stroke, s.borderLeftColor, s.fontSize, s.fontWeight].join('|'); };
const box = (e) => { const b = e.getBoundingClientRect(); return [b.left + scrollX, b.top + scrollY, b.width, b.height].map(Math.round); };
const back = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor.match(/[\\d.]+/g).map(Number); if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
const dialog = document.querySelector('dialog[open]');
const seen = [...document.querySelectorAll(wide)].filter((e) => e.checkVisibility() && !dialog);
return { blocks: seen.sort((a, b) => box(a)[1] - box(b)[1] || box(a)[0] - box(b)[0]).map((e) => ({ path: path(e), box: box(e), style: style(e), back: back(e) })),
  styles: [...(dialog || document).querySelectorAll(dialog ? '*' : also)].filter((e) => e.checkVisibility()).map((e) =>
    [e.parentElement.localName, e.localName, e.getAttribute('class') || '', style(e)].join(' ')),
  height: document.documentElement.scrollHeight };
"""
# JavaScript: returns for each box of a picture the share of pixels that differ from the box's background, and whether the edge has
# the background's colour.
INK = """
const [png, blocks] = arguments;
return new Promise((resolve) => { const image = new Image(); image.onload = () => {
  const canvas = document.createElement('canvas'); canvas.width = image.width; canvas.height = image.height;
  const context = canvas.getContext('2d', { willReadFrequently: true }); context.drawImage(image, 0, 0);
  resolve(blocks.map(({ box: [x, y, w, h], back }) => {
    const left = Math.max(0, x), top = Math.max(0, y), width = Math.min(w, image.width - left), height = Math.min(h, image.height - top);
    if (width < 4 || height < 4) return [0, true];
    const data = context.getImageData(left, top, width, height).data, off = (i) => Math.max(...[0, 1, 2].map((c) => Math.abs(data[4 * i + c] - back[c])));
    let ink = 0; for (let i = 0; i < width * height; i++) ink += off(i) > 40;
    return [ink / (width * height), off(2 * width + (width >> 1)) <= 8 || off((height >> 1) * width + 2) <= 8];
  })); }; image.src = 'data:image/png;base64,' + png; });
"""


def ink_is_alike(now, then):
    low, high = sorted((now, then))
    return high <= INK_LEAST or high <= low * INK_FACTOR


@needs_one
class Pictures(webhooks_test.Pushed):
    """Every view of the page, with real data."""

    find, open_queue, press, bury = page_test.Seen.find, page_test.Seen.open_queue, page_test.Seen.press, page_test.Seen.bury
    look_with_axe = page_test.Looks.look_with_axe

    def prepare(self):
        self.write_secrets("".join(f"{queue} {self.secret}\n" for queue in ("q", "invoices")))

    def stage(self):
        """Makes pending tasks, dead letters, a task with a long history, a webhook target that accepts deliveries and one that
        refuses them.
        """
        self.broker.schedule_all([{"queue": f"orders.{('close', 'remind', 'refund')[n % 3]}", "key": f"order-{1000 + n}", "delay_ms": 3_600_000} for n in range(30)])
        for number in range(3):
            self.bury("mail", f"mail-{number}", ("no such address", "HTTP 500 from shop.example.org, the third time", "the payload has no `order`")[number], '{"order":1}')
        self.broker.ok("dead", "requeue", "mail", "mail-0")
        held = self.broker.one("consume", "mail", "--count", 1, "--ack", "none")
        self.broker.one("ack", held["id"], held["token"])
        self.target.answer = lambda handler, request: handler.reply(204 if request.path == "/hook" else 410)
        self.push()
        self.push("invoices", self.target.url("/invoices"))
        for queue in ("q", "invoices"):
            self.schedule("k", queue)
        self.wait_state("k", "acked")
        self.wait_state("k", "dead", queue="invoices")

    def picture(self, view, medium):
        """Takes a picture of the whole page, with the window as large as the page."""
        scheme, width = MEDIA[medium]
        self.browser.media(prefers_color_scheme=scheme)
        self.browser.size(width, 900, mobile=width < 1000)
        self.browser.size(width, min(8000, self.browser.run(BLOCKS)["height"]), mobile=width < 1000)
        self.browser.run("scrollTo(0, 0)")
        seen = self.browser.run(BLOCKS)
        inks = self.browser.run(INK, self.browser.picture(), seen["blocks"])
        self.assertEqual(self.browser.run(CONTRAST), [], (view, medium))
        self.look_with_axe(view, medium)
        for block, (ink, is_painted) in zip(seen["blocks"], inks):
            self.assertTrue(is_painted, f"{view}, {medium}: {block['path']} is covered, or not painted as it should be")
            block["ink"] = round(ink, 3)
        return {"blocks": {block["path"]: [block["box"][0], block["box"][2], block["style"], block["ink"]] for block in seen["blocks"]}, "styles": sorted(set(seen["styles"]))}

    def shoot_webhooks(self):
        if page_test.SHOTS:
            self.browser.keys("\ue00c")
            self.browser.media(prefers_color_scheme="dark")
            self.browser.size(1280, 900)
            self.browser.run("document.getElementById('queue-close').click(); document.getElementById('queues-title').scrollIntoView()")
            self.browser.screenshot(os.path.join(page_test.SHOTS, "page-webhooks.png"))

    def compare(self, name, now, then):
        with self.subTest(name):
            order = [path for path in then["blocks"] if " svg:" not in path]  # its position depends on the height of the legend's text
            self.assertEqual([path for path in now["blocks"] if path in order], order, "blocks, from top to bottom")
            for path, (left, width, style, ink) in then["blocks"].items():
                got = now["blocks"][path]
                self.assertTrue(abs(got[0] - left) <= 1 and abs(got[1] - width) <= 1, f"{path}: from {got[0]}, {got[1]} wide; was {left}, {width}")
                self.assertEqual(got[2], style, path)
                self.assertTrue(ink_is_alike(got[3], ink), f"{path}: {got[3]} of it is ink; was {ink}")
            self.assertEqual([style for style in then["styles"] if style not in now["styles"]], [], "what is written is not as it was")

    def test_each_view_is_painted_as_it_was(self):
        self.stage()
        now = {}
        with Browser() as self.browser:
            self.browser.open(f"http://127.0.0.1:{self.broker.port}/")
            self.browser.wait(READY)
            self.browser.wait("return document.querySelectorAll('#push-rows tr').length === 2")
            self.browser.run("document.getElementById('freeze').click()")  # stops the page's periodic refresh
            views = (("numbers", lambda: None), ("task", lambda: self.find("mail-0", "mail")), ("queue", lambda: self.open_queue("mail")),
                     ("sure", lambda: self.press("Drop all")))
            for view, begin in views:
                self.browser.size(1280, 900)
                begin()
                for medium in MEDIA:
                    now[f"{view}, {medium}"] = self.picture(view, medium)
            self.assertEqual(self.browser.log(), [])
            self.shoot_webhooks()
        if os.environ.get("TARRY_RECORD"):
            with open(GOLDEN, "w", encoding="utf-8") as file:
                json.dump(now, file, indent=0)
                file.write("\n")
        with open(GOLDEN, encoding="utf-8") as file:
            golden = json.load(file)
        self.assertEqual(set(golden), set(now))
        for name, then in golden.items():
            self.compare(name, now[name], then)


@needs_one
class Pair(pair.Case):
    facts = page_test.Seen.facts

    def test_who_leads_since_when_how_far_behind_and_the_last_failover(self):
        self.start_pair()
        with Browser() as self.browser:
            self.browser.open(f"http://127.0.0.1:{self.a.port}/")
            self.browser.wait(READY)
            seen = self.browser.wait("return document.querySelector('#pair dd').textContent.startsWith('primary since') && document.getElementById('pair').innerText")
            for text in (self.a.url, self.b.url, "none since this node leads", "In sync\nyes", "0 frames, 0 B, 0"):
                self.assertIn(text, seen)
            self.a.kill()
            self.wait_role(self.b, "leading")
            self.browser.open(f"http://127.0.0.1:{self.b.port}/")
            self.browser.wait(READY)
            self.browser.wait("return document.querySelector('#pair dd').textContent.startsWith('primary since')")
            self.assertIn("this node took over", self.facts("pair")["Last failover"])
            self.assertEqual(self.facts("pair")["Epoch"], "2")
            if page_test.SHOTS:
                self.browser.size(1280, 420)
                self.browser.run("document.querySelector('.cards').scrollIntoView()")
                self.browser.screenshot(os.path.join(page_test.SHOTS, "page-pair.png"))
            self.a.start()
            self.wait_in_sync()
        status = self.b.one("status")
        self.assertEqual(status["took_over_ms"], status["since_ms"])
        self.assertIn("when it took over", self.b.words("status"))


if __name__ == "__main__":
    harness.main()
