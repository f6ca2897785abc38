/* amqp.c: connections of AMQP 0-9-1: handshake, frames, heartbeats, and their end. */
#include "amqp.h"

#include <assert.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "amqp_parts.h"
#include "door.h"
#include "door_turn.h"
#include "message.h"

static_assert(AMQP_INPUT_MAX > AMQP_FRAME_MAX, "a whole frame fits into the input that waits");

/* Number of unsent bytes above which the connection's input waits. */
#define UNSENT_STOP (8u << 20)
#define TICK_MS 1000u

uint64_t amqp_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct gateway_caller client_caller(const struct amqp_connection *connection) {
    return (
        struct gateway_caller){.principal = connection->principal, .peer = connection->peer, .client = "AMQP client"};
}

/* ---- output */

void client_send(struct amqp_connection *connection, struct amqp_out *out, struct sending *sending) {
    struct door *door = connection->server->door;
    struct message *message = out->failed || out->size == 0 ? NULL : message_new(out->size);
    if (message != NULL) {
        memcpy(message->bytes, out->bytes, out->size);
        message->stamp = (uint64_t)(uintptr_t)sending;
        connection->has_sent = true;
        door_stream_send(door, connection->id, message);
    } else {
        if (sending != NULL) sending_sent(sending, false);
        if (out->failed || out->size > 0) door_stream_kill(door, connection->id);
    }
    amqp_out_free(out);
}

void client_send_out(struct amqp_connection *connection) {
    if (connection->out.size > 0 || connection->out.failed) client_send(connection, &connection->out, NULL);
}

void topology_count(struct amqp *server) {
    struct store *store = &server->store;
    const int64_t more = (int64_t)store->topology.bytes - store->held_bytes;
    if (more != 0 && door_stream_hold(server->door, more)) store->held_bytes += more;
    server->counts.exchanges = store->topology.exchanges.count;
    server->counts.queues = store->topology.queues.count;
    server->counts.bindings = store->topology.bindings.count;
}

/* ---- the end */

static void client_end_channels(struct amqp_connection *connection) {
    channels_leave(connection);
    outbox_flush(&connection->settles);
}

void client_fail(struct amqp_connection *connection, unsigned code, const char *format, ...) {
    char text[AMQP_SHORTSTR_MAX + 1];
    va_list arguments;
    if (connection->phase >= PHASE_CLOSING || connection->is_gone) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    client_end_channels(connection);
    amqp_put_method(&connection->out, 0, AMQP_CONNECTION_CLOSE, code, amqp_text(text),
                    (unsigned)connection->method.class_id, (unsigned)connection->method.method_id);
    connection->phase = PHASE_CLOSING;
    client_send_out(connection);
    door_stream_deadline(connection->server->door, connection->id, AMQP_CLOSING_MS);
}

bool code_ends_connection(Tarry__Code code) {
    return code == TARRY__CODE__NOT_PRIMARY || code == TARRY__CODE__STOPPING || code == TARRY__CODE__FAILED;
}

void client_refuse(struct amqp_connection *connection, Tarry__Code code, const char *primary) {
    if (code == TARRY__CODE__NOT_PRIMARY && primary[0] != '\0')
        client_fail(connection, AMQP_FORCED,
                    "CONNECTION_FORCED - this node is not the primary of its pair, which is %s", primary);
    else if (code == TARRY__CODE__NOT_PRIMARY)
        client_fail(connection, AMQP_FORCED, "CONNECTION_FORCED - this node is not the primary of its pair");
    else if (code == TARRY__CODE__STOPPING)
        client_fail(connection, AMQP_FORCED, "CONNECTION_FORCED - broker forced connection closure: it is stopping");
    else
        client_fail(connection, AMQP_INTERNAL_ERROR,
                    "INTERNAL_ERROR - the broker could not carry out the request; its outcome is unknown");
}

static void finish(struct amqp_connection *connection) {
    connection->phase = PHASE_OVER;
    client_end_channels(connection);
    client_send_out(connection);
    door_stream_finish(connection->server->door, connection->id);
}

/* ---- the handshake */

static void put_capability(struct amqp_out *out, const char *name) {
    amqp_put_field(out, name, 't');
    amqp_put_number(out, 1, 1);
}

