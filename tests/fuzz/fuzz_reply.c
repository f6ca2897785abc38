/* fuzz_reply.c: tests the engine of libtarry with a broker that sends arbitrary answers, or none. Every call returns
 * with a code and a sentence, every callback is called once, there is no busy loop, and a repeated commit is the same
 * commit under the same sequence (ONCE-1).
 *
 * The engine runs on this thread whenever a call would wait, and on virtual time: the linker replaces the clock,
 * waiting, and the connection by functions below (-Wl,--wrap). The connection stays open until the broker says that it
 * is not the primary, names another broker, or is silent. Then the engine tries the next address, which may refuse, be
 * silent, or be the same one. One consumer tries to subscribe.
 *
 * The input is a program: opcodes of the user with operands, and for every request the broker's answer. After the
 * program's end the broker is silent. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer.h"
#include "frame.h"
#include "fuzz.h"
#include "input.h"
#include "page.h"
#include "reply_bytes.h"

#define OPS_MAX 256u       /* maximum number of operations in one history */
#define SENT_MAX 512u      /* maximum number of commits that are remembered */
#define TIME_MAX_MS 25000u /* maximum virtual time that passes after the last byte of the input */
#define LOOPS_MAX 20000u   /* maximum number of reads of the clock without a wait between them */

struct sent {
    uint64_t producer, sequence;
    uint64_t sum; /* checksum of the operations */
};

static struct {
    tarry_client client;
    tarry_consumer consumer;
    struct input input;
    uint64_t now_ms;
    uint64_t end_ms; /* time at which the history ends at the latest */
    unsigned loops;
    sem_t *awaited;    /* semaphore that the user's call waits for; NULL: none */
    struct gate *gate; /* `struct gate` that the user's call waits for; NULL: no call waits for one */
    unsigned turn;
    struct {
        uint8_t *data;
        size_t size;
    } answers[SLOTS_MAX]; /* answers in flight */
    size_t answer_count;
    bool is_cut;   /* the connection is broken, and the engine does not know it */
    bool is_lost;  /* true while the engine is being notified of the lost connection */
    bool auditing; /* the user waits for the answer to an audit */
    bool closing;  /* the history has ended */
    struct sent sent[SENT_MAX];
    size_t sent_count;
    uint64_t issued[SENT_MAX]; /* producers */
    size_t issued_count;
    bool issued_twice; /* the broker issued the same producer number twice, so that the library cannot keep ONCE-1 */
    unsigned submitted, called;
    bool had[OPS_MAX];
} world;

/* ---- time */

uint64_t __wrap_now_ms(void);
uint64_t __wrap_now_ms(void) {
    assert(++world.loops < LOOPS_MAX); /* with more turns without a wait, the engine runs in a busy loop */
    return world.now_ms;
}

/* Returns whether a query of the user has no answer yet. Queries that the library makes itself do not count. */
static bool is_asking(void) {
    for (const struct request *at = world.client.calls.first; at != NULL; at = at->links[IN_QUEUE].next)
        if (!at->internal) return true;
    if (world.client.retries.count > 0) return true; /* the request that is retried may be a query of the user */
    for (size_t i = COMMITS_IN_FLIGHT_MAX; i < SLOTS_MAX; i++) {
        const struct request *request = world.client.slots[i].request;
        if (request != NULL && !request->internal) return true;
    }
    return false;
}

static bool user_has_what_he_waits_for(void) {
    int value = 0;
    if (world.auditing) return !is_asking();
    if (world.gate != NULL) return atomic_load(&world.gate->turn) != world.turn;
    if (world.awaited == NULL) return world.client.pending == 0;
    sem_getvalue(world.awaited, &value);
    return value > 0;
}

static void answer_one(void);

/* Replaces the engine's wait. It is called when the engine has nothing to do before `until_ms`, and delivers an answer,
 * loses the connection, or lets time pass. */
