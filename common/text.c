/* text.c: see text.h. */
#include "text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 512u

void text_deinit(struct text *text) {
    assert(text->grow == NULL);
    free(text->data);
    *text = (struct text){0};
}

static bool grow(struct text *text, size_t needed) {
    size_t capacity = text->capacity > 0 ? 2 * text->capacity : FIRST_CAPACITY;
    if (capacity < needed) capacity = needed;
    if (text->grow != NULL) return text->grow(text, capacity);
    char *data = realloc(text->data, capacity);
    if (data == NULL) return false;
    text->data = data;
    text->capacity = capacity;
    return true;
}

char *text_reserve(struct text *text, size_t size) {
    size_t needed = text->size + size;
    if (needed > text->capacity || text->failed) {
        if (needed < size || (text->size_max != 0 && needed > text->size_max)) text->failed = true;
        if (text->failed || !grow(text, needed)) {
            text->failed = true;
            return NULL;
        }
    }
    return text->data + text->size;
}

void text_cut(struct text *text, size_t size) {
    if (size < text->size) text->size = size;
}

void text_add(struct text *text, const void *data, size_t size) {
    char *at = size > 0 ? text_reserve(text, size) : NULL;
    if (at == NULL) return;
    memcpy(at, data, size);
    text->size += size;
}

void text_add_str(struct text *text, const char *string) {
    text_add(text, string, strlen(string));
}

void text_add_char(struct text *text, char character) {
    char *at = text_reserve(text, 1);
    if (at == NULL) return;
    *at = character;
    text->size++;
}

void text_add_u64(struct text *text, uint64_t number) {
    char digits[20];
    size_t at = sizeof(digits);
    /* Makes two digits per division, which halves the number of divisions. */
    for (; number >= 10; number /= 100) {
        unsigned pair = (unsigned)(number % 100);
        digits[--at] = (char)('0' + pair % 10);
        digits[--at] = (char)('0' + pair / 10);
    }
    if (number > 0 || at == sizeof(digits)) digits[--at] = (char)('0' + number);
    text_add(text, digits + at, sizeof(digits) - at);
}

void text_add_repeat(struct text *text, char character, size_t count) {
    char *at = text_reserve(text, count);
    if (at == NULL) return;
    memset(at, character, count);
    text->size += count;
}

void text_printf(struct text *text, const char *format, ...) {
    assert(format != NULL);
    va_list list;
    int size = 0;
    /* Usually the text fits at the first attempt. */
    do {
        char *at = text_reserve(text, (size_t)size + 1);
        if (at == NULL) return;
        va_start(list, format);
        size = vsnprintf(at, text->capacity - text->size, format, list);
        va_end(list);
        assert(size >= 0);
    } while ((size_t)size >= text->capacity - text->size);
    text->size += (size_t)size;
}

const char *text_str(struct text *text) {
    char *at = text_reserve(text, 1);
    if (at == NULL) return "";
    *at = '\0';
    return text->data;
}
