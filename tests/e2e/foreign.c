/* foreign.c: a client that does not use libtarry. It uses nng's REQ and PULL sockets and the messages of tarry.proto,
 * as proto/WIRE.md describes them. Run by foreign_test.py.
 *
 *     foreign URL QUEUE KEY PAYLOAD_SIZE [TOKEN [CA]]     schedules a task, has it delivered on a lane, acks it
 *
 * URL: ws://, wss://, tcp://, tls+tcp:// or ipc://. CA: a file with the authority of a broker over TLS, whose
 * certificate must have the name in URL (no address). Over tls+tcp:// TOKEN is a file with the client's certificate and
 * key.
 * Prints a line for each step that succeeded; exits with 1 at the first step that did not. */
#include <nng/nng.h>
#include <nng/protocol/pipeline0/pull.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/tls/tls.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tarry.pb-c.h"
#include "tarry_limits.h"

#define PATIENCE_MS 20000
#define HEADER_MAX 1024
#define HOST_MAX 255

__attribute__((format(printf, 1, 2))) static _Noreturn void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    exit(1);
}

static void must(int rv, const char *what) {
    if (rv != 0) fail("%s: %s", what, nng_strerror(rv));
}

static const char *authority; /* file with the authority of the broker's certificate; NULL: no TLS */

/* Returns whether the URL's transport has paths, as WebSocket does. The other transports are nng's own. */
static bool has_paths(const char *url) {
    return strncmp(url, "ws", 2) == 0;
}

static void secure(nng_dialer dialer, const char *url, const char *own) {
    nng_tls_config *config;
    char name[HOST_MAX + 1];
    if (sscanf(url, "wss://%255[^:/]", name) != 1 && sscanf(url, "tls+tcp://%255[^:/]", name) != 1)
        fail("%s: a CA is for wss://NAME and tls+tcp://NAME", url);
    must(nng_tls_config_alloc(&config, NNG_TLS_MODE_CLIENT), "TLS");
    must(nng_tls_config_auth_mode(config, NNG_TLS_AUTH_MODE_REQUIRED), "TLS");
    must(nng_tls_config_server_name(config, name), "TLS");
    must(nng_tls_config_ca_file(config, authority), authority);
    if (own != NULL) must(nng_tls_config_cert_key_file(config, own, NULL), own);
    must(nng_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, config), "TLS");
    nng_tls_config_free(config);
}

static void dial(nng_socket socket, const char *url, const char *bearer) {
    nng_dialer dialer;
    char header[HEADER_MAX];
    must(nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, PATIENCE_MS), "RECVTIMEO");
    must(nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, 64u << 20), "RECVMAXSZ");
    must(nng_dialer_create(&dialer, socket, url), url);
    snprintf(header, sizeof(header), "Authorization: Bearer %s", bearer);
    if (bearer[0] != 0 && has_paths(url))
        must(nng_dialer_set_string(dialer, NNG_OPT_WS_REQUEST_HEADERS, header), "headers");
    if (authority != NULL) secure(dialer, url, has_paths(url) ? NULL : bearer);
    must(nng_dialer_start(dialer, 0), url);
}

static Tarry__Reply *ask(nng_socket socket, Tarry__Request *request) {
    nng_msg *message;
    request->version = WIRE_VERSION;
    request->client = (char *)"foreign";
    must(nng_msg_alloc(&message, tarry__request__get_packed_size(request)), "memory");
    tarry__request__pack(request, nng_msg_body(message));
    must(nng_sendmsg(socket, message, 0), "send");
    must(nng_recvmsg(socket, &message, 0), "receive");
    Tarry__Reply *reply = tarry__reply__unpack(NULL, nng_msg_len(message), nng_msg_body(message));
    nng_msg_free(message);
    if (reply == NULL) fail("an answer that is no Reply");
    if (reply->code != TARRY__CODE__OK) fail("refused: %d %s", (int)reply->code, reply->message);
    return reply;
}

static uint64_t greet(nng_socket rpc) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Hello hello = TARRY__HELLO__INIT;
    request.body_case = TARRY__REQUEST__BODY_HELLO;
    request.hello = &hello;
    Tarry__Reply *reply = ask(rpc, &request);
    const uint64_t producer = reply->hello->producer;
    tarry__reply__free_unpacked(reply, NULL);
    return producer;
}

static void commit(nng_socket rpc, uint64_t producer, uint64_t sequence, Tarry__Op *op) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Commit body = TARRY__COMMIT__INIT;
    body.producer = producer;
    body.sequence = body.oldest_unanswered = sequence;
    body.n_ops = 1;
    body.ops = &op;
    request.body_case = TARRY__REQUEST__BODY_COMMIT;
    request.commit = &body;
    Tarry__Reply *reply = ask(rpc, &request);
    if (reply->commit->n_results != 1 || reply->commit->results[0]->code != TARRY__CODE__OK)
        fail("commit %d", (int)sequence);
    tarry__reply__free_unpacked(reply, NULL);
}

