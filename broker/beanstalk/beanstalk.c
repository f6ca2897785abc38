/* beanstalk.c: connections of beanstalkd's protocol. A connection executes one command at a time (beanstalk.h). */
#include "beanstalk.h"

#include <assert.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "beanstalk_parts.h"
#include "check.h"
#include "door.h"
#include "door_turn.h"
#include "message.h"

static_assert(QUEUES_PER_SUBSCRIBE_MAX >= BEANSTALK_WATCHED_MAX, "a watch list fits into one lease request");
static_assert(OPS_PER_COMMIT_MAX >= BEANSTALK_RESERVED_MAX, "one commit can release all reserved jobs");

/* Unsent reply bytes of a connection at which it executes no further command until the client reads. */
#define UNSENT_MAX (1u << 20)
/* Bytes of buffered input at which the gateway stops reading from the connection. */
#define INPUT_MAX (64u << 10)
#define CLIENT_NAME "beanstalkd client"
#define TUBE_DEFAULT "default"

static uint64_t clock_ms(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t beanstalk_now_ms(void) {
    return clock_ms(CLOCK_BOOTTIME);
}

uint64_t beanstalk_wall_ms(void) {
    return clock_ms(CLOCK_REALTIME);
}

/* ---- output */

void connection_send(struct beanstalk_connection *connection, struct message *message) {
    if (message == NULL)
        door_stream_kill(connection->server->door, connection->id);
    else
        door_stream_send(connection->server->door, connection->id, message);
}

void connection_reply(struct beanstalk_connection *connection, const char *format, ...) {
    char line[BEANSTALK_LINE_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof(line) - 2, format, arguments);
    va_end(arguments);
    assert(size >= 0 && (size_t)size < sizeof(line) - 2);
    memcpy(line + size, "\r\n", 2);
    struct message *message = message_new((size_t)size + 2);
    if (message != NULL) memcpy(message->bytes, line, (size_t)size + 2);
    connection_send(connection, message);
}

struct message *job_message(const char *word, uint64_t id, const void *body, size_t size) {
    char head[64];
    int head_size = snprintf(head, sizeof(head), "%s %llu %zu\r\n", word, (unsigned long long)id, size);
    assert(head_size > 0 && (size_t)head_size < sizeof(head));
    struct message *message = message_new((size_t)head_size + size + 2);
    if (message == NULL) return NULL;
    memcpy(message->bytes, head, (size_t)head_size);
    if (size > 0) memcpy(message->bytes + head_size, body, size);
    memcpy(message->bytes + head_size + size, "\r\n", 2);
    return message;
}

void connection_reply_yaml(struct beanstalk_connection *connection) {
    const struct text *yaml = &connection->yaml;
    char head[32];
    if (yaml->failed) {
        connection_reply(connection, "OUT_OF_MEMORY");
    } else {
        int head_size = snprintf(head, sizeof(head), "OK %zu\r\n", yaml->size);
        struct message *message = message_new((size_t)head_size + yaml->size + 2);
        if (message != NULL) {
            memcpy(message->bytes, head, (size_t)head_size);
            memcpy(message->bytes + head_size, yaml->data, yaml->size);
            memcpy(message->bytes + head_size + yaml->size, "\r\n", 2);
        }
        connection_send(connection, message);
    }
    text_deinit(&connection->yaml);
}

/* ---- requests to the broker */

struct gateway_caller connection_caller(const struct beanstalk_connection *connection) {
    return (struct gateway_caller){.principal = connection->principal, .peer = connection->peer, .client = CLIENT_NAME};
}

/* Passes BUSY to the callback, because the request could not be made: memory or a free place is missing. */
static void answer_busy(struct beanstalk_connection *connection, gateway_reply *reply) {
    Tarry__Reply busy = TARRY__REPLY__INIT;
    busy.code = TARRY__CODE__BUSY;
    reply(connection, &busy);
}

void connection_ask(struct beanstalk_connection *connection, Tarry__Request *request, gateway_reply *reply) {
    const struct gateway_caller caller = connection_caller(connection);
    connection->is_busy = true;
    connection->asked = gateway_ask(connection->server->gateway, &caller, request, reply, connection);
    if (connection->asked == 0) answer_busy(connection, reply);
}

void connection_get(struct beanstalk_connection *connection, uint64_t id, bool with_content, gateway_reply *reply) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Get get = TARRY__GET__INIT;
    Tarry__Ref ref = TARRY__REF__INIT;
    ref.id = id;
    get.task = &ref;
    get.with_content = with_content;
    request.body_case = TARRY__REQUEST__BODY_GET;
    request.get = &get;
    connection_ask(connection, &request, reply);
}

