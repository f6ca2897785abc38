/* door_head.c: see door_head.h. The library (4.1.6) misreads heads. It confuses a header whose name is the beginning of
 * a known one ("X-Auth", "If") with that one. It joins two fields of the same name. It treats NUL, bare CR and spaces
 * before a colon differently from a proxy. So it gets only a request line and the fields that are used. */
#include "door_head.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static enum head_result refuse(struct head_refusal *out, unsigned status, const char *sentence) {
    *out = (struct head_refusal){status, sentence};
    return HEAD_BAD;
}

/* Appends to the written head. False: it does not fit. */
__attribute__((format(printf, 2, 3))) static bool add(struct door_head *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(out->text + out->size, sizeof(out->text) - out->size, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof(out->text) - out->size) return false;
    out->size += (size_t)size;
    return true;
}

/* Whether the path contains nothing that the library would decode or normalize. False: no valid path of the door. */
static bool is_plain(const struct head *head) {
    static const char bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (size_t i = 0; i < head->segment_count; i++) {
        const struct head_text *segment = &head->segments[i];
        bool is_last = i + 1 == head->segment_count;
        if ((segment->size == 0 && !is_last) || strspn(segment->text, bytes) != segment->size) return false;
    }
    return true;
}

static bool write_path(const struct head *head, struct door_head *out) {
    bool fits = true;
    for (size_t i = 0; i < head->segment_count; i++) fits = fits && add(out, "/%s", head->segments[i].text);
    return fits;
}

/* Writes the fields that the library, or door_http.c through it, reads. */
static bool write_fields(const struct head *head, struct door_head *out) {
    static const struct {
        const char *name;
        enum head_field field;
        bool of_upgrade;
    } fields[] = {{"Host", HEAD_FIELD_host, false},
                  {"Origin", HEAD_FIELD_origin, false},
                  {"Authorization", HEAD_FIELD_authorization, false},
                  {"Content-Length", HEAD_FIELD_length, false},
                  {"Transfer-Encoding", HEAD_FIELD_coding, false},
                  {"Sec-WebSocket-Key", HEAD_FIELD_ws_key, true},
                  {"Sec-WebSocket-Version", HEAD_FIELD_ws_version, true},
                  {"Sec-WebSocket-Protocol", HEAD_FIELD_ws_protocol, true}};
    bool fits = true;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const struct head_text *value = &head->fields[fields[i].field];
        if (value->text == NULL || (fields[i].of_upgrade && !head->is_upgrade)) continue;
        fits = fits && add(out, "%s: %s\r\n", fields[i].name, value->text);
    }
    if (head->is_upgrade) return fits && add(out, "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    return fits && add(out, "Connection: close\r\n\r\n");
}

enum head_result door_head_read(char *bytes, size_t size, struct door_head *out, struct head_refusal *out_refusal) {
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    struct head head;
    out->size = out->used = 0;
    enum head_result result = http_head_parse(bytes, size, &head, &out->used, out_refusal);
    bool is_large = result == HEAD_MORE ? size >= DOOR_HEAD_SIZE_MAX : out->used > DOOR_HEAD_SIZE_MAX;
    if (result != HEAD_BAD && is_large)
        return refuse(out_refusal, 431, "the head of a request for this path has more than 8,000 bytes");
    if (result != HEAD_DONE) return result;
    if (head.method == HEAD_OTHER)
        return refuse(out_refusal, 405, "this port takes GET and HEAD; requests to the broker travel by WebSocket");
    if (!is_plain(&head))
        return refuse(out_refusal, 404, "there is no such page; there are /, /healthz, /readyz and /metrics");
    out->is_upgrade = head.is_upgrade;
    assert(head.method < sizeof(methods) / sizeof(methods[0]));
    bool fits = add(out, "%s ", methods[head.method]) && write_path(&head, out) &&
                add(out, " HTTP/1.%u\r\n", head.is_old ? 0 : 1) && write_fields(&head, out);
    if (!fits) return refuse(out_refusal, 431, "the header fields that this path reads have more than 4,000 bytes");
    return HEAD_DONE;
}
