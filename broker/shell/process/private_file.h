/* private_file.h: reads a small file that holds a secret, and refuses one that others can read. Leaves no copy of it
 * but the caller's. Any thread. */
#ifndef TARRY_SHELL_PRIVATE_FILE_H
#define TARRY_SHELL_PRIVATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct private_file {
    const char *what; /* it is, for sentences: "sign key" */
    const char *path;
    const char *option; /* that names the file, without dashes; a credential (below) is named so too: "sign-key" */
    const char *remedy; /* where there is no such file: "; tarry keygen makes one" */
};

/* Up to `size` bytes; how many there are: `*out_size`. 0, or 1 with a sentence. */
int private_file_read(const struct private_file *file, void *out, size_t size, size_t *out_size, char *message,
                      size_t message_size);

#define PRIVATE_FILE_TEXT_MAX 1025u
/* Takes what it needs of the text into `out`. NULL, or what is wrong with it, behind the file's name: "is empty". */
typedef const char *(*private_file_take)(void *out, const uint8_t *text, size_t size);
/* Up to `size` bytes, PRIVATE_FILE_TEXT_MAX at most, for `take`: one more than are allowed, so that it sees that there
 * are too many. Leaves no copy but what `take` has made. 0, or 1 with a sentence. */
int private_file_use(const struct private_file *file, size_t size, private_file_take take, void *out, char *message,
                     size_t message_size);

/* ---- credentials: files with secrets that a systemd unit hands over (LoadCredential=NAME:FILE). They lie in the
 * directory $CREDENTIALS_DIRECTORY, which the unit's user alone can read, whichever user owns the originals. Any
 * thread. */
#define CREDENTIAL_PATH_SIZE 1024

/* The path of the credential with this name. False: there is none, or `size` is too small; `out` is left alone. */
bool credential_find(const char *name, char *out, size_t size);
/* Whether `path` names a file in that directory. */
bool credential_is(const char *path);

#endif
