/* token_store.h: the file of tokens on disk: read by whoever may, written anew as a whole, so that tarryd finds the old
 * one or the new one and never a part. One `tarry token` at a time: the file's directory is locked meanwhile. */
#ifndef TARRY_TOOL_TOKEN_STORE_H
#define TARRY_TOOL_TOKEN_STORE_H

#include <stdbool.h>
#include <sys/types.h>

#include "token_file.h"

struct token_store {
    const char *path;
    struct token_file file;
    bool exists;
    uid_t owner; /* of the file there is, or of the directory if root makes it: the new one has the same */
    gid_t group;
    int directory; /* -1: not open */
};

/* Reads `path`, which must stay. `must_exist`: no file is an error, else an empty one. `writes`: it is locked until
 * token_store_close. 0, or an exit status after a sentence. */
int token_store_open(struct token_store *store, const char *path, bool must_exist, bool writes);
/* Durable when it returns. 0, or an exit status after a sentence; the old file stays then. */
int token_store_write(const struct token_store *store);
void token_store_close(struct token_store *store);

#endif
