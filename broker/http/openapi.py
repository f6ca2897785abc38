"""openapi.py: makes the OpenAPI document of /v1: openapi.py SCHEMA ROUTES PROTO REQUESTS OVERLAY OUT. The document derives
each fact that the code contains: arguments and answers from the map between messages and JSON (json_schema.c, formats.def),
their descriptions from the comments of tarry.proto and requests.def, the paths from the table in http_routes.c.
openapi_overlay.json has the facts that no code contains: names, summaries, examples and the texts of refusals. A route
without an entry there, or an entry without a route, is an error.
"""
import json
import re
import sys

STATES = ["pending", "ready", "in_flight", "dead"]
MS = "_ms"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def comments(proto):
    """Returns the comments of tarry.proto: {(message, field): comment, (message, None): comment of the message}."""
    found, message, pending = {}, None, []
    for line in proto.splitlines():
        text = line.strip()
        if text.startswith("//"):
            pending.append(text[2:].strip())
            continue
        begin = re.match(r"message (\w+) \{", text)
        field = re.match(r"(?:repeated )?[\w.]+ (\w+) = \d+;(?:\s*//\s*(.*))?", text)
        if begin:
            message = begin[1]
            found[message, None] = " ".join(pending)
        elif field and message:
            found[message, field[1]] = field[2] or " ".join(pending)
        pending = []
    return found


def sentences(requests):
    """Returns {constant: text} of the operations in requests.def."""
    entries = re.findall(r'^OPERATION\((\w+),.*?"[^"]*",\s*((?:"[^"]*"\s*)+)\)', requests, re.M | re.S)
    return {case: "".join(re.findall(r'"([^"]*)"', text)) for case, text in entries}


def routes(source):
    """Returns [(method, path)] of http_routes.c. A path contains `*` in the place of a parameter."""
    return re.findall(r'\{HEAD_([A-Z]+), "(v1/[^"]+)"', source)


