/* beanstalk_parser.c: see beanstalk_parser.h. It accepts and refuses the same input as beanstalkd 1.12, which compares
 * the beginning of a line with its commands: "quitter" is quit, "statsx" is a malformed stats. */
#include "beanstalk_parser.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* First byte of a TLS connection. A web page could send commands inside its first TLS message, so such a connection is
 * refused. */
#define TLS_HANDSHAKE 0x16

enum form {
    FORM_NOTHING,
    FORM_ANYTHING,
    FORM_PUT,
    FORM_ID,
    FORM_RELEASE,
    FORM_BURY,
    FORM_KICK,
    FORM_TIMEOUT,
    FORM_TUBE,
    FORM_PAUSE
};

struct word {
    const char *text; /* the command's name, and a space if the command needs one behind its name */
    enum beanstalk_kind kind;
    enum form form;
};

/* Words in the order in which they are compared: a longer word such as "reserve-job" precedes its prefix "reserve". */
static const struct word words[] = {
    {"put ", BEANSTALK_PUT, FORM_PUT},
    {"peek ", BEANSTALK_PEEK, FORM_ID},
    {"peek-ready", BEANSTALK_PEEK_READY, FORM_NOTHING},
    {"peek-delayed", BEANSTALK_PEEK_DELAYED, FORM_NOTHING},
    {"peek-buried", BEANSTALK_PEEK_BURIED, FORM_NOTHING},
    {"reserve-with-timeout ", BEANSTALK_RESERVE_TIMEOUT, FORM_TIMEOUT},
    {"reserve-job ", BEANSTALK_RESERVE_JOB, FORM_ID},
    {"reserve", BEANSTALK_RESERVE, FORM_NOTHING},
    {"delete ", BEANSTALK_DELETE, FORM_ID},
    {"release ", BEANSTALK_RELEASE, FORM_RELEASE},
    {"bury ", BEANSTALK_BURY, FORM_BURY},
    {"kick ", BEANSTALK_KICK, FORM_KICK},
    {"kick-job ", BEANSTALK_KICK_JOB, FORM_ID},
    {"touch ", BEANSTALK_TOUCH, FORM_ID},
    {"stats-job ", BEANSTALK_STATS_JOB, FORM_ID},
    {"stats-tube ", BEANSTALK_STATS_TUBE, FORM_TUBE},
    {"stats", BEANSTALK_STATS, FORM_NOTHING},
    {"use ", BEANSTALK_USE, FORM_TUBE},
    {"watch ", BEANSTALK_WATCH, FORM_TUBE},
    {"ignore ", BEANSTALK_IGNORE, FORM_TUBE},
    {"list-tubes-watched", BEANSTALK_LIST_TUBES_WATCHED, FORM_NOTHING},
    {"list-tube-used", BEANSTALK_LIST_TUBE_USED, FORM_NOTHING},
    {"list-tubes", BEANSTALK_LIST_TUBES, FORM_NOTHING},
    {"quit", BEANSTALK_QUIT, FORM_ANYTHING},
    {"pause-tube", BEANSTALK_PAUSE_TUBE, FORM_PAUSE},
};
#define WORDS (sizeof(words) / sizeof(*words))

const char *beanstalk_name(enum beanstalk_kind kind) {
    static const char *const names[BEANSTALK_KINDS] = {
        [BEANSTALK_PUT] = "put",
        [BEANSTALK_PEEK] = "peek",
        [BEANSTALK_PEEK_READY] = "peek-ready",
        [BEANSTALK_PEEK_DELAYED] = "peek-delayed",
        [BEANSTALK_PEEK_BURIED] = "peek-buried",
        [BEANSTALK_RESERVE] = "reserve",
        [BEANSTALK_RESERVE_TIMEOUT] = "reserve-with-timeout",
        [BEANSTALK_RESERVE_JOB] = "reserve-job",
        [BEANSTALK_DELETE] = "delete",
        [BEANSTALK_RELEASE] = "release",
        [BEANSTALK_BURY] = "bury",
        [BEANSTALK_KICK] = "kick",
        [BEANSTALK_KICK_JOB] = "kick-job",
        [BEANSTALK_TOUCH] = "touch",
        [BEANSTALK_STATS] = "stats",
        [BEANSTALK_STATS_JOB] = "stats-job",
        [BEANSTALK_STATS_TUBE] = "stats-tube",
        [BEANSTALK_USE] = "use",
        [BEANSTALK_WATCH] = "watch",
        [BEANSTALK_IGNORE] = "ignore",
        [BEANSTALK_LIST_TUBES] = "list-tubes",
        [BEANSTALK_LIST_TUBE_USED] = "list-tube-used",
        [BEANSTALK_LIST_TUBES_WATCHED] = "list-tubes-watched",
        [BEANSTALK_PAUSE_TUBE] = "pause-tube",
        [BEANSTALK_QUIT] = "quit",
    };
    return kind < BEANSTALK_KINDS ? names[kind] : NULL;
}

