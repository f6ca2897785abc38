/* text.c: the growing buffer of text.h. Doubling keeps the cost of a byte constant. */
#include "text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_CAPACITY_MIN 256u

_Noreturn void tool_out_of_memory(void) {
    static const char sentence[] = "tarry: out of memory\n";
    fputs(sentence, stderr);
    exit(1);
}

void *tool_alloc(size_t size) {
    void *memory = calloc(1, size > 0 ? size : 1);
    if (memory == NULL) tool_out_of_memory();
    return memory;
}

char *tool_strdup(const char *string) {
    char *copy = strdup(string);
    if (copy == NULL) tool_out_of_memory();
    return copy;
}

void text_deinit(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}

char *text_reserve(struct text *text, size_t size) {
    assert(size < SIZE_MAX / 4);
    if (text->capacity - text->size < size) {
        size_t capacity = text->capacity < TEXT_CAPACITY_MIN ? TEXT_CAPACITY_MIN : text->capacity;
        while (capacity - text->size < size) capacity *= 2;
        char *data = realloc(text->data, capacity);
        if (data == NULL) tool_out_of_memory();
        text->data = data;
        text->capacity = capacity;
    }
    return text->data + text->size;
}

void text_add(struct text *text, const void *data, size_t size) {
    if (size == 0) return;
    memcpy(text_reserve(text, size), data, size);
    text->size += size;
}

void text_add_str(struct text *text, const char *string) {
    text_add(text, string, strlen(string));
}

void text_add_char(struct text *text, char character) {
    *text_reserve(text, 1) = character;
    text->size++;
}

void text_add_u64(struct text *text, uint64_t number) {
    char digits[20];
    size_t at = sizeof digits;
    /* Two digits at a time halve the divisions. */
    for (; number >= 10; number /= 100) {
        unsigned pair = (unsigned)(number % 100);
        digits[--at] = (char)('0' + pair % 10);
        digits[--at] = (char)('0' + pair / 10);
    }
    if (number > 0 || at == sizeof digits) digits[--at] = (char)('0' + number);
    text_add(text, digits + at, sizeof digits - at);
}

void text_add_repeat(struct text *text, char character, size_t count) {
    memset(text_reserve(text, count), character, count);
    text->size += count;
}

void text_printf(struct text *text, const char *format, ...) {
    assert(format != NULL);
    va_list list;
    int size = 0;
    /* Usually the text fits at the first attempt. */
    do {
        char *at = text_reserve(text, (size_t)size + 1);
        va_start(list, format);
        size = vsnprintf(at, text->capacity - text->size, format, list);
        va_end(list);
        assert(size >= 0);
    } while ((size_t)size >= text->capacity - text->size);
    text->size += (size_t)size;
}

const char *text_str(struct text *text) {
    *text_reserve(text, 1) = 0;
    return text->data;
}
