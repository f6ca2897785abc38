/* token_file.h: the file of tokens, as text. `tarry token` writes it, tarryd reads it. Pure.
 *
 *   tarry-tokens 1
 *   token shop roles=produce,read hash=<64 hexadecimal digits> queue=orders. queue=mail. expires=1798761600 rate=500
 *   certificate worker-1.example.org roles=consume
 *   loopback loopback roles=read
 *
 * The first line is the format and its version. A row has a kind, a name, and fields NAME=VALUE between single blanks;
 * `roles=none` is a principal that may do nothing. In a queue prefix, bytes up to the blank, `%` and DEL are written
 * %XX. Lines that begin with # are comments, which `tarry token` does not keep. What is not understood, down to one
 * field, makes the whole file wrong: half of it would be another one than was meant. */
#ifndef TARRY_ACCESS_TOKEN_FILE_H
#define TARRY_ACCESS_TOKEN_FILE_H

#include "access.h"

#define TOKEN_FILE_SIZE_MAX (4u << 20)
#define TOKEN_FILE_MESSAGE_SIZE 300

struct token_file {
    struct access_entry *entries; /* owned */
    size_t count;
};

/* 0, or 1 with a sentence that names the line. */
int token_file_parse(const char *text, size_t size, struct token_file *out, char message[TOKEN_FILE_MESSAGE_SIZE]);
/* The text, for free(). NULL: no memory. */
char *token_file_format(const struct token_file *file, size_t *out_size);
void token_file_deinit(struct token_file *file);
/* 0, or 1 with a sentence: there is one of that name, or too many, or no memory. Takes the entry's contents over. */
int token_file_add(struct token_file *file, const struct access_entry *entry, char message[TOKEN_FILE_MESSAGE_SIZE]);
/* False: there is none of that name. */
bool token_file_remove(struct token_file *file, const char *name);
/* Adds a prefix. False: no memory. */
bool access_entry_add_prefix(struct access_entry *entry, const char *prefix, size_t size);
const char *access_kind_name(enum access_kind kind);

#endif