void __wrap_loop_wait(tarry_client *client, uint64_t until_ms);
void __wrap_loop_wait(tarry_client *client, uint64_t until_ms) {
    assert(client == &world.client);
    world.loops = 0;
    if (world.input.size > 0) world.end_ms = world.now_ms + TIME_MAX_MS;
    if (world.answer_count > 0 || world.is_cut) {
        answer_one();
        return;
    }
    if (user_has_what_he_waits_for() || world.now_ms >= world.end_ms) {
        world.client.closing = true; /* makes engine_run return; nothing else does */
        return;
    }
    const uint64_t latest_ms = world.now_ms + TIME_MAX_MS;
    if (until_ms > world.now_ms) world.now_ms = until_ms < latest_ms ? until_ms : latest_ms;
    if (world.consumer.lane_up && world.input.size > 0 && input_byte(&world.input) % 8 == 0) {
        world.consumer.lane_up = false;
        world.consumer.connection.state = WS_CLIENT_CLOSED;
    }
}

static void run_engine(sem_t *awaited) {
    world.awaited = awaited;
    world.end_ms = world.now_ms + TIME_MAX_MS;
    world.client.closing = world.closing;
    engine_run(&world.client);
    world.client.closing = false;
    world.awaited = NULL;
}

/* Replaces the wait of a blocking call's thread: returns once the gate has been opened. */
void __wrap_gate_wait(struct gate *gate, unsigned turn);
void __wrap_gate_wait(struct gate *gate, unsigned turn) {
    world.gate = gate;
    world.turn = turn;
    run_engine(NULL);
    world.gate = NULL;
    assert(atomic_load(&gate->turn) != turn); /* the wait is over, because the engine has advanced the gate */
}

int __wrap_sem_wait(sem_t *sem);
int __wrap_sem_wait(sem_t *sem) {
    run_engine(sem);
    int failed = sem_trywait(sem);
    assert(failed == 0); /* checks that the call returned successfully */
    return 0;
}

/* ---- the broker */

static void remember(const Tarry__Commit *commit) {
    Tarry__Commit copy = *commit;
    uint8_t packed[16384];
    copy.oldest_unanswered = 0; /* ignore `oldest_unanswered`, which may be larger in a repeated commit */
    size_t size = tarry__commit__get_packed_size(&copy);
    assert(size <= sizeof(packed));
    tarry__commit__pack(&copy, packed);
    struct sent sent = {commit->producer, commit->sequence, frame_sum(packed, size)};
    assert(commit->producer != 0 && commit->sequence != 0 && commit->n_ops > 0);
    assert(commit->oldest_unanswered > 0 && commit->oldest_unanswered <= commit->sequence);
    for (size_t i = 0; i < world.sent_count; i++) {
        if (world.sent[i].producer != sent.producer || world.sent[i].sequence != sent.sequence) continue;
        assert(world.sent[i].sum == sent.sum || world.issued_twice); /* ONCE-1 */
        return;
    }
    if (world.sent_count < SENT_MAX) world.sent[world.sent_count++] = sent;
}

/* Returns a code from the input: usually a defined one, sometimes a negative one or one of the library's own. */
static Tarry__Code any_code(void) {
    int byte = input_byte(&world.input);
    return (Tarry__Code)(byte < 192 ? byte % 16 : (byte - 224) * 4);
}

