/* cmd_outbox.c: tarry outbox: moves tasks that applications wrote into a table of PostgreSQL, in their own
 * transactions, into Tarry, each exactly once.
 *
 * The tasks of a batch and a receipt, which lists the batch's rows, are one atomic commit: both are durable, or neither
 * is. The tool deletes the rows only after that commit. If it is killed before it has deleted them, the next run reads
 * the receipt and deletes its rows, because their tasks are already in Tarry.
 *
 * The receipt is a task in queue RECEIPT_QUEUE, which no consumer gets. Its key is made from the ids of the database
 * and the table. If two processes move tasks of one table, the second cannot replace the receipt of the first, so the
 * broker refuses its commit as a whole. Each row also has a random mark (uuid), because PostgreSQL may give row numbers
 * again after TRUNCATE. */
#include <dlfcn.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "json_out.h"
#include "lines.h"
#include "output.h"
#include "signals.h"
#include "tool.h"

/* ---- libpq, which is loaded when it is needed: the tool does not depend on it */

/* The functions of libpq that the tool uses, without their prefix PQ. */
#define POSTGRES_FUNCTIONS(X)                                                                                          \
    X(connectdb)                                                                                                       \
    X(status)                                                                                                          \
    X(errorMessage)                                                                                                    \
    X(finish)                                                                                                          \
    X(execParams)                                                                                                      \
    X(resultStatus)                                                                                                    \
    X(ntuples)                                                                                                         \
    X(getvalue)                                                                                                        \
    X(getlength)                                                                                                       \
    X(clear)                                                                                                           \
    X(socket)                                                                                                          \
    X(consumeInput)                                                                                                    \
    X(notifies)                                                                                                        \
    X(freemem)                                                                                                         \
    X(escapeIdentifier)

#define POSTGRES_MEMBER(name) __typeof__(PQ##name) *name;
struct postgres_library {
    POSTGRES_FUNCTIONS(POSTGRES_MEMBER)
};
#undef POSTGRES_MEMBER

#define LIBRARY "libpq.so.5"

static struct postgres_library pq;

/* Loads libpq. Returns NULL, or why it cannot be loaded. Called by one thread. */
static const char *postgres_load(void) {
    static char why[256];
    static void *library; /* never unloaded */
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why, sizeof why, "%s", dlerror());
        return why;
    }
#define FIND(name)                                                                                                     \
    pq.name = (__typeof__(pq.name))dlsym(library, "PQ" #name);                                                         \
    if (pq.name == NULL) snprintf(why, sizeof why, "%s has no function PQ%s", LIBRARY, #name);
    POSTGRES_FUNCTIONS(FIND)
#undef FIND
    return why[0] == 0 ? NULL : why;
}

/* ---- the data of the relay */

#define RECEIPT_QUEUE "tarry-outbox"
#define RECEIPT_HEAD "tarry outbox 1\n"
#define RECEIPT_DUE_MS (3650ull * 24 * 3600 * 1000)
#define BATCH_ROWS 500
#define BATCH_BYTES (4u << 20)
#define MARK_SIZE 36u /* length of a row's mark, a uuid as text */
#define RETRY_MS 1000
/* A result that is no exit status: the connection to PostgreSQL was lost, or another `tarry outbox` moved tasks of the
 * table. The caller begins again: it reads the receipt of the last batch, and deletes the batch's rows. */
#define AGAIN (-1)
#define TABLE_DEFAULT "tarry_outbox"

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"postgres", ARG_VALUE, "CONNINFO", "connection to PostgreSQL, such as 'host=db dbname=shop' or postgresql://…"},
    {"table", ARG_VALUE, "NAME", "name of the table [tarry_outbox]"},
    {"init", ARG_FLAG, NULL, "create the table if it does not exist, and end"},
    {"once", ARG_FLAG, NULL, "end when the table has no more rows to move [wait for more]"},
    {0},
};

