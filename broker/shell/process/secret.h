/* secret.h: the secret of a session: its id and a keyed hash of the id and of its principal, so that no other principal
 * can use it. The broker stores nothing, so it can check the secret after a restart too (Subscribe.resume). Pure, any
 * thread. */
#ifndef TARRY_SHELL_SECRET_H
#define TARRY_SHELL_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "datadir.h"

#define SESSION_SECRET_SIZE                                                                                            \
    40 /* session id (u64 LE), then BLAKE2b-256 of it and the principal's name, keyed by the directory's secret */

/* Makes a secret. `principal` has at most PRINCIPAL_SIZE_MAX bytes; "" means a local client. */
void secret_make(const uint8_t key[IDENTITY_SECRET_SIZE], uint64_t session, const char *principal,
                 uint8_t out[SESSION_SECRET_SIZE]);
/* Returns the session of `secret`; 0 if the secret was not made by this broker or not for this principal. */
uint64_t secret_check(const uint8_t key[IDENTITY_SECRET_SIZE], const char *principal, const void *secret, size_t size);
/* Returns the session whose secret is in the value of an Authorization header: `Bearer <hex>`. Returns 0 like
 * secret_check. */
uint64_t secret_check_authorization(const uint8_t key[IDENTITY_SECRET_SIZE], const char *principal,
                                    const char *authorization);

#endif
