/* talk.h: questions to the other node before this one runs: one after another, and whoever asks waits.
 *
 * Thread-safety: one owner. */
#ifndef TARRY_SHELL_PAIR_TALK_H
#define TARRY_SHELL_PAIR_TALK_H

#include <pthread.h>
#include <stdbool.h>

#include "asker.h"
#include "peer_proof.h"
#include "tarry.pb-c.h"

#define TALK_UNPROVED_SIZE 512

struct talk {
    struct asker *line;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct message *answer; /* to the question under way; NULL: none came */
    bool answered;
    const char *url;
    const struct peer_key *key;
    struct peer_asker asker;
    char unproved[TALK_UNPROVED_SIZE]; /* what the last answer lacked, if it came from who knows who; else empty */
};

/* `url` is the other broker's; it and the key must live as long as this, and this must stay where it is. 0 or a
 * positive errno. */
int talk_open(struct talk *talk, const char *url, const struct peer_key *key, const struct asker_papers *papers);
void talk_close(struct talk *talk);
/* A request of this broker's; its body is the caller's to put in. */
Tarry__Request talk_request(Tarry__Request__BodyCase body);
/* The other node's answer, tarry__reply__free_unpacked's; NULL: none came in time, or one that makes no sense, or it is
 * not proved that it is the other node's. */
Tarry__Reply *talk_ask(struct talk *talk, const Tarry__Request *request);
/* Why there was no answer, in words: nobody listens there, or who does is no tarryd, or not the other node. A second at
 * most. */
void talk_why(const struct talk *talk, char *out, size_t size);
/* Waits a moment. True: SIGTERM or SIGINT, which are blocked, has come: the process is to end. */
bool talk_pause(void);

#endif
