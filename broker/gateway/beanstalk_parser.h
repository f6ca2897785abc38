/* beanstalk_parser.h: bytes of a beanstalkd client become commands (protocol.txt 1.12).
 *
 * Incremental: bytes come in pieces of any size. A line is kept in a fixed buffer; one that is too long is read to its
 * end and reported as malformed. The body of a put is kept in memory that is asked for before it comes; one that is too
 * large, or for which there is no room, is read to its end and not kept. Pure but for that memory; one thread at a
 * time. */
#ifndef TARRY_GATEWAY_BEANSTALK_PARSER_H
#define TARRY_GATEWAY_BEANSTALK_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a line with its CR LF, of a tube's name, and of a job's body, in bytes. The body's is beanstalkd's default. */
#define BEANSTALK_LINE_MAX 224u
#define BEANSTALK_TUBE_MAX 200u
#define BEANSTALK_JOB_MAX 65535u

enum beanstalk_kind {
    BEANSTALK_NONE, /* more bytes are needed */
    BEANSTALK_BAD_FORMAT,
    BEANSTALK_UNKNOWN,
    BEANSTALK_JOB_TOO_BIG,
    BEANSTALK_NO_ROOM, /* put: there was no memory for the body */
    BEANSTALK_EXPECTED_CRLF,
    BEANSTALK_PUT, /* from here on: commands */
    BEANSTALK_PEEK,
    BEANSTALK_PEEK_READY,
    BEANSTALK_PEEK_DELAYED,
    BEANSTALK_PEEK_BURIED,
    BEANSTALK_RESERVE,
    BEANSTALK_RESERVE_TIMEOUT,
    BEANSTALK_RESERVE_JOB,
    BEANSTALK_DELETE,
    BEANSTALK_RELEASE,
    BEANSTALK_BURY,
    BEANSTALK_KICK,
    BEANSTALK_KICK_JOB,
    BEANSTALK_TOUCH,
    BEANSTALK_STATS,
    BEANSTALK_STATS_JOB,
    BEANSTALK_STATS_TUBE,
    BEANSTALK_USE,
    BEANSTALK_WATCH,
    BEANSTALK_IGNORE,
    BEANSTALK_LIST_TUBES,
    BEANSTALK_LIST_TUBE_USED,
    BEANSTALK_LIST_TUBES_WATCHED,
    BEANSTALK_PAUSE_TUBE,
    BEANSTALK_QUIT,
    BEANSTALK_KINDS
};

struct beanstalk_command {
    enum beanstalk_kind kind;
    bool counts;         /* of an error: it was a put of good form, and counts as a put (cmd-put) */
    uint64_t id;         /* peek, reserve-job, delete, release, bury, kick-job, touch, stats-job */
    uint32_t pri;        /* put, release, bury */
    uint32_t delay_s;    /* put, release, pause-tube */
    uint32_t ttr_s;      /* put; 1 at least */
    uint32_t bound;      /* kick */
    int64_t timeout_s;   /* reserve-with-timeout; below 0: none */
    const char *tube;    /* use, watch, ignore, stats-tube, pause-tube; terminated; valid until the next call */
    const uint8_t *body; /* put; valid until the next call */
    uint32_t body_size;
};

/* May so many bytes more (or fewer) be kept? Fewer is always granted. */
typedef bool beanstalk_room(void *argument, int64_t bytes);

struct beanstalk_parser {
    beanstalk_room *room; /* NULL: always */
    void *argument;
    char line[BEANSTALK_LINE_MAX + 1];
    uint32_t line_size;
    bool line_is_long; /* it is read to its end and not kept */
    bool was_cr;       /* likewise: of what was not kept the last byte was a CR */
    bool has_nul;
    struct beanstalk_command put; /* its body is coming: `body` or `skip` says how much */
    uint8_t *body;
    uint32_t body_have;
    uint64_t skip; /* bytes of a body that is not kept; then `put` is reported */
};

/* Zeroed, with room and argument set, is a parser at its beginning. */

/* Takes bytes until a command is whole, or all of them. Returns how many; out->kind NONE: all were taken, and more are
 * needed. */
size_t beanstalk_parse(struct beanstalk_parser *parser, const uint8_t *bytes, size_t size,
                       struct beanstalk_command *out);
/* Gives up what is kept. */
void beanstalk_parser_end(struct beanstalk_parser *parser);
/* The command's name as protocol.txt writes it; of an error NULL. */
const char *beanstalk_name(enum beanstalk_kind kind);

#endif
