/* door_sp.c: the beginning of a connection over nng's own transports (proto/sp_frame.h): TCP, TLS, and IPC. It is a
 * byte-stream protocol that ends with the client's hello. A REQ client can then send requests, as at /rpc. A PULL
 * client gets a lane that a session attaches later (door_attach). door_ws.c serves both kinds of clients.
 *
 * The SP protocols let each side send a hello at once. But the door waits for the client's hello, because its own hello
 * must name the protocol that matches the client's. A client that waited for the door's hello would wait for ever, but
 * nng, nanomsg and mangos send first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "door_parts.h"

/* State of a connection whose client has not sent its whole hello. */
struct greeting {
    struct door *door;
    uint64_t id;
    size_t size;
    uint8_t bytes[SP_HELLO_SIZE];
};

enum sp_transport sp_transport_of(const struct connection *connection) {
    return connection->way == CALLER_UNIX ? SP_IPC : SP_TCP;
}

static void *opened(void *argument, uint64_t id, const char *peer) {
    struct greeting *greeting = calloc(1, sizeof(*greeting));
    (void)peer;
    if (greeting == NULL) return NULL;
    greeting->door = argument;
    greeting->id = id;
    door_stream_deadline(greeting->door, id, DOOR_HEAD_S * 1000);
    return greeting;
}

static void refuse(const struct greeting *greeting, unsigned status, const char *sentence) {
    door_stream_refused(greeting->door, greeting->id, status, sentence);
    door_stream_kill(greeting->door, greeting->id);
}

/* Changes the connection to SP messages in the next round. False: out of memory. */
static bool go_on(struct connection *connection, enum connection_kind kind, const uint8_t *behind, size_t size) {
    const struct upgrade upgrade = {.kind = kind, .framing = FRAMING_SP, .size = size};
    struct message *hello = message_new(SP_HELLO_SIZE);
    if (hello == NULL) return false;
    sp_hello_encode(kind == KIND_LANE ? SP_PROTOCOL_PUSH : SP_PROTOCOL_REP, hello->bytes);
    hello->kind = ORDER_CONTROL;
    io_queue(connection, hello);
    return upgrade_begin(connection, &upgrade, behind);
}

static void greeted(const struct greeting *greeting, const uint8_t *behind, size_t size) {
    char sentence[CALLER_SENTENCE_MAX];
    struct connection *connection = connection_find(greeting->door, greeting->id);
    struct caller_verdict verdict = {0};
    int protocol = sp_hello_decode(greeting->bytes);
    if (protocol != SP_PROTOCOL_REQ && protocol != SP_PROTOCOL_PULL) {
        snprintf(sentence, sizeof(sentence), "the client's SP protocol is %d: the broker serves REQ (48) and PULL (81)",
                 protocol);
        refuse(greeting, 404, sentence);
        return;
    }
    /* A PULL client is admitted when a session attaches its lane. Until then its connection counts as not admitted
     * (DOOR_HTTP_MAX). */
    if (protocol == SP_PROTOCOL_REQ) verdict = connection_admit(connection, CALLER_RPC, "/rpc", 0, "", 0);
    if (verdict.status != 0)
        refuse(greeting, verdict.status, verdict.sentence);
    else if (!go_on(connection, protocol == SP_PROTOCOL_REQ ? KIND_RPC : KIND_LANE, behind, size))
        connection_kill(connection);
}

static void received(void *argument, const uint8_t *bytes, size_t size) {
    struct greeting *greeting = argument;
    size_t missing = SP_HELLO_SIZE - greeting->size, taken = size < missing ? size : missing;
    memcpy(greeting->bytes + greeting->size, bytes, taken);
    greeting->size += taken;
    if (!sp_hello_begins(greeting->bytes, greeting->size))
        refuse(greeting, 400, "the client does not speak nng's SP protocols, which this address expects");
    else if (greeting->size == SP_HELLO_SIZE)
        greeted(greeting, bytes + taken, size - taken);
}

static void gone(void *argument) {
    free(argument);
}

void sp_init(struct door *door) {
    door->sp = (struct door_stream_calls){.argument = door, .opened = opened, .received = received, .gone = gone};
}

const struct door_stream_calls *door_sp_calls(const struct door *door) {
    return &door->sp;
}