static void send_start(struct amqp_connection *connection) {
    struct amqp_out properties = {0};
    amqp_put_field(&properties, "capabilities", 'F');
    size_t begin = amqp_put_begin(&properties);
    put_capability(&properties, "publisher_confirms");
    put_capability(&properties, "exchange_exchange_bindings");
    put_capability(&properties, "basic.nack");
    put_capability(&properties, "consumer_cancel_notify");
    put_capability(&properties, "connection.blocked");
    put_capability(&properties, "authentication_failure_close");
    put_capability(&properties, "per_consumer_qos");
    amqp_put_end(&properties, begin);
    amqp_put_text_field(&properties, "product", amqp_text("Tarry"));
    amqp_put_text_field(&properties, "version", amqp_text(TARRY_VERSION));
    amqp_put_text_field(&properties, "platform", amqp_text("C"));
    amqp_put_text_field(&properties, "information", amqp_text("AMQP 0-9-1: docs/AMQP.md"));
    amqp_put_method(&connection->out, 0, AMQP_CONNECTION_START, 0u, 9u,
                    (struct amqp_bytes){properties.bytes, properties.size}, amqp_text("PLAIN AMQPLAIN EXTERNAL"),
                    amqp_text("en_US"));
    connection->out.failed |= properties.failed;
    amqp_out_free(&properties);
    connection->phase = PHASE_START;
}

/* Name and password that a client shows. */
struct shown {
    struct amqp_bytes user, password;
};

static bool read_plain(struct amqp_bytes response, struct shown *out) {
    const uint8_t *user = memchr(response.at, 0, response.size);
    if (user == NULL) return false;
    size_t rest = response.size - (size_t)(++user - response.at);
    const uint8_t *password = memchr(user, 0, rest);
    if (password == NULL) return false;
    out->user = (struct amqp_bytes){user, (size_t)(password - user)};
    out->password = (struct amqp_bytes){password + 1, rest - (size_t)(password + 1 - user)};
    return true;
}

static bool read_amqplain(struct amqp_bytes response, struct shown *out) {
    struct amqp_field user, password;
    if (!amqp_table_valid(response)) return false;
    if (!amqp_table_find(response, "LOGIN", &user) || user.type != 'S') return false;
    if (!amqp_table_find(response, "PASSWORD", &password) || password.type != 'S') return false;
    *out = (struct shown){user.value, password.value};
    return true;
}

static void refuse_login(struct amqp_connection *connection, const struct caller_verdict *verdict) {
    door_stream_refused(connection->server->door, connection->id, verdict->status, verdict->sentence);
    if (connection->can_auth_close) {
        client_fail(connection, AMQP_ACCESS_REFUSED, "ACCESS_REFUSED - %.200s", verdict->sentence);
        return;
    }
    /* A client without the capability authentication_failure_close understands a closed connection as a wrong password.
     */
    connection->phase = PHASE_OVER;
    door_stream_finish(connection->server->door, connection->id);
}

/* Admits the client as docs/ACCESS.md says. The password is a token; the user `guest` shows no credentials. */
static void log_in(struct amqp_connection *connection, const struct shown *shown) {
    struct amqp *server = connection->server;
    struct gateway_who holder;
    bool is_guest = amqp_is(shown->user, "guest") && amqp_is(shown->password, "guest");
    const char *token = is_guest ? "" : (const char *)shown->password.at;
    size_t token_size = is_guest ? 0 : shown->password.size;
    struct caller_verdict verdict = {.status = 401, .sentence = "the password is empty: it must be a token"};
    bool shows_nothing = is_guest || shown->user.at == NULL; /* with EXTERNAL, the certificate identifies the client */
    if (token_size > 0 || shows_nothing)
        verdict = door_stream_admit(server->door, connection->id, CALLER_RPC, "amqp", token, token_size);
    if (verdict.status != 0) {
        refuse_login(connection, &verdict);
        return;
    }
    connection->principal = verdict.principal;
    connection->shows_token = token_size > 0;
    const struct gateway_caller caller = client_caller(connection);
    gateway_who(server->gateway, &caller, &holder);
    snprintf(connection->holder, sizeof(connection->holder), "%s", holder.name);
    if (shown->user.at != NULL && shown->user.size < AMQP_SHORTSTR_MAX)
        memcpy(connection->user, shown->user.at, shown->user.size);
    outbox_init(&connection->published, server->gateway, connection->principal, connection->peer, connection);
    connection->published.settled = publish_settled;
    connection->published.went_on = publish_went_on;
    outbox_init(&connection->settles, server->gateway, connection->principal, connection->peer, connection);
    connection->settles.settled = settle_settled;
    connection->settles.went_on = settle_went_on;
    outbox_init(&connection->transaction, server->gateway, connection->principal, connection->peer, connection);
    connection->transaction.settled = transaction_settled;
    connection->transaction.went_on = transaction_went_on;
    connection->transaction.is_whole = true;
    connection->frame_max = AMQP_FRAME_MAX;
    amqp_put_method(&connection->out, 0, AMQP_CONNECTION_TUNE, AMQP_CHANNEL_MAX, AMQP_FRAME_MAX, AMQP_HEARTBEAT_S);
    connection->phase = PHASE_TUNE;
}

