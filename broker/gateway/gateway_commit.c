/* gateway_commit.c: assigns each commit a producer and a sequence number (ONCE-1).
 *
 * A *maker* is a principal with the producers that the broker has issued to it. Each producer has a window of sequences
 * as wide as the number of replies that the broker remembers. A commit without a key is sent once, so its reply may be
 * forgotten once received. A commit with a key must find its reply again, so all replies of its producer are kept. When
 * such a producer has used all numbers of its window, another one replaces it (gateway_once.c).
 *
 * The request is packed with three varints of ten bytes, which have space for any number. The three numbers of a commit
 * are filled in when it is sent. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway_parts.h"

#define VARINT_SIZE 10u
#define FIELD_SIZE (1u + VARINT_SIZE)
#define NUMBERS_SIZE (3u * FIELD_SIZE)
/* Producers of a principal for commits without a key. If all their windows are full, further commits are refused. */
#define PRODUCERS_EACH 8u

static const char too_many[] =
    "this principal has the maximum number of commits in progress (COMMITS_PER_PRODUCER_MAX): try again in a moment";

struct producer {
    struct maker *maker;
    TAILQ_ENTRY(producer) next;
    uint64_t id;       /* 0: requested, not yet issued */
    uint64_t sequence; /* the next sequence to assign */
    uint64_t oldest;   /* the oldest sequence without a reply */
    uint64_t answered; /* if bit i is set, sequence oldest + i has its reply */
    unsigned under_way;
    uint64_t used_ms; /* steady_ms */
    bool keeps;       /* the broker keeps the replies of this producer, for commits with a key */
    bool is_over;
};
TAILQ_HEAD(producer_list, producer);

struct maker {
    TAILQ_ENTRY(maker) next;
    struct gateway *gateway;
    uint64_t principal;
    char name[PRINCIPAL_SIZE_MAX + 1];
    struct producer_list producers;
    struct producer *keeping; /* the producer whose numbers commits with a key get */
    unsigned count;
    struct ask_list commits; /* commits that wait for a number */
    struct ask_list keyed;   /* commits with a key, which wait for a number whose reply is kept */
};

static struct maker *maker_of(struct gateway *gateway, uint64_t principal) {
    const struct gateway_calls *calls = &gateway->calls;
    const char *name = calls->name(calls->argument, principal);
    struct maker *maker = NULL;
    TAILQ_FOREACH(maker, &gateway->makers, next)
    if (strcmp(maker->name, name) == 0) break;
    if (maker == NULL && (maker = calloc(1, sizeof(*maker))) != NULL) {
        maker->gateway = gateway;
        strncpy(maker->name, name, PRINCIPAL_SIZE_MAX);
        TAILQ_INIT(&maker->producers);
        TAILQ_INIT(&maker->commits);
        TAILQ_INIT(&maker->keyed);
        TAILQ_INSERT_HEAD(&gateway->makers, maker, next);
    }
    if (maker == NULL || maker->principal == principal) return maker;
    /* A new row has replaced the principal of this name, because its permissions changed. */
    if (maker->principal != 0) calls->release(calls->argument, maker->principal);
    maker->principal = calls->hold(calls->argument, principal);
    return maker;
}

/* Returns the time since boot, including suspended time. The broker also uses this clock to forget idle producers. */
static uint64_t steady_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* Returns whether the broker may have forgotten the producer, or may forget it soon. */
static bool is_stale(const struct producer *producer) {
    return producer->under_way == 0 && steady_ms() - producer->used_ms > PRODUCER_IDLE_MS / 2;
}

static void put_varint(uint8_t *at, uint64_t value) {
    for (unsigned i = 0; i < VARINT_SIZE; i++, value >>= 7)
        at[i] = (uint8_t)(value & 0x7f) | (i + 1 < VARINT_SIZE ? 0x80 : 0);
}

void commit_number(struct ask *ask, uint64_t producer, uint64_t sequence, uint64_t oldest) {
    uint8_t *at = ask->request->bytes + ask->commit_at;
    put_varint(at + 1, producer);
    put_varint(at + FIELD_SIZE + 1, sequence);
    put_varint(at + 2 * FIELD_SIZE + 1, oldest);
}

/* Returns the offset of the commit's three numbers. They are the only place behind the commit's head where three such
 * fields follow each other. */
static size_t find_numbers(const struct message *message) {
    uint8_t numbers[NUMBERS_SIZE];
    for (unsigned i = 0; i < 3; i++) {
        numbers[i * FIELD_SIZE] = (uint8_t)((i + 1) << 3);
        memset(numbers + i * FIELD_SIZE + 1, 0xff, VARINT_SIZE - 1);
        numbers[i * FIELD_SIZE + VARINT_SIZE] = 1;
    }
    const uint8_t *found = memmem(message->bytes, message->size, numbers, sizeof(numbers));
    assert(found != NULL);
    return (size_t)(found - message->bytes);
}