void connection_list(struct beanstalk_connection *connection, Tarry__List *list, gateway_reply *reply) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.body_case = TARRY__REQUEST__BODY_LIST;
    request.list = list;
    connection_ask(connection, &request, reply);
}

/* Marks the cached order of tubes (beanstalk_reserve.c) as changed, and passes the reply on. The mark comes first,
 * because the client may rely on the new order once it has its reply. */
static void on_committed(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (connection->changes_one != NULL) connection->changes_one->changes++;
    if (connection->changes_any) connection->server->changes++;
    connection->committed(connection, reply);
}

/* Sets `changes_one` or `changes_any` of the connection if the operation changes the order of ready jobs, in one tube
 * or in any tube. Acks, nacks of reserved jobs and extensions change no order. */
static void note_change(struct beanstalk_connection *connection, const Tarry__Op *op) {
    if (op->op_case == TARRY__OP__OP_SCHEDULE)
        connection->changes_one = connection->used;
    else if (op->op_case != TARRY__OP__OP_ACK && op->op_case != TARRY__OP__OP_NACK &&
             op->op_case != TARRY__OP__OP_EXTEND)
        connection->changes_any = true;
}

void connection_commit(struct beanstalk_connection *connection, Tarry__Op *ops, size_t count, gateway_reply *reply) {
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    Tarry__Op **pointers = calloc(count, sizeof(Tarry__Op *));
    connection->is_busy = true;
    if (pointers == NULL) {
        answer_busy(connection, reply);
        return;
    }
    connection->committed = reply;
    connection->changes_one = NULL;
    connection->changes_any = false;
    for (size_t i = 0; i < count; i++) {
        pointers[i] = &ops[i];
        note_change(connection, &ops[i]);
    }
    commit.ops = pointers;
    commit.n_ops = count;
    const struct gateway_caller caller = connection_caller(connection);
    connection->asked = gateway_commit(connection->server->gateway, &caller, &commit, NULL, on_committed, connection);
    free(pointers);
    if (connection->asked == 0) answer_busy(connection, reply);
}

Tarry__Code result_code(const Tarry__Reply *reply, size_t index) {
    if (reply->body_case != TARRY__REPLY__BODY_COMMIT || index >= reply->commit->n_results) return TARRY__CODE__FAILED;
    return reply->commit->results[index]->code;
}

bool reply_is_fine(struct beanstalk_connection *connection, const Tarry__Reply *reply) {
    connection->asked = 0;
    if (reply != NULL && reply->code == TARRY__CODE__OK) return true;
    connection_refuse(connection, reply != NULL ? reply->code : TARRY__CODE__FAILED);
    return false;
}

/* ---- commands */

void connection_answer(struct beanstalk_connection *connection, const char *line) {
    connection_reply(connection, "%s", line);
    connection_finish(connection);
}

/* Ends the connection when the result of a command is unknown. In this protocol, each error reply says that nothing was
 * done (ONCE-1). Only a broken connection tells the client that the result is unknown. */
static void connection_break(struct beanstalk_connection *connection) {
    connection->is_ended = true;
    door_stream_kill(connection->server->door, connection->id);
}

