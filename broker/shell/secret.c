/* secret.c: see secret.h. */
#include "secret.h"

#include <sodium.h>
#include <string.h>
#include <strings.h>

#include "bytes.h"

#define MAC_SIZE 32

void secret_make(const uint8_t key[IDENTITY_SECRET_SIZE], uint64_t session, uint8_t out[SESSION_SECRET_SIZE]) {
    put_u64(out, session);
    crypto_generichash(out + 8, MAC_SIZE, out, 8, key, IDENTITY_SECRET_SIZE);
}

uint64_t secret_check(const uint8_t key[IDENTITY_SECRET_SIZE], const void *secret, size_t size) {
    uint8_t right[SESSION_SECRET_SIZE];
    if (size != SESSION_SECRET_SIZE) return 0;
    uint64_t session = get_u64(secret);
    secret_make(key, session, right);
    return sodium_memcmp(right, secret, size) == 0 ? session : 0;
}

uint64_t secret_check_authorization(const uint8_t key[IDENTITY_SECRET_SIZE], const char *authorization) {
    static const char scheme[] = "Bearer ";
    uint8_t secret[SESSION_SECRET_SIZE];
    size_t size = 0;
    if (strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0) return 0;
    const char *hex = authorization + sizeof(scheme) - 1, *end = NULL;
    if (strlen(hex) != 2 * sizeof(secret)) return 0;
    if (sodium_hex2bin(secret, sizeof(secret), hex, strlen(hex), NULL, &size, &end) != 0) return 0;
    return secret_check(key, secret, size);
}
