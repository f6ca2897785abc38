/* record_client.c: see record_client.h. */
#include "record_client.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "private_file.h"

#define CREDENTIALS_SIZE_MAX 255 /* bytes */

/* Names under which nodes declare their presence, by node. */
static const char *const presence_names[RECORD_NODES] = {"present-0", "present-1"};

static void call_done(struct coordinator_call *call) {
    struct record_client *record_client = (struct record_client *)((char *)call - offsetof(struct record_client, call));
    bool was_read = !record_client->swaps && call->outcome == PAIR_DONE && call->version != 0;
    if (record_client->question == RECORD_CLIENT_PRESENCE && was_read)
        coordinator_ask_presence(record_client->coordinator, presence_names[1 - record_client->self],
                                 &record_client->presence);
    else
        record_client->done(record_client->argument);
}

static void presence_done(struct coordinator_call *call) {
    struct record_client *record_client =
        (struct record_client *)((char *)call - offsetof(struct record_client, presence));
    record_client->done(record_client->argument);
}

/* ---- a node's declarations: of constant size in an epoch, because a file is written in place */

static const char asks[] = "asks ";

static void write_leads(uint32_t epoch, char out[COORDINATOR_PRESENCE_SIZE_MAX + 1]) {
    snprintf(out, COORDINATOR_PRESENCE_SIZE_MAX + 1, "leads epoch %" PRIu32 " heard ", epoch);
}

static void write_asks(uint64_t number, char out[COORDINATOR_PRESENCE_SIZE_MAX + 1]) {
    snprintf(out, COORDINATOR_PRESENCE_SIZE_MAX + 1, "%s%016" PRIx64, asks, number);
}

/* Returns whether the declaration begins with `words`, and writes the number that follows them to `*out_number`. */
static bool says(const struct coordinator_call *presence, const char *words, uint64_t *out_number) {
    size_t size = strlen(words);
    bool is_there = presence->outcome == PAIR_DONE && presence->version != 0;
    if (!is_there || strncmp(presence->value, words, size) != 0) return false;
    *out_number = strtoull(presence->value + size, NULL, 16);
    return true;
}

/* ---- the other node's question (summons.h). Any thread; one such read at a time, beside any other call */

static void ask_summons(struct record_client *record_client) {
    if (atomic_exchange(&record_client->summons_under_way, true))
        atomic_store(&record_client->summons_again, true);
    else
        coordinator_ask_presence(record_client->coordinator, presence_names[1 - record_client->self],
                                 &record_client->summons);
}

/* Handles the result of reading the other node's question. A new question is declared as heard after the node's next
 * turn (record_client_declare). */
static void summons_done(struct coordinator_call *call) {
    struct record_client *record_client =
        (struct record_client *)((char *)call - offsetof(struct record_client, summons));
    uint64_t number = 0;
    bool is_news = says(call, asks, &number) && atomic_exchange(&record_client->summons_heard, number) != number;
    atomic_store(&record_client->summons_under_way, false);
    if (atomic_exchange(&record_client->summons_again, false)) ask_summons(record_client);
    if (is_news) record_client->changed(record_client->argument);
}

static void presence_changed(struct coordinator_watch *watch) {
    ask_summons((struct record_client *)((char *)watch - offsetof(struct record_client, presence_watch)));
}

static void watch_changed(struct coordinator_watch *watch) {
    struct record_client *record_client =
        (struct record_client *)((char *)watch - offsetof(struct record_client, watch));
    record_client->changed(record_client->argument);
}

/* Reads the credentials: one line; the line end does not belong to them. */
static const char *take_credentials(void *argument, const uint8_t *text, size_t size) {
    char *out = argument; /* buffer of CREDENTIALS_SIZE_MAX + 1 bytes */
    if (size > 0 && text[size - 1] == '\n') size--;
    const uint8_t *colon = memchr(text, ':', size);
    bool is_good = size <= CREDENTIALS_SIZE_MAX && colon != NULL && colon != text && colon + 1 < text + size &&
                   memchr(text, '\n', size) == NULL && memchr(text, '\0', size) == NULL;
    _Static_assert(CREDENTIALS_SIZE_MAX == 255, "the message below states this limit");
    if (!is_good) return "must contain exactly one line user:password of at most 255 bytes";
    memcpy(out, text, size);
    out[size] = '\0';
    return NULL;
}

