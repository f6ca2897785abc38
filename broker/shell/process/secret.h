/* secret.h: a session's secret: its id and a keyed hash of it and of its principal, so that it is good for no other.
 * Nothing needs to be stored, so it can be checked after a restart too (Subscribe.resume). Pure, any thread. */
#ifndef TARRY_SHELL_SECRET_H
#define TARRY_SHELL_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "datadir.h"

#define SESSION_SECRET_SIZE                                                                                            \
    40 /* session id (u64 LE), BLAKE2b-256 of it and the principal's name, keyed by the directory's */

/* `principal`: PRINCIPAL_SIZE_MAX bytes at most; "": a local client. */
void secret_make(const uint8_t key[IDENTITY_SECRET_SIZE], uint64_t session, const char *principal,
                 uint8_t out[SESSION_SECRET_SIZE]);
/* The session that `secret` was made for; 0: it is not one of ours, or not the principal's. */
uint64_t secret_check(const uint8_t key[IDENTITY_SECRET_SIZE], const char *principal, const void *secret, size_t size);
/* The same, from the value of an Authorization header: `Bearer <hex>`. */
uint64_t secret_check_authorization(const uint8_t key[IDENTITY_SECRET_SIZE], const char *principal,
                                    const char *authorization);

#endif
