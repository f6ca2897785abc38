/* talk.c: see talk.h. */
#include "talk.h"

#include <errno.h>
#include <netdb.h>
#include <nng/protocol/reqrep0/req.h>
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

#define ASK_MS 5000
#define PAUSE_MS 200
#define WHY_MS 1000
/* Once with the challenge of a broker that was started since, and once more if it was started again just then. */
#define CHALLENGES_MAX 3
#define ANSWER_SIZE_MAX (BACKUP_READ_MAX + (1u << 20))

int talk_open(struct talk *talk, const char *url, const struct peer_key *key) {
    char address[URL_SIZE_MAX + 8];
    talk->url = url;
    talk->key = key;
    talk->asker = (struct peer_asker){0};
    talk->unproved[0] = '\0';
    snprintf(address, sizeof(address), "%s/rpc", url);
    int error = nng_req0_open(&talk->socket);
    if (error == 0) error = nng_socket_set_ms(talk->socket, NNG_OPT_SENDTIMEO, ASK_MS);
    if (error == 0) error = nng_socket_set_ms(talk->socket, NNG_OPT_RECVTIMEO, ASK_MS);
    if (error == 0) error = nng_socket_set_size(talk->socket, NNG_OPT_RECVMAXSZ, ANSWER_SIZE_MAX);
    if (error == 0) error = nng_dial(talk->socket, address, NULL, NNG_FLAG_NONBLOCK);
    return error;
}

Tarry__Request talk_request(Tarry__Request__BodyCase body) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.version = WIRE_VERSION;
    request.client = "tarryd";
    request.body_case = body;
    return request;
}

/* One request and what comes back, whoever sent it; NULL: nothing did. */
static nng_msg *exchange(struct talk *talk, const Tarry__Request *request) {
    nng_msg *message = NULL, *answer = NULL;
    size_t size = tarry__request__get_packed_size(request) + PEER_REQUEST_TRAILER_SIZE;
    if (nng_msg_alloc(&message, size) != 0) return NULL;
    tarry__request__pack(request, nng_msg_body(message));
    peer_prove_request(talk->key, &talk->asker, nng_msg_body(message), size);
    if (nng_sendmsg(talk->socket, message, 0) != 0) {
        nng_msg_free(message);
        return NULL;
    }
    return nng_recvmsg(talk->socket, &answer, 0) == 0 ? answer : NULL;
}

/* True: there is a challenge to be met. */
static bool hear_unproved(struct talk *talk, const void *data, size_t size) {
    Tarry__Reply *reply = size <= PEER_REFUSAL_SIZE_MAX ? tarry__reply__unpack(NULL, size, data) : NULL;
    bool is_challenged = reply != NULL && peer_learn(&talk->asker, reply->challenge.data, reply->challenge.len);
    bool is_refusal = reply != NULL && reply->message[0] != '\0';
    snprintf(talk->unproved, sizeof(talk->unproved),
             "it does not prove by the peer key that it is the other node%s%.400s", is_refusal ? ", and says: " : "",
             is_refusal ? reply->message : "");
    if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
    return is_challenged;
}

Tarry__Reply *talk_ask(struct talk *talk, const Tarry__Request *request) {
    Tarry__Reply *reply = NULL;
    bool again = false;
    talk->unproved[0] = '\0';
    for (int i = 0; i == 0 || (again && i < CHALLENGES_MAX); i++) {
        nng_msg *answer = exchange(talk, request);
        again = false;
        if (answer == NULL) break;
        const uint8_t *data = nng_msg_body(answer);
        size_t size = nng_msg_len(answer);
        if (peer_check_reply(talk->key, &talk->asker, data, size) == PEER_RIGHT)
            reply = tarry__reply__unpack(NULL, size, data);
        else
            again = hear_unproved(talk, data, size);
        nng_msg_free(answer);
    }
    if (reply != NULL) talk->unproved[0] = '\0';
    return reply;
}

/* 0 or an errno. */
static int try_connection(const struct addrinfo *to) {
    int error = 0;
    socklen_t size = sizeof(error);
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS)
        error = errno;
    else if (poll(&ready, 1, WHY_MS) <= 0)
        error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    close(fd);
    return error;
}

void talk_why(const struct talk *talk, char *out, size_t size) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct listen_address address;
    char port[8];
    const char *problem;
    if (talk->unproved[0] != '\0') {
        snprintf(out, size, "%s", talk->unproved);
        return;
    }
    if (!listen_parse(talk->url, &address, &problem)) {
        snprintf(out, size, "%s", problem);
        return;
    }
    snprintf(port, sizeof(port), "%u", address.port);
    int unknown = getaddrinfo(address.host, port, &hints, &found);
    int error = unknown == 0 ? try_connection(found) : 0;
    if (unknown == 0) freeaddrinfo(found);
    snprintf(out, size, "%s",
             unknown != 0 ? gai_strerror(unknown)
             : error != 0 ? strerror(error)
                          : "somebody listens there, and does not answer as a tarryd does");
}

bool talk_pause(void) {
    sigset_t signals;
    struct timespec wait = {.tv_nsec = PAUSE_MS * 1000000l};
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    return sigtimedwait(&signals, NULL, &wait) > 0;
}