static bool can(struct amqp_bytes capabilities, const char *name) {
    struct amqp_field field;
    return amqp_table_find(capabilities, name, &field) && field.type == 't' && field.number != 0;
}

static void start_ok(struct amqp_connection *connection, const struct amqp_method *method) {
    struct amqp_field capabilities;
    struct shown shown = {{0}};
    const struct amqp_bytes properties = method->fields[AMQP_CONNECTION_START_OK_client_properties].bytes;
    const struct amqp_bytes mechanism = method->fields[AMQP_CONNECTION_START_OK_mechanism].bytes;
    const struct amqp_bytes response = method->fields[AMQP_CONNECTION_START_OK_response].bytes;
    if (amqp_table_find(properties, "capabilities", &capabilities) && capabilities.type == 'F') {
        connection->can_cancel = can(capabilities.value, "consumer_cancel_notify");
        connection->can_blocked = can(capabilities.value, "connection.blocked");
        connection->can_auth_close = can(capabilities.value, "authentication_failure_close");
    }
    bool is_read = false;
    if (amqp_is(mechanism, "PLAIN"))
        is_read = read_plain(response, &shown);
    else if (amqp_is(mechanism, "AMQPLAIN"))
        is_read = read_amqplain(response, &shown);
    else
        is_read = amqp_is(mechanism, "EXTERNAL");
    if (is_read)
        log_in(connection, &shown);
    else
        client_fail(connection, AMQP_SYNTAX_ERROR,
                    "SYNTAX_ERROR - the response must be one of PLAIN, AMQPLAIN or EXTERNAL");
}

static void on_heartbeat(void *argument) {
    struct amqp_connection *connection = argument;
    if (!connection->has_sent) {
        amqp_put_heartbeat(&connection->out);
        client_send_out(connection);
    }
    connection->has_sent = false;
    connection->heartbeat_timer =
        gateway_timer(connection->server->gateway, connection->heartbeat_s * 500u, on_heartbeat, connection);
}

static bool may_go_on(const struct amqp_connection *connection) {
    if (connection->is_busy || connection->is_gone || connection->phase >= PHASE_OVER) return false;
    if (connection->phase == PHASE_LOADS) return false;
    if (connection->published.bytes > AMQP_OUTBOX_BYTES_MAX || connection->published.count > AMQP_OUTBOX_ITEMS_MAX)
        return false;
    return door_stream_unsent(connection->server->door, connection->id) < UNSENT_STOP;
}

/* Sets the deadline for the client's next bytes: twice the heartbeat interval and 1 s. There is no deadline while
 * the connection's input waits for the broker. */
static void expect_heartbeat(struct amqp_connection *connection) {
    uint64_t after_ms = connection->heartbeat_s * 2000ull + 1000;
    if (connection->phase != PHASE_RUNS) return;
    bool is_expected = connection->heartbeat_s > 0 && (connection->input == NULL || may_go_on(connection));
    door_stream_deadline(connection->server->door, connection->id, is_expected ? after_ms : 0);
}