static int read_credentials(const char *path, char out[CREDENTIALS_SIZE_MAX + 1],
                            char message[COORDINATOR_MESSAGE_SIZE]) {
    const struct private_file file = {.what = "coordinator credentials",
                                      .path = path,
                                      .option = "coordinator-credentials",
                                      .remedy = "; the file has one line user:password"};
    return private_file_use(&file, CREDENTIALS_SIZE_MAX + 2, take_credentials, out, message, COORDINATOR_MESSAGE_SIZE);
}

/* Checks that a PEM file is readable, because libcurl reads it at each connection. */
static int check_file(const char *path, const char *option, char message[COORDINATOR_MESSAGE_SIZE]) {
    if (path == NULL || access(path, R_OK) == 0) return 0;
    snprintf(message, COORDINATOR_MESSAGE_SIZE, "%s %.800s cannot be read: %s", option, path, strerror(errno));
    return 1;
}

/* Checks the private key. Only its owner may have access to it, and libcurl must be able to read it. */
static int check_key(const char *path, char message[COORDINATOR_MESSAGE_SIZE]) {
    const struct private_file file = {.what = "coordinator key",
                                      .path = path,
                                      .option = "coordinator-key",
                                      .remedy = ""};
    char first;
    size_t size;
    return path == NULL ? 0 : private_file_read(&file, &first, sizeof first, &size, message, COORDINATOR_MESSAGE_SIZE);
}

static const char *said(const char *text) {
    return text == NULL || text[0] == '\0' ? NULL : text;
}

int record_client_open(struct record_client *record_client, const struct record_client_access *where,
                       char message[COORDINATOR_MESSAGE_SIZE]) {
    char text[CREDENTIALS_SIZE_MAX + 1];
    struct coordinator_options options = {.call_ms = COORDINATOR_CALL_MS,
                                          .session_ms = COORDINATOR_SESSION_MS,
                                          .presence_ms = record_client->presence_ms,
                                          .ca = said(where->ca),
                                          .certificate = said(where->certificate),
                                          .key = said(where->key),
                                          .session_changed = record_client->session_changed,
                                          .argument = record_client->argument};
    int result = check_file(options.ca, "coordinator-ca", message);
    if (result == 0) result = check_file(options.certificate, "coordinator-certificate", message);
    if (result == 0) result = check_key(options.key, message);
    if (result == 0 && said(where->credentials) != NULL) {
        result = read_credentials(where->credentials, text, message);
        options.credentials = text;
    }
    if (result == 0) result = coordinator_open(where->url, &options, &record_client->coordinator, message);
    sodium_memzero(text, sizeof(text));
    if (result != 0) return 1;
    record_client->summons.done = summons_done;
    record_client->watch = (struct coordinator_watch){.name = RECORD_ENTRY, .changed = watch_changed};
    coordinator_watch(record_client->coordinator, &record_client->watch);
    record_client->presence_watch =
        (struct coordinator_watch){.name = presence_names[1 - record_client->self], .changed = presence_changed};
    coordinator_watch(record_client->coordinator, &record_client->presence_watch);
    return 0;
}

void record_client_close(struct record_client *record_client) {
    coordinator_close(record_client->coordinator);
}

void record_client_declare(struct record_client *record_client, uint32_t epoch) {
    char text[COORDINATOR_PRESENCE_SIZE_MAX + 1];
    write_leads(epoch, text);
    size_t size = strlen(text);
    snprintf(text + size, sizeof text - size, "%016" PRIx64, atomic_load(&record_client->summons_heard));
    coordinator_declare(record_client->coordinator, presence_names[record_client->self], text);
}

void record_client_summon(struct record_client *record_client, uint64_t number) {
    char text[COORDINATOR_PRESENCE_SIZE_MAX + 1];
    write_asks(number, text);
    coordinator_declare(record_client->coordinator, presence_names[record_client->self], text);
}

bool record_client_summons_stands(struct record_client *record_client, uint64_t number, uint64_t *out_ms) {
    char text[COORDINATOR_PRESENCE_SIZE_MAX + 1];
    write_asks(number, text);
    return coordinator_stands(record_client->coordinator, text, out_ms);
}