const struct command command_outbox = {
    .name = "outbox",
    .usage = "--postgres CONNINFO [--table NAME] [--init] [--once]",
    .summary = "move tasks from a table of PostgreSQL into Tarry, each exactly once",
    .text = "An application inserts a task into the table in the same transaction as its own data, so that\n"
            "both are there or neither is. This command moves the rows to Tarry and deletes them. If it or the\n"
            "broker is killed at any moment, repeat it: no row is lost, and none is scheduled twice.\n\n"
            "The column 'task' is a task as a line of 'tarry schedule --from', for example\n"
            "  INSERT INTO tarry_outbox (task) VALUES\n"
            "    ('{\"queue\":\"close-order\",\"key\":\"order-1\",\"in\":\"30m\",\"json\":{\"order\":1}}');\n"
            "A delay (in, delay_ms) counts from the start of that transaction. A row that is refused stays in\n"
            "the table with the reason in the column 'refused'; set that to NULL to try the row again.\n\n"
            "Several relays may run for one table; one works, the others wait. The password of PostgreSQL may\n"
            "be in ~/.pgpass or PGPASSWORD. The task in queue tarry-outbox names the rows of the last batch.",
    .options = options,
    .positional_max = 0,
    .examples = "tarry outbox --postgres 'host=db dbname=shop' --init\n"
                "tarry outbox --postgres postgresql://relay@db/shop",
    .run = run,
};

struct row {
    char mark[MARK_SIZE + 1];
    char *task; /* owned: JSON */
    size_t size;
    uint64_t age_ms; /* age of the row in ms when it was read */
    uint64_t read_ms;
    bool is_out; /* true: the row was refused, and stays in the table */
};

struct outbox {
    struct tool *tool;
    const char *conninfo;
    const char *table;
    PGconn *connection; /* NULL: not connected */
    char *name;         /* the table's name, quoted; owned by libpq */
    char key[128];      /* key of the receipt's task */
    uint64_t receipt;   /* id of the live receipt; 0: none */
    struct row rows[BATCH_ROWS];
    size_t count;
    uint64_t moved, refused;
    bool was_lost; /* the loss of the connection to PostgreSQL was reported */
};

/* ---- PostgreSQL */

static void disconnect(struct outbox *o) {
    if (o->name != NULL) pq.freemem(o->name);
    if (o->connection != NULL) pq.finish(o->connection);
    o->name = NULL;
    o->connection = NULL;
}

/* Closes the connection after an error. The first error is reported, with its first line. */
static void lose(struct outbox *o, const char *consequence) {
    const char *message = pq.errorMessage(o->connection);
    if (!o->was_lost) tool_say("PostgreSQL: %.*s%s", (int)strcspn(message, "\n"), message, consequence);
    o->was_lost = true;
    disconnect(o);
}

/* Runs a statement. NULL: it failed, and the connection was closed. */
static PGresult *query(struct outbox *o, const char *text, int count, const char *const *values) {
    PGresult *result = pq.execParams(o->connection, text, count, NULL, values, NULL, NULL, 0);
    ExecStatusType status = pq.resultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return result;
    pq.clear(result);
    lose(o, "");
    return NULL;
}

/* Like query, with the table's name in place of %s. */
static PGresult *query_table(struct outbox *o, const char *format, int count, const char *const *values) {
    char text[1024];
    snprintf(text, sizeof text, format, o->name);
    return query(o, text, count, values);
}

static bool execute(struct outbox *o, const char *format, int count, const char *const *values) {
    PGresult *result = query_table(o, format, count, values);
    if (result == NULL) return false;
    pq.clear(result);
    return true;
}

static bool reconnect(struct outbox *o) {
    if (o->connection != NULL) return true;
    o->connection = pq.connectdb(o->conninfo);
    if (pq.status(o->connection) == CONNECTION_OK) {
        o->name = pq.escapeIdentifier(o->connection, o->table, strlen(o->table));
        if (o->name != NULL) return true;
    }
    lose(o, "; retrying");
    return false;
}