void connection_refuse(struct beanstalk_connection *connection, Tarry__Code code) {
    bool is_put = connection->command.kind == BEANSTALK_PUT;
    if (code == TARRY__CODE__FAILED)
        connection_break(connection);
    else if (code == TARRY__CODE__BUSY)
        connection_answer(connection, "OUT_OF_MEMORY");
    else if (is_put && (code == TARRY__CODE__STOPPING || code == TARRY__CODE__NOT_PRIMARY))
        connection_answer(connection, "DRAINING");
    else if (is_put && code == TARRY__CODE__TOO_LARGE)
        connection_answer(connection, "JOB_TOO_BIG");
    else
        connection_answer(connection, "INTERNAL_ERROR");
}

/* Returns whether a client may use the tube: queue names are shorter than beanstalkd's tube names, and some are
 * reserved. */
static bool is_queue(const char *tube) {
    return strlen(tube) <= QUEUE_NAME_SIZE_MAX && !queue_is_reserved(tube) && !name_is_dots(tube, strlen(tube));
}

static void use(struct beanstalk_connection *connection, const char *name) {
    struct beanstalk_tube *tube = beanstalk_tube_make(&connection->server->tubes, name);
    if (tube == NULL) {
        connection_reply(connection, "OUT_OF_MEMORY");
        return;
    }
    connection->used->using --;
    connection->used = tube;
    tube->using ++;
    connection_reply(connection, "USING %s", tube->name);
}

static uint32_t watched_at(const struct beanstalk_connection *connection, const char *name) {
    uint32_t i = 0;
    while (i < connection->watched_count && strcmp(connection->watched[i]->name, name) != 0) i++;
    return i;
}

static void watch(struct beanstalk_connection *connection, const char *name) {
    if (watched_at(connection, name) == connection->watched_count) {
        struct beanstalk_tube *tube = NULL;
        if (connection->watched_count < BEANSTALK_WATCHED_MAX)
            tube = beanstalk_tube_make(&connection->server->tubes, name);
        if (tube == NULL) {
            connection_reply(connection, "OUT_OF_MEMORY");
            return;
        }
        tube->watching++;
        connection->watched[connection->watched_count++] = tube;
    }
    connection_reply(connection, "WATCHING %u", connection->watched_count);
}

static void ignore(struct beanstalk_connection *connection, const char *name) {
    uint32_t at = watched_at(connection, name);
    if (at < connection->watched_count) {
        if (connection->watched_count == 1) {
            connection_reply(connection, "NOT_IGNORED");
            return;
        }
        connection->watched[at]->watching--;
        connection->watched[at] = connection->watched[--connection->watched_count];
    }
    connection_reply(connection, "WATCHING %u", connection->watched_count);
}

static void list_watched(struct beanstalk_connection *connection) {
    text_printf(&connection->yaml, "---\n");
    for (uint32_t i = 0; i < connection->watched_count; i++)
        beanstalk_text_item(&connection->yaml, connection->watched[i]->name);
    connection_reply_yaml(connection);
}

/* Releases the connection's jobs and stops counting the connection at once, although its socket may stay open longer.
 */
static void leave(struct beanstalk_connection *connection) {
    struct beanstalk *server = connection->server;
    if (connection->has_left) return;
    connection->has_left = true;
    if (connection->asked != 0) gateway_forget(server->gateway, connection->asked);
    connection->asked = 0;
    reserve_abandon(connection);
    held_give_back(connection);
    if (connection->timer != 0) gateway_timer_cancel(server->gateway, connection->timer);
    connection->timer = 0;
    connection->used->using --;
    for (uint32_t i = 0; i < connection->watched_count; i++) connection->watched[i]->watching--;
    TAILQ_REMOVE(&server->connections, connection, all);
    server->connection_count--;
}