/* ---- arguments */

/* Parses the number at `*at` after spaces, and moves `*at` behind it. Returns false if the number is missing or
 * above `most`. */
static bool take_number(char **at, uint64_t most, uint64_t *out) {
    char *text = *at + strspn(*at, " ");
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    unsigned long long value = strtoull(text, at, 10);
    if (errno != 0 || value > most) return false;
    *out = value;
    return true;
}

static bool take_u32(char **at, uint32_t *out) {
    uint64_t value;
    if (!take_number(at, UINT32_MAX, &value)) return false;
    *out = (uint32_t)value;
    return true;
}

static bool is_tube(const char *name) {
    /* Characters that a tube's name may contain: those that beanstalkd allows, and the colon in a group's name
     * (docs/GROUPS.md). */
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_():";
    size_t size = strlen(name);
    return size > 0 && size <= BEANSTALK_TUBE_MAX && strspn(name, allowed) == size && name[0] != '-';
}

static bool take_tube(char *at, struct beanstalk_command *out) {
    out->tube = at;
    return is_tube(at);
}

static bool take_pause(char *at, struct beanstalk_command *out) {
    at += strspn(at, " ");
    char *end = at + strcspn(at, " ");
    char *rest = end;
    if (end == at || !take_u32(&rest, &out->delay_s) || *rest != '\0') return false;
    *end = '\0';
    return take_tube(at, out);
}

/* Parses like strtol and strtoul: accepts a sign; text that is not a number is 0 seconds. */
static bool take_timeout(const char *at, struct beanstalk_command *out) {
    errno = 0;
    out->timeout_s = strtol(at, NULL, 10);
    return errno == 0;
}

static bool take_bound(const char *at, struct beanstalk_command *out) {
    char *end;
    errno = 0;
    unsigned long value = strtoul(at, &end, 10);
    out->bound = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    return end != at && errno == 0;
}

static bool take_put(char *at, struct beanstalk_command *out) {
    if (!take_u32(&at, &out->pri) || !take_u32(&at, &out->delay_s) || !take_u32(&at, &out->ttr_s) ||
        !take_u32(&at, &out->body_size))
        return false;
    out->counts = true;
    if (out->ttr_s == 0) out->ttr_s = 1;
    if (out->body_size > BEANSTALK_JOB_MAX) {
        out->kind = BEANSTALK_JOB_TOO_BIG;
        return true;
    }
    return *at == '\0';
}

static bool take_arguments(enum form form, char *at, struct beanstalk_command *out) {
    switch (form) {
    case FORM_NOTHING:
        return *at == '\0';
    case FORM_ANYTHING:
        return true;
    case FORM_PUT:
        return take_put(at, out);
    case FORM_ID:
        return take_number(&at, UINT64_MAX, &out->id) && *at == '\0';
    case FORM_RELEASE:
        return take_number(&at, UINT64_MAX, &out->id) && take_u32(&at, &out->pri) && take_u32(&at, &out->delay_s) &&
               *at == '\0';
    case FORM_BURY:
        return take_number(&at, UINT64_MAX, &out->id) && take_u32(&at, &out->pri) && *at == '\0';
    case FORM_KICK:
        return take_bound(at, out);
    case FORM_TIMEOUT:
        return take_timeout(at, out);
    case FORM_TUBE:
        return take_tube(at, out);
    case FORM_PAUSE:
        return take_pause(at, out);
    }
    return false;
}

static void understand(char *line, struct beanstalk_command *out) {
    *out = (struct beanstalk_command){.kind = BEANSTALK_UNKNOWN};
    for (size_t i = 0; i < WORDS; i++) {
        size_t size = strlen(words[i].text);
        if (strncmp(line, words[i].text, size) != 0) continue;
        out->kind = words[i].kind;
        if (!take_arguments(words[i].form, line + size, out))
            *out = (struct beanstalk_command){.kind = BEANSTALK_BAD_FORMAT, .counts = out->counts};
        return;
    }
}

/* ---- bodies */

static void give_body(struct beanstalk_parser *parser) {
    if (parser->body == NULL) return;
    if (parser->room != NULL) parser->room(parser->argument, -(int64_t)(parser->put.body_size + 2));
    free(parser->body);
    parser->body = NULL;
}

