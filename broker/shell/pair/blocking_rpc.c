/* blocking_rpc.c: see blocking_rpc.h. */
#include "blocking_rpc.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "listen.h"
#include "tarry_limits.h"
#include "tcp_check.h"

#define ASK_MS 5000
#define PAUSE_MS 200
#define WHY_MS 1000
/* Maximum number of attempts. If the other broker has restarted, its answer to the first attempt contains its new
 * challenge, and the second attempt uses it. The third attempt is needed if the broker restarts between the first two.
 */
#define CHALLENGES_MAX 3
#define ANSWER_SIZE_MAX (BACKUP_READ_MAX + (1u << 20))

/* Receives an answer. Called on the RPC client's thread. */
static void on_answer(void *argument, struct message *answer) {
    struct blocking_rpc *blocking_rpc = argument;
    pthread_mutex_lock(&blocking_rpc->mutex);
    blocking_rpc->answer = answer;
    blocking_rpc->answered = true;
    pthread_cond_signal(&blocking_rpc->changed);
    pthread_mutex_unlock(&blocking_rpc->mutex);
}

int blocking_rpc_open(struct blocking_rpc *blocking_rpc, const char *url, const struct peer_key *key,
                      const struct peer_credentials *credentials) {
    struct listen_address address;
    const char *problem;
    *blocking_rpc = (struct blocking_rpc){.url = url, .key = key};
    if (!listen_parse_peer(url, &address, &problem)) return EINVAL;
    pthread_mutex_init(&blocking_rpc->mutex, NULL);
    pthread_cond_init(&blocking_rpc->changed, NULL);
    return rpc_client_open(&blocking_rpc->line, &address, credentials, ANSWER_SIZE_MAX, on_answer, blocking_rpc);
}

void blocking_rpc_close(struct blocking_rpc *blocking_rpc) {
    rpc_client_close(blocking_rpc->line);
    message_free(blocking_rpc->answer);
    blocking_rpc->line = NULL;
    blocking_rpc->answer = NULL;
}

Tarry__Request blocking_rpc_request(Tarry__Request__BodyCase body) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.version = WIRE_VERSION;
    request.client = "tarryd";
    request.body_case = body;
    return request;
}

/* Sends one request. Returns the answer of any process that listens there; NULL: no answer. */
static struct message *exchange(struct blocking_rpc *blocking_rpc, const Tarry__Request *request) {
    size_t size = tarry__request__get_packed_size(request) + PEER_REQUEST_TRAILER_SIZE;
    struct message *message = message_new(size);
    if (message == NULL) return NULL;
    tarry__request__pack(request, message->bytes);
    peer_prove_request(blocking_rpc->key, &blocking_rpc->requester, message->bytes, size);
    blocking_rpc->answered = false;
    rpc_client_ask(blocking_rpc->line, message, ASK_MS);
    pthread_mutex_lock(&blocking_rpc->mutex);
    while (!blocking_rpc->answered) pthread_cond_wait(&blocking_rpc->changed, &blocking_rpc->mutex);
    struct message *answer = blocking_rpc->answer;
    blocking_rpc->answer = NULL;
    pthread_mutex_unlock(&blocking_rpc->mutex);
    return answer;
}

/* Handles an answer without proof. Returns true if it has a new challenge, so that the request can be repeated. */
static bool hear_unproved(struct blocking_rpc *blocking_rpc, const void *data, size_t size) {
    Tarry__Reply *reply = size <= PEER_REFUSAL_SIZE_MAX ? tarry__reply__unpack(NULL, size, data) : NULL;
    bool is_challenged =
        reply != NULL && peer_learn(&blocking_rpc->requester, reply->challenge.data, reply->challenge.len);
    bool is_refusal = reply != NULL && reply->message[0] != '\0';
    snprintf(blocking_rpc->unproved, sizeof(blocking_rpc->unproved),
             "the server there did not prove with the peer key that it is the other node%s%.400s",
             is_refusal ? "; its message: " : "", is_refusal ? reply->message : "");
    if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
    return is_challenged;
}

Tarry__Reply *blocking_rpc_ask(struct blocking_rpc *blocking_rpc, const Tarry__Request *request) {
    Tarry__Reply *reply = NULL;
    bool again = false;
    blocking_rpc->unproved[0] = '\0';
    for (int i = 0; i == 0 || (again && i < CHALLENGES_MAX); i++) {
        struct message *answer = exchange(blocking_rpc, request);
        again = false;
        if (answer == NULL) break;
        const uint8_t *data = message_data(answer);
        size_t size = message_size(answer);
        if (peer_check_reply(blocking_rpc->key, &blocking_rpc->requester, data, size) == PEER_RIGHT)
            reply = tarry__reply__unpack(NULL, size, data);
        else
            again = hear_unproved(blocking_rpc, data, size);
        message_free(answer);
    }
    if (reply != NULL) blocking_rpc->unproved[0] = '\0';
    return reply;
}

/* With TLS 1.3, a client whose certificate was refused learns that only from the closed connection. */
static const char unanswered_over_tls[] =
    "a server listens there, but no tarryd answers over TLS: a CA in the other node's --tls-peer-ca must have signed "
    "each node's certificate, and the certificate must name the node's address";

void blocking_rpc_why(const struct blocking_rpc *blocking_rpc, char *out, size_t size) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct listen_address address;
    char port[8];
    const char *problem;
    if (blocking_rpc->unproved[0] != '\0') {
        snprintf(out, size, "%s", blocking_rpc->unproved);
        return;
    }
    if (!listen_parse_peer(blocking_rpc->url, &address, &problem)) {
        snprintf(out, size, "%s", problem);
        return;
    }
    snprintf(port, sizeof(port), "%u", address.port);
    int unknown = getaddrinfo(address.host, port, &hints, &found);
    int error = unknown == 0 ? tcp_check_once(found, WHY_MS) : 0;
    if (unknown == 0) freeaddrinfo(found);
    snprintf(out, size, "%s",
             unknown != 0                   ? gai_strerror(unknown)
             : error != 0                   ? strerror(error)
             : address.scheme == LISTEN_WSS ? unanswered_over_tls
                                            : "a server listens there, but does not answer like a tarryd");
}

bool blocking_rpc_pause(void) {
    sigset_t signals;
    struct timespec wait = {.tv_nsec = PAUSE_MS * 1000000l};
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    return sigtimedwait(&signals, NULL, &wait) > 0;
}
