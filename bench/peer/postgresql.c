/* postgresql.c: a table with an index by due time; a claim locks rows (SKIP LOCKED), an ack deletes them and
 * commits. With synchronous_commit the data is on disk before the answer. Version 3 of the protocol: messages of a
 * letter, a length and a body. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "peer.h"

#define BATCH_MAX 2000
#define ROWS "512"
#define ROWS_NUMBER 512
#define NOTHING_NS 1000000u
#define HEAD_SIZE 5u

static void put_number(struct peer_link *link, uint32_t number, size_t size) {
    uint32_t big = htonl(number);
    peer_put(link, (uint8_t *)&big + 4 - size, size);
}

/* Begins a message. Letter 0: the startup message, which has no letter. */
static void begin(struct peer_link *link, char letter, size_t body_size) {
    if (letter != 0) peer_put(link, &letter, 1);
    put_number(link, (uint32_t)(body_size + 4), 4);
}

/* An error's fields are a letter and a text each; M is the message. */
static _Noreturn void die_of(const uint8_t *fields, size_t size) {
    for (size_t i = 0; i < size && fields[i] != 0; i += strnlen((const char *)fields + i, size - i) + 1)
        if (fields[i] == 'M') bench_die("postgresql: %.*s", (int)(size - i - 1), (const char *)fields + i + 1);
    bench_die("postgresql: an error");
}

/* Returns the next message's letter; 0: incomplete. `*out_body` is valid until the next input. */
static char message(struct peer_link *link, const uint8_t **out_body, size_t *out_size) {
    size_t heard = 0;
    const uint8_t *bytes = peer_heard(link, &heard);
    uint32_t length = 0;
    if (heard < HEAD_SIZE) return 0;
    memcpy(&length, bytes + 1, sizeof(length));
    length = ntohl(length);
    if (heard < 1 + (size_t)length) return 0;
    *out_body = bytes + HEAD_SIZE;
    *out_size = length - 4;
    if (bytes[0] == 'E') die_of(bytes + HEAD_SIZE, length - 4);
    peer_take(link, 1 + (size_t)length);
    return (char)bytes[0];
}

static bool answer(struct peer_link *link) {
    const uint8_t *body;
    size_t size;
    for (char letter; (letter = message(link, &body, &size)) != 0;)
        if (letter == 'Z') return true;
    return false;
}

static void await(struct peer_link *link) {
    peer_flush(link);
    while (!answer(link)) peer_hear(link);
}

static void ask(struct peer_link *link, const char *query) {
    begin(link, 'Q', strlen(query) + 1);
    peer_put(link, query, strlen(query) + 1);
}

static void name_statement(struct peer_link *link, const char *name, const char *query) {
    begin(link, 'P', strlen(name) + 1 + strlen(query) + 1 + 2);
    peer_put(link, name, strlen(name) + 1);
    peer_put(link, query, strlen(query) + 1);
    put_number(link, 0, 2); /* number of parameter types: 0, because the columns of the table determine them */
    begin(link, 'S', 0);
    await(link);
}

static void prepare(struct peer_link *link) {
    static const char who[] = "user\0postgres\0database\0postgres\0";
    begin(link, 0, 4 + sizeof(who));
    put_number(link, 196608, 4); /* version 3.0 */
    peer_put(link, who, sizeof(who));
    await(link);
    /* Only one client at a time creates the table, because two at once would fail. */
    static const char make[] =
        "SET client_min_messages = error; SELECT pg_advisory_xact_lock(1); "
        "CREATE TABLE IF NOT EXISTS task (id uuid PRIMARY KEY, due bigint NOT NULL, payload text NOT NULL); "
        "CREATE INDEX IF NOT EXISTS task_due ON task (due)";
    /* These settings make PostgreSQL use the index, although the table was empty when the plan was made. */
    static const char plan[] = "SET enable_sort = off; SET enable_seqscan = off; SET enable_bitmapscan = off; "
                               "SET plan_cache_mode = force_custom_plan";
    ask(link, make);
    await(link);
    ask(link, plan);
    await(link);
    name_statement(link, "one", "INSERT INTO task VALUES ($1::uuid, $2::bigint, $3::text)");
    name_statement(link, "many", "INSERT INTO task SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[])");
}

struct column {
    char bytes[BATCH_MAX * (PEER_PAYLOAD_SIZE + 1) + 3];
    size_t size;
};

