"""make_page.py HTML CSS JS… DURATIONS OUT: writes the web page as a C array. Joins the scripts in the given order. Style and
script are part of the page. Its Content-Security-Policy allows only their two hashes, so a browser runs no other script, even
if hostile text looks like markup."""
import base64
import hashlib
import re
import sys


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def make(html, css, *scripts, durations):
    bounds = re.findall(r'X\(\d+, "([0-9.]+)"\)', durations)
    assert len(bounds) == int(re.search(r"DURATION_BOUNDS_COUNT (\d+)u", durations)[1])
    js = '"use strict";\n(() => {\n' + "".join(scripts) + "})();\n"
    js = js.replace("@BOUNDS@", ", ".join(bounds))
    assert "</script" not in js.lower() and "</style" not in css.lower() and "@" not in re.sub(r"@media", "", css)
    policy = ("default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; connect-src 'self'; "
              f"style-src {digest(css)}; script-src {digest(js)}")
    for name, text in (("@CSP@", policy), ("@CSS@", css), ("@JS@", js)):
        assert html.count(name) == 1, name
        html = html.replace(name, text)
    return html.encode()


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def main():
    *names, durations, out = sys.argv[1:]
    page = make(*map(read, names), durations=read(durations))
    with open(out, "w", encoding="ascii") as file:
        file.write('#include "page.h"\n\nconst unsigned char page_html[] = {\n')
        for at in range(0, len(page), 24):
            file.write("".join(f"{byte}," for byte in page[at:at + 24]) + "\n")
        file.write(f"}};\nconst size_t page_html_size = {len(page)};\n")


if __name__ == "__main__":
    main()