/* Begins to receive the body of a put whose line is complete. */
static void begin_body(struct beanstalk_parser *parser, const struct beanstalk_command *command) {
    size_t size = (size_t)command->body_size + 2;
    parser->put = *command;
    parser->body_have = 0;
    parser->skip = size;
    if (command->kind == BEANSTALK_JOB_TOO_BIG) return;
    bool has_room = parser->room == NULL || parser->room(parser->argument, (int64_t)size);
    if (has_room) parser->body = malloc(size);
    if (parser->body != NULL) {
        parser->skip = 0;
        return;
    }
    if (has_room && parser->room != NULL) parser->room(parser->argument, -(int64_t)size);
    parser->put.kind = BEANSTALK_NO_ROOM;
}

static size_t take_body(struct beanstalk_parser *parser, const uint8_t *bytes, size_t size,
                        struct beanstalk_command *out) {
    uint32_t whole = parser->put.body_size + 2;
    size_t part = whole - parser->body_have;
    if (part > size) part = size;
    memcpy(parser->body + parser->body_have, bytes, part);
    parser->body_have += (uint32_t)part;
    if (parser->body_have < whole) return part;
    *out = parser->put;
    out->body = parser->body;
    if (memcmp(parser->body + out->body_size, "\r\n", 2) != 0) out->kind = BEANSTALK_EXPECTED_CRLF;
    return part;
}

static size_t skip_body(struct beanstalk_parser *parser, size_t size, struct beanstalk_command *out) {
    size_t part = parser->skip < size ? (size_t)parser->skip : size;
    parser->skip -= part;
    if (parser->skip == 0) *out = parser->put;
    return part;
}

/* ---- lines */

/* Adds one byte to the line. True: the line is complete. */
static bool take_byte(struct beanstalk_parser *parser, char byte) {
    bool is_end =
        byte == '\n' &&
        (parser->line_is_long ? parser->was_cr : parser->line_size > 0 && parser->line[parser->line_size - 1] == '\r');
    parser->was_cr = byte == '\r';
    parser->has_nul |= byte == '\0';
    if (parser->line_size == BEANSTALK_LINE_MAX) parser->line_is_long = true;
    if (!parser->line_is_long) parser->line[parser->line_size++] = byte;
    return is_end;
}

/* Returns whether the line, or the stored beginning of a long line, belongs to an HTTP request. A web page may make its
 * browser send an HTTP request to any port of the machine. So the lines of the request's body must not be executed as
 * commands. Each such request has a Host line, and a request line whose end the page cannot choose. No command of
 * beanstalkd looks like a Host line or a request line. */
static bool is_of_http(const char *line, size_t size) {
    return (size >= 5 && strncasecmp(line, "host:", 5) == 0) || memmem(line, size, " HTTP/", 6) != NULL;
}

static void end_line(struct beanstalk_parser *parser, struct beanstalk_command *out) {
    bool is_foreign = is_of_http(parser->line, parser->line_size);
    bool is_bad = parser->line_is_long || parser->has_nul;
    uint32_t size = parser->line_size;
    parser->line_size = 0;
    parser->line_is_long = parser->has_nul = parser->was_cr = false;
    if (is_foreign || is_bad) {
        *out = (struct beanstalk_command){.kind = is_foreign ? BEANSTALK_FOREIGN : BEANSTALK_BAD_FORMAT};
        return;
    }
    assert(size >= 2 && size <= BEANSTALK_LINE_MAX);
    parser->line[size - 2] = '\0';
    understand(parser->line, out);
    if (out->kind != BEANSTALK_PUT && out->kind != BEANSTALK_JOB_TOO_BIG) return;
    begin_body(parser, out);
    *out = (struct beanstalk_command){.kind = BEANSTALK_NONE};
}

size_t beanstalk_parse(struct beanstalk_parser *parser, const uint8_t *bytes, size_t size,
                       struct beanstalk_command *out) {
    *out = (struct beanstalk_command){.kind = BEANSTALK_NONE};
    if (parser->body != NULL && parser->body_have == parser->put.body_size + 2)
        give_body(parser); /* already reported */
    size_t at = 0;
    if (!parser->has_begun && size > 0 && bytes[0] == TLS_HANDSHAKE) out->kind = BEANSTALK_FOREIGN;
    if (size > 0) parser->has_begun = true;
    if (out->kind == BEANSTALK_FOREIGN) return size;
    while (at < size && out->kind == BEANSTALK_NONE) {
        if (parser->body != NULL)
            at += take_body(parser, bytes + at, size - at, out);
        else if (parser->skip > 0)
            at += skip_body(parser, size - at, out);
        else if (take_byte(parser, (char)bytes[at++]))
            end_line(parser, out);
    }
    return at;
}

void beanstalk_parser_end(struct beanstalk_parser *parser) {
    give_body(parser);
    *parser = (struct beanstalk_parser){0};
}
