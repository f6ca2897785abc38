/* beanstalk_parser.h: parses the bytes of a beanstalkd client into commands (protocol.txt 1.12).
 *
 * The parser is incremental: bytes may arrive in pieces of any size. A line is stored in a fixed buffer; a longer line
 * is read to its end and reported as malformed. The body of a put is stored in memory that is requested before it
 * arrives. A body that is too large, or for which there is no memory, is read to its end and dropped. Pure except for
 * that memory; one thread at a time. */
#ifndef TARRY_BEANSTALK_PARSER_H
#define TARRY_BEANSTALK_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum size in bytes of a line with CR LF, of a tube's name, and of a job's body (beanstalkd's default). */
#define BEANSTALK_LINE_MAX 224u
#define BEANSTALK_TUBE_MAX 200u
#define BEANSTALK_JOB_MAX 65535u

enum beanstalk_kind {
    BEANSTALK_NONE, /* more bytes are needed */
    BEANSTALK_BAD_FORMAT,
    BEANSTALK_UNKNOWN,
    BEANSTALK_JOB_TOO_BIG,
    BEANSTALK_NO_ROOM, /* put: out of memory for the body */
    BEANSTALK_EXPECTED_CRLF,
    BEANSTALK_FOREIGN, /* HTTP or TLS: execute no command of this connection */
    BEANSTALK_PUT,     /* this value and the later ones are commands */
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
    bool counts;       /* set with an error: the command was a well-formed put, so it counts in cmd-put */
    uint64_t id;       /* id of the job: peek, reserve-job, delete, release, bury, kick-job, touch, stats-job */
    uint32_t pri;      /* pri of the job: put, release, bury */
    uint32_t delay_s;  /* delay in seconds: put, release, pause-tube */
    uint32_t ttr_s;    /* TTR in seconds, at least 1: put */
    uint32_t bound;    /* maximum number of jobs: kick */
    int64_t timeout_s; /* timeout in seconds: reserve-with-timeout; negative: no timeout */
    const char *tube; /* tube's name: use, watch, ignore, stats-tube, pause-tube; NUL-terminated; until the next call */
    const uint8_t *body; /* body of the job: put; valid until the next call */
    uint32_t body_size;
};

/* Returns whether `bytes` more may be stored. `bytes` may be negative; a decrease always succeeds. */
typedef bool beanstalk_room(void *argument, int64_t bytes);

struct beanstalk_parser {
    beanstalk_room *room; /* callback that grants memory; NULL: no limit */
    void *argument;
    char line[BEANSTALK_LINE_MAX + 1];
    uint32_t line_size;
    bool line_is_long; /* the line is read to its end and dropped */
    bool was_cr;       /* while bytes are dropped: the last dropped byte was CR */
    bool has_nul;
    bool has_begun;               /* the first byte of the connection has arrived */
    struct beanstalk_command put; /* the put whose body is arriving into `body`, or is dropped (`skip`) */
    uint8_t *body;
    uint32_t body_have;
    uint64_t skip; /* remaining bytes of a body that is dropped; after them, `put` is reported */
};

/* To initialize a parser, zero it and set its callback `room` with its `argument`. */

/* Consumes bytes until a command is complete or no bytes are left. Returns the number of consumed bytes. If out->kind
 * is BEANSTALK_NONE, all bytes were consumed, and the command is incomplete. */
size_t beanstalk_parse(struct beanstalk_parser *parser, const uint8_t *bytes, size_t size,
                       struct beanstalk_command *out);
/* Frees the stored bytes. */
void beanstalk_parser_end(struct beanstalk_parser *parser);
/* Returns the command's name as in protocol.txt; NULL for an error. */
const char *beanstalk_name(enum beanstalk_kind kind);

#endif