/* Waits for a notification that rows were inserted, at most for one polling interval. */
static void await(struct outbox *o) {
    struct pollfd fds[2] = {{.fd = signals_fd(), .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    if (o->connection != NULL) fds[1].fd = pq.socket(o->connection);
    (void)poll(fds, 2, RETRY_MS);
    if (o->connection == NULL || fds[1].revents == 0) return;
    PGnotify *notify;
    if (!pq.consumeInput(o->connection)) {
        disconnect(o);
        return;
    }
    while ((notify = pq.notifies(o->connection)) != NULL) pq.freemem(notify);
}

static bool create(struct outbox *o) {
    return execute(o,
                   "CREATE TABLE IF NOT EXISTS %s (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, mark uuid "
                   "NOT NULL DEFAULT gen_random_uuid(), made timestamptz NOT NULL DEFAULT now(), task jsonb NOT NULL, "
                   "refused text)",
                   0, NULL) &&
           execute(o,
                   "CREATE OR REPLACE FUNCTION tarry_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS "
                   "'BEGIN NOTIFY tarry_outbox; RETURN NULL; END'",
                   0, NULL) &&
           execute(o, "DROP TRIGGER IF EXISTS tarry_outbox_notify ON %s", 0, NULL) &&
           execute(
               o,
               "CREATE TRIGGER tarry_outbox_notify AFTER INSERT OR UPDATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION "
               "tarry_outbox_notify()",
               0, NULL);
}

static void rows_free(struct outbox *o) {
    for (size_t i = 0; i < o->count; i++) free(o->rows[i].task);
    o->count = 0;
}

/* Reads the next rows. False: PostgreSQL was lost. */
static bool read_rows(struct outbox *o) {
    static const char text[] =
        "SELECT mark, task::text, greatest(0, floor(extract(epoch FROM clock_timestamp() - made) * 1000))::bigint "
        "FROM %s WHERE refused IS NULL ORDER BY number LIMIT 500";
    size_t bytes = 0;
    rows_free(o);
    PGresult *result = query_table(o, text, 0, NULL);
    if (result == NULL) return false;
    for (int i = 0; i < pq.ntuples(result) && o->count < BATCH_ROWS; i++) {
        size_t size = (size_t)pq.getlength(result, i, 1);
        if (o->count > 0 && bytes + size > BATCH_BYTES) break;
        struct row *row = &o->rows[o->count++];
        *row = (struct row){.size = size, .read_ms = steady_ms()};
        snprintf(row->mark, sizeof row->mark, "%s", pq.getvalue(result, i, 0));
        row->task = tool_strdup(pq.getvalue(result, i, 1));
        row->age_ms = strtoull(pq.getvalue(result, i, 2), NULL, 10);
        bytes += size;
    }
    pq.clear(result);
    return true;
}

/* Deletes the rows with these marks, which are separated by commas. */
static bool delete_marks(struct outbox *o, const char *marks) {
    const char *values[] = {marks};
    return execute(o, "DELETE FROM %s WHERE mark = ANY (string_to_array($1, ',')::uuid[])", 1, values);
}

/* ---- the receipt */

/* Takes the receipt of the last batch, and deletes its rows, which are in Tarry. 0, AGAIN, or an exit status after an
 * error message. */
static int resolve(struct outbox *o) {
    struct tarry_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    int status = 0;
    int code = tarry_get(o->tool->client, &(struct tarry_ref){.queue = RECEIPT_QUEUE, .key = o->key}, true, NULL, &view,
                         message);
    if (code != TARRY_OK) return tool_refused(o->tool, code, message);
    o->receipt = 0;
    if (view->outcome == TARRY_PENDING) {
        const size_t head = strlen(RECEIPT_HEAD);
        o->receipt = view->id;
        if (!view->has_content || view->payload_size < head || memcmp(view->payload, RECEIPT_HEAD, head) != 0) {
            tool_say("task '%s' of queue %s is no receipt of this command", o->key, RECEIPT_QUEUE);
            status = EXIT_REFUSED;
        } else if (view->payload_size > head) {
            struct text marks = {0};
            text_add(&marks, (const char *)view->payload + head, view->payload_size - head);
            if (!delete_marks(o, text_str(&marks))) status = AGAIN;
            text_deinit(&marks);
        }
    }
    tarry_view_free(view);
    return status;
}

/* ---- a batch */

static bool refuse(struct outbox *o, struct row *row, int code, const char *message) {
    const char *sentence = message[0] != 0 ? message : tarry_code_sentence(code);
    const char *values[] = {row->mark, sentence};
    row->is_out = true;
    o->refused++;
    tool_say("row %s is refused: %s: %s", row->mark, tarry_code_name(code), sentence);
    return execute(o, "UPDATE %s SET refused = $2 WHERE mark = $1::uuid", 2, values);
}

/* Adds the task of a row to the commit. Returns false if PostgreSQL was lost while the row's refusal was stored there.
 */
static bool add_row(struct outbox *o, struct row *row, tarry_commit *commit) {
    static struct fields fields;
    bool is_fine = true;
    int code = fields_parse(&fields, VERB_SCHEDULE, row->task, row->size);
    if (code != TARRY_OK) {
        is_fine = refuse(o, row, code, fields.message);
    } else {
        struct tarry_schedule_options task = fields.schedule;
        const uint64_t passed_ms = row->age_ms + (steady_ms() - row->read_ms);
        if (task.when == TARRY_DELAY) task.when_ms = task.when_ms > passed_ms ? task.when_ms - passed_ms : 0;
        tarry_commit_schedule(commit, &task);
    }
    fields_deinit(&fields);
    return is_fine;
}

static bool add_all(struct outbox *o, tarry_commit *commit) {
    struct text receipt = {0};
    const char *gap = RECEIPT_HEAD;
    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i].is_out) continue;
        text_printf(&receipt, "%s%s", gap, o->rows[i].mark);
        gap = ",";
    }
    tarry_commit_clear(commit);
    if (o->receipt != 0) tarry_commit_cancel(commit, &(struct tarry_ref){.id = o->receipt}, false);
    tarry_commit_schedule(commit, &(struct tarry_schedule_options){.queue = RECEIPT_QUEUE,
                                                                   .key = o->key,
                                                                   .when = TARRY_DELAY,
                                                                   .when_ms = RECEIPT_DUE_MS,
                                                                   .expires_ms = 1,
                                                                   .payload = receipt.data,
                                                                   .payload_size = receipt.size});
    text_deinit(&receipt);
    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i].is_out) continue;
        if (!add_row(o, &o->rows[i], commit)) return false;
        /* If a row was refused, builds the commit again with a receipt that does not name the row. */
        if (o->rows[i].is_out) return add_all(o, commit);
    }
    return true;
}

