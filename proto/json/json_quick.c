/* json_quick.c: see json_quick.h. */
#include "json_quick.h"

#include <string.h>

#include "json_lexer.h"
#include "rfc3339.h"
#include "tarry_limits.h"
#include "units.h"

#define JSON_SIZE_MAX 1024u /* maximum size in bytes of the member `json`, written as compact JSON */
#define DEPTH_MAX 16u
#define NAMES_MAX 16u /* maximum number of members of an object in `json` */

/* Members of a task that were read, as bits. */
enum {
    SEEN_QUEUE = 1,
    SEEN_KEY = 2,
    SEEN_WHEN = 4,
    SEEN_PRIORITY = 8,
    SEEN_SERIAL = 16,
    SEEN_CONTENT = 32,
};

struct task {
    Tarry__Op op;
    Tarry__Schedule schedule;
    Tarry__When when;
};

struct quick {
    struct json_lexer lexer;
    struct json_in *in;
    struct task *task;
    unsigned seen;
};

/* ---- the value of `json`, which is copied without blanks */

struct copy {
    struct json_lexer *lexer;
    char *at, *end;
};

static bool copy_value(struct copy *copy, unsigned depth);

static bool put(struct copy *copy, const char *bytes, size_t size) {
    if ((size_t)(copy->end - copy->at) < size) return false;
    memcpy(copy->at, bytes, size);
    copy->at += size;
    return true;
}

/* Copies a string, whose first quote was taken. */
static const char *copy_text(struct copy *copy, size_t *out_size) {
    const char *text = lex_text(copy->lexer, out_size);
    return text != NULL && put(copy, text - 1, *out_size + 2) ? text : NULL;
}

static bool copy_integer(struct copy *copy) {
    const char *begin = copy->lexer->at;
    int64_t number;
    if (!lex_integer(copy->lexer, &number)) return false;
    bool is_minus_zero = number == 0 && *begin == '-'; /* -0 is not copied, because jansson writes 0 */
    return !is_minus_zero && put(copy, begin, (size_t)(copy->lexer->at - begin));
}

static bool copy_word(struct copy *copy, const char *word, size_t size) {
    return lex_word(copy->lexer, word, size) && put(copy, word, size);
}

/* Copies the members behind the first bracket. A name that comes twice is an error. */
static bool copy_members(struct copy *copy, unsigned depth) {
    struct {
        const char *text;
        size_t size;
    } names[NAMES_MAX];
    for (unsigned count = 0; count < NAMES_MAX; count++) {
        if (!lex_take(copy->lexer, '"')) return false;
        names[count].text = copy_text(copy, &names[count].size);
        if (names[count].text == NULL) return false;
        for (unsigned i = 0; i < count; i++)
            if (names[i].size == names[count].size && memcmp(names[i].text, names[count].text, names[i].size) == 0)
                return false;
        if (!lex_take(copy->lexer, ':') || !put(copy, ":", 1) || !copy_value(copy, depth)) return false;
        if (lex_take(copy->lexer, '}')) return put(copy, "}", 1);
        if (!lex_take(copy->lexer, ',') || !put(copy, ",", 1)) return false;
    }
    return false;
}

static bool copy_elements(struct copy *copy, unsigned depth) {
    for (;;) {
        if (!copy_value(copy, depth)) return false;
        if (lex_take(copy->lexer, ']')) return put(copy, "]", 1);
        if (!lex_take(copy->lexer, ',') || !put(copy, ",", 1)) return false;
    }
}

static bool copy_value(struct copy *copy, unsigned depth) {
    struct json_lexer *lexer = copy->lexer;
    size_t size;
    char first = lex_look(lexer);
    if (depth == DEPTH_MAX) return false;
    switch (first) {
    case '{':
        lexer->at++;
        if (lex_take(lexer, '}')) return put(copy, "{}", 2);
        return put(copy, "{", 1) && copy_members(copy, depth + 1);
    case '[':
        lexer->at++;
        if (lex_take(lexer, ']')) return put(copy, "[]", 2);
        return put(copy, "[", 1) && copy_elements(copy, depth + 1);
    case '"':
        lexer->at++;
        return copy_text(copy, &size) != NULL;
    case 't':
        return copy_word(copy, "true", 4);
    case 'f':
        return copy_word(copy, "false", 5);
    case 'n':
        return copy_word(copy, "null", 4);
    case '\0':
        return false;
    default:
        return copy_integer(copy);
    }
}