static void tune_ok(struct amqp_connection *connection, const struct amqp_method *method) {
    uint64_t channels = method->fields[AMQP_CONNECTION_TUNE_OK_channel_max].number;
    uint64_t frame = method->fields[AMQP_CONNECTION_TUNE_OK_frame_max].number;
    if (frame == 0) frame = AMQP_FRAME_MAX;
    if (frame < AMQP_FRAME_MIN || frame > AMQP_FRAME_MAX) {
        client_fail(connection, AMQP_NOT_ALLOWED, "NOT_ALLOWED - negotiated frame_max = %llu must be %u to %u",
                    (unsigned long long)frame, AMQP_FRAME_MIN, AMQP_FRAME_MAX);
        return;
    }
    if (channels > AMQP_CHANNEL_MAX) {
        client_fail(connection, AMQP_NOT_ALLOWED,
                    "NOT_ALLOWED - negotiated channel_max = %llu is higher than the maximum allowed value (%u)",
                    (unsigned long long)channels, AMQP_CHANNEL_MAX);
        return;
    }
    connection->channel_max = channels == 0 ? AMQP_CHANNEL_MAX : (uint16_t)channels;
    connection->frame_max = (uint32_t)frame;
    connection->heartbeat_s = (uint16_t)method->fields[AMQP_CONNECTION_TUNE_OK_heartbeat].number;
    connection->phase = PHASE_OPEN;
    if (connection->heartbeat_s > 0) on_heartbeat(connection);
}

static void opened(struct amqp_connection *connection) {
    connection->phase = PHASE_RUNS;
    amqp_put_method(&connection->out, 0, AMQP_CONNECTION_OPEN_OK, amqp_text(""));
    expect_heartbeat(connection);
}

static bool is_current(const struct amqp *server) {
    return server->store.state == STORE_LOADED && server->epoch == gateway_epoch(server->gateway);
}

/* Forgets the definitions if the epoch has changed, because another node may have changed them since they were read.
 * Ends the connections that use them first. */
static void forget_if_stale(struct amqp *server) {
    struct amqp_connection *connection, *next;
    if (server->store.state != STORE_LOADED || is_current(server)) return;
    for (connection = TAILQ_FIRST(&server->connections); connection != NULL; connection = next) {
        next = TAILQ_NEXT(connection, all);
        if (connection->phase != PHASE_RUNS) continue;
        client_refuse(connection, TARRY__CODE__NOT_PRIMARY, "");
    }
    mover_stop(server->mover);
    if (server->store.running == NULL) store_forget(&server->store);
    topology_count(server);
}

static void load(struct amqp *server) {
    forget_if_stale(server);
    if (server->store.state != STORE_EMPTY) return;
    server->epoch = gateway_epoch(server->gateway);
    store_load(&server->store);
}

static void open_vhost(struct amqp_connection *connection, const struct amqp_method *method) {
    const struct amqp_bytes host = method->fields[AMQP_CONNECTION_OPEN_virtual_host].bytes;
    if (!amqp_is(host, "/") && host.size > 0) {
        client_fail(connection, AMQP_NOT_ALLOWED,
                    "NOT_ALLOWED - vhost %.*s not found: this broker has the vhost / only", (int)host.size,
                    (const char *)host.at);
        return;
    }
    connection->phase = PHASE_LOADS;
    if (is_current(connection->server))
        opened(connection);
    else
        load(connection->server);
}

static void on_loaded(void *argument, Tarry__Code code, const char *primary) {
    struct amqp *server = argument;
    struct amqp_connection *connection, *next;
    bool is_stale = code == TARRY__CODE__OK && !is_current(server);
    for (connection = TAILQ_FIRST(&server->connections); connection != NULL && !is_stale; connection = next) {
        next = TAILQ_NEXT(connection, all);
        if (connection->phase != PHASE_LOADS) continue;
        if (code == TARRY__CODE__OK)
            opened(connection);
        else if (code != TARRY__CODE__BUSY)
            client_refuse(connection, code, primary);
        client_send_out(connection);
    }
    if (code != TARRY__CODE__OK) return; /* the next tick reads the definitions again */
    if (is_stale) {
        load(server);
        return;
    }
    topology_count(server);
    queues_loaded(server);
    mover_start(server->mover);
}

static void on_tick(void *argument) {
    struct amqp *server = argument;
    load(server);
    server->tick_timer = gateway_timer(server->gateway, TICK_MS, on_tick, server);
}

/* ---- methods of the connection */

