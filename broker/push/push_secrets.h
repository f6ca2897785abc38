/* push_secrets.h: the private file with the secrets that sign webhooks (--push-secrets), and the signature. Pure.
 *
 *   close-order whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
 *   reminders   whsec_NEW… whsec_OLD…
 *
 * A line has a queue's name and one or two secrets; in the name, blank, `%` and `#` are written %XX. With two secrets
 * each request has a signature by each, so that a receiver may know either one. Empty lines and lines that begin with #
 * are ignored. One invalid line makes the whole file invalid. */
#ifndef TARRY_PUSH_PUSH_SECRETS_H
#define TARRY_PUSH_PUSH_SECRETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry_limits.h"

#define PUSH_SECRETS_FILE_MAX (256u << 10) /* maximum size of the file of secrets, in bytes */
#define PUSH_SECRETS_MESSAGE_SIZE 200u
#define PUSH_SECRET_SIZE_MIN 24u /* minimum and maximum size of a key in bytes (Standard Webhooks) */
#define PUSH_SECRET_SIZE_MAX 64u
#define PUSH_SECRETS_EACH 2u
/* Size of the signatures: for each secret `v1,` and 44 base64 digits, a blank between, and a terminator. */
#define PUSH_SIGNATURE_SIZE (PUSH_SECRETS_EACH * (3u + 44u + 1u))

struct push_key {
    uint8_t bytes[PUSH_SECRET_SIZE_MAX];
    size_t size;
};

struct push_secret {
    char queue[QUEUE_NAME_SIZE_MAX + 1];
    struct push_key keys[PUSH_SECRETS_EACH]; /* if there are two keys, the new key is the first */
    size_t count;
};

struct push_secrets {
    struct push_secret *items; /* owned */
    size_t count;
};

/* Parses the file. Returns 0, or 1 with a sentence that names the line and contains no secret. In both cases the caller
 * must call push_secrets_deinit. */
int push_secrets_parse(const char *text, size_t size, struct push_secrets *out,
                       char message[PUSH_SECRETS_MESSAGE_SIZE]);
/* Wipes and frees the secrets. */
void push_secrets_deinit(struct push_secrets *secrets);
/* Returns NULL if the queue has no secret. */
const struct push_secret *push_secrets_find(const struct push_secrets *secrets, const char *queue);
/* Parses one key: `whsec_` and base64. False: invalid. */
bool push_key_parse(const char *text, size_t size, struct push_key *out);
/* Writes the value of webhook-signature: HMAC-SHA256 of `id.timestamp.body`, by each key. */
void push_sign(const struct push_secret *secret, const char *id, uint64_t timestamp_s, const void *body, size_t size,
               char out[PUSH_SIGNATURE_SIZE]);

#endif
