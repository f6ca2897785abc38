/* private.h: files that only their owner may read: tokens and keys. */
#ifndef TARRY_PRIVATE_H
#define TARRY_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#define TOKEN_SIZE_MAX 255u
/* Bytes that a file of certificates or keys may have. */
#define PEM_FILE_MAX (1u << 20)

/* Whether the file may be read whole: a regular one of at most PEM_FILE_MAX bytes. It is read for each connection, so a
 * FIFO would serve one of them only, and /dev/zero would never end. False: `said` says what is wrong, of `what`. */
bool pem_check(const char *path, const char *what, char *said, size_t size);

/* Is it a file that its owner alone may read? False: `said` says what is wrong, of `what`. */
bool private_check(const char *path, const char *what, char *said, size_t size);
/* The token in a file: one word of printable ASCII, and nothing else but an end of line. False: `said` says why there
 * is none. */
bool private_read_token(const char *path, char out[TOKEN_SIZE_MAX + 1], char *said, size_t size);

#endif
