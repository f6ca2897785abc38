/* api_json.c: makes bodies of /v1 from a grammar (api.h); most are correct. */
#include <string.h>

#include "api.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ONE_OF(random, array) ((array)[random_below(random, COUNT(array))])
#define QUEUES 12u
#define KEYS 300u

static bool chance(const struct api *api, uint64_t of) {
    return random_below(api->random, of) == 0;
}

static unsigned below(const struct api *api, unsigned count) {
    return (unsigned)random_below(api->random, count);
}

void api_queue(const struct api *api, struct out *out) {
    static const char *const odd[] = {"",   "q0/", " ", "q\x01", "\xff", "\xed\xa0\x80", "\xf0\x9f\x90\xa2",
                                      "..", "%",   "*"};
    if (chance(api, 60))
        out_text(out, ONE_OF(api->random, odd));
    else if (chance(api, 60)) /* sometimes makes a name of any length */
        for (unsigned i = 1u << below(api, 9); i > 0; i--) out_byte(out, 'q');
    else
        out_format(out, "q%u", below(api, QUEUES));
}

/* Writes a value that is wrong for all or most members. */
static void odd_value(const struct api *api, struct out *out) {
    static const char *const values[] = {"null",
                                         "true",
                                         "-1",
                                         "0",
                                         "1e999",
                                         "1e-999",
                                         "99999999999999999999999999",
                                         "18446744073709551615",
                                         "-9223372036854775808",
                                         "0.1",
                                         "1.0",
                                         "[]",
                                         "{}",
                                         "\"\"",
                                         "\"\\u0000\"",
                                         "\"a\\u0000b\"",
                                         "\"\\ud800\"",
                                         "\"\\udc00\\ud800\"",
                                         "\"\\ud83d\\udc22\"",
                                         "\"\xff\"",
                                         "\"\xc0\x80\"",
                                         "\"\xed\xa0\x80\"",
                                         "\"\\x\"",
                                         "\"\n\"",
                                         "'x'",
                                         "NaN",
                                         "01",
                                         "+1",
                                         ".5",
                                         "\"",
                                         "[1,]",
                                         "{\"a\":1,\"a\":2}",
                                         "\"%s%n\"",
                                         "\"<script>alert(1)</script>\"",
                                         "\"\\r\\nX-Injected: 1\"",
                                         "\"30m\"",
                                         "\"-1s\"",
                                         "\"99999999999d\"",
                                         "\"2026-11-25T18:00:00Z\"",
                                         "\"9999-12-31T23:59:60+99:99\"",
                                         "\"1969-12-31T23:59:59Z\"",
                                         "/*x*/1"};
    unsigned dice = below(api, 40);
    if (dice == 0)
        for (unsigned i = below(api, 100); i > 0; i--) out_text(out, chance(api, 2) ? "[" : "{\"a\":");
    else if (dice == 1)
        out_format(out, "\"%0*u\"", 1 << below(api, 8), 7);
    else if (dice == 2) { /* sometimes makes many values in few bytes */
        out_byte(out, '[');
        for (unsigned i = below(api, 3000); i > 0; i--) out_text(out, "{},");
        out_text(out, "0]");
    } else {
        out_text(out, ONE_OF(api->random, values));
    }
}

static void name(const struct api *api, const char *text, struct out *out) {
    static const char *const odd[] = {"", "nobody_knows", "a\\u0000", "__proto__", "\xff", "queue "};
    if (out->size > 0 && out->data[out->size - 1] != '{') out_byte(out, ',');
    out_format(out, "\"%s\":", chance(api, 150) ? ONE_OF(api->random, odd) : text);
}

/* Writes the member's name. Returns false if it also wrote a wrong value. */
static bool member(const struct api *api, const char *text, struct out *out) {
    name(api, text, out);
    if (!chance(api, 40)) return true;
    odd_value(api, out);
    return false;
}

static void member_text(const struct api *api, const char *text, const char *const *values, unsigned count,
                        struct out *out) {
    if (member(api, text, out)) out_format(out, "\"%s\"", values[below(api, count)]);
}

static void member_number(const struct api *api, const char *text, unsigned most, struct out *out) {
    if (member(api, text, out)) out_format(out, "%u", below(api, most));
}

static void put_id(const struct api *api, uint64_t id, struct out *out) {
    if (!member(api, "id", out)) return;
    out_format(out, chance(api, 5) ? "%llu" : "\"%llu\"", (unsigned long long)id);
}

static void put_queue(const struct api *api, struct out *out) {
    if (chance(api, 4)) return; /* no queue in the body: the path names it, or it is missing */
    if (!member(api, "queue", out)) return;
    out_byte(out, '"');
    api_queue(api, out);
    out_byte(out, '"');
}

