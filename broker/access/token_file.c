/* token_file.c: see token_file.h. */
#include "token_file.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "tarry-tokens 1"
#define FORMAT_WORD "tarry-tokens "
#define VALUE_SHOWN_MAX 60 /* maximum bytes of a wrong value in a message */

static const char *const kinds[] = {
    [KIND_TOKEN] = "token", [KIND_CERTIFICATE] = "certificate", [KIND_LOOPBACK] = "loopback"};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

const char *access_kind_name(enum access_kind kind) {
    return kind < KINDS ? kinds[kind] : kind == KIND_OWNER ? "owner" : "broker";
}

struct span {
    const char *at;
    size_t size;
};

struct parse {
    struct token_file *file;
    size_t line; /* number of the current line, from 1 */
    char *message;
};

/* Writes an error message. The file may contain any bytes and the message may appear on a terminal, so each control
 * character is replaced by `?`. */
__attribute__((format(printf, 2, 3))) static int wrong(const struct parse *parse, const char *format, ...) {
    va_list list;
    int used = snprintf(parse->message, TOKEN_FILE_MESSAGE_SIZE, "line %zu: ", parse->line);
    va_start(list, format);
    vsnprintf(parse->message + used, TOKEN_FILE_MESSAGE_SIZE - (size_t)used, format, list);
    va_end(list);
    for (char *at = parse->message; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
    return 1;
}

#define SHOWN(span) (int)((span).size < VALUE_SHOWN_MAX ? (span).size : VALUE_SHOWN_MAX), (span).at

static bool is_word(struct span span, const char *word) {
    return strlen(word) == span.size && memcmp(span.at, word, span.size) == 0;
}

/* Removes and returns the text before the next `character`; removes that character, too. */
static struct span take_until(struct span *from, char character) {
    const char *end = from->size > 0 ? memchr(from->at, character, from->size) : NULL;
    struct span head = {from->at, end != NULL ? (size_t)(end - from->at) : from->size};
    size_t taken = end != NULL ? head.size + 1 : head.size;
    from->at += taken;
    from->size -= taken;
    return head;
}

/* Parses a decimal number without leading zeros. */
static bool take_number(struct span text, uint64_t *out) {
    uint64_t value = 0;
    if (text.size == 0 || text.size > 19 || (text.at[0] == '0' && text.size > 1)) return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') return false;
        value = value * 10 + (uint64_t)(text.at[i] - '0');
    }
    *out = value;
    return true;
}

static int take_roles(const struct parse *parse, struct access_entry *entry, struct span value) {
    if (is_word(value, "none")) return 0;
    while (value.size > 0) {
        struct span name = take_until(&value, ',');
        unsigned role = access_role_of(name.at, name.size);
        if (role == 0) return wrong(parse, "unknown role \"%.*s\"", SHOWN(name));
        if ((entry->roles & role) != 0) return wrong(parse, "the role %.*s is given twice", SHOWN(name));
        entry->roles |= role;
    }
    return entry->roles != 0 ? 0 : wrong(parse, "roles= is empty; write roles=none for a principal without roles");
}

