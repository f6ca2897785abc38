/* push_sender.h: the thread that sends webhook requests, many at once, over connections that are kept open. It takes
 * jobs and returns them with their results. A slow target delays neither other targets nor other threads: libcurl's
 * threads resolve names, and each request has a timeout.
 *
 * Thread-safety: the thread that starts and stops the broker calls new and free; the desk's thread calls post and take.
 */
#ifndef TARRY_PUSH_PUSH_SENDER_H
#define TARRY_PUSH_PUSH_SENDER_H

#include <stddef.h>

#include "push_address.h"
#include "push_request.h"

/* Maximum bytes of a response body; beyond it the connection is closed. The body is not stored. */
#define PUSH_ANSWER_MAX (64u << 10)
/* Maximum bytes of all response headers. */
#define PUSH_HEAD_MAX (32u << 10)
/* Maximum delay that Retry-After may request; a longer one is reduced to this. */
#define PUSH_LATER_MAX_MS (24ull * 3600 * 1000)
/* Maximum age of a connection; a new one resolves the name again. */
#define PUSH_CONNECTION_MAX_S 300
/* Interval at which the file of secrets is read again while there are jobs. */
#define PUSH_SECRETS_MS 1000u

struct push_sender_options {
    struct push_allowed allowed;
    const char *ca;         /* PEM file of CAs; "": the CAs of this host; must outlive the sender */
    const char *version;    /* tarryd's version; must outlive the sender */
    uint8_t cluster[8];     /* start of the cluster's id; distinguishes this broker's tasks from those of others */
    size_t connections_max; /* maximum number of connections kept open */
    uint64_t connect_ms;    /* connection timeout */
    void *argument;
    /* Reads the file of secrets. Returns 0, or 1 with a sentence. Called on the sender's thread. */
    int (*read_secrets)(void *argument, char *out, size_t size, size_t *out_size, char *message, size_t message_size);
    /* Reports finished jobs, see push_sender_take. Called on any thread, even from within push_sender_post. */
    void (*done)(void *argument);
};

struct push_sender;

/* Returns NULL when out of memory or without a thread. */
struct push_sender *push_sender_new(const struct push_sender_options *options);
void push_sender_post(struct push_sender *sender, struct push_job *job);
/* Returns whether the file of secrets had a secret for the queue when it was last read. If that was more than a second
 * ago, also requests a new read, whose result the next call returns. With MISSING, `reason` is a sentence. Any thread.
 */
enum push_secret_state { PUSH_SECRET_UNKNOWN, PUSH_SECRET_PRESENT, PUSH_SECRET_MISSING };
enum push_secret_state push_sender_secret(struct push_sender *sender, const char *queue, char reason[PUSH_REASON_SIZE]);
/* Appends the finished jobs to `out`. */
void push_sender_take(struct push_sender *sender, struct push_job_list *out);
/* Aborts running requests and ends the thread. After this call `done` is called only from within push_sender_post. */
void push_sender_stop(struct push_sender *sender);
/* Frees the sender, and stops it first if push_sender_stop was not called. Appends all jobs of the sender to `out`. */
void push_sender_free(struct push_sender *sender, struct push_job_list *out);

#endif
