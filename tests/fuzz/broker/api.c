/* api.c: makes whole requests of /v1 and the other pages (api.h). */
#include "api.h"

#include <string.h>

#include "make.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ONE_OF(random, array) ((array)[random_below(random, COUNT(array))])

/* Paths of the API. Q stands for a queue, I for a task's id, K for a key. tests/e2e/http_api_test.py checks that the
 * table is complete. */
static const struct route {
    const char *method, *path;
    enum api_body body;
    bool looks;
} routes[] = {
    {"GET", "/v1/openapi.json", BODY_NONE, true},
    {"POST", "/v1/tasks", BODY_TASKS, false},
    {"POST", "/v1/tasks", BODY_LINES, false},
    {"POST", "/v1/queues/Q/tasks", BODY_TASKS, false},
    {"POST", "/v1/queues/Q/tasks", BODY_LINES, false},
    {"GET", "/v1/tasks/I", BODY_NONE, false},
    {"GET", "/v1/queues/Q/tasks/K", BODY_NONE, false},
    {"DELETE", "/v1/tasks/I", BODY_NONE, false},
    {"DELETE", "/v1/queues/Q/tasks/K", BODY_NONE, false},
    {"PATCH", "/v1/tasks/I", BODY_WHEN, false},
    {"PATCH", "/v1/queues/Q/tasks/K", BODY_WHEN, false},
    {"GET", "/v1/tasks/I/history", BODY_NONE, true},
    {"GET", "/v1/queues/Q/tasks/K/history", BODY_NONE, true},
    {"GET", "/v1/queues/Q/tasks", BODY_NONE, false},
    {"GET", "/v1/queues/Q/dead", BODY_NONE, false},
    {"GET", "/v1/queues/Q/count", BODY_NONE, true},
    {"POST", "/v1/commit", BODY_COMMIT, false},
    {"POST", "/v1/ack", BODY_SETTLE, false},
    {"POST", "/v1/nack", BODY_SETTLE, false},
    {"POST", "/v1/extend", BODY_SETTLE, false},
    {"POST", "/v1/release", BODY_SETTLE, false},
    {"POST", "/v1/lease", BODY_LEASE, false},
    {"POST", "/v1/queues/Q/lease", BODY_LEASE, false},
    {"GET", "/v1/queues", BODY_NONE, true},
    {"GET", "/v1/queues/Q", BODY_NONE, true},
    {"PATCH", "/v1/queues/Q", BODY_POLICY, false},
    {"DELETE", "/v1/queues/Q", BODY_NONE, false},
    {"POST", "/v1/queues/Q/pause", BODY_PAUSE, false},
    {"POST", "/v1/queues/Q/resume", BODY_NONE, false},
    {"POST", "/v1/queues/Q/purge", BODY_PURGE, false},
    {"POST", "/v1/queues/Q/dead/requeue", BODY_DEAD, false},
    {"POST", "/v1/queues/Q/dead/drop", BODY_DEAD, false},
    {"GET", "/v1/stats", BODY_NONE, true},
    {"GET", "/v1/status", BODY_NONE, true},
    {"GET", "/v1/audit", BODY_NONE, true},
    {"GET", "/", BODY_NONE, true},
    {"GET", "/metrics", BODY_NONE, true},
    {"GET", "/healthz", BODY_NONE, true},
    {"GET", "/readyz", BODY_NONE, true},
};

static bool chance(const struct api *api, uint64_t of) {
    return random_below(api->random, of) == 0;
}

static void put_segment(const struct api *api, char kind, struct out *out) {
    struct out text = {0};
    if (kind == 'Q') api_queue(api, &text);
    if (kind == 'K') out_format(&text, "k%u", (unsigned)random_below(api->random, 300));
    if (kind == 'I') out_format(&text, "%llu", (unsigned long long)seen_id(api->seen, api->random));
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c <= ' ' || c >= 0x7f || c == '%' || c == '/' || chance(api, 200))
            out_format(out, "%%%02x", c);
        else
            out_byte(out, c);
    }
    out_deinit(&text);
}

static void put_path(const struct api *api, const char *path, struct out *out) {
    static const char *const odd[] = {"/v1",
                                      "/v1/",
                                      "/v1//tasks",
                                      "/v1/../metrics",
                                      "/v1/queues/%2e%2e",
                                      "/v1/tasks/%00",
                                      "/v1/%zz",
                                      "/v1/nobody",
                                      "/v1?x",
                                      "/v1/a/b/c/d/e/f/g/h/i",
                                      "/%0aevent=made_up",
                                      "/v1/tasks/1;x",
                                      "http://x/v1/tasks",
                                      "*"};
    if (chance(api, 60)) path = ONE_OF(api->random, odd);
    for (; *path != '\0'; path++) {
        if (*path == 'Q' || *path == 'K' || *path == 'I')
            put_segment(api, *path, out);
        else
            out_byte(out, (uint8_t)*path);
    }
}

