/* push_secrets.h: the secrets that webhooks are signed with, as a private file (--push-secrets), and the signature.
 * Pure.
 *
 *   close-order whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
 *   reminders   whsec_NEW… whsec_OLD…
 *
 * A line has a queue's name, written with %XX for a blank, `%` and `#`, and one or two secrets; while there are two
 * each request bears a signature by either, so that a receiver may have the one or the other. Empty lines and those
 * that begin with # are comments. What is not understood makes the whole file wrong. */
#ifndef TARRY_PUSH_PUSH_SECRETS_H
#define TARRY_PUSH_PUSH_SECRETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry_limits.h"

#define PUSH_SECRETS_FILE_MAX (256u << 10) /* bytes */
#define PUSH_SECRETS_MESSAGE_SIZE 200u
#define PUSH_SECRET_SIZE_MIN 24u /* bytes of the key, as the scheme has it */
#define PUSH_SECRET_SIZE_MAX 64u
#define PUSH_SECRETS_EACH 2u
/* `v1,` and 44 digits for each, a blank between, a terminator. */
#define PUSH_SIGNATURE_SIZE (PUSH_SECRETS_EACH * (3u + 44u + 1u))

struct push_key {
    uint8_t bytes[PUSH_SECRET_SIZE_MAX];
    size_t size;
};

struct push_secret {
    char queue[QUEUE_NAME_SIZE_MAX + 1];
    struct push_key keys[PUSH_SECRETS_EACH]; /* the new one first */
    size_t count;
};

struct push_secrets {
    struct push_secret *items; /* owned */
    size_t count;
};

/* 0, or 1 with a sentence that names the line, and no byte of a secret. `out` is to be given to push_secrets_deinit in
 * both cases. */
int push_secrets_parse(const char *text, size_t size, struct push_secrets *out,
                       char message[PUSH_SECRETS_MESSAGE_SIZE]);
/* Wipes them. */
void push_secrets_deinit(struct push_secrets *secrets);
/* NULL: the queue has none. */
const struct push_secret *push_secrets_find(const struct push_secrets *secrets, const char *queue);
/* One key: `whsec_` and base64. False: it is none. */
bool push_key_parse(const char *text, size_t size, struct push_key *out);
/* The value of webhook-signature: HMAC-SHA256 of `id.timestamp.body` by each key. */
void push_sign(const struct push_secret *secret, const char *id, uint64_t timestamp_s, const void *body, size_t size,
               char out[PUSH_SIGNATURE_SIZE]);

#endif