static void put_when(const struct api *api, struct out *out) {
    static const char *const durations[] = {"0", "50ms", "1s", "1h", "300ms", "10y", "0s", "1h30m"};
    static const char *const times[] = {"2030-01-01T00:00:00Z", "2020-01-01T00:00:00+01:00", "2026-02-30T00:00:00Z"};
    for (unsigned i = chance(api, 30) ? below(api, 3) : 1; i > 0; i--) {
        unsigned dice = below(api, 10);
        if (dice < 6) member_text(api, "in", durations, COUNT(durations), out);
        if (dice == 6) member_number(api, "delay_ms", 4000, out);
        if (dice == 7) member_text(api, "at", times, COUNT(times), out);
        if (dice == 8) member_number(api, "due_ms", 1u << 31, out);
        if (dice == 9) member_number(api, "in_ms", 2000, out);
    }
}

static void put_payload(const struct api *api, struct out *out) {
    static const char *const texts[] = {"hello", "", "\\u00e9\\n", "{\\\"a\\\":1}", "\\ud83d\\udc22"};
    static const char *const packed[] = {"aGVsbG8=", "aGVsbG8", "====", "/+8=", "/////w==", "AA=="};
    static const char *const json[] = {"{\"order\":1001}", "[1,2,3]", "\"x\"", "null", "0.1", "{\"a\":{\"b\":[true]}}"};
    unsigned dice = below(api, 6);
    if (dice < 2) member_text(api, "body", texts, COUNT(texts), out);
    if (dice == 2) member_text(api, "body_base64", packed, COUNT(packed), out);
    if (dice == 3 && member(api, "json", out)) out_text(out, ONE_OF(api->random, json));
    if (chance(api, 60) && member(api, "body", out)) {
        out_byte(out, '"');
        for (unsigned i = 1u << below(api, 17); i > 0; i--) out_byte(out, 'x');
        out_byte(out, '"');
    }
    if (!chance(api, 6) || !member(api, "attributes", out)) return;
    out_byte(out, '{');
    for (unsigned i = chance(api, 30) ? 70 : below(api, 4); i > 0; i--) out_format(out, "\"a%u\":\"v\",", i);
    out_text(out, "\"content-type\":\"application/json\"}");
}

static void put_key(const struct api *api, struct out *out) {
    if (member(api, "key", out)) out_format(out, "\"k%u\"", below(api, KEYS));
}

static void put_schedule(const struct api *api, struct out *out) {
    static const char *const conflicts[] = {"reject", "replace", "earlier", "later", "never"};
    out_byte(out, '{');
    put_queue(api, out);
    if (!chance(api, 3)) put_key(api, out);
    if (!chance(api, 40)) put_when(api, out);
    put_payload(api, out);
    if (chance(api, 5)) member_number(api, "priority", 11, out);
    if (chance(api, 12)) member_number(api, "expires_ms", 4000, out);
    if (chance(api, 6)) member_text(api, "on_conflict", conflicts, COUNT(conflicts), out);
    out_byte(out, '}');
}

static void put_lease_of(const struct api *api, struct out *out) {
    struct seen_lease lease = seen_lease(api->seen, api->random);
    put_id(api, lease.id, out);
    if (member(api, "token", out)) out_format(out, "\"%s\"", lease.token);
}

static void put_settle(const struct api *api, struct out *out) {
    static const char *const durations[] = {"0", "100ms", "2s", "1h", "9999d"};
    static const char *const reasons[] = {"no", "", "<b>", "\\u0000", "\\n"};
    out_byte(out, '{');
    put_lease_of(api, out);
    if (chance(api, 6)) member_text(api, "delay", durations, COUNT(durations), out);
    if (chance(api, 6)) member_text(api, "lease", durations, COUNT(durations), out);
    if (chance(api, 8) && member(api, "dead", out)) out_text(out, chance(api, 2) ? "true" : "false");
    if (chance(api, 8)) member_text(api, "reason", reasons, COUNT(reasons), out);
    out_byte(out, '}');
}

static void put_ref(const struct api *api, struct out *out) {
    out_byte(out, '{');
    if (chance(api, 3)) {
        put_id(api, seen_id(api->seen, api->random), out);
    } else {
        put_queue(api, out);
        put_key(api, out);
    }
    if (chance(api, 8) && member(api, "all", out)) out_text(out, "true");
    if (chance(api, 8)) put_when(api, out);
    if (chance(api, 12) && member(api, "reason", out)) out_text(out, "\"because\"");
    out_byte(out, '}');
}

