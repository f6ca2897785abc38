/* sign_key.h: Ed25519 keys that sign heads of the log (head.h), stored as text files. storage/FORMAT.md describes
 * them for users.
 *
 *   tarry-secret-key 1             tarry-public-key 1
 *   id 0123456789abcdef            id 0123456789abcdef
 *   secret <64 hex digits>         public <64 hex digits>
 *
 * The id is the first 8 bytes of BLAKE2b-256 of the public key. `secret` is the seed of RFC 8032. Each line ends
 * with a line feed, hexadecimal digits are in lower case, and the file contains nothing else. No I/O. The caller
 * keeps secrets in memory that libsodium protects, and wipes the buffers from which it read them. */
#ifndef TARRY_PROTO_SIGN_KEY_H
#define TARRY_PROTO_SIGN_KEY_H

#include <stddef.h>
#include <stdint.h>

#define SIGN_KEY_ID_SIZE 8u
#define SIGN_PUBLIC_SIZE 32u
#define SIGN_SECRET_SIZE 64u /* size of a secret key in libsodium's form: seed and public key */
#define SIGN_KEY_ID_TEXT_SIZE (2 * SIGN_KEY_ID_SIZE + 1)
/* Buffer size that is enough for the text of any key file with a final 0. */
#define SIGN_KEY_TEXT_SIZE 128u

struct sign_public {
    uint8_t id[SIGN_KEY_ID_SIZE];
    uint8_t bytes[SIGN_PUBLIC_SIZE];
};

struct sign_secret {
    struct sign_public public;
    uint8_t bytes[SIGN_SECRET_SIZE];
};

void sign_key_generate(struct sign_secret *out);

/* Write the text of a key file with a final 0. Return its length in bytes. */
size_t sign_secret_format(const struct sign_secret *secret, char out[SIGN_KEY_TEXT_SIZE]);
size_t sign_public_format(const struct sign_public *public, char out[SIGN_KEY_TEXT_SIZE]);

/* Parse a key file. Return NULL on success, or the error as a phrase that begins with a verb ("is …"), for a caller
 * that writes the file's name before it. After an error `out` is invalid. */
const char *sign_secret_parse(const char *text, size_t size, struct sign_secret *out);
const char *sign_public_parse(const char *text, size_t size, struct sign_public *out);

/* Writes the id as 16 hexadecimal digits. Returns `out`. */
char *sign_key_id_format(const uint8_t id[SIGN_KEY_ID_SIZE], char out[SIGN_KEY_ID_TEXT_SIZE]);

#endif