/* ---- producers */

static void producer_free(struct producer *producer) {
    TAILQ_REMOVE(&producer->maker->producers, producer, next);
    if (!producer->keeps) producer->maker->count--;
    if (producer->maker->keeping == producer) producer->maker->keeping = NULL;
    free(producer);
}

static void serve_commits(struct maker *maker);

static void refuse_all(struct ask_list *list, const Tarry__Reply *reply) {
    struct ask_list all = TAILQ_HEAD_INITIALIZER(all);
    struct ask *ask;
    TAILQ_CONCAT(&all, list, waits);
    while ((ask = TAILQ_FIRST(&all)) != NULL) {
        TAILQ_REMOVE(&all, ask, waits);
        ask_answer(ask, reply);
    }
}

static void on_hello(void *argument, const Tarry__Reply *reply) {
    struct producer *producer = argument;
    struct maker *maker = producer->maker;
    bool keeps = producer->keeps;
    bool is_ok = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_HELLO;
    if (is_ok)
        producer->id = reply->hello->producer;
    else
        producer_free(producer);
    if (!is_ok && !keeps) refuse_all(&maker->commits, reply);
    if (!keeps) {
        serve_commits(maker);
        return;
    }
    struct ask_list waiting = TAILQ_HEAD_INITIALIZER(waiting);
    struct ask *ask;
    TAILQ_CONCAT(&waiting, &maker->keyed, waits);
    while ((ask = TAILQ_FIRST(&waiting)) != NULL) {
        TAILQ_REMOVE(&waiting, ask, waits);
        once_go_on(ask, is_ok ? NULL : reply);
    }
}

/* Requests a producer from the broker. NULL: out of memory. */
static struct producer *producer_new(struct maker *maker, const char *peer, bool keeps) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Hello hello = TARRY__HELLO__INIT;
    request.body_case = TARRY__REQUEST__BODY_HELLO;
    request.hello = &hello;
    const struct gateway_caller caller = {.principal = maker->principal, .peer = peer, .client = "gateway"};
    struct producer *producer = calloc(1, sizeof(*producer));
    if (producer == NULL) return NULL;
    *producer = (struct producer){.maker = maker, .sequence = 1, .oldest = 1, .used_ms = steady_ms(), .keeps = keeps};
    TAILQ_INSERT_TAIL(&maker->producers, producer, next);
    if (keeps)
        maker->keeping = producer;
    else
        maker->count++;
    if (gateway_ask(maker->gateway, &caller, &request, on_hello, producer) != 0) return producer;
    producer_free(producer);
    return NULL;
}

/* ---- commits without a key */

/* Returns a producer with free numbers in its window; NULL: none. Frees idle producers, because a principal has at most
 * PRODUCERS_EACH. */
static struct producer *find_room(const struct maker *maker, bool *out_is_asked) {
    struct producer *producer = TAILQ_FIRST(&maker->producers), *next = NULL;
    *out_is_asked = false;
    for (; producer != NULL; producer = next) {
        next = TAILQ_NEXT(producer, next);
        if (producer->keeps || producer->is_over) continue;
        *out_is_asked |= producer->id == 0;
        if (producer->id != 0 && is_stale(producer)) {
            producer_free(producer);
            continue;
        }
        if (producer->id != 0 && producer->sequence - producer->oldest < COMMITS_PER_PRODUCER_MAX) return producer;
    }
    return NULL;
}

static void serve_commits(struct maker *maker) {
    struct ask *ask;
    bool is_asked;
    while ((ask = TAILQ_FIRST(&maker->commits)) != NULL) {
        struct producer *producer = find_room(maker, &is_asked);
        if (producer == NULL && is_asked) return; /* on_hello continues when the broker has issued the producer */
        if (producer == NULL && maker->count < PRODUCERS_EACH && producer_new(maker, ask->peer, false) != NULL) return;
        TAILQ_REMOVE(&maker->commits, ask, waits);
        if (producer == NULL) {
            ask_refuse_later(ask, TARRY__CODE__BUSY, too_many);
            continue;
        }
        ask->producer = producer;
        ask->sequence = producer->sequence++;
        producer->under_way++;
        producer->used_ms = steady_ms();
        commit_number(ask, producer->id, ask->sequence, producer->oldest);
        ask_offer(ask);
    }
}

