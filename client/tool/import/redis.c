/* redis.c: see import.h. Imports the members of a sorted set, in the order of their scores.
 *
 * Workers on such a set claim a task by removing its member. The import does the same, with a script that removes a
 * member only if its score is still the one that was read. The next result page begins at the offset that equals the
 * number of members that remain in the set. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "import.h"
#include "json_out.h"
#include "output.h"
#include "resp.h"
#include "rfc3339.h"
#include "table.h"
#include "tarry_limits.h"

#define REDIS_PORT "6379"
#define PAGE_FIRST 64u
/* Bytes; after a smaller result page, the next page may have twice as many members. */
#define PAGE_SMALL_BYTES (1u << 20)
/* A score above this is in ms: as seconds, 1e11 would be the year 5138; as ms it is the year 1973. */
#define SCORE_IN_MS 1e11
#define DUE_MS_MAX 9e18
#define NOBODY "tarry-import: a name that no member can have"

/* Script of Redis. Returns for each member: 1 removed; 0 the member did not exist; 2 its score has changed. */
static const char remove_script[] = "local out = {} "
                                    "for i = 1, #ARGV, 2 do "
                                    "local score = redis.call('ZSCORE', KEYS[1], ARGV[i]) "
                                    "if not score then out[#out + 1] = 0 "
                                    "elseif score ~= ARGV[i + 1] then out[#out + 1] = 2 "
                                    "else redis.call('ZREM', KEYS[1], ARGV[i]) out[#out + 1] = 1 end "
                                    "end return out";

struct redis {
    const struct redis_options *options;
    const struct receipt *only;
    uint64_t offset; /* number of members of earlier result pages that stay in Redis */
    uint64_t last;   /* number of members of the last result page that stay in Redis */
    uint64_t page;   /* number of members to request for a result page */
};

#define AND_SIZE(text) text, sizeof(text) - 1 /* expands to two arguments: a string literal and its length */

/* ---- requests and replies */

static int refused(struct import *import, const char *what, const struct resp *resp) {
    if (import->link.error[0] != 0) return import_lost(import);
    static const char other[] = "a reply of another type";
    const bool is_said = resp->kind == RESP_ERROR || resp->kind == RESP_STRING;
    return import_nonsense(import, what, is_said ? resp->bytes : other, is_said ? resp->size : sizeof other - 1);
}

/* Sends a command of words, and reads the first item of its reply. False after an error message. */
static bool ask(struct import *import, const char *const *words, size_t count, enum resp_kind kind, struct resp *out) {
    struct text text = {0};
    char what[64];
    *out = (struct resp){.kind = RESP_NULL};
    resp_begin(&text, count);
    for (size_t i = 0; i < count; i++) resp_word(&text, words[i]);
    const bool is_read = server_link_send(&import->link, text.data, text.size) && resp_read(&import->link, out);
    text_deinit(&text);
    if (is_read && out->kind == kind) return true;
    snprintf(what, sizeof what, "it refused %s; its reply was", words[0]);
    refused(import, what, out);
    return false;
}
#define ASK(import, kind, out, ...)                                                                                    \
    ask(import, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), kind, \
        out)

/* ---- scores */

/* Converts a score to a time. False: it is not a number. */
static bool due_of(const struct redis_options *options, const char *score, uint64_t *out_ms) {
    char *end;
    const double number = strtod(score, &end);
    if (*end != 0 || end == score || isnan(number)) return false;
    const double scale = options->score_scale != 0 ? (double)options->score_scale : number >= SCORE_IN_MS ? 1 : 1000;
    const double ms = ceil(number * scale); /* TIME-1 */
    *out_ms = ms <= 0 ? 0 : ms >= DUE_MS_MAX ? (uint64_t)DUE_MS_MAX : (uint64_t)ms;
    return true;
}

/* ---- a page */

/* Computes the key of a member, which is the same at each import. */
static void name(const struct import *import, struct import_item *item) {
    const struct redis *redis = import->state;
    char database[24];
    snprintf(database, sizeof database, "%llu", (unsigned long long)redis->options->database);
    const void *const parts[] = {import->address, database, redis->options->zset, item->payload};
    const size_t sizes[] = {strlen(import->address), strlen(database), strlen(redis->options->zset),
                            item->payload_size};
    import_digest(item->key, "redis", parts, sizes, 4);
    if (redis->options->member_key && item->payload_size > 0) item->own_key = item->payload;
}