static size_t left(const struct outbox *o) {
    size_t count = 0;
    for (size_t i = 0; i < o->count; i++) count += !o->rows[i].is_out;
    return count;
}

/* Handles the results. Returns 0, AGAIN, or an exit status after an error message. *out_again: the commit had no effect
 * and must be repeated without the refused rows. */
static int judge(struct outbox *o, const struct tarry_result *results, size_t receipt_ops, bool *out_again) {
    size_t at = receipt_ops;
    for (size_t i = 0; i < receipt_ops; i++) {
        if (results[i].code == TARRY_OK || results[i].code == TARRY_ABORTED) continue;
        if (results[i].code != TARRY_EXISTS && results[i].code != TARRY_NOT_DONE)
            return tool_refused(o->tool, results[i].code, results[i].message);
        tool_say("another relay has moved a batch of this table: this one reads its receipt");
        return AGAIN;
    }
    *out_again = results[receipt_ops - 1].code == TARRY_ABORTED;
    for (size_t i = 0; i < o->count; i++) {
        if (o->rows[i].is_out) continue;
        const struct tarry_result *result = &results[at++];
        if (result->code == TARRY_OK || result->code == TARRY_ABORTED) continue;
        if (!refuse(o, &o->rows[i], result->code, result->message)) return AGAIN;
    }
    if (!*out_again) o->receipt = results[receipt_ops - 1].id;
    return 0;
}

/* Moves the rows that were read. 0, AGAIN, or an exit status after an error message. */
static int move(struct outbox *o, tarry_commit *commit) {
    struct text marks = {0};
    for (bool again = true; again;) {
        const struct tarry_result *results = NULL;
        size_t count = 0;
        const size_t receipt_ops = o->receipt != 0 ? 2 : 1;
        again = false;
        if (!add_all(o, commit)) return AGAIN;
        if (left(o) == 0) return 0;
        int code = tarry_commit_run(commit, NULL, &results, &count);
        if (results == NULL || count != receipt_ops + left(o)) return tool_refused(o->tool, code, NULL);
        int status = judge(o, results, receipt_ops, &again);
        if (status != 0) return status;
    }
    for (size_t i = 0; i < o->count; i++)
        if (!o->rows[i].is_out) text_printf(&marks, "%s%s", marks.size > 0 ? "," : "", o->rows[i].mark);
    bool is_fine = delete_marks(o, text_str(&marks));
    o->moved += left(o);
    text_deinit(&marks);
    return is_fine ? 0 : AGAIN;
}