/* Makes a well-formed answer; free values come from the input. */
static struct message proper(const Tarry__Request *request) {
    static struct page page;
    static Tarry__OpResult results[OPS_MAX];
    static Tarry__OpResult *pointers[OPS_MAX];
    uint8_t packed[16384];
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__HelloReply hello = TARRY__HELLO_REPLY__INIT;
    Tarry__CommitReply commit = TARRY__COMMIT_REPLY__INIT;
    Tarry__SubscribeReply subscribe = TARRY__SUBSCRIBE_REPLY__INIT;
    Tarry__PairReply pair = TARRY__PAIR_REPLY__INIT;
    Tarry__PairPeer peer = TARRY__PAIR_PEER__INIT;
    Tarry__PairDigest digest = TARRY__PAIR_DIGEST__INIT;
    static const char *const primaries[] = {"",       "ws://127.0.0.1:7272", "ws://b:1",
                                            "ws://c", "ws://c:1/",           "nonsense",
                                            "ws://"};
    static uint8_t cluster[CLUSTER_ID_SIZE];
    reply.code = any_code();
    if (reply.code == TARRY__CODE__NOT_PRIMARY || request->body_case == TARRY__REQUEST__BODY_GET) {
        unsigned byte = input_byte(&world.input);
        reply.primary = (char *)primaries[byte % 7];
        reply.follower = byte >= 128;
        reply.position = byte;
    }
    if (request->body_case == TARRY__REQUEST__BODY_PAIR) {
        unsigned byte = input_byte(&world.input);
        reply.body_case = TARRY__REPLY__BODY_PAIR, reply.pair = &pair;
        pair.role = byte % 9, pair.mode = byte % 5;
        pair.cluster = (ProtobufCBinaryData){byte % (CLUSTER_ID_SIZE + 1), cluster};
        if (byte % 2) pair.peer = &peer;
        if (byte % 3) pair.digest = &digest;
    } else if (request->body_case == TARRY__REQUEST__BODY_HELLO) {
        reply.body_case = TARRY__REPLY__BODY_HELLO, reply.hello = &hello;
        hello.producer = input_byte(&world.input) % 16 == 0 ? 0 : 1000 + world.issued_count;
        hello.request_max = (uint32_t)input_byte(&world.input) * 256;
        hello.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE - (hello.request_max == 256), cluster};
    } else if (request->body_case == TARRY__REQUEST__BODY_COMMIT) {
        reply.body_case = TARRY__REPLY__BODY_COMMIT, reply.commit = &commit;
        commit.results = pointers;
        commit.n_results = request->commit->n_ops < OPS_MAX ? request->commit->n_ops : OPS_MAX;
        for (size_t i = 0; i < commit.n_results; i++) {
            pointers[i] = &results[i];
            results[i] = (Tarry__OpResult)TARRY__OP_RESULT__INIT;
            results[i].code = any_code();
        }
    } else if (request->body_case == TARRY__REQUEST__BODY_SUBSCRIBE) {
        reply.body_case = TARRY__REPLY__BODY_SUBSCRIBE, reply.subscribe = &subscribe;
        subscribe.session = input_byte(&world.input);
        subscribe.silence_ms = (uint64_t)input_byte(&world.input) << input_byte(&world.input) % 48;
        size_t size;
        const uint8_t *secret = input_bytes(&world.input, input_byte(&world.input), &size);
        subscribe.secret = (ProtobufCBinaryData){size, (uint8_t *)secret};
    } else if (request->body_case == TARRY__REQUEST__BODY_AUDIT) {
        reply.body_case = TARRY__REPLY__BODY_AUDIT, reply.audit = page_make(&page, &world.input, request->audit);
        if (reply.code != TARRY__CODE__BUSY && reply.code != TARRY__CODE__INVALID) reply.code = TARRY__CODE__OK;
    }
    size_t size = tarry__reply__get_packed_size(&reply);
    assert(size <= sizeof(packed));
    tarry__reply__pack(&reply, packed);
    return message_of(packed, size);
}

/* Notes the producer in an answer to Hello as the library will understand it. */
static void note_issued(struct message message) {
    Tarry__Reply *reply = tarry__reply__unpack(NULL, message.size - REQUEST_ID_SIZE, message.data + REQUEST_ID_SIZE);
    if (reply != NULL && reply->body_case == TARRY__REPLY__BODY_HELLO) {
        uint64_t producer = reply->hello->producer;
        for (size_t i = 0; i < world.issued_count; i++) world.issued_twice |= world.issued[i] == producer;
        if (world.issued_count < SENT_MAX)
            world.issued[world.issued_count++] = producer;
        else
            world.issued_twice = true;
    }
    if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
}

