/* private.h: reads files with tokens and keys, which must be unreadable for other users. */
#ifndef TARRY_PRIVATE_H
#define TARRY_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#define TOKEN_SIZE_MAX 255u
/* Size limit of a file with certificates or keys, in bytes. */
#define PEM_FILE_MAX (1u << 20)

/* True: the path is a regular file of at most PEM_FILE_MAX bytes. Reason: the file is read for each connection, and
 * a FIFO can be read once, while /dev/zero never ends. False: `said` has the error about `what`. */
bool pem_check(const char *path, const char *what, char *said, size_t size);

/* True: only the owner may read the file. False: `said` has the error about `what`. */
bool private_check(const char *path, const char *what, char *said, size_t size);
/* Reads a token from a file: one word of printable ASCII, with an optional line end. False: `said` has the error. */
bool private_read_token(const char *path, char out[TOKEN_SIZE_MAX + 1], char *said, size_t size);

#endif