class Maker:
    def __init__(self, schema, proto, overlay):
        self.messages, self.operations, self.policy = schema["messages"], schema["operations"], schema["policy"]
        self.comments = comments(proto)
        self.overlay = overlay

    # ---- arguments

    def duration(self, name, limits=()):
        bare = name.removesuffix(MS)
        number = {"type": "integer", "minimum": limits[0] if limits else 0, **({"maximum": limits[1]} if limits else {})}
        return {bare: {"type": "string", "description": self.overlay["duration"], "examples": ["30m"]}, name: number}

    def argument(self, message, field):
        """Returns {name: schema} of one field."""
        name, form, limits = field["name"], field["form"], self.policy.get(field["name"], ()) if message == "Policy" else ()
        if form == "members":
            return self.arguments(field["message"])
        if form == "when":
            return {"in": self.duration("in_ms")["in"], "in_ms": self.duration("in_ms")["in_ms"], "delay_ms": {"type": "integer", "minimum": 0},
                    "at": {"type": "string", "format": "date-time"}, "due_ms": {"type": "integer", "minimum": 0}}
        if form == "content":
            return {"body": {"type": "string"}, "body_base64": {"type": "string"}, "json": {},
                    "attributes": {"type": "object", "additionalProperties": {"type": "string"}}, "properties": {"type": "string"}}
        if form == "duration":
            return self.duration(name, limits)
        if form == "id":
            return {name: {"type": ["string", "integer"], "description": self.overlay["id"]}}
        if form == "states":
            return {name: {"type": "array", "items": {"enum": STATES}}}
        if form == "time":
            return {name.removesuffix(MS): {"type": "string", "format": "date-time"}, name: {"type": "integer", "minimum": 0}}
        if field["type"] == "enum":
            return {name: {"enum": field["words"]}}
        if field["type"] == "integer" and "most" not in field:
            return {name: {"type": "integer", "minimum": 0}}
        if field["type"] == "integer":
            return {name: {"type": "integer", "minimum": limits[0] if limits else 0, "maximum": min(field["most"], limits[1] if limits else field["most"])}}
        return {name: {"type": "boolean" if field["type"] == "boolean" else "string"}}

    def arguments(self, message):
        found = {}
        for field in self.messages[message]:
            found.update(self.argument(message, field))
        return found

    def operation(self, name, in_path=(), hides=()):
        """Returns the schema of an operation's arguments. `in_path`: arguments that the path contains."""
        message, words = self.operations[name]["message"], self.overlay["arguments"].get(name, {})
        hidden = [*in_path, *hides, *(self.operations[name].get("hides", "") and [self.operations[name]["hides"], self.operations[name]["hides"] + MS])]
        properties = {key: {**value, **words.get("fields", {}).get(key, {})} for key, value in self.arguments(message).items() if key not in hidden}
        required = [field["name"] for field in self.messages[message] if field["required"] and field["name"] in properties]
        schema = {"type": "object", "properties": properties, "required": [one for one in required if one not in words.get("optional", ())],
                  "additionalProperties": False}
        text = words.get("text", "") if not in_path else words.get("in_path", "")
        return {**schema, **({"description": text} if text else {})}

    # ---- replies

    def member(self, message, field):
        name, form, text = field["name"], field["form"], self.comments.get((message, field["name"]), "")
        words = {"description": text} if text else {}
        if form == "members":
            return self.members(field["message"])
        if form == "content":
            return {"attributes": {"type": "object", "additionalProperties": {"type": "string"}}, "json": {}, "body": {"type": "string"},
                    "body_base64": {"type": "string"}, "properties": {"type": "string"}}
        if form == "time":
            return {name: {"type": "integer", "minimum": 0, **words}, name.removesuffix(MS): {"type": "string", "format": "date-time"}}
        if field["type"] == "message" and form != "token":
            one = {"$ref": f"#/components/schemas/{self.name(field['message'])}"}
        elif field["type"] == "enum":
            one = {"enum": field["words"]}
        elif field["type"] == "integer" and form in ("plain", "duration"):
            one = {"type": "integer", "minimum": 0}
        else:
            one = {"type": field["type"] if field["type"] in ("boolean", "number") else "string"}
        if field["nullable"]:
            one["type"] = [one["type"], "null"]
        return {name: {"type": "array", "items": one, **words} if field["repeated"] else {**one, **words}}

    def members(self, message):
        found = {}
        for field in self.messages[message]:
            found.update(self.member(message, field))
        return found

    def always(self, message):
        return [field["name"] for field in self.messages[message] if field["always"] or field["nullable"]]

    def name(self, message):
        return self.overlay["answers"].get(message, message)

    def answer(self, message):
        text = self.overlay["texts"].get(self.name(message), "")
        return {"type": "object", "properties": self.members(message), "required": self.always(message), **({"description": text} if text else {})}

    def answers(self):
        """Returns the schemas of all messages that answers contain."""
        found, waiting = {}, list(self.overlay["answers"])
        while waiting:
            message = waiting.pop(0)
            if self.name(message) in found:
                continue
            found[self.name(message)] = self.answer(message)
            waiting += [field["message"] for field in self.messages[message] if field["type"] == "message" and field["form"] == "plain"]
        return found

    # ---- paths

    def body(self, words):
        op, in_path = words.get("op"), words.get("in_path", [])
        one = words["body"] if isinstance(words.get("body"), dict) else \
            {"$ref": f"#/components/schemas/{op.capitalize()}"} if not in_path else self.operation(op, in_path)
        schema = one
        if "many" in words:
            schema = {"oneOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": self.overlay["most"]}]}
        if "tasks" in words:
            schema = {"oneOf": [one, {"type": "object", "properties": {"tasks": {"type": "array", "items": one, "minItems": 1}, "atomic": {"type": "boolean"}},
                                      "required": ["tasks"], "additionalProperties": False}]}
        content = {"application/json": {"schema": schema, "example": words["example"]}}
        if "many" in words:
            content["application/x-ndjson"] = {"schema": {"type": "string", "description": self.overlay["lines"]["asked"]}}
        return {"required": not words.get("optional", False), "content": content}

    def answered(self, words):
        if "answers" in words:
            return words["answers"]
        names = words.get("answer", "Result")
        refs = [{"$ref": f"#/components/schemas/{name}"} for name in names.split(" or ")]
        return {"200": {"description": words.get("answered", self.overlay["done"]),
                        "content": {"application/json": {"schema": refs[0] if len(refs) == 1 else {"oneOf": refs}}}}}

    def entry(self, words):
        refusals = [code for code in self.overlay["refusals"][words["refusals"]] if code not in words.get("never", ())]
        made = {"operationId": words["id"], "summary": words["summary"], "responses": self.answered(words)}
        made["responses"] = {**made["responses"], **{code: {"$ref": f"#/components/responses/Refused{code}"} for code in refusals},
                             "default": {"$ref": "#/components/responses/Refused"}}
        if "example" in words:
            made["requestBody"] = self.body(words)
        parameters = [self.overlay["parameters"][name] for name in words.get("parameters", "").split()]
        if words["refusals"] == "change":
            parameters.append({"$ref": "#/components/parameters/IdempotencyKey"})
        return {**made, **({"parameters": parameters} if parameters else {})}

    def paths(self, table):
        entries, found = dict(self.overlay["paths"]), {}
        for method, path in table:
            words = entries.pop(f"{method} {path}", None)
            if words is None:
                sys.exit(f"openapi_overlay.json: \"{method} {path}\" of http_routes.c is missing in \"paths\"")
            names, parts = [], []
            for part in path.split("/"):
                if part == "*":
                    names.append("queue" if parts[-1] == "queues" else "name" if parts[-1] == "recurrences" else "id" if parts[-2:] == ["v1", "tasks"] else "key")
                    part = f"{{{names[-1]}}}"
                parts.append(part)
            item = found.setdefault("/" + "/".join(parts), {})
            item[method.lower()] = self.entry({**words, **self.overlay["like"].get(words.get("like"), {})})
            if names:
                item["parameters"] = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
        if entries:
            sys.exit(f"openapi_overlay.json: \"paths\" has {sorted(entries)}, which http_routes.c lacks")
        return found


