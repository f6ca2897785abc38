/* gateway.c: see gateway.h. In this order: handles; deadlines and timers; wake-ups; principals; requests; commits with
 * their producers and numbers; replies. */
#include "gateway.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway_parts.h"
#include "wire.h"

/* ---- handles */

#define INDEX_MASK (GATEWAY_SLOTS_MAX - 1)

uint64_t handle_new(struct gateway *gateway, enum handle_kind kind, void *owner) {
    if (gateway->slot_free == 0) {
        uint32_t count = gateway->slot_count > 0 ? 2 * gateway->slot_count : 256;
        if (count > GATEWAY_SLOTS_MAX) return 0;
        struct slot *grown = realloc(gateway->slots, count * sizeof(*grown));
        if (grown == NULL) return 0;
        gateway->slots = grown;
        for (uint32_t i = count; i-- > gateway->slot_count;) {
            grown[i] = (struct slot){.next_free = gateway->slot_free};
            gateway->slot_free = i + 1;
        }
        gateway->slot_count = count;
    }
    uint32_t index = gateway->slot_free - 1;
    struct slot *slot = &gateway->slots[index];
    gateway->slot_free = slot->next_free;
    *slot = (struct slot){.id = DOOR_INSIDE | (++gateway->serial << GATEWAY_INDEX_BITS) | index,
                          .kind = kind,
                          .owner = owner};
    return slot->id;
}

void *handle_find(const struct gateway *gateway, uint64_t id, enum handle_kind kind) {
    uint64_t index = id & INDEX_MASK;
    if (id == 0 || index >= gateway->slot_count) return NULL;
    const struct slot *slot = &gateway->slots[index];
    return slot->kind == kind && slot->id == id ? slot->owner : NULL;
}

void handle_free(struct gateway *gateway, uint64_t id) {
    struct slot *slot = &gateway->slots[id & INDEX_MASK];
    assert(slot->id == id && slot->kind != HANDLE_FREE);
    *slot = (struct slot){.next_free = gateway->slot_free};
    gateway->slot_free = (uint32_t)(id & INDEX_MASK) + 1;
}

/* ---- deadlines, in a binary heap; the door's alarm is set to the earliest deadline */

static uint64_t timer_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static void put(struct timers *timers, size_t place, struct timer *timer) {
    timers->heap[place] = timer;
    timer->place = place;
}

static void rise(struct timers *timers, size_t place) {
    struct timer *timer = timers->heap[place];
    for (; place > 1 && timers->heap[place / 2]->at_ms > timer->at_ms; place /= 2)
        put(timers, place, timers->heap[place / 2]);
    put(timers, place, timer);
}

static void sink(struct timers *timers, size_t place) {
    struct timer *timer = timers->heap[place];
    for (size_t child; (child = 2 * place) <= timers->count; place = child) {
        if (child < timers->count && timers->heap[child + 1]->at_ms < timers->heap[child]->at_ms) child++;
        if (timers->heap[child]->at_ms >= timer->at_ms) break;
        put(timers, place, timers->heap[child]);
    }
    put(timers, place, timer);
}

static void set_alarm(struct gateway *gateway) {
    const struct timers *timers = &gateway->timers;
    if (timers->count == 0) return;
    uint64_t now_ms = timer_now_ms(), at_ms = timers->heap[1]->at_ms;
    door_alarm(gateway->door, at_ms > now_ms ? at_ms - now_ms : 0);
}

void timer_cancel(struct gateway *gateway, struct timer *timer) {
    struct timers *timers = &gateway->timers;
    size_t place = timer->place;
    if (place == 0) return;
    timer->place = 0;
    struct timer *last = timers->heap[timers->count--];
    if (last == timer) return;
    put(timers, place, last);
    rise(timers, place);
    sink(timers, last->place);
}

