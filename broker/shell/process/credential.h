/* credential.h: files with secrets that a systemd unit hands over (LoadCredential=NAME:FILE). They lie in the directory
 * $CREDENTIALS_DIRECTORY, which the unit's user alone can read, whoever owns the originals. Any thread. */
#ifndef TARRY_SHELL_CREDENTIAL_H
#define TARRY_SHELL_CREDENTIAL_H

#include <stdbool.h>
#include <stddef.h>

#define CREDENTIAL_PATH_SIZE 1024

/* The path of the credential with this name. False: there is none, or `size` is too small; `out` is left alone. */
bool credential_find(const char *name, char *out, size_t size);
/* Whether `path` names a file in that directory. */
bool credential_is(const char *path);

#endif
