/* private_file.h: reads a small file that contains a secret, and refuses a file that others can read. Only the caller
 * gets a copy of the secret. Any thread. */
#ifndef TARRY_SHELL_PRIVATE_FILE_H
#define TARRY_SHELL_PRIVATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct private_file {
    const char *what; /* noun for error messages: "sign key" */
    const char *path;
    /* Option that names the file, without dashes ("sign-key"); also the name of the systemd credential. */
    const char *option;
    const char *remedy; /* advice if the file does not exist: "; tarry keygen makes one" */
};

/* Reads up to `size` bytes and sets `*out_size` to their number. Returns 0, or 1 with an error message. */
int private_file_read(const struct private_file *file, void *out, size_t size, size_t *out_size, char *message,
                      size_t message_size);

#define PRIVATE_FILE_TEXT_MAX 1025u
/* Parses the text into `out`. Returns NULL, or the error to print after the file's name: "is empty". */
typedef const char *(*private_file_take)(void *out, const uint8_t *text, size_t size);
/* Reads up to `size` bytes and passes them to `take`. `size` is the maximum size of a valid file plus 1, so that `take`
 * can detect a longer file; at most PRIVATE_FILE_TEXT_MAX. Only `take` may keep a copy. Returns 0, or 1 with an error
 * message. */
int private_file_use(const struct private_file *file, size_t size, private_file_take take, void *out, char *message,
                     size_t message_size);

/* ---- credentials: files with secrets from a systemd unit (LoadCredential=NAME:FILE). They are in
 * $CREDENTIALS_DIRECTORY. Only the unit's user can read it, whichever user owns the originals. Any thread. */
#define CREDENTIAL_PATH_SIZE 1024

/* Finds the path of the credential `name`. Returns false, with `out` unchanged, if it does not exist or `size` is too
 * small. */
bool credential_find(const char *name, char *out, size_t size);
/* Returns whether `path` names a file in the directory of systemd's credentials. */
bool credential_is(const char *path);

#endif