static int take_hash(const struct parse *parse, struct access_entry *entry, struct span value) {
    size_t size = 0;
    const char *end = NULL;
    bool is_right = value.size == sizeof(entry->hash) * 2 &&
                    sodium_hex2bin(entry->hash, sizeof(entry->hash), value.at, value.size, NULL, &size, &end) == 0 &&
                    size == sizeof(entry->hash);
    return is_right ? 0 : wrong(parse, "hash must have 64 hexadecimal digits");
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool access_entry_add_prefix(struct access_entry *entry, const char *prefix, size_t size) {
    const char *end = entry->prefixes;
    for (size_t i = 0; i < entry->prefix_count; i++) end += strlen(end) + 1;
    size_t used = entry->prefixes != NULL ? (size_t)(end - entry->prefixes) : 0;
    char *prefixes = realloc(entry->prefixes, used + size + 1);
    if (prefixes == NULL) return false;
    memcpy(prefixes + used, prefix, size);
    prefixes[used + size] = '\0';
    entry->prefixes = prefixes;
    entry->prefix_count++;
    return true;
}

static bool is_escaped(char c) {
    return (unsigned char)c <= ' ' || c == '%' || c == 0x7f;
}

static int take_prefix(const struct parse *parse, struct access_entry *entry, struct span value) {
    char prefix[TOKEN_FILE_MESSAGE_SIZE];
    size_t size = 0;
    if (value.size > sizeof(prefix)) return wrong(parse, "a queue prefix is too long");
    for (size_t i = 0; i < value.size; i++) {
        char c = value.at[i];
        if (c == '%') {
            int high = i + 2 < value.size ? hex_digit(value.at[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(value.at[i + 2]) : -1;
            c = low >= 0 ? (char)(high * 16 + low) : 'a';
            if (low < 0 || !is_escaped(c))
                return wrong(parse, "queue contains a %% that does not begin a necessary %%XX escape");
            i += 2;
        } else if (is_escaped(c)) {
            return wrong(parse, "queue contains a control character, a blank or a %% that is not written as %%XX");
        }
        prefix[size++] = c;
    }
    const char *problem = access_prefix_problem(prefix, size);
    if (problem != NULL) return wrong(parse, "%s", problem);
    if (entry->prefix_count == ACCESS_PREFIXES_MAX) return wrong(parse, "more than 16 queue prefixes");
    return access_entry_add_prefix(entry, prefix, size) ? 0 : wrong(parse, "out of memory");
}

static int take_limit(const struct parse *parse, struct access_entry *entry, struct span name, struct span value) {
    enum access_limit limit = access_limit_of(name.at, name.size);
    uint64_t least, most, number = 0;
    if (limit == LIMITS) return wrong(parse, "unknown field \"%.*s\"", SHOWN(name));
    if (entry->limits[limit] != 0) return wrong(parse, "%.*s is given twice", SHOWN(name));
    access_limit_range(limit, &least, &most);
    if (!take_number(value, &number) || number < least || number > most)
        return wrong(parse, "%.*s is not a number from %" PRIu64 " to %" PRIu64 ": \"%.*s\"", SHOWN(name), least, most,
                     SHOWN(value));
    entry->limits[limit] = number;
    return 0;
}

struct seen {
    bool roles, hash;
};

static int take_field(const struct parse *parse, struct access_entry *entry, struct span field, struct seen *seen) {
    struct span name = take_until(&field, '=');
    if (is_word(name, "queue")) return take_prefix(parse, entry, field);
    if (is_word(name, "roles")) {
        if (seen->roles) return wrong(parse, "roles is given twice");
        seen->roles = true;
        return take_roles(parse, entry, field);
    }
    if (is_word(name, "hash")) {
        if (seen->hash) return wrong(parse, "hash is given twice");
        seen->hash = true;
        return take_hash(parse, entry, field);
    }
    if (!is_word(name, "expires")) return take_limit(parse, entry, name, field);
    if (entry->expires_s != 0) return wrong(parse, "expires is given twice");
    if (!take_number(field, &entry->expires_s) || entry->expires_s == 0)
        return wrong(parse, "expires is not a time in Unix seconds: \"%.*s\"", SHOWN(field));
    return 0;
}

/* Checks the rules for rows of this kind. */
static int check_row(const struct parse *parse, const struct access_entry *entry, struct seen seen) {
    const unsigned not_local = ROLE_admin | ROLE_peer;
    bool is_reserved = strcmp(entry->name, "loopback") == 0 || strcmp(entry->name, "owner") == 0;
    if (!seen.roles) return wrong(parse, "roles is missing");
    if (seen.hash != (entry->kind == KIND_TOKEN))
        return wrong(parse, seen.hash ? "only rows of kind token may have a hash" : "hash is missing");
    if (entry->kind == KIND_LOOPBACK && strcmp(entry->name, "loopback") != 0)
        return wrong(parse, "the row of kind loopback must have the name loopback");
    if (entry->kind != KIND_LOOPBACK && is_reserved)
        return wrong(parse, "the name %s is reserved for the broker", entry->name);
    if (entry->kind == KIND_LOOPBACK && (entry->roles & not_local) != 0)
        return wrong(parse, "loopback cannot have the roles admin and peer: they always need a token");
    return 0;
}

static int take_row(const struct parse *parse, struct access_entry *entry, struct span row) {
    struct span kind = take_until(&row, ' '), name = take_until(&row, ' ');
    struct seen seen = {0};
    size_t i = 0;
    while (i < KINDS && !is_word(kind, kinds[i])) i++;
    if (i == KINDS) return wrong(parse, "unknown kind of row \"%.*s\"", SHOWN(kind));
    entry->kind = (enum access_kind)i;
    const char *problem = access_name_problem(name.at, name.size);
    if (problem != NULL) return wrong(parse, "%s", problem);
    memcpy(entry->name, name.at, name.size);
    while (row.size > 0) {
        struct span field = take_until(&row, ' ');
        int error = take_field(parse, entry, field, &seen);
        if (error != 0) return error;
    }
    return check_row(parse, entry, seen);
}

static int take_line(const struct parse *parse, struct span line) {
    struct access_entry entry = {0};
    char message[TOKEN_FILE_MESSAGE_SIZE];
    if (line.size == 0 || line.at[0] == '#') return 0;
    int error = take_row(parse, &entry, line);
    if (error == 0 && token_file_add(parse->file, &entry, message) != 0) error = wrong(parse, "%.200s", message);
    if (error != 0) free(entry.prefixes);
    return error;
}

static int take_head(const struct parse *parse, struct span line) {
    if (is_word(line, FIRST_LINE)) return 0;
    size_t size = sizeof(FORMAT_WORD) - 1;
    if (line.size > size && memcmp(line.at, FORMAT_WORD, size) == 0)
        return wrong(parse, "the file has the format \"%.*s\", but this version of Tarry reads only \"%s\"",
                     SHOWN(line), FIRST_LINE);
    return wrong(parse, "the file does not begin with \"%s\", so it is not a file of tokens", FIRST_LINE);
}

int token_file_parse(const char *text, size_t size, struct token_file *out, char message[TOKEN_FILE_MESSAGE_SIZE]) {
    struct token_file file = {0};
    struct parse parse = {.file = &file, .line = 1, .message = message};
    struct span rest = {text, size};
    int error = 0;
    if (size > TOKEN_FILE_SIZE_MAX) error = wrong(&parse, "the file is larger than 4 MiB");
    if (error == 0 && size > 0 && text[size - 1] != '\n') {
        for (const char *at = text; at < text + size; at++) parse.line += *at == '\n';
        error = wrong(&parse, "the last line is missing: the file was cut off");
        parse.line = 1;
    }
    if (error == 0) error = take_head(&parse, take_until(&rest, '\n'));
    while (error == 0 && rest.size > 0) {
        parse.line++;
        error = take_line(&parse, take_until(&rest, '\n'));
    }
    if (error != 0)
        token_file_deinit(&file);
    else
        *out = file;
    return error;
}

void token_file_deinit(struct token_file *file) {
    for (size_t i = 0; i < file->count; i++) free(file->entries[i].prefixes);
    free(file->entries);
    *file = (struct token_file){0};
}

static struct access_entry *entry_of(const struct token_file *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].name, name) == 0) return &file->entries[i];
    return NULL;
}