/* Reads a member and its score. Returns false if the connection failed or after an error message. */
static bool take_member(struct import *import, struct import_batch *batch) {
    const struct redis *redis = import->state;
    struct resp resp;
    struct import_item *item = import_batch_add(batch);
    if (!resp_read(&import->link, &resp)) return false;
    if (resp.kind != RESP_STRING && resp.kind != RESP_HUGE) return server_link_fail(&import->link, "sent no member");
    item->queue = tool_strdup(redis->options->queue);
    item->payload_size = resp.kind == RESP_HUGE ? (uint64_t)resp.number : resp.size;
    if (resp.kind == RESP_STRING) {
        item->payload = tool_alloc(resp.size + 1);
        memcpy(item->payload, resp.bytes, resp.size);
        item->mark.hash = import_hash(resp.bytes, resp.size);
        batch->bytes += resp.size;
        name(import, item);
    }
    if (!resp_read(&import->link, &resp)) return false;
    if (resp.kind != RESP_STRING) return server_link_fail(&import->link, "sent no score");
    item->score = tool_alloc(resp.size + 1);
    memcpy(item->score, resp.bytes, resp.size);
    item->score[resp.size] = 0;
    item->mark.stamp = import_hash(resp.bytes, resp.size);
    item->when = TARRY_AT;
    if (strlen(item->score) != resp.size || !due_of(redis->options, item->score, &item->when_ms))
        return server_link_fail(&import->link, "sent a score that is not a number");
    if (redis->only != NULL) item->verdict = receipt_has(redis->only, &item->mark, 0) ? ITEM_HERE : ITEM_REFUSED;
    return true;
}

/* Removes the last item from the batch, so that the next result page contains it. */
static void drop_last(struct import_batch *batch) {
    struct import_item *item = &batch->items[--batch->count];
    free(item->queue);
    free(item->payload);
    free(item->score);
}

static int next(struct import *import, struct import_batch *batch) {
    struct redis *redis = import->state;
    struct resp resp;
    char from[24], to[24];
    redis->offset += redis->last;
    redis->last = 0;
    snprintf(from, sizeof from, "%llu", (unsigned long long)redis->offset);
    snprintf(to, sizeof to, "%llu", (unsigned long long)(redis->offset + redis->page - 1));
    if (!ASK(import, RESP_ARRAY, &resp, "ZRANGE", redis->options->zset, from, to, "WITHSCORES")) return EXIT_REFUSED;
    if (resp.number % 2 != 0 || (uint64_t)resp.number > 2 * redis->page)
        return import_nonsense(import, "the reply to ZRANGE is malformed", AND_SIZE("more elements than requested"));
    size_t bytes = 0;
    for (int64_t i = 0; i < resp.number / 2; i++) {
        const bool is_full = i > 0 && batch->bytes >= BATCH_BYTES_MAX;
        const size_t before = batch->bytes;
        if (!take_member(import, batch)) return import_lost(import);
        bytes += batch->bytes - before;
        if (!is_full) continue;
        batch->bytes = before;
        drop_last(batch);
    }
    if (bytes > BATCH_BYTES_MAX) redis->page = redis->page > 4 ? redis->page / 4 : 1;
    if (bytes < PAGE_SMALL_BYTES) redis->page = redis->page < BATCH_ITEMS_MAX / 2 ? redis->page * 2 : BATCH_ITEMS_MAX;
    redis->last = batch->count;
    return 0;
}

static int remove_all(struct import *import, struct import_batch *batch) {
    struct redis *redis = import->state;
    struct text text = {0};
    struct resp resp;
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++) count += batch->items[i].verdict != ITEM_REFUSED;
    if (count == 0) return 0;
    resp_begin(&text, 4 + 2 * count);
    resp_word(&text, "EVAL");
    resp_word(&text, remove_script);
    resp_word(&text, "1");
    resp_word(&text, redis->options->zset);
    for (size_t i = 0; i < batch->count; i++) {
        const struct import_item *item = &batch->items[i];
        if (item->verdict == ITEM_REFUSED) continue;
        resp_argument(&text, item->payload, item->payload_size);
        resp_word(&text, item->score);
    }
    const bool is_read = server_link_send(&import->link, text.data, text.size) && resp_read(&import->link, &resp);
    text_deinit(&text);
    if (!is_read) return import_lost(import);
    if (resp.kind != RESP_ARRAY || resp.number != (int64_t)count)
        return refused(import, "it does not remove members; its reply was", &resp);
    for (size_t i = 0; i < batch->count; i++) {
        struct import_item *item = &batch->items[i];
        if (item->verdict == ITEM_REFUSED) continue;
        if (!resp_read(&import->link, &resp) || resp.kind != RESP_INTEGER)
            return refused(import, "it does not remove members; its reply was", &resp);
        item->fate = resp.number == 1 ? FATE_REMOVED : FATE_TAKEN;
        redis->last--;
    }
    return 0;
}

/* ---- the origin */

static int count_all(struct import *import, struct counts *out) {
    const struct redis *redis = import->state;
    struct resp resp;
    if (!ASK(import, RESP_INTEGER, &resp, "ZCARD", redis->options->zset)) return EXIT_REFUSED;
    if (resp.number < 0)
        return import_nonsense(import, "the reply to ZCARD is malformed", AND_SIZE("a number below 0"));
    *out = (struct counts){.names = {"members"}, .numbers = {(uint64_t)resp.number}, .count = 1};
    return 0;
}