/* Stops executing commands. Replies that are not sent yet are still sent. */
static void finish(struct beanstalk_connection *connection) {
    connection->is_ended = true;
    leave(connection);
    door_stream_finish(connection->server->door, connection->id);
}

/* Executes a command that needs no request to the broker. Returns false if the command needs one. */
static bool answer_at_once(struct beanstalk_connection *connection, const struct beanstalk_command *command) {
    switch (command->kind) {
    case BEANSTALK_BAD_FORMAT:
        connection_reply(connection, "BAD_FORMAT");
        return true;
    case BEANSTALK_UNKNOWN:
        connection_reply(connection, "UNKNOWN_COMMAND");
        return true;
    case BEANSTALK_JOB_TOO_BIG:
        connection_reply(connection, "JOB_TOO_BIG");
        return true;
    case BEANSTALK_NO_ROOM:
        connection_reply(connection, "OUT_OF_MEMORY");
        return true;
    case BEANSTALK_EXPECTED_CRLF:
        connection_reply(connection, "EXPECTED_CRLF");
        return true;
    case BEANSTALK_FOREIGN:
        door_stream_refused(connection->server->door, connection->id, 400,
                            "the client speaks another protocol (HTTP or TLS) than beanstalkd's");
        finish(connection);
        return true;
    case BEANSTALK_USE:
        use(connection, command->tube);
        return true;
    case BEANSTALK_WATCH:
        watch(connection, command->tube);
        return true;
    case BEANSTALK_IGNORE:
        ignore(connection, command->tube);
        return true;
    case BEANSTALK_LIST_TUBE_USED:
        connection_reply(connection, "USING %s", connection->used->name);
        return true;
    case BEANSTALK_LIST_TUBES_WATCHED:
        list_watched(connection);
        return true;
    case BEANSTALK_QUIT:
        finish(connection);
        return true;
    default:
        return false;
    }
}

static void begin(struct beanstalk_connection *connection, const struct beanstalk_command *command) {
    switch (command->kind) {
    case BEANSTALK_PUT:
        put_begin(connection, command);
        break;
    case BEANSTALK_RESERVE:
    case BEANSTALK_RESERVE_TIMEOUT:
        reserve_begin(connection);
        break;
    case BEANSTALK_RESERVE_JOB:
        reserve_job_begin(connection);
        break;
    case BEANSTALK_DELETE:
        delete_begin(connection);
        break;
    case BEANSTALK_RELEASE:
        release_begin(connection);
        break;
    case BEANSTALK_BURY:
        bury_begin(connection);
        break;
    case BEANSTALK_TOUCH:
        touch_begin(connection);
        break;
    case BEANSTALK_KICK:
        kick_begin(connection);
        break;
    case BEANSTALK_KICK_JOB:
        kick_job_begin(connection);
        break;
    case BEANSTALK_STATS:
        stats_begin(connection);
        break;
    case BEANSTALK_STATS_TUBE:
        stats_tube_begin(connection);
        break;
    case BEANSTALK_STATS_JOB:
        stats_job_begin(connection);
        break;
    case BEANSTALK_LIST_TUBES:
        list_tubes_begin(connection);
        break;
    case BEANSTALK_PAUSE_TUBE:
        pause_begin(connection);
        break;
    default:
        peek_begin(connection);
    }
}

static void count(struct beanstalk_connection *connection, const struct beanstalk_command *command) {
    bool is_put = command->kind == BEANSTALK_PUT || command->counts;
    connection->server->commands[is_put ? BEANSTALK_PUT : command->kind]++;
    if (is_put && command->kind != BEANSTALK_JOB_TOO_BIG && command->kind != BEANSTALK_BAD_FORMAT)
        connection->is_producer = true;
}