static void write_cell(struct column *column, const char *text, size_t size, bool is_many) {
    if (is_many) {
        column->bytes[column->size] = column->size == 0 ? '{' : ',';
        column->size++;
    }
    memcpy(column->bytes + column->size, text, size);
    column->size += size;
}

static void schedule(struct peer_link *link, const struct peer_task *tasks, size_t count) {
    static _Thread_local struct column columns[3];
    /* Contents: an empty portal name, the statement's name, no format codes (text), three parameters. */
    static const char head_one[] = "\0one\0\0\0\0\3", head_many[] = "\0many\0\0\0\0\3";
    const bool is_many = count > 1;
    for (size_t i = 0; i < 3; i++) columns[i].size = 0;
    for (size_t i = 0; i < count; i++) {
        char due[24];
        int due_size = snprintf(due, sizeof(due), "%llu", (unsigned long long)tasks[i].due_ms);
        write_cell(&columns[0], tasks[i].id, PEER_ID_SIZE, is_many);
        write_cell(&columns[1], due, (size_t)due_size, is_many);
        write_cell(&columns[2], tasks[i].payload, PEER_PAYLOAD_SIZE, is_many);
    }
    size_t size = (is_many ? sizeof(head_many) : sizeof(head_one)) - 1 + 2;
    for (size_t i = 0; i < 3; i++) {
        if (is_many) columns[i].bytes[columns[i].size++] = '}';
        size += 4 + columns[i].size;
    }
    begin(link, 'B', size);
    peer_put(link, is_many ? head_many : head_one, (is_many ? sizeof(head_many) : sizeof(head_one)) - 1);
    for (size_t i = 0; i < 3; i++) {
        put_number(link, (uint32_t)columns[i].size, 4);
        peer_put(link, columns[i].bytes, columns[i].size);
    }
    put_number(link, 0, 2);
    begin(link, 'E', 5);
    peer_put(link, "\0\0\0\0\0", 5);
    begin(link, 'S', 0);
}

/* Reads a row of id and payload. */
static void take_row(struct peer_link *link, struct ledger *ledger, const uint8_t *body, size_t size) {
    /* PostgreSQL prints uuids with 4 hyphens. */
    const size_t id_at = 2 + 4, id_size = PEER_ID_SIZE + 4, payload_at = id_at + id_size + 4;
    if (size != payload_at + PEER_PAYLOAD_SIZE || link->claimed_count == ROWS_NUMBER)
        bench_die("postgresql: a row of %zu bytes", size);
    char *id = link->claimed[link->claimed_count++];
    for (size_t i = 0, to = 0; i < id_size; i++)
        if (body[id_at + i] != '-' && to < PEER_ID_SIZE) id[to++] = (char)body[id_at + i];
    ledger_arrived(ledger, body + payload_at, PEER_PAYLOAD_SIZE, 0);
}

static void claim(struct peer_link *link, struct ledger *ledger) {
    char query[256];
    const uint8_t *body;
    size_t size;
    snprintf(query, sizeof(query),
             "BEGIN; SELECT id, payload FROM task WHERE due <= %llu ORDER BY due LIMIT " ROWS " FOR UPDATE SKIP LOCKED",
             (unsigned long long)bench_wall_ms());
    ask(link, query);
    peer_flush(link);
    for (char letter = 0; letter != 'Z';) {
        letter = message(link, &body, &size);
        if (letter == 0) peer_hear(link);
        if (letter == 'D') take_row(link, ledger, body, size);
    }
}

static size_t consume(struct peer_link *link, struct ledger *ledger) {
    static const char before[] = "DELETE FROM task WHERE id = ANY('{", after[] = "}'::uuid[]); COMMIT";
    claim(link, ledger);
    const size_t count = link->claimed_count;
    link->claimed_count = 0;
    if (count == 0) {
        ask(link, "COMMIT");
        await(link);
        bench_sleep_until_ns(bench_now_ns() + NOTHING_NS);
        return 0;
    }
    begin(link, 'Q', sizeof(before) - 1 + count * (PEER_ID_SIZE + 1) - 1 + sizeof(after));
    peer_put(link, before, sizeof(before) - 1);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) peer_put(link, ",", 1);
        peer_put(link, link->claimed[i], PEER_ID_SIZE);
    }
    peer_put(link, after, sizeof(after));
    await(link);
    return count;
}

const struct peer_protocol peer_postgresql = {.name = "postgresql",
                                              .batch_max = BATCH_MAX,
                                              .prepare = prepare,
                                              .schedule = schedule,
                                              .answer = answer,
                                              .consume = consume};
