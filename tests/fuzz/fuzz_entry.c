/* fuzz_entry.c: prints a frame's body as `tarry audit` does: each record as a JSON line, as a line for people, and
 * counted. For any log contents, the JSON is valid, a line is one line, and no output can control a terminal. */
#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "../../client/tool/offline/entry_words.h"
#include "../../client/tool/offline/totals.h"
#include "arena.h"
#include "fuzz.h"
#include "json_map.h"
#include "tarry_limits.h"

static struct queue_map_item known[] = {{1, "orders"}, {2, "calls"}};
static const struct queue_map names = {known, 2, 2};
static struct text out;

static void json_is_json(void) {
    for (size_t at = 0; at < out.size;) {
        const char *feed = memchr(out.data + at, '\n', out.size - at);
        json_error_t error;
        assert(feed != NULL);
        json_t *object =
            json_loadb(out.data + at, (size_t)(feed - out.data) - at, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
        if (!json_is_object(object)) fprintf(stderr, "%s: %.*s\n", error.text, (int)(out.size - at), out.data + at);
        assert(json_is_object(object));
        json_decref(object);
        at = (size_t)(feed - out.data) + 1;
    }
    out.size = 0;
}

static void drives_no_terminal(size_t lines) {
    size_t feeds = 0;
    for (size_t i = 0; i < out.size; i++) {
        unsigned char c = (unsigned char)out.data[i];
        feeds += c == '\n';
        assert((c >= 0x20 && c != 0x7f) || c == '\n');
    }
    assert(lines == 0 || feeds == lines);
    out.size = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1u << 14) return 0;
    static struct arena arena; /* static, so that its large first block is kept between inputs */
    if (arena.size_max == 0) arena_init(&arena, 64u << 20);
    const Tarry__FrameBody *body = tarry__frame_body__unpack(&arena.pb, size, data);
    struct frame_header header = {.position = 4096, .epoch = 1, .steady_ns = size * 1000000000ull};
    struct consumers *consumers = consumers_new();
    struct totals *totals = totals_new();
    for (size_t i = 0; body != NULL && i < body->n_records; i++) {
        struct entry entry = {.header = &header, .body = body, .record = body->records[i], .queues = &names};
        consumers_learn(consumers, body, entry.record);
        entry.queue = queue_map_get(&names, entry_queue(&entry));
        entry.consumer = consumers_find(consumers, entry_session(&entry));
        (void)entry_concerns_queue(&entry, "orders");
        json_entry(&out, &entry);
        json_is_json();
        entry_words(&out, &entry, size % 2);
        drives_no_terminal(1);
        totals_take(totals, &entry);
    }
    totals_json(totals, &out);
    json_is_json();
    totals_words(totals, &out);
    drives_no_terminal(0);
    totals_free(totals);
    consumers_free(consumers);
    arena_reset(&arena);
    return 0;
}