static void carry_out(struct beanstalk_connection *connection, const struct beanstalk_command *command) {
    struct beanstalk_command known = *command;
    if (known.tube != NULL && !is_queue(known.tube)) known = (struct beanstalk_command){.kind = BEANSTALK_BAD_FORMAT};
    count(connection, &known);
    if (answer_at_once(connection, &known)) return;
    connection->command = known;
    connection->command.tube = NULL;
    connection->command.body = NULL;
    if (known.tube != NULL) memcpy(connection->tube, known.tube, strlen(known.tube) + 1);
    begin(connection, &known);
}

static bool may_go_on(const struct beanstalk_connection *connection) {
    if (connection->is_busy || connection->is_ended) return false;
    return door_stream_unsent(connection->server->door, connection->id) < UNSENT_MAX;
}

/* Executes the received commands during one turn of the connection. Returns the number of consumed bytes. */
static size_t carry_out_all(struct beanstalk_connection *connection, const uint8_t *bytes, size_t size) {
    struct door *door = connection->server->door;
    struct door_turn turn;
    size_t at = 0;
    if (!door_turn_begin(door, connection->id, &turn)) return 0;
    bool goes_on = true;
    while (goes_on && at < size && may_go_on(connection)) {
        struct beanstalk_command command;
        size_t taken = beanstalk_parse(&connection->parser, bytes + at, size - at, &command);
        at += taken;
        goes_on = door_turn_goes_on(&turn, taken);
        if (command.kind == BEANSTALK_NONE) continue;
        door_stream_whole(door, connection->id);
        carry_out(connection, &command);
    }
    door_turn_end(door, connection->id, &turn, !goes_on && at < size);
    return at;
}

static void drop_input(struct beanstalk_connection *connection) {
    if (connection->input == NULL) return;
    door_stream_keep(connection->server->door, connection->id, 0);
    free(connection->input);
    connection->input = NULL;
    connection->input_size = connection->input_at = 0;
}

/* Finishes the connection if the client sends no more and every command is answered. */
static void finish_if_done(struct beanstalk_connection *connection) {
    bool is_done = connection->is_deaf && !connection->is_busy && !connection->is_running && !connection->is_ended;
    if (is_done && connection->input == NULL) finish(connection);
}

/* Executes the buffered commands. */
static void connection_run(struct beanstalk_connection *connection) {
    if (connection->is_running || connection->input == NULL) return;
    connection->is_running = true;
    connection->input_at += carry_out_all(connection, connection->input + connection->input_at,
                                          connection->input_size - connection->input_at);
    connection->is_running = false;
    if (connection->input_at < connection->input_size && !connection->is_ended) return;
    drop_input(connection);
    door_stream_pause(connection->server->door, connection->id, false);
}

void connection_finish(struct beanstalk_connection *connection) {
    connection->is_busy = false;
    connection->settling = NULL;
    connection_run(connection);
    finish_if_done(connection);
}

/* Buffers input that cannot be executed yet. Pauses reading at INPUT_MAX bytes; below that, the end of the client's
 * input is still noticed. Returns false if the limit or the memory is exhausted. */
static bool keep(struct beanstalk_connection *connection, const uint8_t *bytes, size_t size) {
    struct door *door = connection->server->door;
    size_t all = connection->input_size + size;
    if (!door_stream_keep(door, connection->id, all)) return false;
    uint8_t *input = realloc(connection->input, all);
    if (input == NULL) return false; /* the caller ends the connection, which frees the input */
    memcpy(input + connection->input_size, bytes, size);
    connection->input = input;
    connection->input_size = all;
    door_stream_pause(door, connection->id, all - connection->input_at >= INPUT_MAX);
    return true;
}

/* ---- callbacks of the door */

static bool hold(void *argument, int64_t bytes) {
    const struct beanstalk_connection *connection = argument;
    /* `bytes` is all that the parser holds, because it holds at most one body at a time. */
    size_t size = bytes > 0 ? (size_t)bytes : 0;
    return door_stream_half(connection->server->door, connection->id, size, size <= DOOR_SMALL_MAX);
}

