#!/usr/bin/env python3
"""methods.py: writes methods.def from the machine-readable specification of AMQP 0-9-1 with RabbitMQ's extensions, in
Debian's package amqp-specs. The build needs neither the package nor this script: the .def file is checked in, and
tests/e2e/amqp_test.py compares the two where the package is installed.

    broker/amqp/methods.py > broker/amqp/methods.def"""
import sys
import xml.etree.ElementTree as ElementTree

SPECIFICATION = "/usr/share/amqp/specs/0-9-1-rabbit/amqp0-9-1.stripped.extended.xml"
LETTERS = {"octet": "o", "short": "w", "long": "d", "longlong": "q", "shortstr": "s", "longstr": "L", "table": "T",
           "bit": "b", "timestamp": "q"}
# Methods of RabbitMQ that Debian's specification does not have yet, as (class, class id, method, method id, fields).
LATER = [("connection", 10, "blocked", 60, [("reason", "s")]), ("connection", 10, "unblocked", 61, []),
         ("connection", 10, "update-secret", 70, [("new-secret", "L"), ("reason", "s")]),
         ("connection", 10, "update-secret-ok", 71, [])]


def main(path):
    root = ElementTree.parse(path).getroot()
    domains = {domain.get("name"): domain.get("type") for domain in root.findall("domain")}

    def letter(field):
        kind = field.get("domain") or field.get("type")
        return LETTERS[domains.get(kind, kind)]

    methods, fields = [], []
    for group in root.findall("class"):
        for method in group.findall("method"):
            name = f'{group.get("name")}_{method.get("name")}'.upper().replace("-", "_")
            all_fields = method.findall("field")
            methods.append(f'METHOD({name}, {group.get("index")}, {method.get("index")}, '
                           f'"{"".join(letter(field) for field in all_fields)}")')
            fields += [f'FIELD({name}, {field.get("name").replace("-", "_")}, {at})'
                       for at, field in enumerate(all_fields) if field.get("reserved") is None]
    for group, group_id, method, method_id, its_fields in LATER:
        name = f"{group}_{method}".upper().replace("-", "_")
        if any(f"({name}," in line for line in methods):
            continue
        methods.append(f'METHOD({name}, {group_id}, {method_id}, "{"".join(letter for _, letter in its_fields)}")')
        fields += [f'FIELD({name}, {field.replace("-", "_")}, {at})' for at, (field, _) in enumerate(its_fields)]
    print("""/* methods.def: the methods of AMQP 0-9-1, with RabbitMQ's extensions. Written by methods.py.
 *
 * METHOD(NAME, class id, method id, fields): one letter a field: o octet, w short, d long, q longlong or timestamp,
 * s shortstr, L longstr, T table, b bit.
 * FIELD(METHOD, name, place of the field) */
#ifndef METHOD
#define METHOD(...)
#endif
#ifndef FIELD
#define FIELD(...)
#endif
""")
    print("\n".join(methods) + "\n")
    print("\n".join(fields) + "\n\n#undef METHOD\n#undef FIELD")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else SPECIFICATION)
