/* sign_key.c: see sign_key.h. */
#include "sign_key.h"

#include <assert.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SEED_SIZE 32u
#define HEX_SIZE (2 * SEED_SIZE + 1)

static const char secret_title[] = "tarry-secret-key 1\nid ";
static const char public_title[] = "tarry-public-key 1\nid ";
static const char secret_name[] = "\nsecret ";
static const char public_name[] = "\npublic ";

_Static_assert(crypto_sign_SEEDBYTES == SEED_SIZE && crypto_sign_PUBLICKEYBYTES == SIGN_PUBLIC_SIZE, "Ed25519");
_Static_assert(crypto_sign_SECRETKEYBYTES == SIGN_SECRET_SIZE, "Ed25519");
_Static_assert(sizeof(secret_title) + 16 + sizeof(secret_name) + 64 + 1 <= SIGN_KEY_TEXT_SIZE, "the text fits");

static void set_id(struct sign_public *public) {
    uint8_t hash[32];
    int failed = crypto_generichash(hash, sizeof(hash), public->bytes, sizeof(public->bytes), NULL, 0);
    assert(failed == 0); /* libsodium fails here only on wrong sizes */
    memcpy(public->id, hash, sizeof(public->id));
}

void sign_key_generate(struct sign_secret *out) {
    int failed = crypto_sign_keypair(out->public.bytes, out->bytes);
    assert(failed == 0);
    set_id(&out->public);
}

char *sign_key_id_format(const uint8_t id[SIGN_KEY_ID_SIZE], char out[SIGN_KEY_ID_TEXT_SIZE]) {
    return sodium_bin2hex(out, SIGN_KEY_ID_TEXT_SIZE, id, SIGN_KEY_ID_SIZE);
}

static size_t format(const char *title, const uint8_t id[SIGN_KEY_ID_SIZE], const char *name, const uint8_t *bytes,
                     char out[SIGN_KEY_TEXT_SIZE]) {
    char id_text[SIGN_KEY_ID_TEXT_SIZE], hex[HEX_SIZE];
    sodium_bin2hex(hex, sizeof(hex), bytes, SEED_SIZE);
    int size = snprintf(out, SIGN_KEY_TEXT_SIZE, "%s%s%s%s\n", title, sign_key_id_format(id, id_text), name, hex);
    sodium_memzero(hex, sizeof(hex));
    assert(size > 0 && (size_t)size < SIGN_KEY_TEXT_SIZE);
    return (size_t)size;
}

size_t sign_secret_format(const struct sign_secret *secret, char out[SIGN_KEY_TEXT_SIZE]) {
    return format(secret_title, secret->public.id, secret_name, secret->bytes, out);
}

size_t sign_public_format(const struct sign_public *public, char out[SIGN_KEY_TEXT_SIZE]) {
    return format(public_title, public->id, public_name, public->bytes, out);
}

/* Skips `text` if it is next. False: it is not. */
static bool take_text(const char **at, const char *end, const char *text) {
    size_t size = strlen(text);
    if ((size_t)(end - *at) < size || memcmp(*at, text, size) != 0) return false;
    *at += size;
    return true;
}

/* Reads `size` bytes as hexadecimal digits in lower case. */
static bool take_hex(const char **at, const char *end, uint8_t *out, size_t size) {
    size_t taken;
    if ((size_t)(end - *at) < 2 * size) return false;
    for (size_t i = 0; i < 2 * size; i++)
        if ((*at)[i] >= 'A' && (*at)[i] <= 'F') return false;
    if (sodium_hex2bin(out, size, *at, 2 * size, NULL, &taken, NULL) != 0 || taken != size) return false;
    *at += 2 * size;
    return true;
}

/* Parses the lines after the title. */
static const char *parse(const char *at, const char *end, const char *name, uint8_t id[SIGN_KEY_ID_SIZE],
                         uint8_t bytes[SEED_SIZE]) {
    bool is_whole = take_hex(&at, end, id, SIGN_KEY_ID_SIZE) && take_text(&at, end, name) &&
                    take_hex(&at, end, bytes, SEED_SIZE) && take_text(&at, end, "\n");
    if (!is_whole) return "is a key file of Tarry, but it was cut or edited";
    return at == end ? NULL : "is a key file of Tarry, but has extra bytes after its end";
}

static const char *no_key(const char *text, const char *end) {
    bool is_ours = take_text(&text, end, "tarry-secret-key ") || take_text(&text, end, "tarry-public-key ");
    return is_ours ? "is a key file of Tarry in a version that this program does not read"
                   : "is not a key file of Tarry";
}

const char *sign_secret_parse(const char *text, size_t size, struct sign_secret *out) {
    const char *at = text, *end = text + size;
    uint8_t seed[SEED_SIZE], id[SIGN_KEY_ID_SIZE];
    if (take_text(&at, end, public_title)) return "is a public key, but signing needs the secret key";
    if (!take_text(&at, end, secret_title)) return no_key(text, end);
    const char *problem = parse(at, end, secret_name, id, seed);
    if (problem == NULL) {
        int failed = crypto_sign_seed_keypair(out->public.bytes, out->bytes, seed);
        assert(failed == 0);
        set_id(&out->public);
        if (memcmp(id, out->public.id, sizeof(id)) != 0)
            problem = "has an id that does not match its key: it was edited";
    }
    sodium_memzero(seed, sizeof(seed));
    return problem;
}

const char *sign_public_parse(const char *text, size_t size, struct sign_public *out) {
    const char *at = text, *end = text + size;
    uint8_t id[SIGN_KEY_ID_SIZE];
    if (take_text(&at, end, secret_title)) return "is a secret key, but checking needs the public key (FILE.pub)";
    if (!take_text(&at, end, public_title)) return no_key(text, end);
    const char *problem = parse(at, end, public_name, id, out->bytes);
    if (problem != NULL) return problem;
    set_id(out);
    return memcmp(id, out->id, sizeof(id)) != 0 ? "has an id that does not match its key: it was edited" : NULL;
}