/* ---- contents: a packed Content */

#define PAYLOAD_TAG 0x12
#define HEAD_SIZE_MAX 11u /* maximum number of bytes of a payload's tag and size */
/* The attribute content-type of a task with `json`. */
static const char content_type[] = "\x0a\x20\x0a\x0c"
                                   "content-type\x12\x10"
                                   "application/json";

static bool pack_content(struct quick *quick, const char *type, size_t type_size, const char *payload, size_t size) {
    ProtobufCBinaryData *content = &quick->task->schedule.content;
    uint8_t *begin = arena_alloc(quick->in->arena, type_size + HEAD_SIZE_MAX + size), *at = begin;
    if (begin == NULL) return false;
    memcpy(at, type, type_size);
    at += type_size;
    if (size > 0) {
        size_t left = size;
        *at++ = PAYLOAD_TAG;
        for (; left >= 0x80; left >>= 7) *at++ = (uint8_t)(left | 0x80);
        *at++ = (uint8_t)left;
        memcpy(at, payload, size);
        at += size;
    }
    *content = (ProtobufCBinaryData){.len = (size_t)(at - begin), .data = begin};
    return true;
}

static bool take_json(struct quick *quick) {
    char compact[JSON_SIZE_MAX];
    struct copy copy = {&quick->lexer, compact, compact + sizeof(compact)};
    return copy_value(&copy, 0) &&
           pack_content(quick, content_type, sizeof(content_type) - 1, compact, (size_t)(copy.at - compact));
}

static bool take_body(struct quick *quick) {
    size_t size;
    const char *text = lex_take(&quick->lexer, '"') ? lex_text(&quick->lexer, &size) : NULL;
    return text != NULL && size > 0 && pack_content(quick, "", 0, text, size);
}

/* ---- members */

/* Reads a string into the arena, with a NUL behind it. NULL: not plain, or empty. */
static char *take_text(struct quick *quick, size_t *out_size) {
    const char *text = lex_take(&quick->lexer, '"') ? lex_text(&quick->lexer, out_size) : NULL;
    char *copy = text != NULL && *out_size > 0 ? arena_alloc(quick->in->arena, *out_size + 1) : NULL;
    if (copy == NULL) return NULL;
    memcpy(copy, text, *out_size);
    copy[*out_size] = '\0';
    return copy;
}

static bool take_bytes(struct quick *quick, ProtobufCBinaryData *out) {
    out->data = (uint8_t *)take_text(quick, &out->len);
    return out->data != NULL;
}

static bool take_number(struct quick *quick, uint64_t *out) {
    int64_t number;
    char first = lex_look(&quick->lexer);
    if (first < '0' || first > '9' || !lex_integer(&quick->lexer, &number)) return false;
    *out = (uint64_t)number;
    return true;
}

static bool take_delay(struct quick *quick, bool is_text) {
    size_t size;
    Tarry__When *when = &quick->task->when;
    when->kind = TARRY__WHEN__KIND__DELAY;
    if (!is_text) return take_number(quick, &when->ms);
    const char *text = take_text(quick, &size);
    return text != NULL && duration_parse(text, &when->ms);
}

static bool take_time(struct quick *quick, bool is_text) {
    size_t size;
    Tarry__When *when = &quick->task->when;
    when->kind = TARRY__WHEN__KIND__AT;
    if (!is_text) return take_number(quick, &when->ms);
    const char *text = take_text(quick, &size);
    return text != NULL && rfc3339_parse(text, &when->ms) == NULL;
}

static bool take_priority(struct quick *quick) {
    uint64_t number;
    if (!take_number(quick, &number) || number >= PRIORITY_COUNT) return false;
    quick->task->schedule.priority = (uint32_t)number;
    return true;
}

