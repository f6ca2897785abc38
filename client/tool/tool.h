/* tool.h: shared by all sub-commands: values of the global options, table of commands, exit statuses.
 *
 * Standard output has results only. Summaries, warnings, error messages and progress go to standard error. */
#ifndef TARRY_TOOL_TOOL_H
#define TARRY_TOOL_TOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "args.h"
#include "say.h"
#include "tarry.h"
#include "tarry_limits.h"
#include "text.h"

#define TIMEOUT_DEFAULT_MS 10000u
#define TOOL_NAME_SIZE 129 /* size with the final 0; a broker accepts 128 (CLIENT_NAME_SIZE_MAX) */

struct tool {
    const char *broker; /* one URL or several; NULL: the default */
    uint64_t timeout_ms;
    bool has_timeout;          /* --timeout was given */
    char name[TOOL_NAME_SIZE]; /* client name, made by tool_name */
    bool json;
    bool follower_reads;     /* --from-follower was given; set before tool_connect */
    struct tarry_call fresh; /* required freshness of answers, set by the function option_fresh */
    tarry_client *client;    /* client of the library; NULL before tool_connect */
};

#define AS_SIZE_MAX 64 /* maximum size of --as, so that user and host are never cut */
/* Client name in the broker's log, `tarry history` and `tarry audit`: "user@host tarry/PID", after "AS: " if that is
 * given. The broker does not check the name, but records the client's address beside it. EXIT_FINE, or EXIT_USAGE
 * after an error message. */
int tool_name(const char *as, char out_name[TOOL_NAME_SIZE]);

/* Opens the client. EXIT_FINE, or an exit status after an error message. */
int tool_connect(struct tool *tool);
/* Like tool_connect, for commands that run until they are ended. The first answer must come within the timeout of a
 * call. After that, waits for the end of each outage, unless --timeout was given. */
int tool_connect_lasting(struct tool *tool);
/* Closes the client if it is open. */
void tool_disconnect(struct tool *tool);
/* Opens a client of one broker, and ignores --broker; the caller closes the client. EXIT_FINE, or an exit status after
 * an error message. */
int tool_connect_to(const struct tool *tool, const char *url, uint64_t timeout_ms, tarry_client **out_client);
/* Without --json, warns on standard error that a follower answered. With --json, the output says so instead
 * (json_source). */
void tool_say_source(const struct tool *tool, const struct tarry_source *source);
/* Warns on standard error that a follower answered, also with --json. For commands whose JSON output does not have the
 * members of json_source. */
void tool_warn_source(const struct tarry_source *source);
/* Writes the member `result`: `word`, or after a failure "error", and then also `code` and `message`. `message` may be
 * NULL or empty: then the sentence of the code. */
void json_outcome(struct text *out, const char *word, int code, const char *message);
void json_source(struct text *out, const struct tarry_source *source);
/* Prints an error message on standard error ("tarry: …") and returns the exit status of `code`. `message` may be NULL
 * or empty: then the sentence of the code. */
int tool_refused(const struct tool *tool, int code, const char *message);
/* Prints an error message like tool_refused and returns its exit status. With --json, also prints an object with
 * `result` "error", `code` and `message` on standard output. */
int tool_failed(const struct tool *tool, int code, const char *message);
int exit_status_of(int code); /* Returns the exit status for an enum tarry_code. */
uint64_t wall_ms(void);       /* CLOCK_REALTIME */
uint64_t steady_ms(void);     /* CLOCK_MONOTONIC */
void pause_ms(uint64_t ms);   /* Sleeps; a signal ends the sleep. */
/* Syncs the directory of the file, which makes the file's name durable. Returns 0 or errno. */
int sync_parent(const char *path);

/* Options of requests that a follower may answer. */
#define OPTIONS_FRESH                                                                                                  \
    {"from-follower", ARG_FLAG, NULL, "allow a follower to answer; its answer is marked, because a follower may lag"}, \
        {"at-least", ARG_VALUE, "N", "only answer from a state that includes the log below position N"}, {             \
        "staleness", ARG_VALUE, "DUR", "only answer from a state that is provably at most DUR old"                     \
    }
