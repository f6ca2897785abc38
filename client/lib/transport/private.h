/* private.h: files that only their owner may read: tokens and keys. */
#ifndef TARRY_PRIVATE_H
#define TARRY_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#define TOKEN_SIZE_MAX 255u

/* Is it a file that its owner alone may read? False: `said` says what is wrong, of `what`. */
bool private_check(const char *path, const char *what, char *said, size_t size);
/* The token in a file: one word of printable ASCII, and nothing else but an end of line. False: `said` says why there
 * is none. */
bool private_read_token(const char *path, char out[TOKEN_SIZE_MAX + 1], char *said, size_t size);

#endif
