/* text.h: a text that grows while it is written. Not thread-safe; one owner.
 *
 * All zero: an empty text in memory of malloc. Without memory, and beyond `size_max`, the text is lost and `failed` is
 * set; later calls do nothing. The owner checks `failed` before it uses the text. */
#ifndef TARRY_COMMON_TEXT_H
#define TARRY_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *data; /* contents; only text_str terminates them */
    size_t size;
    size_t capacity;
    size_t size_max; /* maximum size in bytes; 0: no limit */
    bool failed;
    /* Callback that enlarges `data` and `capacity` to at least `capacity` bytes. False: out of memory. NULL: the text
     * uses realloc. */
    bool (*grow)(struct text *text, size_t capacity);
};

/* Frees the memory of a text without `grow`, and empties the text. */
void text_deinit(struct text *text);
/* Reserves `size` more bytes and returns their address. The caller adds the used bytes to text->size. NULL: failed. */
char *text_reserve(struct text *text, size_t size);
/* Truncates the text to `size` bytes. */
void text_cut(struct text *text, size_t size);
void text_add(struct text *text, const void *data, size_t size);
void text_add_str(struct text *text, const char *string);
void text_add_char(struct text *text, char character);
void text_add_u64(struct text *text, uint64_t number);
void text_add_repeat(struct text *text, char character, size_t count);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the contents as a terminated string, valid until the next change; "" after a failure. */
const char *text_str(struct text *text);

#endif
