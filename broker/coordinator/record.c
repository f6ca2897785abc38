/* record.c: see record.h. Parses the text line by line, then writes the record again and compares: only a text that
 * record_write would write is accepted. */
#include "record.h"

#include <assert.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define RECORD_WORD "tarry-pair"
#define RECORD_VERSION 1u

_Static_assert(RECORD_NODES *(RECORD_URL_SIZE_MAX + 64) + 512 <= COORDINATOR_VALUE_SIZE_MAX, "a record fits");

static bool is_url(const char *url) {
    size_t size = 0;
    for (; size <= RECORD_URL_SIZE_MAX && url[size] != '\0'; size++)
        if (url[size] <= ' ' || url[size] > '~') return false;
    return size > 0 && size <= RECORD_URL_SIZE_MAX;
}

const char *record_check(const struct coordinator_record *record) {
    const struct pair_record *pair = &record->pair;
    if (pair->epoch == 0) return "the epoch is 0";
    if (pair->leader >= RECORD_NODES) return "the leader must be node 0 or 1";
    if (pair->in_sync >= 1u << RECORD_NODES) return "a node in sync must be node 0 or 1";
    if ((pair->in_sync & 1u << pair->leader) == 0) return "the leader is not in sync";
    for (size_t i = 0; i < RECORD_NODES; i++) {
        const struct record_member *member = &record->members[i];
        if (!member->is_known && (pair->in_sync & 1u << i) != 0) return "a node is in sync, but its line is missing";
        if (member->is_known && !is_url(member->url)) return "invalid URL of a node";
    }
    return NULL;
}

