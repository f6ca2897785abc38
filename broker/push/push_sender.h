/* push_sender.h: the thread that has the connections. It takes jobs, makes requests of them, many at once, over
 * connections that are kept, and gives the jobs back with what became of them. Nothing that a target does holds up
 * another one, or any other thread: names are resolved by threads of libcurl's, and each request has its time.
 *
 * Thread-safety: new and free by the thread that starts and stops the broker; post and take by the desk's thread. */
#ifndef TARRY_PUSH_PUSH_SENDER_H
#define TARRY_PUSH_PUSH_SENDER_H

#include <stddef.h>

#include "push_address.h"
#include "push_job.h"

/* Of an answer: what is more is not read, and the connection closed. Its body is not kept. */
#define PUSH_ANSWER_MAX (64u << 10)
/* … of all its heads. */
#define PUSH_HEAD_MAX (32u << 10)
/* What Retry-After may ask for; more is taken for this. */
#define PUSH_LATER_MAX_MS (24ull * 3600 * 1000)
/* A connection is used for so long: then the name is resolved anew. */
#define PUSH_CONNECTION_MAX_S 300
/* How often the file of secrets is read anew, if there is anything to send. */
#define PUSH_SECRETS_MS 1000u

struct push_sender_options {
    struct push_allowed allowed;
    const char *ca;         /* PEM file; "": the CAs that this host trusts; must stay */
    const char *version;    /* of tarryd; must stay */
    uint8_t cluster[8];     /* what tells the tasks of this broker from those of others */
    size_t connections_max; /* kept */
    uint64_t connect_ms;    /* a connection takes no longer */
    void *argument;
    /* The text of the file of secrets. 0, or 1 with a sentence. On the sender's thread. */
    int (*read_secrets)(void *argument, char *out, size_t size, size_t *out_size, char *message, size_t message_size);
    /* Some jobs are done: push_sender_take. On any thread, and may be within push_sender_post. */
    void (*done)(void *argument);
};

struct push_sender;

/* NULL: no memory, or no thread. */
struct push_sender *push_sender_new(const struct push_sender_options *options);
void push_sender_post(struct push_sender *sender, struct push_job *job);
/* Adds those that are done to the end of `out`. */
void push_sender_take(struct push_sender *sender, struct push_job_list *out);
/* Breaks off what is under way; `done` is called no more, but from within push_sender_post. */
void push_sender_stop(struct push_sender *sender);
/* After push_sender_stop, or instead of it. All jobs that it had: into `out`. */
void push_sender_free(struct push_sender *sender, struct push_job_list *out);

#endif