static void update_secret(struct amqp_connection *connection, const struct amqp_method *method) {
    const struct amqp_bytes secret = method->fields[AMQP_CONNECTION_UPDATE_SECRET_new_secret].bytes;
    /* A client that showed no token has no secret to update, so the broker accepts any new secret. */
    struct caller_verdict verdict = {.principal = connection->principal};
    if (connection->shows_token)
        verdict = door_stream_admit(connection->server->door, connection->id, CALLER_RPC, "amqp",
                                    (const char *)secret.at, secret.size);
    if (verdict.status != 0) {
        client_fail(connection, AMQP_NOT_ALLOWED, "NOT_ALLOWED - %.200s", verdict.sentence);
        return;
    }
    connection->principal = connection->published.principal = connection->settles.principal =
        connection->transaction.principal = verdict.principal;
    amqp_put_method(&connection->out, 0, AMQP_CONNECTION_UPDATE_SECRET_OK);
}

static void op_close(struct amqp_connection *connection) {
    amqp_put_method(&connection->out, 0, AMQP_CONNECTION_CLOSE_OK);
    connection->is_busy = false;
    finish(connection);
    op_end(connection);
}

static void client_method(struct amqp_connection *connection, const struct amqp_method *method,
                          struct amqp_bytes payload) {
    connection->method.class_id = method->class_id;
    connection->method.method_id = method->method_id;
    if (method->kind == AMQP_CONNECTION_CLOSE) {
        if (connection->phase == PHASE_RUNS) {
            op_begin(connection, 0, payload, op_close);
            return;
        }
        amqp_put_method(&connection->out, 0, AMQP_CONNECTION_CLOSE_OK);
        finish(connection);
    } else if (method->kind == AMQP_CONNECTION_CLOSE_OK) {
        finish(connection);
    } else if (connection->phase == PHASE_CLOSING) {
        return; /* the client sent this method before it read connection.close, so the method is ignored */
    } else if (method->kind == AMQP_CONNECTION_START_OK && connection->phase == PHASE_START) {
        start_ok(connection, method);
    } else if (method->kind == AMQP_CONNECTION_TUNE_OK && connection->phase == PHASE_TUNE) {
        tune_ok(connection, method);
    } else if (method->kind == AMQP_CONNECTION_OPEN && connection->phase == PHASE_OPEN) {
        open_vhost(connection, method);
    } else if (method->kind == AMQP_CONNECTION_UPDATE_SECRET && connection->phase == PHASE_RUNS) {
        update_secret(connection, method);
    } else {
        client_fail(connection, AMQP_COMMAND_INVALID, "COMMAND_INVALID - unexpected method %s",
                    amqp_method_name(method->kind));
    }
}

/* ---- frames */

static void method_frame(struct amqp_connection *connection, const struct amqp_frame *frame) {
    struct amqp_method method;
    if (!amqp_method_read(frame->payload, &method)) {
        connection->method.class_id = method.class_id;
        connection->method.method_id = method.method_id;
        client_fail(connection, AMQP_SYNTAX_ERROR, "SYNTAX_ERROR - malformed method %s", amqp_method_name(method.kind));
        return;
    }
    bool is_connections = method.class_id == AMQP_CLASS_CONNECTION;
    if (method.kind == AMQP_UNKNOWN_METHOD) {
        client_fail(connection, AMQP_NOT_IMPLEMENTED, "NOT_IMPLEMENTED - unknown method %u.%u", method.class_id,
                    method.method_id);
    } else if (is_connections != (frame->channel == 0)) {
        client_fail(connection, AMQP_COMMAND_INVALID, "COMMAND_INVALID - method %s on channel %u",
                    amqp_method_name(method.kind), frame->channel);
    } else if (is_connections) {
        client_method(connection, &method, frame->payload);
    } else if (connection->phase == PHASE_RUNS) {
        channel_method(connection, frame->channel, &method, frame->payload);
    } else if (connection->phase != PHASE_CLOSING) {
        client_fail(connection, AMQP_COMMAND_INVALID, "COMMAND_INVALID - method %s before connection.open",
                    amqp_method_name(method.kind));
    }
}

