/* hear.c: handles a reply to a stranger (talk.h): learns from it, counts it, and opens lanes. */
#include <string.h>

#include "talk.h"
#include "tarry.pb-c.h"

#define REQUEST_BIT 0x80

static void count_results(struct talk *talk, const Tarry__CommitReply *commit) {
    for (size_t i = 0; i < commit->n_results; i++) {
        unsigned code = (unsigned)commit->results[i]->code;
        if (code < CODES_MAX) talk->results[code]++;
    }
}

/* Opens a lane: usually the lane of the stranger's own session, with the right secret. */
static void go_to_lane(struct talk *talk, const Tarry__SubscribeReply *session) {
    char secret[2 * 64 + 1];
    struct random *random = &talk->random;
    size_t size = session->secret.len < 64 ? session->secret.len : 64;
    if (random_below(random, 3) == 0) return;
    for (size_t i = 0; i < size; i++) (void)snprintf(secret + 2 * i, 3, "%02x", session->secret.data[i]);
    secret[2 * size] = '\0';
    uint64_t dice = random_below(random, 30);
    if (dice == 0 && size > 0) secret[random_below(random, 2 * size)] ^= 1;
    uint32_t lane = session->lane + (dice == 1);
    talk_open_lane(talk, lane, dice == 2 ? NULL : secret);
    if (dice == 3) talk_open_lane(talk, lane, secret); /* the broker lets the new connection replace the old one */
}

static void hear_reply(struct talk *talk, const uint8_t *data, size_t size) {
    Tarry__Reply *reply = tarry__reply__unpack(NULL, size, data);
    if (reply == NULL) return;
    talk->answers++;
    if (reply->body_case < BODIES_MAX && (unsigned)reply->code < CODES_MAX)
        talk->codes[reply->body_case][(unsigned)reply->code]++;
    if (reply->body_case == TARRY__REPLY__BODY_COMMIT) count_results(talk, reply->commit);
    if (reply->body_case == TARRY__REPLY__BODY_SUBSCRIBE) go_to_lane(talk, reply->subscribe);
    tarry__reply__free_unpacked(reply, NULL);
}

void hear_message(struct talk *talk, struct connection *connection) {
    const struct out *message = &connection->reader.message;
    if (connection->manner == LANE) {
        if (message->size > 0 && know_learn(talk->know, &tarry__delivery__descriptor, message->data, message->size))
            talk->deliveries++;
        return;
    }
    size_t at = 0;
    while (at + 4 <= message->size && (message->data[at] & REQUEST_BIT) == 0) at += 4;
    at += 4;
    if (at > message->size) return;
    know_learn(talk->know, &tarry__reply__descriptor, message->data + at, message->size - at);
    /* hear_reply may open connections, so it must not run inside a loop over them */
    hear_reply(talk, message->data + at, message->size - at);
}

/* ---- text replies */

#define TAIL_MAX 256 /* number of received bytes that are kept, because a word may continue in the next packet */

const char *const talk_words[WORDS_MAX] = {
    "INSERTED",       "RESERVED",    "DELETED",    "RELEASED",        "BURIED",        "TOUCHED",     "KICKED",
    "FOUND",          "NOT_FOUND",   "WATCHING",   "USING",           "PAUSED",        "OK",          "TIMED_OUT",
    "DEADLINE_SOON",  "NOT_IGNORED", "BAD_FORMAT", "UNKNOWN_COMMAND", "EXPECTED_CRLF", "JOB_TOO_BIG", "OUT_OF_MEMORY",
    "INTERNAL_ERROR", "DRAINING"};

static void heard_one(struct talk *talk, struct connection *connection) {
    talk->answers++;
    if (connection->waiting > 0) connection->waiting--;
}

static void count_statuses(struct talk *talk, struct connection *connection, const char *text, size_t size) {
    static const char begin[] = "HTTP/1.1 ";
    const char *at = text, *end = text + size;
    while ((at = memmem(at, (size_t)(end - at), begin, strlen(begin))) != NULL) {
        at += strlen(begin);
        if (end - at < 3) return;
        unsigned status = (unsigned)(at[0] - '0') * 100 + (unsigned)(at[1] - '0') * 10 + (unsigned)(at[2] - '0');
        if (status >= STATUSES_MAX || status < 200) continue; /* after status 100, the final status is still to come */
        talk->statuses[status]++;
        heard_one(talk, connection);
    }
}

/* Counts the replies line by line. Lines in a job's body may be counted too, which is harmless. */
static void count_words(struct talk *talk, struct connection *connection, const char *text, size_t size) {
    const char *end = text + size;
    for (const char *at = text, *next; (next = memchr(at, '\n', (size_t)(end - at))) != NULL; at = next + 1) {
        size_t word = 0;
        while (at + word < next && (at[word] == '_' || (at[word] >= 'A' && at[word] <= 'Z'))) word++;
        for (size_t i = 0; i < WORDS_MAX && talk_words[i] != NULL; i++) {
            if (strlen(talk_words[i]) != word || memcmp(at, talk_words[i], word) != 0) continue;
            talk->words[i]++;
            heard_one(talk, connection);
        }
    }
}

void hear_text(struct talk *talk, struct connection *connection) {
    struct out *in = &connection->reader.in;
    const char *text = (const char *)in->data;
    size_t size = in->size;
    if (connection->manner == JOBS) {
        /* Only complete lines are handled. The rest is handled when more bytes have arrived. */
        const char *last = memrchr(text, '\n', size);
        if (last == NULL && size < TAIL_MAX) return;
        size = last != NULL ? (size_t)(last - text) + 1 : size;
        count_words(talk, connection, text, size);
        seen_lines(&talk->seen, text, size);
        out_drop(in, size);
        return;
    }
    count_statuses(talk, connection, text, size);
    if (!connection->looks) seen_json(&talk->seen, text, size);
    in->size = 0;
}