bool timer_arm(struct gateway *gateway, struct timer *timer, uint64_t after_ms) {
    struct timers *timers = &gateway->timers;
    timer_cancel(gateway, timer);
    if (timers->count + 2 > timers->capacity) {
        size_t capacity = timers->capacity > 0 ? 2 * timers->capacity : 64;
        struct timer **grown = realloc(timers->heap, capacity * sizeof(struct timer *));
        if (grown == NULL) return false;
        timers->heap = grown;
        timers->capacity = capacity;
    }
    timer->at_ms = timer_now_ms() + after_ms;
    put(timers, ++timers->count, timer);
    rise(timers, timers->count);
    if (timer->place == 1) set_alarm(gateway);
    return true;
}

void gateway_alarm(struct gateway *gateway) {
    struct timers *timers = &gateway->timers;
    uint64_t now_ms = timer_now_ms();
    while (timers->count > 0 && timers->heap[1]->at_ms <= now_ms) {
        struct timer *timer = timers->heap[1];
        timer_cancel(gateway, timer);
        timer->fires(gateway, timer);
    }
    set_alarm(gateway);
}

/* ---- timers of protocols */

struct told_timer {
    struct timer timer; /* must be the first member */
    uint64_t id;
    gateway_timeout *timeout;
    void *argument;
};

static void fires(struct gateway *gateway, struct timer *timer) {
    struct told_timer told = *(struct told_timer *)timer;
    handle_free(gateway, told.id);
    free(timer);
    told.timeout(told.argument);
}

uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument) {
    struct told_timer *told = calloc(1, sizeof(*told));
    if (told == NULL) return 0;
    *told = (struct told_timer){.timer.fires = fires, .timeout = timeout, .argument = argument};
    told->id = handle_new(gateway, HANDLE_TIMER, told);
    if (told->id != 0 && timer_arm(gateway, &told->timer, after_ms)) return told->id;
    if (told->id != 0) handle_free(gateway, told->id);
    free(told);
    return 0;
}

void gateway_timer_cancel(struct gateway *gateway, uint64_t handle) {
    struct told_timer *told = handle_find(gateway, handle, HANDLE_TIMER);
    if (told == NULL) return;
    timer_cancel(gateway, &told->timer);
    handle_free(gateway, handle);
    free(told);
}

/* ---- wake-ups: lets another thread wake the door's thread */

struct gateway_wakeup {
    struct gateway *gateway;
    uint64_t id;
    /* true: the wakeup is in the door's list already, so it is not added again (DOOR_INSIDE_ENDS). */
    _Atomic bool is_posted;
    gateway_timeout *arrived;
    void *argument;
};

struct gateway_wakeup *gateway_wakeup(struct gateway *gateway, gateway_timeout *arrived, void *argument) {
    struct gateway_wakeup *wakeup = calloc(1, sizeof(*wakeup));
    if (wakeup == NULL) return NULL;
    wakeup->gateway = gateway;
    wakeup->arrived = arrived;
    wakeup->argument = argument;
    wakeup->id = handle_new(gateway, HANDLE_WAKEUP, wakeup);
    if (wakeup->id != 0) return wakeup;
    free(wakeup);
    return NULL;
}

void gateway_wake(struct gateway_wakeup *wakeup) {
    if (!atomic_exchange(&wakeup->is_posted, true)) door_close(wakeup->gateway->door, wakeup->id);
}

static void wakeup_arrived(struct gateway_wakeup *wakeup) {
    atomic_store(&wakeup->is_posted, false);
    wakeup->arrived(wakeup->argument);
}

/* ---- principals: the answers of the broker */

uint64_t gateway_own(struct gateway *gateway) {
    return gateway->calls.own(gateway->calls.argument);
}

void gateway_disown(struct gateway *gateway, uint64_t principal) {
    gateway->calls.release(gateway->calls.argument, principal);
}

void gateway_who(struct gateway *gateway, const struct gateway_caller *caller, struct gateway_who *out) {
    gateway->calls.who(gateway->calls.argument, caller->principal, out);
}

bool gateway_may(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Op__OpCase operation,
                 const char *queue, char sentence[GATEWAY_SENTENCE_SIZE]) {
    return gateway->calls.may(gateway->calls.argument, caller->principal, operation, queue, sentence);
}

uint32_t gateway_epoch(struct gateway *gateway) {
    return gateway->calls.epoch(gateway->calls.argument);
}