/* ---- the relay */

/* Makes this process the only relay of the table while the connection lasts, and gets the receipt's key. False: another
 * relay is active, or PostgreSQL was lost. */
static bool begin(struct outbox *o) {
    const char *values[] = {o->name};
    PGresult *result =
        query(o,
              "SELECT pg_try_advisory_lock(hashtextextended('tarry outbox', tableoid::bigint)), 'outbox:' || "
              "(SELECT system_identifier FROM pg_control_system()) || ':' || tableoid "
              "FROM (SELECT $1::regclass::oid AS tableoid) AS named",
              1, values);
    if (result == NULL) return false;
    bool is_ours = pq.getvalue(result, 0, 0)[0] == 't';
    snprintf(o->key, sizeof o->key, "%s", pq.getvalue(result, 0, 1));
    pq.clear(result);
    if (is_ours && !execute(o, "LISTEN tarry_outbox", 0, NULL)) return false;
    if (is_ours) o->was_lost = false;
    return is_ours;
}

/* Works until a signal, a lost connection or, with `once`, an empty table. */
static int work(struct outbox *o, tarry_commit *commit, bool once, bool *out_over) {
    int status = resolve(o);
    while (status == 0 && !signals_ended()) {
        if (!read_rows(o)) return AGAIN;
        if (o->count > 0)
            status = move(o, commit);
        else if (once)
            break;
        else
            await(o);
        if (o->connection == NULL) return AGAIN;
    }
    *out_over = status == 0;
    return status;
}

static int relay(struct outbox *o, bool once) {
    tarry_commit *commit = NULL;
    bool is_over = false;
    int status = tool_connect_lasting(o->tool);
    if (status != 0) return status;
    signals_graceful();
    int code = tarry_commit_new(o->tool->client, true, &commit);
    if (code != TARRY_OK) return tool_refused(o->tool, code, NULL);
    status = AGAIN;
    while (!is_over && status == AGAIN && !signals_ended()) {
        if (reconnect(o) && begin(o))
            status = work(o, commit, once, &is_over);
        else
            await(o);
    }
    tarry_commit_free(commit);
    return signals_ended() && status == AGAIN ? EXIT_FINE : status;
}

static int summarize(const struct outbox *o, int status) {
    struct text out = {0};
    if (!o->tool->json) {
        tool_say("%llu moved, %llu refused", (unsigned long long)o->moved, (unsigned long long)o->refused);
        return status;
    }
    out_begin(&out, '{');
    out_text(&out, "result", "moved");
    out_number(&out, "moved", o->moved);
    out_number(&out, "refused", o->refused);
    out_line_end(&out);
    status = output_flush(&out, status);
    text_deinit(&out);
    return status;
}

static int run(struct tool *tool, const struct args *args) {
    static struct outbox outbox;
    struct outbox *o = &outbox;
    const char *table = args_get(args, "table");
    int status = EXIT_FINE;
    *o = (struct outbox){.tool = tool,
                         .conninfo = args_get(args, "postgres"),
                         .table = table != NULL ? table : TABLE_DEFAULT};
    if (o->conninfo == NULL) return tool_usage(args, "missing database: give --postgres CONNINFO");
    const char *why = postgres_load();
    if (why != NULL) {
        tool_say("libpq cannot be loaded: %s; install it with apt-get install libpq5", why);
        return EXIT_REFUSED;
    }
    if (args_has(args, "init")) {
        status = reconnect(o) && create(o) ? EXIT_FINE : EXIT_REFUSED;
    } else {
        status = relay(o, args_has(args, "once"));
        if (status == EXIT_FINE && o->refused > 0) status = EXIT_REFUSED;
        status = summarize(o, status);
    }
    rows_free(o);
    disconnect(o);
    return status;
}
