/* seen.c: see seen.h. */
#include "seen.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILLERS 60u /* number of tasks that roles.py makes; they have the ids from 1 on, and belong to no client */
#define BEFORE 12   /* number of bytes before a number that are searched for the number's meaning */

static void note_id(struct seen *seen, uint64_t id) {
    if (id != 0) seen->ids[seen->id_count++ % SEEN_MAX] = id;
}

/* Copies digits and hyphens, or hexadecimal digits, up to a quote. Returns false if the text is truncated or too
 * long. */
static bool take_text(const char *at, const char *end, char out[SEEN_TEXT_SIZE]) {
    size_t size = 0;
    while (at + size < end && at[size] != '"' && size < SEEN_TEXT_SIZE - 1) size++;
    if (at + size == end || at[size] != '"' || size == 0) return false;
    memcpy(out, at, size);
    out[size] = '\0';
    return true;
}

static const char *find(const char *at, const char *end, const char *wanted) {
    return at < end ? memmem(at, (size_t)(end - at), wanted, strlen(wanted)) : NULL;
}

void seen_json(struct seen *seen, const char *text, size_t size) {
    const char *end = text + size, *at = text;
    char found[SEEN_TEXT_SIZE];
    if (find(text, end, HONEST_MARK) != NULL) return;
    while ((at = find(at, end, "\"id\":\"")) != NULL) {
        at += strlen("\"id\":\"");
        if (!take_text(at, end, found)) continue;
        uint64_t id = strtoull(found, NULL, 10);
        note_id(seen, id);
        const char *token = at + strlen(found) + strlen("\",\"token\":\"");
        if (find(at, end, "\",\"token\":\"") != at + strlen(found) || !take_text(token, end, found)) continue;
        struct seen_lease *lease = &seen->leases[seen->lease_count++ % SEEN_MAX];
        lease->id = id;
        memcpy(lease->token, found, sizeof(found));
    }
    at = find(text, end, "\"next\":\"");
    if (at != NULL && take_text(at + strlen("\"next\":\""), end, found))
        memcpy(seen->cursors[seen->cursor_count++ % 8], found, sizeof(found));
}

void seen_lines(struct seen *seen, const char *text, size_t size) {
    static const char *const words[] = {"INSERTED ", "RESERVED ", "FOUND "};
    const char *end = text + size;
    if (find(text, end, HONEST_MARK) != NULL) return;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (const char *at = text; (at = find(at, end, words[i])) != NULL;) {
            char digits[SEEN_TEXT_SIZE];
            size_t count = 0;
            at += strlen(words[i]);
            while (at + count < end && isdigit((unsigned char)at[count]) && count < SEEN_TEXT_SIZE - 1) count++;
            if (at + count == end) break; /* the number may continue in data that has not arrived */
            memcpy(digits, at, count);
            digits[count] = '\0';
            note_id(seen, strtoull(digits, NULL, 10));
        }
}

static uint64_t one_of(const struct seen *seen, struct random *random, uint64_t count) {
    (void)seen;
    return random_below(random, count < SEEN_MAX ? count : SEEN_MAX);
}

uint64_t seen_id(const struct seen *seen, struct random *random) {
    uint64_t dice = random_below(random, 20);
    if (dice == 0) return FAR + random_magnitude(random, 22);
    if (dice == 1) return UINT64_MAX - random_below(random, 3);
    if (dice == 2) return 0;
    if (dice < 5 || seen->id_count == 0) return 1 + random_below(random, FILLERS);
    return seen->ids[one_of(seen, random, seen->id_count)];
}

struct seen_lease seen_lease(const struct seen *seen, struct random *random) {
    static const char *const made_up[] = {"1-1",   "0-0", "4294967295-18446744073709551615", "1-", "-1", "",
                                          "1-1-1", "x"};
    struct seen_lease lease = {.id = seen_id(seen, random), .token = "1-1"};
    if (seen->lease_count > 0 && random_below(random, 10) != 0)
        lease = seen->leases[one_of(seen, random, seen->lease_count)];
    if (random_below(random, 12) == 0) lease.id = seen_id(seen, random);
    if (random_below(random, 12) == 0)
        (void)snprintf(lease.token, sizeof(lease.token), "%s", made_up[random_below(random, 8)]);
    return lease;
}

const char *seen_cursor(const struct seen *seen, struct random *random) {
    if (seen->cursor_count == 0 || random_below(random, 6) == 0) return "00112233445566778899aabbccddeeff";
    return seen->cursors[random_below(random, seen->cursor_count < 8 ? seen->cursor_count : 8)];
}

static bool is_own(const struct seen *seen, uint64_t id) {
    for (size_t i = 0; i < SEEN_MAX && i < seen->id_count; i++)
        if (seen->ids[i] == id) return true;
    return id <= FILLERS || id >= FAR;
}

/* Returns whether the text before a number shows that it may be the id of a task. */
static bool names_a_task(const char *text, const char *at) {
    static const char *const words[] = {"id", "asks/", "elete ", "kick-job ", "erve-job "};
    const char *from = at - text > BEFORE ? at - BEFORE : text;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (find(from, at, words[i]) != NULL) return true;
    return false;
}

bool seen_allows(const struct seen *seen, const void *data, size_t size) {
    const char *text = data, *end = text + size;
    if (find(text, end, HONEST_MARK) != NULL) return false;
    for (const char *at = text; at < end; at++) {
        if (!isdigit((unsigned char)*at)) continue;
        const char *first = at;
        uint64_t number = 0;
        for (; at < end && isdigit((unsigned char)*at); at++)
            number = number > FAR ? number : number * 10 + (uint64_t)(*at - '0');
        if (names_a_task(text, first) && !is_own(seen, number)) return false;
    }
    return true;
}