size_t record_write(const struct coordinator_record *record, char out[COORDINATOR_VALUE_SIZE_MAX + 1]) {
    static const char *const in_sync[] = {"", " 0", " 1", " 0 1"};
    const struct pair_record *pair = &record->pair;
    char cluster[2 * CLUSTER_ID_SIZE + 1], id[MEMBER_TEXT_SIZE];
    assert(record_check(record) == NULL);
    sodium_bin2hex(cluster, sizeof cluster, record->cluster, CLUSTER_ID_SIZE);
    int size = sprintf(out,
                       RECORD_WORD " %u\ncluster %s\nepoch %" PRIu32 "\nleader %u\nin-sync%s\nrun %" PRIu64
                                   "\nstart %" PRIu64 "\nhigh-water %" PRIu64 "\n",
                       RECORD_VERSION, cluster, pair->epoch, pair->leader, in_sync[pair->in_sync], pair->run,
                       pair->start, pair->high_water);
    for (unsigned i = 0; i < RECORD_NODES; i++) {
        const struct record_member *member = &record->members[i];
        if (!member->is_known) continue;
        sodium_bin2hex(id, sizeof id, member->id, MEMBER_ID_SIZE);
        size += sprintf(out + size, "node %u %s %s\n", i, id, member->url);
    }
    return (size_t)size;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

struct cursor {
    const char *at;
    const char *end;
    bool failed;
};

/* Returns the text between `word` and the end of its line as a string. */
static void take(struct cursor *cursor, const char *word, char *out, size_t room) {
    size_t left = (size_t)(cursor->end - cursor->at), size = strlen(word);
    const char *newline = left > 0 ? memchr(cursor->at, '\n', left) : NULL;
    out[0] = '\0';
    if (cursor->failed || newline == NULL || (size_t)(newline - cursor->at) <= size ||
        memcmp(cursor->at, word, size) != 0 || cursor->at[size] != ' ' ||
        (size_t)(newline - cursor->at) - size > room) {
        cursor->failed = true;
        return;
    }
    size_t rest = (size_t)(newline - cursor->at) - size - 1;
    memcpy(out, cursor->at + size + 1, rest);
    out[rest] = '\0';
    cursor->at = newline + 1;
}

static uint64_t take_number(struct cursor *cursor, const char *word, uint64_t max) {
    char text[32];
    uint64_t number = 0;
    take(cursor, word, text, sizeof text);
    if (text[0] == '\0') cursor->failed = true;
    for (const char *at = text; *at != '\0' && !cursor->failed; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        cursor->failed = *at < '0' || *at > '9' || number > (max - digit) / 10;
        number = number * 10 + digit;
    }
    return cursor->failed ? 0 : number;
}

static void take_id(struct cursor *cursor, const char *text, uint8_t *out, size_t size) {
    size_t count;
    const char *end;
    bool is_hex = sodium_hex2bin(out, size, text, 2 * size, NULL, &count, &end) == 0 && count == size;
    if (!is_hex || *end != '\0') cursor->failed = true;
}

static uint8_t take_in_sync(struct cursor *cursor) {
    char text[8];
    take(cursor, "in-sync", text, sizeof text);
    if (strcmp(text, "0") == 0) return 1;
    if (strcmp(text, "1") == 0) return 2;
    if (strcmp(text, "0 1") == 0) return 3;
    cursor->failed = true;
    return 0;
}

static void take_member(struct cursor *cursor, const char *word, struct record_member *out) {
    char text[2 * MEMBER_ID_SIZE + RECORD_URL_SIZE_MAX + 2];
    size_t size = strlen(word), left = (size_t)(cursor->end - cursor->at);
    out->is_known = false;
    if (cursor->failed || left < size || memcmp(cursor->at, word, size) != 0)
        return; /* the record has no line for this node, because the node has not joined yet */
    take(cursor, word, text, sizeof text);
    char *blank = strchr(text, ' ');
    if (blank == NULL) {
        cursor->failed = true;
        return;
    }
    *blank = '\0';
    take_id(cursor, text, out->id, MEMBER_ID_SIZE);
    out->is_known = true;
    snprintf(out->url, sizeof out->url, "%s", blank + 1);
}

static int refuse(char message[COORDINATOR_MESSAGE_SIZE], const char *why) {
    snprintf(message, COORDINATOR_MESSAGE_SIZE,
             "coordinator: entry '" RECORD_ENTRY "' is not a valid record of a pair: %s. Name another path in "
             "--coordinator, or restore the entry; nobody but Tarry may write it",
             why);
    return 1;
}

int record_read(const char *text, size_t size, struct coordinator_record *out, char message[COORDINATOR_MESSAGE_SIZE]) {
    struct cursor cursor = {.at = text, .end = text + size};
    char id[64], again[COORDINATOR_VALUE_SIZE_MAX + 1];
    memset(out, 0, sizeof *out);
    if (size > COORDINATOR_VALUE_SIZE_MAX) return refuse(message, "it is too long");
    uint64_t version = take_number(&cursor, RECORD_WORD, UINT32_MAX);
    if (cursor.failed) return refuse(message, "it does not begin with '" RECORD_WORD "'");
    if (version != RECORD_VERSION) {
        snprintf(message, COORDINATOR_MESSAGE_SIZE,
                 "coordinator: the pair's record has format version %" PRIu64
                 ", but this program reads version %u: upgrade both nodes to the same release",
                 version, RECORD_VERSION);
        return 1;
    }
    take(&cursor, "cluster", id, sizeof id);
    take_id(&cursor, id, out->cluster, CLUSTER_ID_SIZE);
    out->pair.epoch = (uint32_t)take_number(&cursor, "epoch", UINT32_MAX);
    out->pair.leader = (uint8_t)take_number(&cursor, "leader", RECORD_NODES - 1);
    out->pair.in_sync = take_in_sync(&cursor);
    out->pair.run = take_number(&cursor, "run", UINT64_MAX);
    out->pair.start = take_number(&cursor, "start", UINT64_MAX);
    out->pair.high_water = take_number(&cursor, "high-water", UINT64_MAX);
    take_member(&cursor, "node 0", &out->members[0]);
    take_member(&cursor, "node 1", &out->members[1]);
    if (cursor.failed || cursor.at != cursor.end) return refuse(message, "a line is missing, superfluous or damaged");
    const char *wrong = record_check(out);
    if (wrong != NULL) return refuse(message, wrong);
    if (record_write(out, again) != size || memcmp(again, text, size) != 0)
        return refuse(message, "its text differs from the form that Tarry writes");
    return 0;
}