/* Notes that a member of the kind `what` was given. Returns false if the object already had a member of this kind. */
static bool see(struct quick *quick, unsigned what) {
    bool is_new = (quick->seen & what) == 0;
    quick->seen |= what;
    return is_new;
}

#define IS(literal) (size == sizeof(literal) - 1 && memcmp(name, literal, sizeof(literal) - 1) == 0)

static bool take_member(struct quick *quick, const char *name, size_t size) {
    Tarry__Schedule *schedule = &quick->task->schedule;
    size_t queue_size;
    if (IS("queue")) return see(quick, SEEN_QUEUE) && (schedule->queue = take_text(quick, &queue_size)) != NULL;
    if (IS("key")) return see(quick, SEEN_KEY) && take_bytes(quick, &schedule->key);
    if (IS("in")) return see(quick, SEEN_WHEN) && take_delay(quick, true);
    if (IS("json")) return see(quick, SEEN_CONTENT) && take_json(quick);
    if (IS("body")) return see(quick, SEEN_CONTENT) && take_body(quick);
    if (IS("in_ms") || IS("delay_ms")) return see(quick, SEEN_WHEN) && take_delay(quick, false);
    if (IS("at")) return see(quick, SEEN_WHEN) && take_time(quick, true);
    if (IS("due_ms")) return see(quick, SEEN_WHEN) && take_time(quick, false);
    if (IS("priority")) return see(quick, SEEN_PRIORITY) && take_priority(quick);
    if (IS("serial")) return see(quick, SEEN_SERIAL) && take_bytes(quick, &schedule->serial);
    return false;
}

static bool finish(struct quick *quick) {
    Tarry__Schedule *schedule = &quick->task->schedule;
    if ((quick->seen & SEEN_QUEUE) == 0) schedule->queue = (char *)quick->in->queue;
    return (quick->seen & SEEN_WHEN) != 0 && schedule->queue != NULL;
}

static Tarry__Op *take_task(struct quick *quick) {
    struct json_lexer *lexer = &quick->lexer;
    struct task *task = quick->task = arena_alloc(quick->in->arena, sizeof(*task));
    if (task == NULL || !lex_take(lexer, '{')) return NULL;
    tarry__op__init(&task->op);
    tarry__schedule__init(&task->schedule);
    tarry__when__init(&task->when);
    task->op.op_case = TARRY__OP__OP_SCHEDULE;
    task->op.schedule = &task->schedule;
    task->schedule.when = &task->when;
    quick->seen = 0;
    for (;;) {
        size_t size;
        const char *name = lex_take(lexer, '"') ? lex_text(lexer, &size) : NULL;
        if (name == NULL || !lex_take(lexer, ':') || !take_member(quick, name, size)) return NULL;
        if (lex_take(lexer, '}')) break;
        if (!lex_take(lexer, ',')) return NULL;
    }
    return finish(quick) ? &task->op : NULL;
}

/* Reads the tasks of an array behind the first bracket. */
static size_t take_tasks(struct quick *quick, Tarry__Op **ops, size_t max) {
    for (size_t count = 0; count < max;) {
        if ((ops[count++] = take_task(quick)) == NULL) return 0;
        if (lex_take(&quick->lexer, ']')) return count;
        if (!lex_take(&quick->lexer, ',')) return 0;
    }
    return 0;
}

size_t json_quick_schedules(struct json_in *in, const char *text, size_t size, Tarry__Op **ops, size_t max,
                            bool *out_is_single) {
    struct quick quick = {.lexer = {text, text + size}, .in = in};
    const struct arena_mark mark = arena_mark(in->arena);
    size_t count;
    if (size > JSON_QUICK_SIZE_MAX || max == 0) return 0;
    *out_is_single = !lex_take(&quick.lexer, '[');
    if (*out_is_single)
        count = (ops[0] = take_task(&quick)) != NULL ? 1 : 0;
    else
        count = take_tasks(&quick, ops, max);
    lex_blanks(&quick.lexer);
    if (quick.lexer.at != quick.lexer.end) count = 0;
    if (count == 0) arena_rewind(in->arena, mark); /* json_read's result needs the room */
    return count;
}