static void handle_frame(struct amqp_connection *connection, const struct amqp_frame *frame) {
    if (frame->type == AMQP_FRAME_METHOD)
        method_frame(connection, frame);
    else if (frame->type == AMQP_FRAME_HEARTBEAT && frame->channel != 0)
        client_fail(connection, AMQP_FRAME_ERROR, "FRAME_ERROR - heartbeat on channel %u", frame->channel);
    else if (frame->type != AMQP_FRAME_HEARTBEAT && connection->phase == PHASE_RUNS)
        channel_content(connection, frame);
    else if (frame->type != AMQP_FRAME_HEARTBEAT && connection->phase < PHASE_RUNS)
        client_fail(connection, AMQP_UNEXPECTED_FRAME, "UNEXPECTED_FRAME - content before connection.open");
}

/* Reads the protocol header. Returns its size; 0: more bytes are needed. */
static size_t take_header(struct amqp_connection *connection, const uint8_t *bytes, size_t size) {
    size_t known = size < AMQP_HEADER_SIZE ? size : AMQP_HEADER_SIZE;
    if (memcmp(bytes, AMQP_HEADER, known) == 0 && known < AMQP_HEADER_SIZE) return 0;
    if (memcmp(bytes, AMQP_HEADER, known) == 0) {
        send_start(connection);
        return AMQP_HEADER_SIZE;
    }
    /* The reply is the protocol header of the version that this broker speaks. */
    amqp_put(&connection->out, AMQP_HEADER, AMQP_HEADER_SIZE);
    connection->phase = PHASE_OVER;
    client_send_out(connection);
    door_stream_finish(connection->server->door, connection->id);
    return size;
}

/* Handles one frame, or the protocol header. Returns its size; 0: more bytes are needed. */
static size_t take_one(struct amqp_connection *connection, const uint8_t *bytes, size_t size) {
    struct amqp_frame frame;
    size_t taken;
    if (connection->phase == PHASE_HEADER) return take_header(connection, bytes, size);
    uint32_t frame_max = connection->phase < PHASE_TUNE ? AMQP_FRAME_STRANGER_MAX : connection->frame_max;
    switch (amqp_frame_read((struct amqp_bytes){bytes, size}, frame_max, &frame, &taken)) {
    case AMQP_FRAME_PART:
        return 0;
    case AMQP_FRAME_WHOLE:
        handle_frame(connection, &frame);
        return taken;
    default:
        client_fail(connection, AMQP_FRAME_ERROR, "FRAME_ERROR - unknown type, more than %u bytes, or no frame end",
                    frame_max);
        connection->phase = PHASE_OVER; /* after a malformed frame, the start of the next one is unknown */
        door_stream_finish(connection->server->door, connection->id);
        return size;
    }
}

/* Handles received frames during one turn of the connection. Returns the number of consumed bytes. */
static size_t take_all(struct amqp_connection *connection, const uint8_t *bytes, size_t size) {
    struct door *door = connection->server->door;
    struct door_turn turn;
    size_t at = 0;
    if (!door_turn_begin(door, connection->id, &turn)) return 0;
    bool goes_on = true, is_part = false;
    while (goes_on && !is_part && at < size && may_go_on(connection)) {
        size_t taken = take_one(connection, bytes + at, size - at);
        is_part = taken == 0;
        at += taken;
        goes_on = door_turn_goes_on(&turn, taken);
    }
    outbox_flush(&connection->published);
    outbox_flush(&connection->settles);
    client_send_out(connection);
    door_turn_end(door, connection->id, &turn, !goes_on && !is_part && at < size);
    return at;
}

/* Counts the bytes of the input and of the commits that wait in this connection. Returns false if the memory limit is
 * reached. */
static bool count_waiting(struct amqp_connection *connection) {
    size_t waiting = connection->published.bytes + connection->settles.bytes + connection->transaction.bytes;
    if (connection->input != NULL) waiting += connection->input_size - connection->input_at;
    return connection->is_gone || door_stream_keep(connection->server->door, connection->id, waiting);
}

bool client_hold(struct amqp_connection *connection, int64_t bytes) {
    if (!door_stream_hold(connection->server->door, bytes)) return false;
    connection->held_bytes += bytes;
    return true;
}

static void drop_input(struct amqp_connection *connection) {
    free(connection->input);
    connection->input = NULL;
    connection->input_size = connection->input_at = 0;
}

static bool is_nothing_left(const struct amqp_connection *connection) {
    bool is_quiet = !connection->is_busy && outbox_is_idle(&connection->published);
    return is_quiet && (may_go_on(connection) || connection->phase >= PHASE_OVER);
}

