/* nng_consumer.c: a consumer without libtarry: nng's REQ and PULL sockets and the messages of tarry.proto. It
 * subscribes to a queue, prints each task and acks it. A task whose ack is missing is delivered again (proto/WIRE.md).
 *
 *     protoc-c --proto_path=/usr/share/tarry --c_out=. tarry.proto
 *     cc nng_consumer.c tarry.pb-c.c -o nng_consumer -lnng -lprotobuf-c
 *     ./nng_consumer tcp://127.0.0.1:7272 close-order [COUNT]       or ws://, ipc:///PATH … */
#include <nng/nng.h>
#include <nng/protocol/pipeline0/pull.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>

#include "tarry.pb-c.h"

#define BASE(name) .base = PROTOBUF_C_MESSAGE_INIT(&tarry__##name##__descriptor)
#define BODY(kind, name) .body_case = TARRY__REQUEST__BODY_##kind, .name = &(name)
#define REQUEST(kind, name) (&(const Tarry__Request){BASE(request), .version = 1, BODY(kind, name)})

static void must(int error, const char *what) {
    if (error == 0) return;
    fprintf(stderr, "nng_consumer: %s: %s\n", what, nng_strerror(error));
    exit(1);
}

/* Sends a request and returns its reply, whose code is OK. */
static Tarry__Reply *ask(nng_socket rpc, const Tarry__Request *request) {
    nng_msg *message;
    must(nng_msg_alloc(&message, tarry__request__get_packed_size(request)), "memory");
    tarry__request__pack(request, nng_msg_body(message));
    must(nng_sendmsg(rpc, message, 0), "request");
    must(nng_recvmsg(rpc, &message, 0), "reply");
    Tarry__Reply *reply = tarry__reply__unpack(NULL, nng_msg_len(message), nng_msg_body(message));
    nng_msg_free(message);
    if (reply != NULL && reply->code == TARRY__CODE__OK) return reply;
    fprintf(stderr, "nng_consumer: refused: %s\n", reply != NULL ? reply->message : "not a Reply");
    exit(1);
}

/* Does the work, then acks the task. Work that takes as long as SubscribeReply.silence_ms needs a thread of its own. */
static void handle(nng_socket rpc, uint64_t producer, uint64_t sequence, const Tarry__DeliveredTask *task) {
    Tarry__Content *content = tarry__content__unpack(NULL, task->content.len, task->content.data);
    printf("%.*s %.*s\n", (int)task->key.len, task->key.data, (int)content->payload.len, content->payload.data);
    tarry__content__free_unpacked(content, NULL);
    Tarry__Ack ack = {BASE(ack), .id = task->id, .token = task->token};
    Tarry__Op op = {BASE(op), .op_case = TARRY__OP__OP_ACK, .ack = &ack}, *ops[] = {&op};
    Tarry__Commit commit = {BASE(commit), producer, sequence, sequence, .n_ops = 1, .ops = ops};
    Tarry__Reply *reply = ask(rpc, REQUEST(COMMIT, commit));
    if (reply->commit->results[0]->code != TARRY__CODE__OK) fprintf(stderr, "%s\n", reply->commit->results[0]->message);
    tarry__reply__free_unpacked(reply, NULL);
}

int main(int argc, char **argv) {
    nng_socket rpc, lane;
    char rpc_url[600], lane_url[600];
    if (argc < 3) return fprintf(stderr, "usage: nng_consumer URL QUEUE [COUNT]\n"), 2;
    setvbuf(stdout, NULL, _IOLBF, 0); /* write each line at once, so that a task is printed before it is acknowledged */
    must(nng_req0_open(&rpc), "REQ"), must(nng_pull0_open(&lane), "PULL");
    must(nng_socket_set_ms(rpc, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE), "resend time");
    must(nng_socket_set_ms(rpc, NNG_OPT_RECVTIMEO, 10000), "time limit");
    must(nng_socket_set_size(lane, NNG_OPT_RECVMAXSZ, 64 << 20), "size limit");
    const int has_paths = argv[1][0] == 'w'; /* with ws:// and wss://, the URL needs a path */
    snprintf(rpc_url, sizeof(rpc_url), "%s%s", argv[1], has_paths ? "/rpc" : "");
    snprintf(lane_url, sizeof(lane_url), "%s%s", argv[1], has_paths ? "/lane" : "");
    must(nng_dial(rpc, rpc_url, NULL, 0), rpc_url);
    must(nng_dial(lane, lane_url, NULL, 0), lane_url);
    Tarry__Hello hello = {BASE(hello)};
    Tarry__Subscribe subscribe = {BASE(subscribe), .n_queues = 1, .queues = &argv[2]};
    Tarry__Heartbeat heartbeat = {BASE(heartbeat)};
    const uint64_t producer = ask(rpc, REQUEST(HELLO, hello))->hello->producer;
    for (uint64_t sequence = 0, count = argc > 3 ? strtoul(argv[3], NULL, 10) : UINT64_MAX; sequence < count;) {
        nng_msg *message;
        if (heartbeat.session != 0) tarry__reply__free_unpacked(ask(rpc, REQUEST(HEARTBEAT, heartbeat)), NULL);
        const int error = nng_recvmsg(lane, &message, 0);
        if (error == NNG_ETIMEDOUT) continue; /* the next heartbeat keeps the session alive */
        must(error, "lane");
        Tarry__Delivery *delivery = tarry__delivery__unpack(NULL, nng_msg_len(message), nng_msg_body(message));
        if (delivery->ticket.len > 0) { /* the first message: this connection becomes the lane of a session */
            const Tarry__SubscribeReply *session = ask(rpc, REQUEST(SUBSCRIBE, subscribe))->subscribe;
            Tarry__Attach attach = {BASE(attach), delivery->ticket, session->lane, session->secret};
            tarry__reply__free_unpacked(ask(rpc, REQUEST(ATTACH, attach)), NULL);
            heartbeat.session = session->session;
            must(nng_socket_set_ms(lane, NNG_OPT_RECVTIMEO, (nng_duration)session->silence_ms / 3), "time limit");
        }
        for (size_t i = 0; i < delivery->n_tasks && sequence < count; i++)
            handle(rpc, producer, ++sequence, delivery->tasks[i]);
        tarry__delivery__free_unpacked(delivery, NULL);
        nng_msg_free(message);
    }
    return 0;
}
