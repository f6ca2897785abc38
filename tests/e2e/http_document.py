"""http_document.py: the OpenAPI document for tests: its operations, the validation of values, and valid and invalid values."""
import harness
from harness import Case
from http_client import Http

DURATION = "one or more numbers with a unit"
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict, "null": type(None)}
# Groups of members of which a body may have only one.
TOGETHER = [{"in", "in_ms", "delay_ms", "at", "due_ms"}, {"body", "body_base64", "json"}, {"id", "key", "all", "tasks"}, {"delay", "delay_ms", "dead"},
            {"cron", "every", "every_ms", "rrule"}, {"from", "from_ms"}, {"until", "until_ms"}, {"jitter", "jitter_ms"}, {"missed_window", "missed_window_ms"},
            *({name, f"{name}_ms"} for name in ("expires", "wait", "lease", "for", "delay", "backoff_min", "backoff_max"))]
WITH = {"backoff_min": {"backoff_max_ms": 30 * 24 * 3600 * 1000}, "backoff_max": {"backoff_min_ms": 0}}


class Document(Case):
    """A broker and its OpenAPI document."""

    def setUp(self):
        super().setUp()
        self.http = Http(self.broker.port, harness.tokens.ADMIN)
        _, self.document = self.http.ask("GET", "/v1/openapi.json")
        self.good = [self.http.ask("POST", "/v1/tasks", {"queue": "q", "key": "k", "in": "1h"})[1]]

    def tearDown(self):
        self.http.close()
        super().tearDown()

    def operations(self):
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                if method != "parameters":
                    yield method.upper(), path, operation

    def schema(self, schema):
        """Returns the schema with references resolved."""
        while "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def filled(self, path):
        return path.replace("{queue}", "q").replace("{key}", "k").replace("{name}", "n").replace("{id}", self.good[0]["id"])

    def body(self, operation):
        """Returns (schema, example) of the operation's JSON body, or (None, None)."""
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        return content.get("schema"), content.get("example")

    def response(self, operation, status):
        """Returns the description of this status; None: none."""
        said = operation["responses"].get(str(status))
        return self.document["components"]["responses"][said["$ref"].rsplit("/", 1)[1]] if said and "$ref" in said else said

    def has_key(self, operation):
        return any(parameter.get("$ref", "").endswith("/IdempotencyKey") for parameter in operation.get("parameters", []))

    def wrong_with(self, value, schema, where="$"):
        """Returns what violates the schema; None: nothing does."""
        schema = self.schema(schema)
        if "oneOf" in schema:
            found = [self.wrong_with(value, one, where) for one in schema["oneOf"]]
            return None if None in found else f"{where}: none of {found}"
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(isinstance(value, TYPES[kind]) and (kind != "integer" or not isinstance(value, bool)) for kind in kinds):
            return f"{where}: {value!r} is no {kinds}"
        if value not in schema.get("enum", [value]):
            return f"{where}: {value!r} is none of {schema['enum']}"
        if isinstance(value, list) and "items" in schema:
            return next((wrong for i, one in enumerate(value) if (wrong := self.wrong_with(one, schema["items"], f"{where}[{i}]"))), None)
        if not isinstance(value, dict):
            return None
        lacking = set(schema.get("required", [])) - set(value)
        named = schema.get("properties", {})
        more = set(value) - set(named) if schema.get("additionalProperties") is False else set()
        if lacking or more:
            return f"{where}: lacks {lacking}, has {more}"
        return next((wrong for name, one in value.items() if name in named and (wrong := self.wrong_with(one, named[name], f"{where}.{name}"))), None)

    def values(self, name, schema):
        """Returns (valid values, invalid values) at the limits of the schema."""
        schema = self.schema(schema)
        if "enum" in schema:
            return schema["enum"], ["none of them", 7]
        kind = schema.get("type")
        if kind == ["string", "integer"]:
            return ["1", 1], ["x", "", 1.5, -1, "99999999999999999999", []]
        if kind == "array":
            good, bad = self.values(name, schema["items"])
            return [good] * bool(good), [7, "x", {}, *([one] for one in bad), *([[]] if schema.get("minItems") else []), *([good[:1] * (schema["maxItems"] + 1)] if "maxItems" in schema else [])]
        if kind == "object" and "properties" not in schema:
            return [{}, {"a": "b"}], [7, "x", [], {"a": 7}]
        if kind == "boolean":
            return [True, False][:1 + (name != "all")], ["x", 1, []]  # without "all", the members that select tasks are required
        if name == "until_ms":  # a time that has passed is refused, because nothing would recur
            return [4102444800000], [-1, "x", 1.5, True]
        if kind == "integer":
            least, most = schema.get("minimum", 0), schema.get("maximum", 1 << 40)
            most = most if "maximum" in schema else min(most, schema.get("minimum", 0) + 60_000)
            beyond = [most + 1] if "maximum" in schema else [1 << 70]
            return [least, 5 if name == "wait_ms" else most], [least - 1, *beyond, "x", 1.5, True, {}]
        if kind == "string" and schema.get("format") == "date-time":
            return ["2035-01-01T00:00:00Z", "2035-01-01T01:00:00.5+01:00"], ["2035-13-01T00:00:00Z", "soon", "2035-01-01", 7]
        if kind == "string" and schema.get("description", "").startswith(DURATION):
            return ["0", "5ms"] if name == "wait" else ["30m", "1h30m", "90s"], ["soon", "", "30", "-1s", "1s1h", 7]
        if kind == "string":
            good = {"body_base64": ["AP8="], "properties": ["AP8="], "push": ["", "https://shop.example.org/x"], "filter": [""], "token": [], "queue": ["q"],
                    "cron": ["0 9 * * *", "@daily"], "rrule": ["FREQ=DAILY"], "zone": ["", "Europe/Berlin"],
                    "missed": ["", "last", "none"]}.get(name, ["x", "grün \U0001f600"])
            bad = [7, [], *(["*", "A"] if name in ("body_base64", "properties") else ["ftp://x", "http://u@x/"] if name == "push" else
                            ["no/w"] if name in ("cron", "rrule", "zone", "missed") else [])]
            if "maxLength" in schema:
                bad.append("x" * (schema["maxLength"] + 1))
                good = good + ["x" * schema["maxLength"]] * (name not in ("push", "filter"))
            return good, bad + [""] * bool(schema.get("minLength"))
        return [], ["x", 7] if kind == "object" else []

    def with_one(self, example, name, value):
        """Returns the example with the member `name` set to `value`. Adds the members that `name` requires, and removes the
        members of the same group, of which a request may have only one.
        """
        example = {**example, **next((more for begin, more in WITH.items() if name.startswith(begin)), {})}
        others = set().union(*(group for group in TOGETHER if name in group)) - {name}
        return {**{key: one for key, one in example.items() if key not in others}, name: value}
