/* fuzz_etcd_answer.c: data from etcd, or from another server at its port: answers to requests, lines of a watch, tokens
 * and errors. Only an answer that fits the request is accepted; any other is refused with a sentence. */
#include <assert.h>
#include <string.h>

#include "etcd_words.h"
#include "fuzz.h"

#define KEY "/tarry/pair/record"

static const struct coordinator_change changes[] = {
    {.name = "record", .value = "two", .size = 3, .version = 1},
    {.name = "record", .version = 2},
    {.name = "record", .value = "", .version = 0},
};
static const struct etcd_entry seen = {.version = 1, .birth = 2, .mark = 2, .size = 3, .value = "one"};

static void try_questions(const char *text, size_t size) {
    char message[COORDINATOR_MESSAGE_SIZE] = "";
    struct etcd_entry entry;
    uint64_t cluster = 0;
    if (etcd_take_range(text, size, KEY, &cluster, &entry, message) == 0) {
        assert(cluster != 0 && entry.size <= COORDINATOR_VALUE_SIZE_MAX);
        assert(entry.version == 0 ? entry.size == 0 : entry.birth > 0 && entry.mark >= entry.birth);
    } else {
        assert(message[0] != 0);
    }
    message[0] = 0;
    if (etcd_take_count(text, size, &cluster, message) != 0)
        assert(message[0] != 0);
    else
        assert(cluster != 0);
}

/* Checks that a change is reported as done or as refused only if the text proves it. */
static void try_changes(const char *text, size_t size) {
    char message[COORDINATOR_MESSAGE_SIZE] = "";
    struct etcd_entry found[COORDINATOR_CHANGES_MAX];
    uint64_t cluster;
    bool happened;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const struct etcd_change change = {.key = KEY,
                                           .change = &changes[i],
                                           .known = changes[i].version == 1 ? &seen : NULL};
        if (etcd_take_change(text, size, &change, 1, &cluster, &happened, found, message) != 0) {
            assert(message[0] != 0);
            continue;
        }
        bool is_at = found[0].version == changes[i].version;
        bool is_next = found[0].version == changes[i].version + 1 && found[0].size == changes[i].size;
        assert(!happened || (changes[i].value == NULL ? is_at : is_next));
        assert(happened || !is_at ||
               (changes[i].version == 1 && (found[0].mark != 2 || memcmp(found[0].value, "one", 4) != 0)));
    }
}

static void try_token(const char *text, size_t size) {
    char message[COORDINATOR_MESSAGE_SIZE] = "", token[ETCD_TOKEN_SIZE_MAX + 1];
    if (etcd_take_token(text, size, token, message) != 0) {
        assert(message[0] != 0);
        return;
    }
    assert(token[0] != 0 && strpbrk(token, "\r\n ") == NULL);
}

static void try_refusal(const char *text, size_t size) {
    char out[COORDINATOR_MESSAGE_SIZE] = "";
    enum etcd_refusal refusal = etcd_take_refusal(503, text, size, out);
    assert(refusal >= ETCD_OTHER && refusal <= ETCD_NO_ROOM);
    for (const char *at = out; *at != 0; at++) assert(*at >= ' ' && *at <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    if (size > ETCD_ANSWER_SIZE_MAX) return 0;
    try_questions(text, size);
    try_changes(text, size);
    try_token(text, size);
    try_refusal(text, size);
    (void)etcd_is_watch_over(text, size);
    return 0;
}
