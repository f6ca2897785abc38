/* text.h: growing output buffer, which is written in one piece.
 *
 * Without memory the process ends with an error message and status 1. Not thread-safe; one owner. */
#ifndef TARRY_TOOL_TEXT_H
#define TARRY_TOOL_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
    char *data; /* terminated only by text_str */
    size_t size;
    size_t capacity;
};

void text_deinit(struct text *text);
/* Reserves `size` more bytes and returns their address. The caller adds the used bytes to text->size. */
char *text_reserve(struct text *text, size_t size);
void text_add(struct text *text, const void *data, size_t size);
void text_add_str(struct text *text, const char *string);
void text_add_char(struct text *text, char character);
void text_add_u64(struct text *text, uint64_t number);
void text_add_repeat(struct text *text, char character, size_t count);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The contents as a terminated string; valid until the next change. */
const char *text_str(struct text *text);

/* malloc and strdup that never return NULL. */
_Noreturn void tool_out_of_memory(void);
void *tool_alloc(size_t size) __attribute__((returns_nonnull));
char *tool_strdup(const char *string) __attribute__((returns_nonnull));

#endif
