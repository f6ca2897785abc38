/* talk.c: see talk.h. */
#include "talk.h"

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

#include "knock.h"
#include "listen.h"
#include "tarry_limits.h"

#define ASK_MS 5000
#define PAUSE_MS 200
#define WHY_MS 1000
/* Once with the challenge of a broker that was started since, and once more if it was started again just then. */
#define CHALLENGES_MAX 3
#define ANSWER_SIZE_MAX (BACKUP_READ_MAX + (1u << 20))

/* On the asker's thread. */
static void on_answer(void *argument, struct message *answer) {
    struct talk *talk = argument;
    pthread_mutex_lock(&talk->mutex);
    talk->answer = answer;
    talk->answered = true;
    pthread_cond_signal(&talk->changed);
    pthread_mutex_unlock(&talk->mutex);
}

int talk_open(struct talk *talk, const char *url, const struct peer_key *key, const struct asker_papers *papers) {
    struct listen_address address;
    const char *problem;
    *talk = (struct talk){.url = url, .key = key};
    if (!listen_parse_peer(url, &address, &problem)) return EINVAL;
    pthread_mutex_init(&talk->mutex, NULL);
    pthread_cond_init(&talk->changed, NULL);
    return asker_open(&talk->line, &address, papers, ANSWER_SIZE_MAX, on_answer, talk);
}

void talk_close(struct talk *talk) {
    asker_close(talk->line);
    message_free(talk->answer);
    talk->line = NULL;
    talk->answer = NULL;
}

Tarry__Request talk_request(Tarry__Request__BodyCase body) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.version = WIRE_VERSION;
    request.client = "tarryd";
    request.body_case = body;
    return request;
}

/* One request and what comes back, whoever sent it; NULL: nothing did. */
static struct message *exchange(struct talk *talk, const Tarry__Request *request) {
    size_t size = tarry__request__get_packed_size(request) + PEER_REQUEST_TRAILER_SIZE;
    struct message *message = message_new(size);
    if (message == NULL) return NULL;
    tarry__request__pack(request, message->bytes);
    peer_prove_request(talk->key, &talk->asker, message->bytes, size);
    talk->answered = false;
    asker_ask(talk->line, message, ASK_MS);
    pthread_mutex_lock(&talk->mutex);
    while (!talk->answered) pthread_cond_wait(&talk->changed, &talk->mutex);
    struct message *answer = talk->answer;
    talk->answer = NULL;
    pthread_mutex_unlock(&talk->mutex);
    return answer;
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
        struct message *answer = exchange(talk, request);
        again = false;
        if (answer == NULL) break;
        const uint8_t *data = message_data(answer);
        size_t size = message_size(answer);
        if (peer_check_reply(talk->key, &talk->asker, data, size) == PEER_RIGHT)
            reply = tarry__reply__unpack(NULL, size, data);
        else
            again = hear_unproved(talk, data, size);
        message_free(answer);
    }
    if (reply != NULL) talk->unproved[0] = '\0';
    return reply;
}

/* TLS 1.3 tells who connects only by a closed connection that his certificate is not taken. */
static const char unanswered_over_tls[] =
    "somebody listens there, and no tarryd answers over TLS: each node's certificate must be of the other's "
    "--tls-peer-ca and name the address by which it is reached";

void talk_why(const struct talk *talk, char *out, size_t size) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct listen_address address;
    char port[8];
    const char *problem;
    if (talk->unproved[0] != '\0') {
        snprintf(out, size, "%s", talk->unproved);
        return;
    }
    if (!listen_parse_peer(talk->url, &address, &problem)) {
        snprintf(out, size, "%s", problem);
        return;
    }
    snprintf(port, sizeof(port), "%u", address.port);
    int unknown = getaddrinfo(address.host, port, &hints, &found);
    int error = unknown == 0 ? knock_once(found, WHY_MS) : 0;
    if (unknown == 0) freeaddrinfo(found);
    snprintf(out, size, "%s",
             unknown != 0                   ? gai_strerror(unknown)
             : error != 0                   ? strerror(error)
             : address.scheme == LISTEN_WSS ? unanswered_over_tls
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
