/* token_file.h: the text format of the token file. `tarry token` writes the file, tarryd reads it. Pure.
 *
 *   tarry-tokens 1
 *   token shop roles=produce,read hash=<64 hexadecimal digits> queue=orders. queue=mail. expires=1798761600 rate=500
 *   certificate worker-1.example.org roles=consume
 *   loopback loopback roles=read
 *
 * The first line is the format and its version. A row has a kind, a name, and fields NAME=VALUE, separated by single
 * blanks. A token under renewal has two rows with one name, equal but for hash and expiry; the row of the former token
 * expires. A principal with `roles=none` may do nothing. In a queue prefix, blanks, control characters, `%` and DEL are
 * written %XX. Lines that begin with # are comments, which `tarry token` does not keep. One invalid field makes the
 * whole file invalid, because a part of the file could grant other rights than the operator meant. */
#ifndef TARRY_ACCESS_TOKEN_FILE_H
#define TARRY_ACCESS_TOKEN_FILE_H

#include "access.h"

#define TOKEN_FILE_SIZE_MAX (4u << 20)
#define TOKEN_FILE_MESSAGE_SIZE 300

struct token_file {
    struct access_entry *entries; /* owned */
    size_t count;
};

/* Parses the file. Returns 0, or 1 with a sentence that names the line. */
int token_file_parse(const char *text, size_t size, struct token_file *out, char message[TOKEN_FILE_MESSAGE_SIZE]);
/* Returns the text, which the caller frees with free(). NULL: out of memory. */
char *token_file_format(const struct token_file *file, size_t *out_size);
void token_file_deinit(struct token_file *file);
/* Number of rows that a token may have: the former token and its successor. */
#define TOKEN_ROWS_MAX 2u

/* Adds an entry and takes ownership of its contents. Returns 0, or 1 with a sentence: the name exists and this is no
 * renewal of its token, too many entries, or out of memory. */
int token_file_add(struct token_file *file, const struct access_entry *entry, char message[TOKEN_FILE_MESSAGE_SIZE]);
/* Renews the token of a principal: its present row expires at `former_until_s` at the latest, and a row with `hash` and
 * `expires_s` (0: never) is added; a row that has expired is removed. Returns 0, or 1 with a sentence. */
int token_file_renew(struct token_file *file, const char *name, const uint8_t hash[ACCESS_HASH_SIZE],
                     uint64_t expires_s, uint64_t former_until_s, uint64_t now_s,
                     char message[TOKEN_FILE_MESSAGE_SIZE]);
/* Removes all entries with this name. False: no such entry. */
bool token_file_remove(struct token_file *file, const char *name);
/* Adds a queue prefix. False: out of memory. */
bool access_entry_add_prefix(struct access_entry *entry, const char *prefix, size_t size);
const char *access_kind_name(enum access_kind kind);

#endif