Tarry__Code gateway_pay(struct gateway *gateway, const struct gateway_caller *caller, const struct gateway_deed *deed,
                        char sentence[GATEWAY_SENTENCE_SIZE]) {
    return gateway->calls.pay(gateway->calls.argument, caller->principal, deed, sentence);
}

void gateway_unpay(struct gateway *gateway, const struct gateway_caller *caller) {
    gateway->calls.unpay(gateway->calls.argument, caller->principal);
}

/* ---- requests */

static const char no_memory[] = "the broker has too little memory for this request: try again in a moment";

static struct message *pack(Tarry__Request *request, const char *client) {
    request->version = WIRE_VERSION;
    request->client = (char *)client;
    size_t room = request_room(request);
    struct message *message = message_new(room);
    if (message == NULL) return NULL;
    const uint8_t *packed = request_pack(request, message->bytes + room);
    message->size = (size_t)(message->bytes + room - packed);
    memmove(message->bytes, packed, message->size);
    return message;
}

/* Makes a struct ask (a request to the broker and the callback for its reply), with the packed request. Returns NULL if
 * memory is exhausted or too many asks exist. */
static struct ask *ask_new(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Request *request,
                           gateway_reply *reply, void *argument) {
    if (gateway->ask_count >= GATEWAY_ASKS_MAX) return NULL;
    struct ask *ask = calloc(1, sizeof(*ask));
    if (ask == NULL) return NULL;
    *ask = (struct ask){.gateway = gateway, .reply = reply, .argument = argument};
    ask->request = pack(request, caller->client);
    ask->id = ask->request != NULL ? handle_new(gateway, HANDLE_ASK, ask) : 0;
    if (ask->id == 0) {
        message_free(ask->request);
        free(ask);
        return NULL;
    }
    ask->principal = gateway->calls.hold(gateway->calls.argument, caller->principal);
    /* calloc has already written the terminating zero */
    memcpy(ask->peer, caller->peer, strnlen(caller->peer, sizeof(ask->peer) - 1));
    gateway->ask_count++;
    return ask;
}

static bool is_taken(struct ask *ask) {
    const struct gateway_calls *calls = &ask->gateway->calls;
    if (!calls->request(calls->argument, ask->id, ask->principal, ask->peer, ask->request)) return false;
    ask->request = NULL;
    return true;
}

/* Offers the request to the broker. While it waits for capacity, its bytes count like those of a request that waits in
 * a connection. */
void ask_offer(struct ask *ask) {
    struct gateway *gateway = ask->gateway;
    if (TAILQ_EMPTY(&gateway->offered) && is_taken(ask)) return;
    if (!door_stream_hold(gateway->door, (int64_t)ask->request->capacity)) {
        ask_refuse_later(ask, TARRY__CODE__BUSY, no_memory);
        return;
    }
    TAILQ_INSERT_TAIL(&gateway->offered, ask, waits);
}

void gateway_resumed(struct gateway *gateway) {
    struct ask *ask;
    while ((ask = TAILQ_FIRST(&gateway->offered)) != NULL) {
        assert(ask->request != NULL); /* the request belongs to `ask` until the broker takes it */
        int64_t held = (int64_t)ask->request->capacity;
        if (!is_taken(ask)) return;
        TAILQ_REMOVE(&gateway->offered, ask, waits);
        (void)door_stream_hold(gateway->door, -held);
    }
}

static void ask_free(struct ask *ask) {
    struct gateway *gateway = ask->gateway;
    handle_free(gateway, ask->id);
    gateway->calls.release(gateway->calls.argument, ask->principal);
    gateway->ask_count--;
    message_free(ask->request);
    once_free(ask->once);
    free(ask);
}

void ask_answer(struct ask *ask, const Tarry__Reply *reply) {
    gateway_reply *tell = ask->reply;
    void *argument = ask->argument;
    ask_free(ask);
    if (tell != NULL) tell(argument, reply);
}

void ask_refuse(struct ask *ask, Tarry__Code code, const char *sentence) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = code;
    reply.message = (char *)sentence;
    ask_answer(ask, &reply);
}

