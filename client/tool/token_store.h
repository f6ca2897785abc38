/* token_store.h: the file of tokens on disk. A change replaces the whole file, so that tarryd reads the old or the
 * new file and never a part. The file's directory is locked during a change: one `tarry token` at a time. */
#ifndef TARRY_TOOL_TOKEN_STORE_H
#define TARRY_TOOL_TOKEN_STORE_H

#include <stdbool.h>
#include <sys/types.h>

#include "token_file.h"

struct token_store {
    const char *path;
    struct token_file file;
    bool exists;
    uid_t owner; /* user and group for a new file: the existing file's, or the directory's if root creates the file */
    gid_t group;
    int directory; /* descriptor of the directory; -1: not open */
};

/* Reads `path`, which must outlive the store. `must_exist`: a missing file is an error, otherwise it is empty.
 * `writes`: locks the file until token_store_close. 0, or an exit status after an error message. */
int token_store_open(struct token_store *store, const char *path, bool must_exist, bool writes);
/* Writes the file; durable on return. 0, or an exit status after an error message; then the old file stays. */
int token_store_write(const struct token_store *store);
void token_store_close(struct token_store *store);

#endif