/* Chooses the answer to the request with the number `tag`, or none. */
static void answer(const uint8_t *tag, const Tarry__Request *request) {
    unsigned kind = input_byte(&world.input) % 8;
    size_t size;
    struct message message = {NULL, 0};
    if (world.input.size == 0 || kind == 0) return; /* no answer */
    if (kind == 1) {
        world.is_cut = true;
        return;
    }
    if (kind >= 5) {
        message = proper(request);
    } else {
        const uint8_t *bytes = input_bytes(&world.input, input_byte(&world.input), &size);
        message = kind == 2 ? message_of(bytes, size) : fitting(request, bytes, size);
    }
    if (request->body_case == TARRY__REQUEST__BODY_HELLO) note_issued(message);
    memcpy(message.data, tag, REQUEST_ID_SIZE);
    if (world.answer_count == SLOTS_MAX) abort();
    world.answers[world.answer_count].data = message.data;
    world.answers[world.answer_count++].size = message.size;
}

static void drop_answers(void) {
    while (world.answer_count > 0) free(world.answers[--world.answer_count].data);
    world.is_cut = false;
}

/* Delivers the first answer in flight, or, after the last one, the end of the connection. */
static void answer_one(void) {
    struct link *link = &world.client.link;
    if (world.answer_count == 0) {
        world.is_cut = false;
        if (link->connection.state == WS_CLIENT_OPEN) world.is_lost = true;
        link_turn(&world.client, 0);
        world.is_lost = false;
        return;
    }
    struct message message = {world.answers[0].data, world.answers[0].size};
    memmove(world.answers, world.answers + 1, --world.answer_count * sizeof(world.answers[0]));
    const bool is_answer = answer_take(&world.client, message.data, message.size);
    assert(is_answer);
    free(message.data);
}

/* Called under the engine's lock, when the engine has put the request into a slot. */
void __wrap_ws_client_send(struct ws_client *connection, struct packet *packet, uint32_t tag);
void __wrap_ws_client_send(struct ws_client *connection, struct packet *packet, uint32_t tag) {
    const uint8_t *data = packet->data + WS_HEAD_MAX;
    assert(connection == &world.client.link.connection && connection->state == WS_CLIENT_OPEN);
    assert((tag & 1u << 31) != 0 && packet->size >= REQUEST_ID_SIZE);
    Tarry__Request *request = tarry__request__unpack(NULL, packet->size - REQUEST_ID_SIZE, data + REQUEST_ID_SIZE);
    assert(request != NULL);
    if (request->body_case == TARRY__REQUEST__BODY_COMMIT) remember(request->commit);
    answer(data, request);
    tarry__request__free_unpacked(request, NULL);
}

void __wrap_ws_client_unsend(struct ws_client *connection, uint32_t tag);
void __wrap_ws_client_unsend(struct ws_client *connection, uint32_t tag) {}

enum ws_client_news __wrap_ws_client_next(struct ws_client *connection, const uint8_t **out_data, size_t *out_size);
enum ws_client_news __wrap_ws_client_next(struct ws_client *connection, const uint8_t **out_data, size_t *out_size) {
    return world.is_lost ? WS_CLIENT_LOST : WS_CLIENT_NOTHING;
}

/* ---- the link, and the lane */

ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags) {
    memset(out, 57, size);
    return (ssize_t)size;
}

static void open_link(struct link *link, const char *path) {
    assert(strcmp(path, "/rpc") == 0 && link->address < link->addresses.count);
    unsigned fate = world.input.size == 0 ? 7 : input_byte(&world.input) % 8;
    link->connection.state = fate == 0 ? WS_CLIENT_CLOSED : fate < 3 ? WS_CLIENT_CONNECTING : WS_CLIENT_OPEN;
    link->up = fate >= 3;
    link->trying = fate < 3;
}

void __wrap_ws_client_open(struct ws_client *connection, int epoll, uint64_t id,
                           const struct ws_client_options *options);