/* Returns whether both rows belong to one principal, and one row contains the new token and the other row the former
 * token. */
static bool is_renewal(const struct access_entry *a, const struct access_entry *b) {
    struct access_entry same = *a;
    bool differ = memcmp(a->hash, b->hash, sizeof(a->hash)) != 0;
    memcpy(same.hash, b->hash, sizeof(same.hash));
    same.expires_s = b->expires_s;
    return a->kind == KIND_TOKEN && differ && (a->expires_s != 0 || b->expires_s != 0) && access_is_same(&same, b);
}

static size_t rows_of(const struct token_file *file, const char *name) {
    size_t count = 0;
    for (size_t i = 0; i < file->count; i++) count += strcmp(file->entries[i].name, name) == 0;
    return count;
}

int token_file_add(struct token_file *file, const struct access_entry *entry, char message[TOKEN_FILE_MESSAGE_SIZE]) {
    const struct access_entry *other = entry_of(file, entry->name);
    if (other != NULL && (!is_renewal(other, entry) || rows_of(file, entry->name) >= TOKEN_ROWS_MAX)) {
        snprintf(message, TOKEN_FILE_MESSAGE_SIZE, "the file already has a principal named %s", entry->name);
        return 1;
    }
    if (file->count == ACCESS_PRINCIPALS_MAX) {
        snprintf(message, TOKEN_FILE_MESSAGE_SIZE, "a file of tokens may have at most 1024 rows");
        return 1;
    }
    struct access_entry *entries = realloc(file->entries, (file->count + 1) * sizeof(*entries));
    if (entries == NULL) {
        snprintf(message, TOKEN_FILE_MESSAGE_SIZE, "out of memory");
        return 1;
    }
    file->entries = entries;
    entries[file->count++] = *entry;
    return 0;
}

static void remove_entry(struct token_file *file, struct access_entry *entry) {
    free(entry->prefixes);
    size_t behind = file->count - 1 - (size_t)(entry - file->entries);
    memmove(entry, entry + 1, behind * sizeof(*entry));
    file->count--;
}