static void put_policy(const struct api *api, struct out *out) {
    static const char *const backoffs[] = {"fixed", "exponential", "none"};
    out_byte(out, '{');
    if (chance(api, 2)) member_number(api, "lease_ms", 4000, out);
    if (chance(api, 3)) member_number(api, "max_attempts", 5, out);
    if (chance(api, 3)) member_text(api, "backoff", backoffs, COUNT(backoffs), out);
    if (chance(api, 3)) member_number(api, "backoff_min_ms", 100, out);
    if (chance(api, 3)) member_number(api, "backoff_max_ms", 200, out);
    if (chance(api, 6)) member_number(api, "backoff_jitter", 120, out);
    if (chance(api, 6)) member_number(api, "rate", 1000, out);
    if (chance(api, 6)) member_number(api, "burst", 50, out);
    if (chance(api, 6)) member_number(api, "max_in_flight", 20, out);
    out_byte(out, '}');
}

static void put_operation(const struct api *api, struct out *out) {
    static const char *const settles[] = {"ack", "nack", "extend", "release"};
    static const char *const refs[] = {"cancel", "move", "requeue", "drop", "redact", "resume", "delete", "nothing"};
    unsigned dice = below(api, 8);
    out_byte(out, '{');
    if (dice < 3) {
        if (member(api, "schedule", out)) put_schedule(api, out);
    } else if (dice < 6) {
        if (member(api, ONE_OF(api->random, settles), out)) put_settle(api, out);
    } else if (member(api, ONE_OF(api->random, refs), out)) {
        put_ref(api, out);
    }
    out_byte(out, '}');
}

static void put_many(const struct api *api, void (*put)(const struct api *, struct out *), const char *between,
                     struct out *out) {
    unsigned count = chance(api, 200) ? 8193 : chance(api, 12) ? 1 + below(api, 200) : 1 + below(api, 6);
    for (unsigned i = 0; i < count; i++) {
        if (i > 0) out_text(out, between);
        put(api, out);
    }
}

static void put_list(const struct api *api, const char *text, void (*put)(const struct api *, struct out *),
                     struct out *out) {
    out_byte(out, '{');
    if (member(api, text, out)) {
        out_byte(out, '[');
        put_many(api, put, ",", out);
        out_byte(out, ']');
    }
    if (chance(api, 3) && member(api, "atomic", out)) out_text(out, chance(api, 2) ? "true" : "false");
    out_byte(out, '}');
}

static void put_lease(const struct api *api, struct out *out) {
    static const char *const waits[] = {"0", "20ms", "200ms", "2s", "10m", "11m"};
    out_byte(out, '{');
    if (chance(api, 2)) member_number(api, "max", 30, out);
    if (chance(api, 2)) member_text(api, "wait", waits, COUNT(waits), out);
    if (chance(api, 3)) member_text(api, "lease", waits, COUNT(waits), out);
    if (chance(api, 3) && member(api, "queues", out)) {
        out_byte(out, '[');
        for (unsigned i = chance(api, 40) ? 257 : below(api, 5); i > 0; i--)
            out_format(out, "\"q%u\",", below(api, QUEUES));
        out_format(out, "\"q%u\"]", below(api, QUEUES));
    }
    out_byte(out, '}');
}

static void put_lines(const struct api *api, struct out *out) {
    static const char *const between[] = {"\n", "\n", "\n", "\r\n", "\n\n", "", "\r"};
    if (chance(api, 30)) /* sometimes the body has only line ends */
        for (unsigned i = below(api, 20000); i > 0; i--) out_byte(out, '\n');
    put_many(api, put_schedule, ONE_OF(api->random, between), out);
    if (chance(api, 2)) out_byte(out, '\n');
}

void api_json(const struct api *api, enum api_body kind, struct out *out) {
    switch (kind) {
    case BODY_NONE:
        break;
    case BODY_TASKS:
        if (chance(api, 3)) {
            out_byte(out, '[');
            put_many(api, put_schedule, ",", out);
            out_byte(out, ']');
        } else {
            put_schedule(api, out);
        }
        break;
    case BODY_LINES:
        put_lines(api, out);
        break;
    case BODY_COMMIT:
        put_list(api, "ops", put_operation, out);
        break;
    case BODY_SETTLE:
        if (chance(api, 2))
            put_list(api, "tasks", put_settle, out);
        else
            put_settle(api, out);
        break;
    case BODY_LEASE:
        put_lease(api, out);
        break;
    case BODY_POLICY:
        put_policy(api, out);
        break;
    case BODY_WHEN:
        out_byte(out, '{');
        put_when(api, out);
        out_byte(out, '}');
        break;
    case BODY_PAUSE:
        out_byte(out, '{');
        member_number(api, "for_ms", 300, out);
        out_byte(out, '}');
        break;
    case BODY_PURGE:
        out_byte(out, '{');
        if (member(api, "states", out))
            out_text(out, chance(api, 2) ? "[\"dead\"]" : "[\"pending\",\"ready\",\"in_flight\",\"dead\"]");
        out_byte(out, '}');
        break;
    case BODY_DEAD:
        if (chance(api, 2))
            put_list(api, "tasks", put_ref, out);
        else
            put_ref(api, out);
    }
}