void __wrap_ws_client_open(struct ws_client *connection, int epoll, uint64_t id,
                           const struct ws_client_options *options) {
    assert(connection->state == WS_CLIENT_CLOSED && id != 0);
    if (connection == &world.client.link.connection) {
        open_link(&world.client.link, options->path);
        return;
    }
    assert(connection == &world.consumer.connection);
    assert(strncmp(options->path, "/lane/", 6) == 0);
    assert(strlen(options->bearer) == 2 * world.consumer.secret_size);
    unsigned fate = world.input.size == 0 ? 0 : input_byte(&world.input) % 8;
    connection->state = fate == 0 ? WS_CLIENT_CLOSED : fate < 3 ? WS_CLIENT_CONNECTING : WS_CLIENT_OPEN;
    world.consumer.lane_up = fate >= 3;
}

void __wrap_ws_client_close(struct ws_client *connection);
void __wrap_ws_client_close(struct ws_client *connection) {
    if (connection == &world.client.link.connection) drop_answers();
    connection->state = WS_CLIENT_CLOSED;
}

/* ---- the user */

static void done(void *arg, const struct tarry_result *result) {
    bool *had = arg;
    assert(!*had && result->message != NULL && result->code >= 0);
    assert(result->code == TARRY_OK || result->message[0] != 0);
    (void)tarry_outcome_name(result->outcome);
    *had = true;
    world.called++;
}

static void done_all(void *arg, int code, const struct tarry_result *results, size_t count) {
    assert(code >= 0 && (results != NULL || count == 0));
    for (size_t i = 0; i < count; i++) assert(results[i].message != NULL);
    done(arg, &(struct tarry_result){.code = code, .message = "all of it"});
}

static bool *next_op(void) {
    return world.submitted < OPS_MAX ? &world.had[world.submitted++] : NULL;
}

static void is_answered(int rv, const char *message) {
    assert(rv >= 0 && (rv == TARRY_OK || rv == TARRY_E_END || (message != NULL && message[0] != 0)));
    assert(tarry_code_sentence(rv)[0] != 0);
}

static void look(tarry_client *client, unsigned what) {
    const struct tarry_ref ref = {.queue = "orders", .key = "order-1"};
    char message[TARRY_MESSAGE_SIZE] = "";
    struct tarry_view *view = NULL;
    struct tarry_queues_view *queues = NULL;
    struct tarry_stats_view *stats = NULL;
    int rv = TARRY_OK;
    if (what == 0) rv = tarry_get(client, &ref, true, NULL, &view, message);
    if (what == 1) rv = tarry_queues(client, NULL, &queues, message);
    if (what == 2) rv = tarry_stats(client, "orders", NULL, &stats, message);
    is_answered(rv, message);
    if (view != NULL) assert(strlen(view->queue) + strlen(view->state) + strlen(view->reason) < 4096);
    for (size_t i = 0; queues != NULL && i < queues->count; i++) assert(queues->queues[i]->name != NULL);
    for (size_t i = 0; stats != NULL && i < stats->count; i++) assert(stats->queues[i]->name != NULL);
    tarry_view_free(view);
    tarry_queues_free(queues);
    tarry_stats_free(stats);
}

static void list(tarry_client *client) {
    const struct tarry_list_options options = {.queue = "orders", .limit = input_byte(&world.input)};
    const struct tarry_view *view;
    char message[TARRY_MESSAGE_SIZE] = "";
    tarry_list *list;
    int rv = tarry_list_open(client, &options, &list);
    assert(rv == TARRY_OK);
    for (unsigned i = 0; i < 300 && (rv = tarry_list_next(list, &view, message)) == TARRY_OK; i++)
        assert(strlen(view->queue) + strlen(view->state) + view->key_size < 4096);
    is_answered(rv, message);
    tarry_list_close(list);
}

static void audit_told(const tarry_audit *audit, const struct tarry_frame *frame, uint64_t *end) {
    struct frame_header header;
    bool is_frame = frame->header_size == FRAME_HEADER_SIZE && frame_header_decode(frame->header, &header);
    assert(is_frame && header.position == frame->position && header.body_size == frame->body_size);
    assert(frame->position >= *end && frame->end > frame->position);
    assert(header.body_sum == frame_sum(frame->body, frame->body_size));
    assert(tarry_audit_queue(audit, 0) == NULL);
    *end = frame->end;
}

