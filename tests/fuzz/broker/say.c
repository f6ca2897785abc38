/* say.c: chooses what a stranger sends next on a connection (talk.h). */
#include "api.h"
#include "jobs.h"
#include "talk.h"

#define BURST_MAX 8
#define TRIES_MAX 20 /* maximum number of attempts to make a request that the guard allows */
#define REQUEST_BIT 0x80000000u
#define HOPS_MAX 20

/* Writes SP's header: the ids of the devices that forwarded the request, then the request's id with the top bit set. */
static void put_header(struct talk *talk, struct connection *connection, struct out *out) {
    struct random *random = &talk->random;
    uint64_t dice = random_below(random, 300);
    if (dice == 0) { /* sends a message that is too short for a header */
        out_number(out, random_u64(random), (unsigned)random_below(random, 4));
        return;
    }
    if (dice == 1) /* sends a header with hops, perhaps too many */
        for (size_t i = random_below(random, HOPS_MAX); i > 0; i--)
            out_number(out, random_u64(random) & (REQUEST_BIT - 1), 4);
    if (dice == 2) { /* sends only words without the top bit, so the request has no id */
        for (size_t i = random_below(random, HOPS_MAX); i > 0; i--) out_number(out, 0, 4);
        return;
    }
    uint32_t id = dice == 3 ? (uint32_t)random_below(random, 4) : ++connection->request_id;
    out_number(out, REQUEST_BIT | id, 4);
}

static void put_request(struct talk *talk, struct connection *connection, struct out *out) {
    put_header(talk, connection, out);
    size_t start = out->size;
    uint64_t promotes_once_in = talk->promotes_once_in;
    talk->guard.promotes = promotes_once_in > 0 && random_below(&talk->random, promotes_once_in) == 0;
    for (int i = 0; i < TRIES_MAX; i++) {
        out->size = start;
        make_request(&talk->maker, out);
        if (guard_allows(&talk->guard, out->data + start, out->size - start)) break;
        out->size = start;
    }
    talk->requests++;
}

static void say_requests(struct talk *talk, struct connection *connection, size_t count) {
    for (; count > 0 && connection->left > 0; count--, connection->left--) {
        struct out message = {0};
        put_request(talk, connection, &message);
        web_message(&talk->random, message.data, message.size, &connection->out);
        out_deinit(&message);
        connection->waiting++;
    }
}

static void say_rudely(struct talk *talk, struct connection *connection) {
    struct out message = {0};
    put_request(talk, connection, &message);
    web_rude_message(&talk->random, message.data, message.size, &connection->out);
    out_deinit(&message);
    connection->left--;
}

static void say_noise(struct talk *talk, struct connection *connection) {
    web_noise(&talk->random, talk->plain_uri, &connection->out);
    talk->noises++;
    connection->left = 0;
}

/* Returns one of the given tokens, a wrong one, or NULL: none. */
static const char *choose_token(struct talk *talk) {
    if (talk->token_count == 0) return NULL;
    size_t choice = random_below(&talk->random, talk->token_count + 2);
    if (choice < talk->token_count) return talk->tokens[choice];
    return choice == talk->token_count ? "tarry_a-token-of-nobody" : NULL;
}

/* Ends a connection soon, after it sent bytes that the broker cannot parse, or a request that waits. */
static void say_no_more(struct talk *talk, struct connection *connection, uint64_t lingers_ms) {
    connection->left = 0;
    connection->is_last = true;
    connection->close_ms = talk_now_ms() + random_below(&talk->random, lingers_ms);
}

#define HANGS_MS 3000 /* ms; how long a connection with a waiting or incomplete request stays open */
#define ENDS_MS 60

static void say_to_api(struct talk *talk, struct connection *connection) {
    const struct api api = {.random = &talk->random,
                            .seen = &talk->seen,
                            .token = connection->token,
                            .looks = connection->looks};
    for (size_t i = 1 + random_below(&talk->random, BURST_MAX); i > 0 && connection->left > 0; i--) {
        enum api_end end = api_request(&api, &connection->out);
        connection->left--;
        connection->waiting++;
        talk->requests++;
        if (end == API_ENDS) say_no_more(talk, connection, ENDS_MS);
        if (end == API_HANGS) say_no_more(talk, connection, HANGS_MS);
    }
}

static void say_jobs(struct talk *talk, struct connection *connection) {
    for (size_t i = 1 + random_below(&talk->random, BURST_MAX); i > 0 && connection->left > 0; i--) {
        bool waits = jobs_command(&talk->random, &talk->seen, &connection->out);
        connection->left--;
        connection->waiting++;
        talk->requests++;
        if (waits && random_below(&talk->random, 2) == 0) say_no_more(talk, connection, HANGS_MS);
    }
}

void say_opening(struct talk *talk, struct connection *connection) {
    if (connection->manner == NOISE) return;
    if (connection->manner == API || connection->manner == JOBS) {
        connection->token = choose_token(talk);
        connection->looks = random_below(&talk->random, 3) == 0;
        connection->trickles = random_below(&talk->random, 30) == 0;
        connection->deaf = random_below(&talk->random, 40) == 0;
        if (connection->deaf) connection->close_ms = talk_now_ms() + HANGS_MS;
        return;
    }
    web_upgrade(&connection->out, "/rpc", WEB_RPC, choose_token(talk));
    /* Sends requests before the answer to the upgrade. */
    if (connection->manner == RUDE && random_below(&talk->random, 6) == 0) say_rudely(talk, connection);
}

void say_more(struct talk *talk, struct connection *connection) {
    uint64_t dice = random_below(&talk->random, 10);
    switch (connection->manner) {
    case POLITE:
        say_requests(talk, connection, 1 + random_below(&talk->random, BURST_MAX));
        break;
    case NOISE:
        say_noise(talk, connection);
        break;
    case API:
        say_to_api(talk, connection);
        return;
    case JOBS:
        say_jobs(talk, connection);
        return;
    default: /* on a lane, a client may send nothing, so every message here is wrong */
        if (dice < 3 && connection->left > 1)
            say_requests(talk, connection, 1);
        else
            say_rudely(talk, connection);
    }
    if (connection->left == 0 && connection->manner != POLITE) connection->is_last = true;
}
