/* check_text.h: what check.c and check_op.c share. Private to proto. */
#ifndef TARRY_PROTO_CHECK_TEXT_H
#define TARRY_PROTO_CHECK_TEXT_H

#include <stddef.h>

enum text_kind {
    TEXT_PLAIN,   /* UTF-8 without control characters */
    TEXT_CONTROL, /* UTF-8 with control characters (C0, DEL, C1), none of them NUL */
    TEXT_NUL,     /* UTF-8 with a NUL */
    TEXT_BROKEN,  /* not UTF-8 */
};

enum text_kind check_text(const void *text, size_t size);

/* Refusals that mean TOO_LARGE, recognised by their address. */
extern const char check_name_long[];
extern const char check_key_long[];

#endif