/* Sometimes closes the audit while its query is in flight. */
static void audit(tarry_client *client) {
    const struct tarry_ref ref = {.queue = "orders", .key = "order-1"};
    unsigned how = input_byte(&world.input);
    struct tarry_audit_options options = {.follow = how % 2, .at_end = how % 4 == 2, .task = how % 8 < 4 ? &ref : NULL};
    const struct tarry_frame *frame;
    char message[TARRY_MESSAGE_SIZE] = "";
    tarry_audit *audit;
    uint64_t end = 0;
    int rv = tarry_audit_open(client, &options, &audit);
    assert(rv == TARRY_OK);
    for (unsigned left = how / 4; left > 0; left--) {
        rv = tarry_audit_next(audit, 0, &frame, message);
        if (rv == TARRY_OK) {
            audit_told(audit, frame, &end);
        } else if (rv == TARRY_E_NOTHING) {
            if (world.input.size == 0 && left % 2 == 0) break;
            world.auditing = true;
            run_engine(NULL);
            world.auditing = false;
            world.now_ms += 100;
        } else if (rv != TARRY_E_GAP) {
            break;
        }
    }
    is_answered(rv, message);
    if (rv == TARRY_E_PROTOCOL && strstr(message, "log position") != NULL) {
        rv = tarry_audit_next(audit, 0, &frame, message);
        assert(rv == TARRY_E_PROTOCOL); /* after an error, the audit accepts no answer */
    }
    tarry_audit_close(audit);
}

static void commit(tarry_client *client) {
    const struct tarry_ref ref = {.queue = "orders", .key = "order-1"};
    tarry_commit *commit;
    int rv = tarry_commit_new(client, input_byte(&world.input) % 2, &commit);
    assert(rv == TARRY_OK);
    for (unsigned left = input_byte(&world.input) % 4 + 1; left > 0; left--) tarry_commit_cancel(commit, &ref, false);
    const struct tarry_result *results = NULL;
    size_t count = 0;
    bool *had = input_byte(&world.input) % 2 ? next_op() : NULL;
    if (had != NULL) {
        rv = tarry_commit_submit(commit, NULL, done_all, had);
        if (rv != TARRY_OK) *had = true, world.called++;
    } else {
        rv = tarry_commit_run(commit, NULL, &results, &count);
        assert(rv >= 0 && count <= 4 && (count == 0) == (results == NULL));
        for (size_t i = 0; i < count; i++) assert(results[i].message != NULL && results[i].code >= 0);
    }
    tarry_commit_free(commit);
}

static void submit(tarry_client *client, unsigned what) {
    char key[16];
    bool *had = next_op();
    if (had == NULL) return;
    snprintf(key, sizeof(key), "order-%u", world.submitted);
    struct tarry_schedule_options schedule = {.queue = "orders", .key = key, .when_ms = 1000};
    struct tarry_token token = {1, 4096};
    int rv = what == 0 ? tarry_schedule_async(client, &schedule, done, had)
                       : tarry_ack_async(client, input_byte(&world.input), token, NULL, done, had);
    if (rv != TARRY_OK) *had = true, world.called++;
}

static void pair(tarry_client *client, unsigned how) {
    struct tarry_pair_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    int rv = how % 3 == 0   ? tarry_pair_status(client, NULL, &view, message)
             : how % 3 == 1 ? tarry_promote(client, (enum tarry_assertion)(how % 4), NULL, &view, message)
                            : tarry_demote(client, NULL, &view, message);
    is_answered(rv, message);
    assert((rv == TARRY_OK) == (view != NULL));
    if (view != NULL) {
        assert(strlen(view->cluster) <= 2 * CLUSTER_ID_SIZE && strlen(view->member) < 65536);
        assert(strlen(view->peer_url) + strlen(view->problem) + strlen(view->coordinator) < 65536);
        assert(tarry_role_name(view->role)[0] != 0 && tarry_replication_name(view->replication)[0] != 0);
    }
    tarry_pair_free(view);
    assert(tarry_addresses_say(client, message)[0] != 0);
}