bool token_file_remove(struct token_file *file, const char *name) {
    struct access_entry *entry = entry_of(file, name);
    const bool is_there = entry != NULL;
    for (; entry != NULL; entry = entry_of(file, name)) remove_entry(file, entry);
    return is_there;
}

/* Removes the rows of this name that have expired, unless that would remove the principal. */
static void remove_expired(struct token_file *file, const char *name, uint64_t now_s) {
    for (size_t i = file->count; i-- > 0 && rows_of(file, name) > 1;) {
        struct access_entry *entry = &file->entries[i];
        if (strcmp(entry->name, name) == 0 && entry->expires_s != 0 && entry->expires_s <= now_s)
            remove_entry(file, entry);
    }
}

int token_file_renew(struct token_file *file, const char *name, const uint8_t hash[ACCESS_HASH_SIZE],
                     uint64_t expires_s, uint64_t former_until_s, uint64_t now_s,
                     char message[TOKEN_FILE_MESSAGE_SIZE]) {
    struct access_entry *former = entry_of(file, name), successor;
    const char *problem = former == NULL               ? "the file has no principal named %s"
                          : former->kind != KIND_TOKEN ? "%s has no token: only a token can be renewed"
                                                       : NULL;
    if (problem == NULL) {
        remove_expired(file, name, now_s);
        former = entry_of(file, name);
        if (rows_of(file, name) >= TOKEN_ROWS_MAX)
            problem = "%s has two valid tokens: renew it again when the former one has expired ('tarry token list')";
    }
    if (problem != NULL) {
        snprintf(message, TOKEN_FILE_MESSAGE_SIZE, problem, name);
        return 1;
    }
    successor = *former;
    successor.prefixes = NULL;
    successor.prefix_count = 0;
    const char *prefix = former->prefixes;
    for (size_t i = 0; i < former->prefix_count; i++, prefix += strlen(prefix) + 1) {
        if (access_entry_add_prefix(&successor, prefix, strlen(prefix))) continue;
        snprintf(message, TOKEN_FILE_MESSAGE_SIZE, "out of memory");
        free(successor.prefixes);
        return 1;
    }
    memcpy(successor.hash, hash, sizeof(successor.hash));
    successor.expires_s = expires_s;
    if (former->expires_s == 0 || former->expires_s > former_until_s) former->expires_s = former_until_s;
    int error = token_file_add(file, &successor, message);
    if (error != 0) free(successor.prefixes);
    return error;
}

/* ---- writing */

static void print_prefixes(FILE *out, const struct access_entry *entry) {
    const char *at = entry->prefixes;
    for (size_t i = 0; i < entry->prefix_count; i++, at++) {
        fputs(" queue=", out);
        for (; *at != '\0'; at++) {
            if (is_escaped(*at))
                fprintf(out, "%%%02X", (unsigned char)*at);
            else
                fputc(*at, out);
        }
    }
}

static void print_entry(FILE *out, const struct access_entry *entry) {
    char roles[ROLES_TEXT_SIZE], hash[2 * ACCESS_HASH_SIZE + 1];
    fprintf(out, "%s %s roles=%s", access_kind_name(entry->kind), entry->name,
            entry->roles != 0 ? roles_format(entry->roles, ",", roles) : "none");
    if (entry->kind == KIND_TOKEN)
        fprintf(out, " hash=%s", sodium_bin2hex(hash, sizeof(hash), entry->hash, sizeof(entry->hash)));
    print_prefixes(out, entry);
    if (entry->expires_s != 0) fprintf(out, " expires=%" PRIu64, entry->expires_s);
    for (int i = 0; i < LIMITS; i++)
        if (entry->limits[i] != 0)
            fprintf(out, " %s=%" PRIu64, access_limit_name((enum access_limit)i), entry->limits[i]);
    fputc('\n', out);
}

char *token_file_format(const struct token_file *file, size_t *out_size) {
    char *text = NULL;
    FILE *out = open_memstream(&text, out_size);
    if (out == NULL) return NULL;
    fprintf(out, "%s\n# 'tarry token' writes this file; it does not keep comments.\n", FIRST_LINE);
    for (size_t i = 0; i < file->count; i++) print_entry(out, &file->entries[i]);
    bool is_whole = ferror(out) == 0;
    is_whole = fclose(out) == 0 && is_whole;
    if (is_whole) return text;
    free(text);
    return NULL;
}
