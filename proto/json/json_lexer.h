/* json_lexer.h: reads the tokens of plain JSON for json_tree.c and json_quick.c. Plain JSON has strings without
 * escapes, and integers of at most 18 digits (json_tree.h). The lexer refuses any other token, and the caller parses
 * that text with jansson. */
#ifndef TARRY_JSON_LEXER_H
#define TARRY_JSON_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

#define JSON_DIGITS_MAX 18 /* any integer of at most 18 digits fits into an int64_t */

struct json_lexer {
    const char *at, *end;
};

static inline void lex_blanks(struct json_lexer *lexer) {
    while (lexer->at < lexer->end &&
           (*lexer->at == ' ' || *lexer->at == '\n' || *lexer->at == '\r' || *lexer->at == '\t'))
        lexer->at++;
}

/* Skips blanks, and returns the next character; 0: the end. */
static inline char lex_look(struct json_lexer *lexer) {
    lex_blanks(lexer);
    return lexer->at < lexer->end ? *lexer->at : '\0';
}

static inline bool lex_take(struct json_lexer *lexer, char character) {
    if (lex_look(lexer) != character) return false;
    lexer->at++;
    return true;
}

/* Reads the rest of a string after its first quote, including the last quote. NULL: the string has an escape or is
 * malformed. */
static inline const char *lex_text(struct json_lexer *lexer, size_t *out_size) {
    const char *begin = lexer->at, *at = begin;
    unsigned char all = 0;
    for (; at < lexer->end && *at != '"'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte < 0x20 || byte == '\\') return NULL;
        all |= byte;
    }
    if (at == lexer->end) return NULL;
    *out_size = (size_t)(at - begin);
    lexer->at = at + 1;
    return all < 0x80 || is_utf8(begin, *out_size) ? begin : NULL;
}

/* Reads an integer. The caller has checked that the next character is not blank and that the text has not ended.
 * Returns false if the token is no integer of at most 18 digits. */
static inline bool lex_integer(struct json_lexer *lexer, int64_t *out) {
    bool is_negative = *lexer->at == '-';
    if (is_negative) lexer->at++;
    const char *begin = lexer->at;
    int64_t number = 0;
    for (; lexer->at < lexer->end && *lexer->at >= '0' && *lexer->at <= '9'; lexer->at++) {
        if (lexer->at - begin == JSON_DIGITS_MAX) return false;
        number = number * 10 + (*lexer->at - '0');
    }
    size_t digits = (size_t)(lexer->at - begin);
    bool is_more = lexer->at < lexer->end && (*lexer->at == '.' || *lexer->at == 'e' || *lexer->at == 'E');
    if (digits == 0 || (digits > 1 && *begin == '0') || is_more) return false;
    *out = is_negative ? -number : number;
    return true;
}

static inline bool lex_word(struct json_lexer *lexer, const char *word, size_t size) {
    if ((size_t)(lexer->end - lexer->at) < size || memcmp(lexer->at, word, size) != 0) return false;
    lexer->at += size;
    return true;
}

#endif