/* Ends the connection if the client sends no more and all its complete frames are handled. The remaining input is then
 * a part of a frame. */
static void finish_if_done(struct amqp_connection *connection) {
    if (!connection->is_deaf || connection->is_running || connection->phase == PHASE_OVER) return;
    if (connection->phase >= PHASE_RUNS && !is_nothing_left(connection)) return;
    finish(connection);
}

static void client_run(struct amqp_connection *connection) {
    if (connection->is_running || connection->input == NULL || connection->is_gone) return;
    connection->is_running = true;
    connection->input_at +=
        take_all(connection, connection->input + connection->input_at, connection->input_size - connection->input_at);
    connection->is_running = false;
    const size_t left = connection->input_size - connection->input_at;
    if (left == 0 || connection->phase >= PHASE_OVER) drop_input(connection);
    if (!count_waiting(connection)) door_stream_kill(connection->server->door, connection->id);
    if (left < AMQP_INPUT_MAX) door_stream_pause(connection->server->door, connection->id, false);
    expect_heartbeat(connection);
}

/* Stores input that cannot be handled yet. Returns false if the memory limit is reached. */
static bool keep(struct amqp_connection *connection, const uint8_t *bytes, size_t size) {
    struct door *door = connection->server->door;
    size_t left = connection->input_size - connection->input_at;
    if (connection->input != NULL && connection->input_at > 0)
        memmove(connection->input, connection->input + connection->input_at, left);
    connection->input_size = left;
    connection->input_at = 0;
    uint8_t *input = realloc(connection->input, left + size);
    if (input == NULL) return false; /* the caller ends the connection, which frees the input */
    memcpy(input + left, bytes, size);
    connection->input = input;
    connection->input_size = left + size;
    door_stream_pause(door, connection->id, left + size >= AMQP_INPUT_MAX);
    return count_waiting(connection);
}

/* ---- the running method */

void op_try(struct amqp_connection *connection) {
    void (*op)(struct amqp_connection * connection) = connection->op;
    if (op == NULL || !outbox_is_idle(&connection->published) || !outbox_is_idle(&connection->settles)) return;
    connection->op = NULL;
    op(connection);
}

/* Frees a connection that has ended, once no other object refers to it. */
static void connection_free(struct amqp_connection *connection) {
    declare_forget(connection);
    free(connection->held);
    amqp_out_free(&connection->out);
    free(connection);
}

void op_end(struct amqp_connection *connection) {
    connection->is_busy = false;
    free(connection->held);
    connection->held = NULL;
    if (connection->is_gone) {
        connection_free(connection);
        return;
    }
    client_send_out(connection);
    client_run(connection);
    finish_if_done(connection);
}

void client_go_on(struct amqp_connection *connection) {
    client_send_out(connection);
    (void)count_waiting(connection); /* count_waiting cannot fail here, because fewer bytes wait than before */
    op_try(connection);
    client_run(connection);
    finish_if_done(connection);
}

/* ---- callbacks of the door */

static void *on_opened(void *argument, uint64_t id, const char *peer) {
    struct amqp *server = argument;
    struct amqp_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) return NULL;
    connection->server = server;
    connection->id = id;
    snprintf(connection->peer, sizeof(connection->peer), "%s", peer);
    TAILQ_INIT(&connection->channels);
    TAILQ_INIT(&connection->published.items);
    TAILQ_INIT(&connection->settles.items);
    TAILQ_INIT(&connection->transaction.items);
    TAILQ_INSERT_TAIL(&server->connections, connection, all);
    server->counts.connections++;
    door_stream_deadline(server->door, id, AMQP_HANDSHAKE_MS);
    return connection;
}

static void on_received(void *argument, const uint8_t *bytes, size_t size) {
    struct amqp_connection *connection = argument;
    size_t at = 0;
    if (connection->phase >= PHASE_OVER) return;
    forget_if_stale(connection->server);
    if (connection->input == NULL) {
        connection->is_running = true;
        at = take_all(connection, bytes, size);
        connection->is_running = false;
    }
    if (at < size && connection->phase < PHASE_OVER && !keep(connection, bytes + at, size - at)) {
        door_stream_kill(connection->server->door, connection->id);
        return;
    }
    if (at == 0) client_run(connection);
    if (!count_waiting(connection)) door_stream_kill(connection->server->door, connection->id);
    expect_heartbeat(connection);
}