/* Assigns a number of its principal's producers to the commit, and sends it. */
static void commit_send(struct ask *ask) {
    struct maker *maker = maker_of(ask->gateway, ask->principal);
    if (maker == NULL) {
        ask_refuse_later(ask, TARRY__CODE__BUSY, NULL);
        return;
    }
    TAILQ_INSERT_TAIL(&maker->commits, ask, waits);
    serve_commits(maker);
}

static void note_answered(struct producer *producer, uint64_t sequence) {
    producer->under_way--;
    producer->answered |= 1ull << (sequence - producer->oldest);
    while (producer->answered & 1) {
        producer->answered >>= 1;
        producer->oldest++;
    }
}

/* Frees the producer that the broker has forgotten, so that later keys get numbers of another producer. */
static void forget_keeping(const struct ask *ask) {
    struct maker *maker = maker_of(ask->gateway, ask->principal);
    bool is_its = maker != NULL && maker->keeping != NULL && maker->keeping->id == ask->kept_producer;
    if (is_its && ask->kept_producer != 0) producer_free(maker->keeping);
}

bool commit_replied(struct ask *ask, const Tarry__Reply *reply) {
    struct producer *producer = ask->producer;
    bool is_forgotten = reply != NULL && reply->code == TARRY__CODE__FORGOTTEN;
    if (producer == NULL) { /* a commit with a key has no producer of its own */
        if (is_forgotten) forget_keeping(ask);
        return false;
    }
    struct maker *maker = producer->maker;
    note_answered(producer, ask->sequence);
    ask->producer = NULL;
    producer->is_over |= is_forgotten;
    if (producer->is_over && producer->under_way == 0) producer_free(producer);
    serve_commits(maker);
    /* The commit cannot be sent again, because its bytes are freed. FORGOTTEN means that it was not executed, so the
     * reply BUSY is right. */
    if (!is_forgotten) return false;
    ask_refuse(ask, TARRY__CODE__BUSY,
               "the broker no longer remembers the producer of this request: nothing was done, try again");
    return true;
}

uint64_t gateway_commit(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Commit *commit,
                        const struct gateway_once *once, gateway_reply *reply, void *argument) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.body_case = TARRY__REQUEST__BODY_COMMIT;
    request.commit = commit;
    char sentence[GATEWAY_SENTENCE_SIZE] = "";
    Tarry__Code code = TARRY__CODE__OK;
    if (once != NULL) code = gateway->calls.may_key(gateway->calls.argument, caller->principal, commit, sentence);
    commit->producer = commit->sequence = commit->oldest_unanswered = UINT64_MAX;
    struct ask *ask = ask_new(gateway, caller, &request, reply, argument);
    if (ask == NULL) return 0;
    ask->commit_at = find_numbers(ask->request);
    uint64_t id = ask->id;
    if (code != TARRY__CODE__OK)
        ask_refuse_later(ask, code, sentence);
    else if (once == NULL)
        commit_send(ask);
    else if (!once_begin(ask, once))
        ask_refuse_later(ask, TARRY__CODE__BUSY, NULL);
    return id;
}

/* ---- numbers whose replies are kept */

bool maker_reserve(struct gateway *gateway, const struct ask *ask, uint64_t *out_producer, uint64_t *out_sequence) {
    struct maker *maker = maker_of(gateway, ask->principal);
    struct producer *producer = maker != NULL ? maker->keeping : NULL;
    if (producer == NULL || producer->id == 0) return false;
    /* A receipt with a number of a forgotten producer would make its key unusable for a day. */
    if (is_stale(producer)) {
        producer_free(producer);
        return false;
    }
    *out_producer = producer->id;
    *out_sequence = producer->sequence++;
    producer->used_ms = steady_ms();
    if (producer->sequence > COMMITS_PER_PRODUCER_MAX) producer_free(producer); /* the producer's window is used up */
    return true;
}

void maker_await(struct ask *ask) {
    struct maker *maker = maker_of(ask->gateway, ask->principal);
    bool is_made = maker != NULL && (maker->keeping != NULL || producer_new(maker, ask->peer, true) != NULL);
    if (is_made)
        TAILQ_INSERT_TAIL(&maker->keyed, ask, waits);
    else
        ask_refuse_later(ask, TARRY__CODE__BUSY, NULL);
}

void makers_free(struct gateway *gateway) {
    struct maker *maker = NULL;
    while ((maker = TAILQ_FIRST(&gateway->makers)) != NULL) {
        TAILQ_REMOVE(&gateway->makers, maker, next);
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): producer_free removes it
        while (!TAILQ_EMPTY(&maker->producers)) producer_free(TAILQ_FIRST(&maker->producers));
        if (maker->principal != 0) gateway->calls.release(gateway->calls.argument, maker->principal);
        free(maker);
    }
}