static void user_turn(tarry_client *client) {
    struct tarry_result result;
    const struct tarry_schedule_options schedule = {.queue = "orders", .key = "order-0", .when_ms = 1000};
    unsigned byte = input_byte(&world.input), what = byte % 10;
    if (byte >= 250) {
        audit(client);
        return;
    }
    if (byte >= 240) {
        pair(client, byte);
        return;
    }
    if (what < 3) look(client, what);
    if (what == 3) list(client);
    if (what == 4) commit(client);
    if (what == 5 || what == 6) submit(client, what - 5);
    if (what == 7) is_answered(tarry_ping(client, NULL), "whatever");
    if (what == 8) run_engine(NULL);
    if (what != 9) return;
    int rv = tarry_schedule(client, &schedule, &result);
    is_answered(rv, result.message);
}

static void begin(const uint8_t *data, size_t size) {
    static char *queue = "orders";
    memset(&world, 0, sizeof(world));
    world.input = (struct input){data, size};
    world.now_ms = 1000000;
    tarry_client *client = &world.client;
    pthread_mutex_init(&client->lock, NULL);
    client->commits_in_flight = 1 + input_byte(&world.input) % COMMITS_IN_FLIGHT_MAX;
    client->timeout_ms = TIMEOUT_DEFAULT_MS;
    client->request_max = REQUEST_SIZE_MAX;
    client->queued_size_max = QUEUED_SIZE_MAX_DEFAULT;
    client->link.up = true;
    client->link.connection.state = WS_CLIENT_OPEN;
    static const char *const urls[] = {"ws://127.0.0.1:7272", "ws://127.0.0.1:7272,ws://b:1,ws://c:1",
                                       "ws://127.0.0.1:7272,ws://b:1"};
    unsigned how = input_byte(&world.input);
    int rv = addresses_parse(&client->link.addresses, urls[how % 3]);
    assert(rv == TARRY_OK);
    client->follower_reads = how >= 128;
    client->link.hint = ADDRESSES_MAX;
    tarry_consumer *consumer = &world.consumer;
    *consumer = (tarry_consumer){.client = client, .opening = true, .opened = -1, .queues = &queue, .queue_count = 1};
    consumer->prefetch = 8;
    consumer->open_until_ms = UINT64_MAX;
    pthread_mutex_init(&consumer->lock, NULL);
    if (input_byte(&world.input) % 4 == 0) client->consumers = consumer;
}

static void end(void) {
    tarry_client *client = &world.client;
    run_engine(NULL);
    world.closing = true; /* all remaining requests fail from now on */
    run_engine(NULL);
    assert(world.called == world.submitted && client->pending == 0 && client->waiting == 0);
    assert(client->queued_size == 0 && queue_is_empty(client) && client->calls.first == NULL);
    assert(client->retries.count + client->deadlines.count + client->names.used + client->primary_calls == 0);
    assert(client->mixed.first == NULL && client->settling.first == NULL && client->commits[NEEDS_ROOM].count == 0);
    assert(world.consumer.secret_size <= SECRET_SIZE_MAX && world.consumer.subscribing == NULL);
    deliveries_forget(&world.consumer);
    held_deinit(&world.consumer.held);
    while (client->pool != NULL) {
        struct request *next = client->pool->links[IN_QUEUE].next;
        request_destroy(client->pool);
        client->pool = next;
    }
    for (size_t i = 0; i < SLOTS_MAX; i++) packet_deinit(&client->slots[i].packet);
    drop_answers();
    timers_deinit(&client->deadlines);
    timers_deinit(&client->retries);
    names_deinit(&client->names);
    pthread_mutex_destroy(&client->lock);
    pthread_mutex_destroy(&world.consumer.lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096) return 0;
    begin(data, size);
    while (world.input.size > 0) user_turn(&world.client);
    end();
    return 0;
}