static bool on_ended(void *argument) {
    struct amqp_connection *connection = argument;
    connection->is_deaf = true;
    finish_if_done(connection);
    return true;
}

static void on_drained(void *argument) {
    struct amqp_connection *connection = argument;
    client_run(connection);
    consumers_fetch(connection);
    finish_if_done(connection);
}

static void on_turn(void *argument) {
    struct amqp_connection *connection = argument;
    client_run(connection);
    finish_if_done(connection);
}

static void on_sent(void *argument, uint64_t stamp, bool left) {
    sending_sent((struct sending *)(uintptr_t)stamp, left);
}

static void on_gone(void *argument) {
    struct amqp_connection *connection = argument;
    struct amqp *server = connection->server;
    struct sending *sending;
    channels_end(connection);
    connection->is_gone = true;
    TAILQ_FOREACH(sending, &server->sendings, next) {
        // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
        if (sending->connection != connection) continue;
        sending->connection = NULL;
        /* A part of the message may already be in the kernel, and the client may read it. So the message's tasks count
         * as delivered (TRUE-1). */
        gateway_left(server->gateway, sending->lease, true);
    }
    /* The outcome of the transaction is unknown, so the messages that the client rejected in the transaction become
     * ready again. */
    unacked_committed(connection, false);
    outbox_end(&connection->published);
    outbox_end(&connection->settles);
    outbox_end(&connection->transaction);
    get_abandon(connection);
    if (connection->asked != 0) gateway_forget(server->gateway, connection->asked);
    if (connection->heartbeat_timer != 0) gateway_timer_cancel(server->gateway, connection->heartbeat_timer);
    if (connection->extend_timer != 0) gateway_timer_cancel(server->gateway, connection->extend_timer);
    drop_input(connection);
    (void)door_stream_keep(server->door, connection->id, 0);
    (void)door_stream_hold(server->door, -connection->held_bytes);
    channel_count_half(connection, connection->half_size, 0);
    TAILQ_REMOVE(&server->connections, connection, all);
    server->counts.connections--;
    server->counts.blocked -= connection->is_blocked;
    if (connection->has_exclusive) declare_drop_exclusive(server, connection->id);
    bool was_running = !store_cancel(&server->store, &connection->job);
    /* The method's job was running, but waits for a reply that is now forgotten, and has committed nothing. So the job
     * and the connection can be freed now. */
    if (was_running && connection->asked != 0) {
        store_leave(&server->store, &connection->job);
        was_running = false;
    }
    if (!was_running) connection_free(connection);
}

/* ---- the server */

struct amqp *amqp_new(struct gateway *gateway) {
    struct amqp *server = calloc(1, sizeof(*server));
    uint8_t random[(sizeof(server->id) - 1) / 2];
    if (server == NULL) return NULL;
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
    server->store = (struct store){.gateway = gateway, .loaded = on_loaded, .loaded_argument = server};
    TAILQ_INIT(&server->store.jobs);
    TAILQ_INIT(&server->connections);
    TAILQ_INIT(&server->sendings);
    TAILQ_INIT(&server->drops);
    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(server->id, sizeof(server->id), random, sizeof(random));
    server->mover = mover_new(server);
    if (server->mover != NULL) return server;
    free(server);
    return NULL;
}

void amqp_serve(struct amqp *server, struct door *door) {
    server->door = door;
}

void amqp_is_heard(struct amqp *server) {
    server->counts.is_heard = true;
    if (server->tick_timer == 0) server->tick_timer = gateway_timer(server->gateway, 1, on_tick, server);
}

const struct amqp_counts *amqp_counts(const struct amqp *server) {
    return &server->counts;
}

const struct door_stream_calls *amqp_calls(const struct amqp *server) {
    return &server->calls;
}

void amqp_free(struct amqp *server) {
    struct sending *sending;
    if (server == NULL) return;
    while ((sending = TAILQ_FIRST(&server->sendings)) != NULL) {
        TAILQ_REMOVE(&server->sendings, sending, next);
        free(sending);
    }
    drops_free(server);
    mover_free(server->mover);
    store_free(&server->store);
    free(server);
}