/* Options that several commands share: the value of an option in its own type. Returns 0, or EXIT_USAGE after an
 * error message. An absent option leaves *out untouched. */
int option_duration(const struct args *args, const char *name, uint64_t *out_ms);
/* Like option_duration, but refuses 0: on the wire 0 has another meaning (no limit, or the default). */
int option_duration_positive(const struct args *args, const char *name, uint64_t *out_ms);
int option_number(const struct args *args, const char *name, uint64_t min, uint64_t max, uint64_t *out);
/* Parses an id as it is printed: a number from 1. */
int option_id(const struct args *args, const char *text, uint64_t *out_id);
/* Parses --in, --at (a time as in option_time) and --due-ms, of which exactly one must be given. */
int option_when(const struct args *args, enum tarry_when *out_when, uint64_t *out_ms);
/* Parses the reference to a task: QUEUE KEY, or --id ID. */
int option_ref(const struct args *args, struct tarry_ref *out_ref);
/* Parses task states such as "pending,ready" to bits of enum tarry_state. */
int option_states(const struct args *args, uint32_t *out_states);
/* Parses the options about the freshness of answers (OPTIONS_FRESH) into tool->fresh. Must be called before
 * tool_connect. */
int option_fresh(struct tool *tool, const struct args *args);
/* Returns the place of the = in a value of --attr, name=value; NULL after an error message (EXIT_USAGE). */
const char *option_attribute(const struct args *args, const char *text);
/* Parses --attr, which may be repeated. The caller frees the names, also after an error; the values are in `args`. */
int option_attributes(const struct args *args, struct tarry_attribute out[ATTRIBUTES_MAX], size_t *out_count);
/* Parses a time: RFC 3339, Unix milliseconds, +DUR from now, or a day in this time zone (tomorrow 09:00, 2026-12-01).
 */
int option_time(const struct args *args, const char *name, uint64_t *out_ms);

/* The command `outbox` does not exist if libpq's headers were missing when the tool was built. */
#ifdef TARRY_HAS_LIBPQ
#define OUTBOX(X) X(outbox)
#else
#define OUTBOX(X)
#endif

/* All commands, in the order of the help. */
// clang-format off
#define COMMANDS(X) \
    X(schedule) \
    X(cancel) \
    X(move) \
    X(select_shift) \
    X(select_cancel) \
    X(select_resume) \
    X(import) \
    OUTBOX(X) \
    X(consume) \
    X(ack) \
    X(nack) \
    X(extend) \
    X(release) \
    X(get) \
    X(list) \
    X(calendar) \
    X(consumers) \
    X(queues) \
    X(queue_list) \
    X(queue_show) \
    X(queue_create) \
    X(queue_set) \
    X(queue_pause) \
    X(queue_resume) \
    X(queue_purge) \
    X(queue_delete) \
    X(group_list) \
    X(group_lag) \
    X(group_create) \
    X(group_delete) \
    X(recur_set) \
    X(recur_list) \
    X(recur_show) \
    X(recur_next) \
    X(recur_pause) \
    X(recur_resume) \
    X(recur_trigger) \
    X(recur_history) \
    X(recur_delete) \
    X(dead_list) \
    X(dead_requeue) \
    X(dead_drop) \
    X(amqp_exchanges) \
    X(amqp_queues) \
    X(amqp_bindings) \
    X(amqp_import) \
    X(redact) \
    X(stats) \
    X(history) \
    X(audit) \
    X(replay) \
    X(verify) \
    X(heads) \
    X(keygen) \
    X(backup) \
    X(restore) \
    X(archive_list) \
    X(archive_prune) \
    X(archive_hold) \
    X(archive_release) \
    X(status) \
    X(doctor) \
    X(promote) \
    X(demote) \
    X(pair_record) \
    X(token_add) \
    X(token_renew) \
    X(token_list) \
    X(token_revoke) \
    X(completion)
// clang-format on

#define DECLARE(name) extern const struct command command_##name;
COMMANDS(DECLARE)
#undef DECLARE
extern const struct command *const tool_commands[]; /* table of all commands; NULL ends it */

#endif