void ask_refuse_later(struct ask *ask, Tarry__Code code, const char *sentence) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = code;
    reply.message = (char *)sentence;
    struct message *message = message_new(tarry__reply__get_packed_size(&reply));
    if (message != NULL) tarry__reply__pack(&reply, message->bytes);
    door_answer(ask->gateway->door, ask->id, message);
}

uint64_t gateway_ask(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Request *request,
                     gateway_reply *reply, void *argument) {
    struct ask *ask = ask_new(gateway, caller, request, reply, argument);
    if (ask == NULL) return 0;
    uint64_t id = ask->id;
    ask_offer(ask);
    return id;
}

bool gateway_has_spare(struct gateway *gateway, const struct gateway_caller *caller, size_t size) {
    const struct gateway_calls *calls = &gateway->calls;
    return TAILQ_EMPTY(&gateway->offered) && calls->has_spare(calls->argument, caller->principal, size);
}

void gateway_forget(struct gateway *gateway, uint64_t handle) {
    struct ask *ask = handle_find(gateway, handle, HANDLE_ASK);
    if (ask != NULL) ask->reply = NULL;
}

/* ---- commits */

/* Assigns each commit a producer and a sequence number (ONCE-1).
 *
 * The broker issues producers to a principal; a *maker* is the principal with its producers. Each producer may use a
 * limited range of sequence numbers, as many as the broker remembers replies. The reply of a commit without a key may
 * be forgotten once received, because such a commit is sent once. The reply of a commit with a key must be found again,
 * so all replies of its producer are kept. When such a producer has used all its numbers, another producer replaces it
 * (gateway_once.c).
 *
 * The request is packed with three varints of ten bytes, which have space for any number. The three numbers of a commit
 * (producer, sequence, oldest unanswered) are filled in when it is sent. */

#define VARINT_SIZE 10u
#define FIELD_SIZE (1u + VARINT_SIZE)
#define NUMBERS_SIZE (3u * FIELD_SIZE)
/* Producers of a principal for commits without a key. If all their windows are full, further commits are refused. */
#define PRODUCERS_EACH 8u

static const char too_many_commits[] =
    "this principal has the maximum number of commits in progress (COMMITS_PER_PRODUCER_MAX): try again in a moment";