static void put_query(const struct api *api, struct out *out) {
    static const char *const names[] = {"atomic", "withdraw", "state",  "due_from", "due_to",   "prefix",
                                        "limit",  "cursor",   "queue",  "job",      "position", "from",
                                        "to",     "follow",   "nobody", "",         "state%00"};
    static const char *const values[] = {"true",
                                         "false",
                                         "1",
                                         "0",
                                         "-1",
                                         "dead",
                                         "pending,ready",
                                         "2030-01-01T00:00:00Z",
                                         "18446744073709551615",
                                         "99999999999999999999",
                                         "k",
                                         "%",
                                         "%ff%fe",
                                         "",
                                         "a=b",
                                         "+",
                                         "1000000"};
    out_byte(out, '?');
    for (size_t i = chance(api, 10) ? random_below(api->random, 40) : 1 + random_below(api->random, 3); i > 0; i--) {
        const char *name = ONE_OF(api->random, names);
        out_text(out, name);
        if (!chance(api, 20)) out_byte(out, '=');
        out_text(out, strcmp(name, "cursor") == 0 ? seen_cursor(api->seen, api->random) : ONE_OF(api->random, values));
        if (i > 1) out_byte(out, '&');
    }
}

/* Writes the head's fields except those about the body. Returns whether the connection stays open. */
static bool put_fields(const struct api *api, enum api_body body, struct out *out) {
    static const char *const types[] = {"application/json",
                                        "application/x-ndjson",
                                        "text/plain",
                                        "application/jsonx",
                                        "",
                                        "multipart/form-data; boundary=x"};
    static const char *const odd[] = {"Origin: http://evil.example",
                                      "Origin: null",
                                      "Expect: 100-continue",
                                      "Expect: 42",
                                      "Upgrade: websocket",
                                      "X: \x01",
                                      " folded: x",
                                      "NoColon",
                                      "Content_Length: 5",
                                      "Cookie: a=b",
                                      "Host: twice",
                                      "Range: bytes=0-1",
                                      "Accept-Encoding: gzip",
                                      "Connection: keep-alive, close"};
    bool stays = !chance(api, 30);
    if (!chance(api, 200)) out_format(out, "Host: %s\r\n", chance(api, 200) ? "made-up.example" : "127.0.0.1:7272");
    if (api->token != NULL) out_format(out, "Authorization: Bearer %s\r\n", api->token);
    if (body != BODY_NONE || chance(api, 6)) {
        const char *type = body == BODY_LINES ? types[1] : types[0];
        out_format(out, "Content-Type: %s\r\n", chance(api, 30) ? ONE_OF(api->random, types) : type);
    }
    /* Only a few idempotency keys are used, so that most of them come several times, with different bodies. */
    if (chance(api, 6))
        out_format(out, "Idempotency-Key: %s%u\r\n", chance(api, 30) ? "" : "once-",
                   (unsigned)random_below(api->random, 200));
    if (chance(api, 100)) out_format(out, "%s\r\n", ONE_OF(api->random, odd));
    if (chance(api, 300))
        for (size_t i = random_below(api->random, 2000); i > 0; i--) out_text(out, "x: y\r\n");
    if (!stays) out_text(out, "Connection: close\r\n");
    return stays;
}

static const struct route *choose(const struct api *api) {
    for (;;) {
        const struct route *route = &routes[random_below(api->random, COUNT(routes))];
        if (route->looks == api->looks) return route;
    }
}

static enum api_end make(const struct api *api, struct out *out) {
    static const char *const versions[] = {"HTTP/1.0", "HTTP/1.1 ", "HTTP/2", "http/1.1", ""};
    static const char *const methods[] = {"HEAD", "PUT", "OPTIONS", "TRACE", "get", "POST", "DELETE"};
    const struct route *route = choose(api);
    struct out body = {0};
    if (route->body != BODY_NONE || chance(api, 20)) api_json(api, route->body, &body);
    if (body.size > 0 && chance(api, 15)) make_damage(api->random, &body);
    out_text(out, chance(api, 20) ? ONE_OF(api->random, methods) : route->method);
    out_byte(out, ' ');
    put_path(api, route->path, out);
    if (chance(api, api->looks ? 4 : 20)) put_query(api, out);
    out_format(out, " %s\r\n", chance(api, 150) ? ONE_OF(api->random, versions) : "HTTP/1.1");
    bool stays = put_fields(api, route->body, out);
    bool is_allowed = seen_allows(api->seen, body.data, body.size);
    if (!is_allowed) body.size = 0;
    enum api_end end = api_frame(api, &body, out);
    out_deinit(&body);
    if (!stays && end == API_GOES_ON) end = API_ENDS;
    return chance(api, 300) ? API_HANGS : end;
}

enum api_end api_request(const struct api *api, struct out *out) {
    struct out request = {0};
    enum api_end end = make(api, &request);
    /* Random damage may turn other bytes of the request into the number of a client's task. So seen_allows checks the
     * whole request. */
    if (chance(api, 120) && request.size > 0) { /* damages the head or the body */
        make_damage(api->random, &request);
        end = API_ENDS;
    }
    if (seen_allows(api->seen, request.data, request.size)) out_bytes(out, request.data, request.size);
    out_deinit(&request);
    return end;
}