static void schedule(nng_socket rpc, uint64_t producer, char **arguments) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Schedule schedule = TARRY__SCHEDULE__INIT;
    Tarry__Content content = TARRY__CONTENT__INIT;
    content.payload.len = strtoul(arguments[2], NULL, 10);
    content.payload.data = malloc(content.payload.len + 1);
    if (content.payload.data == NULL) fail("memory");
    memset(content.payload.data, 'x', content.payload.len);
    const size_t size = tarry__content__get_packed_size(&content);
    uint8_t *packed = malloc(size + 1);
    if (packed == NULL) fail("memory");
    tarry__content__pack(&content, packed);
    schedule.queue = arguments[0];
    schedule.key = (ProtobufCBinaryData){strlen(arguments[1]), (uint8_t *)arguments[1]};
    schedule.content = (ProtobufCBinaryData){size, packed};
    Tarry__When when = TARRY__WHEN__INIT;
    when.kind = TARRY__WHEN__KIND__DELAY;
    when.ms = 50;
    schedule.when = &when;
    op.op_case = TARRY__OP__OP_SCHEDULE;
    op.schedule = &schedule;
    commit(rpc, producer, 1, &op);
    free(content.payload.data);
    free(packed);
}

static Tarry__Delivery *receive(nng_socket lane) {
    nng_msg *message;
    must(nng_recvmsg(lane, &message, 0), "receive on the lane");
    Tarry__Delivery *delivery = tarry__delivery__unpack(NULL, nng_msg_len(message), nng_msg_body(message));
    nng_msg_free(message);
    if (delivery == NULL) fail("a message on the lane that is no Delivery");
    return delivery;
}

/* Dials without a path, and attaches the connection to the session by the ticket that the broker sends on the
 * connection. */
static void attach(nng_socket rpc, nng_socket lane, const char *url, const char *own,
                   const Tarry__SubscribeReply *session) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Attach body = TARRY__ATTACH__INIT;
    dial(lane, url, own);
    Tarry__Delivery *first = receive(lane);
    body.ticket = first->ticket;
    body.lane = session->lane;
    body.secret = session->secret;
    request.body_case = TARRY__REQUEST__BODY_ATTACH;
    request.attach = &body;
    tarry__reply__free_unpacked(ask(rpc, &request), NULL);
    tarry__delivery__free_unpacked(first, NULL);
}

/* Subscribes and connects the lane. Returns the session. `own`: the client's certificate, over tls+tcp://. */
static uint64_t subscribe(nng_socket rpc, nng_socket lane, const char *url, char *queue, const char *own) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Subscribe body = TARRY__SUBSCRIBE__INIT;
    char lane_url[URL_SIZE_MAX + 32], secret[HEADER_MAX / 2] = "";
    body.n_queues = 1;
    body.queues = &queue;
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    request.subscribe = &body;
    Tarry__Reply *reply = ask(rpc, &request);
    const ProtobufCBinaryData bytes = reply->subscribe->secret;
    const uint64_t session = reply->subscribe->session;
    snprintf(lane_url, sizeof(lane_url), "%s/lane/%u", url, reply->subscribe->lane);
    for (size_t i = 0; i < bytes.len && i < sizeof(secret) / 2 - 1; i++)
        snprintf(secret + 2 * i, 3, "%02x", bytes.data[i]);
    if (has_paths(url))
        dial(lane, lane_url, secret);
    else
        attach(rpc, lane, url, own, reply->subscribe);
    tarry__reply__free_unpacked(reply, NULL);
    return session;
}

static void ack(nng_socket rpc, uint64_t producer, const Tarry__DeliveredTask *task) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Ack body = TARRY__ACK__INIT;
    body.id = task->id;
    body.token = task->token;
    op.op_case = TARRY__OP__OP_ACK;
    op.ack = &body;
    commit(rpc, producer, 2, &op);
}

int main(int argc, char **argv) {
    nng_socket rpc, lane;
    char url[URL_SIZE_MAX + 32];
    if (argc < 5) fail("usage: foreign URL QUEUE KEY PAYLOAD_SIZE [TOKEN [CA]]");
    if (argc > 6) authority = argv[6];
    must(nng_req0_open(&rpc), "REQ");
    must(nng_pull0_open(&lane), "PULL");
    snprintf(url, sizeof(url), "%s%s", argv[1], has_paths(argv[1]) ? "/rpc" : "");
    dial(rpc, url, argc > 5 ? argv[5] : "");
    const uint64_t producer = greet(rpc);
    printf("greeted\n");
    const uint64_t session = subscribe(rpc, lane, argv[1], argv[2], argc > 5 ? argv[5] : "");
    schedule(rpc, producer, argv + 2);
    printf("scheduled\n");
    Tarry__Delivery *delivery = receive(lane);
    if (delivery->n_tasks != 1) fail("a delivery of another number of tasks");
    const Tarry__DeliveredTask *task = delivery->tasks[0];
    if (delivery->session != session) fail("a delivery of another session");
    printf("delivered %s %.*s %zu\n", task->queue, (int)task->key.len, (const char *)task->key.data, task->content.len);
    ack(rpc, producer, task);
    printf("acked\n");
    tarry__delivery__free_unpacked(delivery, NULL);
    nng_close(lane);
    nng_close(rpc);
    return 0;
}