struct producer {
    struct maker *maker;
    TAILQ_ENTRY(producer) next;
    uint64_t id;       /* id of the producer; 0: it was requested, and is not issued yet */
    uint64_t sequence; /* the next sequence number to assign */
    uint64_t oldest;   /* the oldest sequence number without a reply */
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
    /* The principal's row in the token file has changed, so a new principal object has this name. Use the new one. */
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

/* Returns the offset of the commit's three numbers in the packed request. The search finds only them, because no other
 * place of a commit has three such fields in a row. */
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
            ask_refuse_later(ask, TARRY__CODE__BUSY, too_many_commits);
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

/* Frees the producer that the broker has forgotten, so that later commits with a key use another producer. */
static void forget_keeping(const struct ask *ask) {
    struct maker *maker = maker_of(ask->gateway, ask->principal);
    bool is_its = maker != NULL && maker->keeping != NULL && maker->keeping->id == ask->kept_producer;
    if (is_its && ask->kept_producer != 0) producer_free(maker->keeping);
}

/* Handles the reply of a commit; NULL: no reply. True: the reply must not be passed on. */
static bool commit_replied(struct ask *ask, const Tarry__Reply *reply) {
    struct producer *producer = ask->producer;
    bool is_forgotten = reply != NULL && reply->code == TARRY__CODE__FORGOTTEN;
    if (producer ==
        NULL) { /* the commit has a key (gateway_once.c), so `ask` has no producer whose window must advance */
        if (is_forgotten) forget_keeping(ask);
        return false;
    }
    struct maker *maker = producer->maker;
    note_answered(producer, ask->sequence);
    ask->producer = NULL;
    producer->is_over |= is_forgotten;
    if (producer->is_over && producer->under_way == 0) producer_free(producer);
    serve_commits(maker);
    /* The reply FORGOTTEN means that the commit was not executed. The gateway cannot send the commit again, because its
     * bytes are freed. So the client gets BUSY and may try again. */
    if (!is_forgotten) return false;
    ask_refuse(ask, TARRY__CODE__BUSY,
               "the broker no longer remembers the producer of this request: nothing was done, try again");
    return true;
}

/* ---- numbers whose replies are kept */

bool maker_reserve(struct gateway *gateway, const struct ask *ask, uint64_t *out_producer, uint64_t *out_sequence) {
    struct maker *maker = maker_of(gateway, ask->principal);
    struct producer *producer = maker != NULL ? maker->keeping : NULL;
    if (producer == NULL || producer->id == 0) return false;
    /* The broker has forgotten an idle producer. If a receipt named this producer, each commit with the receipt's key
     * would be refused for a day. So the producer is not used any more. */
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

/* ---- the interface of commits */

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

/* Frees all makers and their producers. */
static void makers_free(struct gateway *gateway) {
    struct maker *maker = NULL;
    while ((maker = TAILQ_FIRST(&gateway->makers)) != NULL) {
        TAILQ_REMOVE(&gateway->makers, maker, next);
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): producer_free removes it
        while (!TAILQ_EMPTY(&maker->producers)) producer_free(TAILQ_FIRST(&maker->producers));
        if (maker->principal != 0) gateway->calls.release(gateway->calls.argument, maker->principal);
        free(maker);
    }
}

/* ---- replies, and what else arrives on the door's thread */

static void replied(struct gateway *gateway, struct ask *ask, const struct message *message) {
    assert(gateway->arena.used == 0); /* a reply is never handled while another one is being handled */
    Tarry__Reply *reply = message != NULL ? reply_unpack(&gateway->arena, message->size, message->bytes) : NULL;
    if (ask->commit_at == 0 || !commit_replied(ask, reply)) ask_answer(ask, reply);
    arena_reset(&gateway->arena);
}

void gateway_inside(struct gateway *gateway, uint64_t id, const struct message *message, bool is_delivery) {
    struct ask *ask = handle_find(gateway, id, HANDLE_ASK);
    struct gateway_wakeup *wakeup = handle_find(gateway, id, HANDLE_WAKEUP);
    if (ask != NULL)
        replied(gateway, ask, message);
    else if (wakeup != NULL)
        wakeup_arrived(wakeup);
    else if (is_delivery)
        pool_delivery(gateway, id, message);
    else
        pool_ended(gateway, id);
}

/* ---- start and stop */

#define REPLY_ARENA_MAX (8ull * REQUEST_SIZE_MAX) /* maximum size of an unpacked reply */

struct gateway *gateway_new(const struct gateway_calls *calls) {
    struct gateway *gateway = calloc(1, sizeof(*gateway));
    if (gateway == NULL) return NULL;
    gateway->calls = *calls;
    arena_init(&gateway->arena, REPLY_ARENA_MAX);
    TAILQ_INIT(&gateway->offered);
    TAILQ_INIT(&gateway->makers);
    TAILQ_INIT(&gateway->pools);
    return gateway;
}

void gateway_serve(struct gateway *gateway, struct door *door) {
    gateway->door = door;
    once_start(gateway);
}

void gateway_free(struct gateway *gateway) {
    if (gateway == NULL) return;
    for (uint32_t i = 0; i < gateway->slot_count; i++) {
        struct slot *slot = &gateway->slots[i];
        if (slot->kind == HANDLE_ASK) ask_free(slot->owner);
        if (slot->kind == HANDLE_TIMER)
            gateway_timer_cancel(gateway, slot->id); /* remove the timer from the heap before its memory is freed */
        if (slot->kind == HANDLE_LEASE) lease_forget(slot->owner);
        if (slot->kind == HANDLE_WAKEUP) free(slot->owner);
    }
    pools_free(gateway);
    makers_free(gateway);
    free(gateway->timers.heap);
    free(gateway->slots);
    arena_deinit(&gateway->arena);
    free(gateway);
}