def commit(maker, said):
    """Returns the schema of the body of /v1/commit."""
    operations = {name: {"$ref": f"#/components/schemas/{name.capitalize()}"} for name in maker.operations}
    one = {"type": "object", "minProperties": 1, "maxProperties": 1, "description": said["operation"], "properties": operations, "additionalProperties": False}
    return {"type": "object", "properties": {"atomic": {"type": "boolean", "default": True},
                                             "ops": {"type": "array", "minItems": 1, "maxItems": said["most"], "items": one}},
            "required": ["ops"], "additionalProperties": False}


def main(schema_path, routes_path, proto_path, requests_path, overlay_path, out_path):
    overlay, texts = json.loads(read(overlay_path)), sentences(read(requests_path))
    maker = Maker(json.loads(read(schema_path)), read(proto_path), overlay)
    schemas = {name.capitalize(): maker.operation(name) for name in maker.operations}
    for name, case in overlay["sentences"].items():
        words = schemas[name.capitalize()]
        words["description"] = " ".join(filter(None, (f"{texts[case][0].upper()}{texts[case][1:]}.", words.get("description"))))
    schemas = {**schemas, "Commit": commit(maker, overlay), **overlay["schemas"], **maker.answers()}
    refused = {"content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    document = {"openapi": "3.1.0", "info": overlay["info"], "security": [{}, {"token": []}], "paths": maker.paths(routes(read(routes_path))),
                "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
                               "parameters": {"IdempotencyKey": overlay["key"]},
                               "responses": {f"Refused{code}": {"description": text, **refused} for code, text in overlay["refused"].items()}}}
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, ensure_ascii=False)
        file.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