static int begin(struct import *import) {
    const struct redis *redis = import->state;
    const struct redis_options *options = redis->options;
    struct resp resp;
    char database[24];
    if (!server_link_open(&import->link, import->address, REDIS_PORT, import->tool->timeout_ms))
        return import_lost(import);
    snprintf(import->server, sizeof import->server, "redis");
    snprintf(database, sizeof database, "%llu", (unsigned long long)options->database);
    if (options->password != NULL) {
        const bool is_in = options->user != NULL
                               ? ASK(import, RESP_STRING, &resp, "AUTH", options->user, options->password)
                               : ASK(import, RESP_STRING, &resp, "AUTH", options->password);
        if (!is_in) return EXIT_REFUSED;
    }
    if (options->database > 0 && !ASK(import, RESP_STRING, &resp, "SELECT", database)) return EXIT_REFUSED;
    return count_all(import, &import->before);
}

/* Reads the due time of the member with the index `place` in the sorted set. Sets *out_there to whether there is such a
 * member. */
static int due_at(struct import *import, const char *place, uint64_t *out_ms, bool *out_there) {
    const struct redis *redis = import->state;
    struct import_batch batch = {.items = tool_alloc(sizeof *batch.items)};
    struct resp resp;
    int status = 0;
    *out_there = false;
    if (!ASK(import, RESP_ARRAY, &resp, "ZRANGE", redis->options->zset, place, place, "WITHSCORES")) {
        status = EXIT_REFUSED;
    } else if (resp.number == 2) {
        if (!take_member(import, &batch)) status = import_lost(import);
        *out_ms = batch.items[0].when_ms;
        *out_there = status == 0;
    } else if (resp.number != 0) {
        status = import_nonsense(import, "the reply to ZRANGE is malformed", AND_SIZE("more elements than requested"));
    }
    import_batch_clear(&batch);
    free(batch.items);
    return status;
}

static int show(struct import *import) {
    const struct redis *redis = import->state;
    char soonest[RFC3339_TEXT_SIZE], latest[RFC3339_TEXT_SIZE];
    uint64_t soonest_ms = 0, latest_ms = 0;
    bool is_there = false;
    struct text out = {0};
    int status = due_at(import, "0", &soonest_ms, &is_there);
    if (status == 0 && is_there) status = due_at(import, "-1", &latest_ms, &is_there);
    if (status != 0) return status;
    if (import->tool->json) {
        out_begin(&out, '{');
        out_text(&out, "zset", redis->options->zset);
        out_text(&out, "queue", redis->options->queue);
        out_number(&out, "members", import->before.numbers[0]);
        if (is_there) out_number(&out, "soonest_ms", soonest_ms);
        if (is_there) out_number(&out, "latest_ms", latest_ms);
        out_line_end(&out);
    } else {
        plain_add(&out, redis->options->zset, strlen(redis->options->zset));
        text_printf(&out, ": %llu members", (unsigned long long)import->before.numbers[0]);
        if (is_there)
            text_printf(&out, ", due from %s to %s", rfc3339_format(soonest_ms, soonest),
                        rfc3339_format(latest_ms, latest));
        text_add_char(&out, '\n');
    }
    status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    return status;
}

/* Checks, before anything is scheduled, that this user may remove members of this server's sorted set. The check also
 * fails on a replica, which is read-only. */
static int start(struct import *import, const struct receipt *only) {
    struct redis *redis = import->state;
    struct resp resp;
    redis->only = only;
    redis->offset = redis->last = 0;
    redis->page = PAGE_FIRST;
    if (import->is_copy) return 0;
    if (!ASK(import, RESP_INTEGER, &resp, "ZREM", redis->options->zset, NOBODY)) return EXIT_REFUSED;
    if (!ASK(import, RESP_ARRAY, &resp, "EVAL", remove_script, "1", redis->options->zset)) return EXIT_REFUSED;
    return resp.number == 0
               ? 0
               : import_nonsense(import, "the reply to EVAL is malformed", AND_SIZE("more elements than requested"));
}

static void end(struct import *import) {
    free(import->state);
    import->state = NULL;
}

static const struct origin origin = {.noun = "member",
                                     .begin = begin,
                                     .show = show,
                                     .start = start,
                                     .next = next,
                                     .remove = remove_all,
                                     .count = count_all,
                                     .end = end};

void redis_origin(struct import *import, const struct redis_options *options) {
    struct redis *redis = tool_alloc(sizeof *redis);
    char database[24];
    *redis = (struct redis){.options = options, .page = PAGE_FIRST};
    import->state = redis;
    import->origin = &origin;
    snprintf(database, sizeof database, "%llu", (unsigned long long)options->database);
    import_digest(import->receipt_key, "redis", (const void *const[]){import->address, database, options->zset},
                  (const size_t[]){strlen(import->address), strlen(database), strlen(options->zset)}, 3);
}