void record_client_read(struct record_client *record_client, enum record_client_question question) {
    record_client->swaps = false;
    record_client->question = question;
    record_client->presence.done = presence_done;
    record_client->presence.outcome = 0;
    record_client->call.done = call_done;
    coordinator_read(record_client->coordinator, RECORD_ENTRY, &record_client->call);
    if (question == RECORD_CLIENT_SUMMONS) ask_summons(record_client);
}

void record_client_swap(struct record_client *record_client, uint64_t version, const struct pair_record *record,
                        const struct record_member members[RECORD_NODES]) {
    struct coordinator_record *next = &record_client->next;
    record_client->swaps = true;
    record_client->question = RECORD_CLIENT_RECORD;
    record_client->wanted = *record;
    record_client->call.done = call_done;
    memcpy(next->cluster, record_client->cluster, CLUSTER_ID_SIZE);
    next->pair = *record;
    for (size_t i = 0; i < RECORD_NODES; i++) next->members[i] = members[i];
    size_t size = record_write(next, record_client->value);
    coordinator_compare_and_set(record_client->coordinator, RECORD_ENTRY, version, record_client->value, size,
                                &record_client->call);
}

/* Checks the record's entry for this node. If the entry names another disk than this node's, this node is not in sync.
 * If the record also names this node as the leader, returns 1 with a message. */
static int claim_disk(struct record_client *record_client, uint32_t recorded, struct pair_record *record,
                      char message[COORDINATOR_MESSAGE_SIZE]) {
    const struct coordinator_record *read = &record_client->record;
    if (memcmp(read->cluster, record_client->cluster, CLUSTER_ID_SIZE) != 0) {
        snprintf(message, COORDINATOR_MESSAGE_SIZE,
                 "the coordinator has the record of another cluster at that path; use another path, or start this "
                 "node with an empty directory and --follow to join that cluster");
        return 1;
    }
    const struct record_member *self = &read->members[record_client->self];
    if (self->is_known && memcmp(self->id, record_client->member, MEMBER_ID_SIZE) == 0) return 0;
    if (record->leader == record_client->self && record->epoch >= recorded) {
        snprintf(message, COORDINATOR_MESSAGE_SIZE,
                 "the pair's record names a different disk as the leader's: this data directory is a copy, or was "
                 "restored. Bring the leader's disk back; or promote its follower first, and join it with an empty "
                 "directory and --follow");
        return 1;
    }
    record->in_sync &= (uint8_t) ~(1u << record_client->self);
    return 0;
}

/* Stores whether the leader is present. A declaration for another epoch than the record's proves nothing, and a failed
 * read does not prove absence. */
static void take_presence(struct record_client *record_client, struct pair_event *out) {
    const struct coordinator_call *presence = &record_client->presence;
    char expected[COORDINATOR_PRESENCE_SIZE_MAX + 1];
    write_leads(out->record.epoch, expected);
    out->present = out->record.leader != record_client->self && says(presence, expected, &record_client->heard);
    if (presence->outcome == PAIR_DONE) return;
    out->outcome = PAIR_UNKNOWN;
    memcpy(record_client->call.reason, presence->reason, sizeof record_client->call.reason);
}

int record_client_take(struct record_client *record_client, uint32_t recorded, struct pair_event *out,
                       char message[COORDINATOR_MESSAGE_SIZE]) {
    const struct coordinator_call *call = &record_client->call;
    *out = (struct pair_event){.kind = record_client->swaps ? PAIR_RECORD_SWAPPED : PAIR_RECORD_READ,
                               .outcome = call->outcome,
                               .version = call->version,
                               .record = record_client->wanted};
    if (record_client->swaps && call->outcome == PAIR_DONE) record_client->record = record_client->next;
    if (record_client->swaps || call->outcome != PAIR_DONE) return 0;
    out->record = (struct pair_record){0};
    if (call->version == 0) return 0;
    if (record_read(call->value, call->size, &record_client->record, message) != 0) return 1;
    out->record = record_client->record.pair;
    if (record_client->question == RECORD_CLIENT_PRESENCE) take_presence(record_client, out);
    return claim_disk(record_client, recorded, &out->record, message);
}
