/* secret.c: see secret.h. */
#include "secret.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>
#include <strings.h>

#include "bytes.h"
#include "tarry_limits.h"

#define MAC_SIZE 32

void secret_make(const uint8_t key[IDENTITY_SECRET_SIZE], uint64_t session, const char *principal,
                 uint8_t out[SESSION_SECRET_SIZE]) {
    uint8_t text[8 + PRINCIPAL_SIZE_MAX];
    size_t size = strlen(principal);
    assert(size <= PRINCIPAL_SIZE_MAX);
    put_u64(text, session);
    memcpy(text + 8, principal, size);
    memcpy(out, text, 8);
    crypto_generichash(out + 8, MAC_SIZE, text, 8 + size, key, IDENTITY_SECRET_SIZE);
}

uint64_t secret_check(const uint8_t key[IDENTITY_SECRET_SIZE], const char *principal, const void *secret, size_t size) {
    uint8_t right[SESSION_SECRET_SIZE];
    if (size != SESSION_SECRET_SIZE) return 0;
    uint64_t session = get_u64(secret);
    secret_make(key, session, principal, right);
    return sodium_memcmp(right, secret, size) == 0 ? session : 0;
}

uint64_t secret_check_authorization(const uint8_t key[IDENTITY_SECRET_SIZE], const char *principal,
                                    const char *authorization) {
    static const char scheme[] = "Bearer ";
    uint8_t secret[SESSION_SECRET_SIZE];
    size_t size = 0;
    if (strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0) return 0;
    const char *hex = authorization + sizeof(scheme) - 1, *end = NULL;
    if (strlen(hex) != 2 * sizeof(secret)) return 0;
    if (sodium_hex2bin(secret, sizeof(secret), hex, strlen(hex), NULL, &size, &end) != 0) return 0;
    return secret_check(key, principal, secret, size);
}