static void *on_opened(void *argument, uint64_t id, const char *peer) {
    struct beanstalk *server = argument;
    struct beanstalk_connection *connection = calloc(1, sizeof(*connection));
    struct beanstalk_tube *tube = beanstalk_tube_make(&server->tubes, TUBE_DEFAULT);
    if (connection == NULL || tube == NULL) {
        free(connection);
        return NULL;
    }
    struct caller_verdict verdict = door_stream_admit(server->door, id, CALLER_RPC, "beanstalkd", "", 0);
    if (verdict.status != 0) {
        free(connection);
        return NULL;
    }
    connection->server = server;
    connection->id = id;
    connection->principal = verdict.principal;
    snprintf(connection->peer, sizeof(connection->peer), "%s", peer);
    connection->parser.room = hold;
    connection->parser.argument = connection;
    TAILQ_INIT(&connection->reserved);
    connection->used = tube;
    tube->using ++;
    connection->watched[0] = tube;
    connection->watched_count = 1;
    tube->watching++;
    TAILQ_INSERT_TAIL(&server->connections, connection, all);
    server->connection_count++;
    server->connections_total++;
    return connection;
}

static void on_received(void *argument, const uint8_t *bytes, size_t size) {
    struct beanstalk_connection *connection = argument;
    size_t at = 0;
    if (connection->is_ended) return;
    if (connection->input == NULL) {
        connection->is_running = true;
        at = carry_out_all(connection, bytes, size);
        connection->is_running = false;
    }
    if (at == size || connection->is_ended) return;
    if (!keep(connection, bytes + at, size - at)) door_stream_kill(connection->server->door, connection->id);
}

static bool on_ended(void *argument) {
    struct beanstalk_connection *connection = argument;
    connection->is_deaf = true;
    reserve_hurry(connection);
    finish_if_done(connection);
    return true;
}

static void on_drained(void *argument) {
    connection_run(argument);
    finish_if_done(argument);
}

static void on_turn(void *argument) {
    connection_run(argument);
    finish_if_done(argument);
}

static void on_sent(void *argument, uint64_t stamp, bool left) {
    struct beanstalk *server = argument;
    if (!left) server->changes++;
    /* `stamp` is the number that the door keeps with a message: here the handle of the message's lease. */
    gateway_left(server->gateway, stamp, left);
}

static void on_gone(void *argument) {
    struct beanstalk_connection *connection = argument;
    leave(connection);
    beanstalk_parser_end(&connection->parser);
    drop_input(connection);
    text_deinit(&connection->yaml);
    free(connection->urgent_tubes);
    free(connection);
}

/* ---- the server */

struct beanstalk *beanstalk_new(struct gateway *gateway) {
    struct beanstalk *server = calloc(1, sizeof(*server));
    if (server == NULL) return NULL;
    uint8_t random[(sizeof(server->id) - 1) / 2];
    server->gateway = gateway;
    server->calls = (struct door_stream_calls){
        .argument = server,
        .opened = on_opened,
        .received = on_received,
        .ended = on_ended,
        .drained = on_drained,
        .turn = on_turn,
        .sent = on_sent,
        .gone = on_gone,
    };
    TAILQ_INIT(&server->connections);
    beanstalk_tubes_init(&server->tubes);
    beanstalk_notes_init(&server->notes);
    server->started_ms = beanstalk_now_ms();
    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(server->id, sizeof(server->id), random, sizeof(random));
    return server;
}

void beanstalk_serve(struct beanstalk *server, struct door *door) {
    server->door = door;
}

const struct door_stream_calls *beanstalk_calls(const struct beanstalk *server) {
    return &server->calls;
}

void beanstalk_free(struct beanstalk *server) {
    if (server == NULL) return;
    beanstalk_tubes_free(&server->tubes);
    beanstalk_notes_free(&server->notes);
    free(server);
}
