/* beanstalk_stats.c: stats, stats-tube, list-tubes, pause-tube. The broker counts jobs; counts that only beanstalkd has
 * (commands, connections) are counted here since tarryd's start. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "beanstalk_parts.h"

#define VERSION_SPOKEN "1.12"

static uint64_t jobs_of(const Tarry__QueueStats *queue) {
    return queue->pending + queue->ready + queue->in_flight + queue->dead;
}

static bool is_tube(const struct beanstalk *server, const char *name, uint64_t jobs) {
    const struct beanstalk_tube *tube = beanstalk_tube_find(&server->tubes, name);
    return jobs > 0 || strcmp(name, "default") == 0 || (tube != NULL && beanstalk_tube_is_referred(tube));
}

static void ask_stats(struct beanstalk_connection *connection, const char *queue, gateway_reply *reply) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    stats.queue = (char *)queue;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    connection_ask(connection, &request, reply);
}

static void add_counts(struct beanstalk_counts *counts, const Tarry__QueueStats *queue) {
    counts->ready += queue->ready;
    counts->reserved += queue->in_flight;
    counts->delayed += queue->pending;
    counts->buried += queue->dead;
    counts->total += queue->scheduled;
}

/* ---- urgent jobs: ready, with a pri below 1024 */

static void end_stats(struct beanstalk_connection *connection);

static void count_urgent(struct beanstalk_connection *connection);

static void on_urgent_fresh(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    const struct beanstalk_note *note;
    connection->asked = 0;
    for (size_t i = 0; reply != NULL && reply->code == TARRY__CODE__OK && i < reply->list->n_tasks; i++) {
        note = beanstalk_note_find(&connection->server->notes, reply->list->tasks[i]->id);
        connection->counts.urgent += note != NULL && note->has_pri && note->pri < BEANSTALK_URGENT_PRI;
    }
    connection->urgent_at++;
    count_urgent(connection);
}

static void list_ready(struct beanstalk_connection *connection, uint64_t from_ms, uint64_t to_ms,
                       gateway_reply *reply) {
    Tarry__List list = TARRY__LIST__INIT;
    list.queue = connection->urgent_tubes[connection->urgent_at];
    list.states = STATE_READY;
    list.due_from_ms = from_ms;
    list.due_to_ms = to_ms;
    list.limit = BEANSTALK_PAGE;
    connection_list(connection, &list, reply);
}

static void on_urgent(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    connection->asked = 0;
    if (reply != NULL && reply->code == TARRY__CODE__OK) connection->counts.urgent += reply->list->n_tasks;
    list_ready(connection, BEANSTALK_RANK_END_MS, 0, on_urgent_fresh); /* fresh jobs, which are not ranked yet */
}

static void count_urgent(struct beanstalk_connection *connection) {
    if (connection->urgent_at == connection->urgent_count)
        end_stats(connection);
    else
        list_ready(connection, beanstalk_rank_ms(0), beanstalk_rank_ms(BEANSTALK_URGENT_PRI), on_urgent);
}

static void add_urgent(struct beanstalk_connection *connection, const Tarry__QueueStats *queue) {
    if (queue->ready == 0 || connection->urgent_tubes == NULL) return;
    if (connection->urgent_count == BEANSTALK_URGENT_TUBES_MAX) return;
    memcpy(connection->urgent_tubes[connection->urgent_count++], queue->name, strlen(queue->name) + 1);
}

static void begin_urgent(struct beanstalk_connection *connection) {
    connection->counts = (struct beanstalk_counts){0};
    connection->urgent_count = connection->urgent_at = 0;
    connection->paused_until_ms = 0;
    free(connection->urgent_tubes);
    connection->urgent_tubes = calloc(BEANSTALK_URGENT_TUBES_MAX, sizeof(*connection->urgent_tubes));
}

/* ---- stats-tube */

static void describe_tube(struct beanstalk_connection *connection) {
    static const struct beanstalk_tube nothing;
    const struct beanstalk_tube *tube = beanstalk_tube_find(&connection->server->tubes, connection->tube);
    if (tube == NULL) tube = &nothing;
    uint64_t until_ms = connection->paused_until_ms;
    bool is_paused = until_ms > connection->now_ms;
    const struct beanstalk_tube_view view = {
        .name = connection->tube,
        .jobs = connection->counts,
        .using = tube->using,
        .watching = tube->watching,
        .waiting = tube->waiting,
        .deletes = tube->deletes,
        .pauses = tube->pauses,
        .pause_s = is_paused ? tube->pause_s : 0,
        .pause_left_s = beanstalk_left_s(until_ms, connection->now_ms),
    };
    beanstalk_text_tube(&connection->yaml, &view);
}

static void on_stats_tube(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    connection->asked = 0;
    bool is_none = reply != NULL && reply->code == TARRY__CODE__NO_SUCH_QUEUE;
    if (!is_none && !reply_is_fine(connection, reply)) return;
    assert(reply != NULL);
    begin_urgent(connection);
    uint64_t jobs = 0;
    if (!is_none && reply->stats->n_queues > 0) {
        const Tarry__QueueStats *queue = reply->stats->queues[0];
        add_counts(&connection->counts, queue);
        add_urgent(connection, queue);
        jobs = jobs_of(queue);
        connection->paused_until_ms = queue->paused ? queue->paused_until_ms : 0;
        connection->now_ms = reply->stats->broker != NULL ? reply->stats->broker->now_ms : beanstalk_wall_ms();
    }
    if (is_tube(connection->server, connection->tube, jobs))
        count_urgent(connection);
    else
        connection_answer(connection, "NOT_FOUND");
}

void stats_tube_begin(struct beanstalk_connection *connection) {
    ask_stats(connection, connection->tube, on_stats_tube);
}

/* ---- stats */

static uint64_t us_of(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static void describe_server(struct beanstalk_connection *connection) {
    const struct beanstalk *server = connection->server;
    const struct beanstalk_connection *other = NULL;
    struct rusage usage = {0};
    struct utsname node = {0};
    (void)getrusage(RUSAGE_SELF, &usage); /* if getrusage fails, `usage` stays zero */
    (void)uname(&node);
    struct beanstalk_server_view view = {
        .jobs = connection->counts,
        .commands = server->commands,
        .timeouts = server->timeouts,
        .tubes = connection->tube_count,
        .job_max = BEANSTALK_JOB_MAX,
        .connections = server->connection_count,
        .waiting = server->waiting,
        .connections_total = server->connections_total,
        .pid = getpid(),
        .version = VERSION_SPOKEN,
        .user_us = us_of(usage.ru_utime),
        .system_us = us_of(usage.ru_stime),
        .uptime_s = (beanstalk_now_ms() - server->started_ms) / 1000,
        .id = server->id,
        .hostname = node.nodename,
        .os = node.version,
        .platform = node.machine,
    };
    TAILQ_FOREACH(other, &server->connections, all) {
        view.producers += other->is_producer;
        view.workers += other->is_worker;
    }
    beanstalk_text_server(&connection->yaml, &view);
}

/* Returns the number of tubes: queues that contain tasks, tubes that a connection refers to, and "default". */
static size_t count_tubes(const struct beanstalk *server, char *const *full, size_t full_count) {
    const struct beanstalk_tube *tube = NULL;
    size_t count = full_count;
    bool has_default = false;
    for (size_t i = 0; i < full_count; i++) has_default |= strcmp(full[i], "default") == 0;
    TAILQ_FOREACH(tube, &server->tubes.all, all) {
        if (!is_tube(server, tube->name, 0)) continue;
        bool is_full = false;
        for (size_t i = 0; i < full_count && !is_full; i++) is_full = strcmp(full[i], tube->name) == 0;
        count += !is_full;
        has_default |= strcmp(tube->name, "default") == 0;
    }
    return count + !has_default;
}

static void on_stats(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    begin_urgent(connection);
    char **full = calloc(reply->stats->n_queues + 1, sizeof(char *));
    size_t full_count = 0;
    for (size_t i = 0; i < reply->stats->n_queues; i++) {
        const Tarry__QueueStats *queue = reply->stats->queues[i];
        add_counts(&connection->counts, queue);
        add_urgent(connection, queue);
        if (full != NULL && jobs_of(queue) > 0) full[full_count++] = queue->name;
    }
    connection->tube_count = count_tubes(connection->server, full, full_count);
    free(full);
    count_urgent(connection);
}

void stats_begin(struct beanstalk_connection *connection) {
    ask_stats(connection, "", on_stats);
}

static void end_stats(struct beanstalk_connection *connection) {
    if (connection->command.kind == BEANSTALK_STATS)
        describe_server(connection);
    else
        describe_tube(connection);
    connection_reply_yaml(connection);
    connection_finish(connection);
}

/* ---- list-tubes */

static bool is_listed(const struct beanstalk *server, const char *name) {
    const struct beanstalk_tube *tube = beanstalk_tube_find(&server->tubes, name);
    return strcmp(name, "default") == 0 || (tube != NULL && beanstalk_tube_is_referred(tube));
}

static void on_queues(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    const struct beanstalk *server = connection->server;
    const struct beanstalk_tube *tube = NULL;
    text_printf(&connection->yaml, "---\n- default\n");
    TAILQ_FOREACH(tube, &server->tubes.all, all) {
        if (beanstalk_tube_is_referred(tube) && strcmp(tube->name, "default") != 0)
            beanstalk_text_item(&connection->yaml, tube->name);
    }
    for (size_t i = 0; i < reply->queues->n_queues; i++) {
        const Tarry__QueueView *queue = reply->queues->queues[i];
        if (queue->pending + queue->in_flight + queue->dead > 0 && !is_listed(server, queue->name))
            beanstalk_text_item(&connection->yaml, queue->name);
    }
    connection_reply_yaml(connection);
    connection_finish(connection);
}

void list_tubes_begin(struct beanstalk_connection *connection) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Queues queues = TARRY__QUEUES__INIT;
    request.body_case = TARRY__REQUEST__BODY_QUEUES;
    request.queues = &queues;
    connection_ask(connection, &request, on_queues);
}

/* ---- pause-tube */

static void on_paused(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    if (!reply_is_fine(connection, reply)) return;
    if (result_code(reply, 0) != TARRY__CODE__OK) {
        connection_refuse(connection, result_code(reply, 0));
        return;
    }
    struct beanstalk_tube *tube = beanstalk_tube_make(&connection->server->tubes, connection->tube);
    if (tube != NULL) {
        tube->pauses++;
        tube->pause_s = connection->command.delay_s;
    }
    connection_answer(connection, "PAUSED");
}

static void pause_tube(struct beanstalk_connection *connection) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueuePause pause = TARRY__QUEUE_PAUSE__INIT;
    pause.queue = connection->tube;
    pause.paused = connection->command.delay_s > 0; /* in beanstalkd, too, a delay of 0 ends the pause at once */
    pause.for_ms = (uint64_t)connection->command.delay_s * 1000;
    op.op_case = TARRY__OP__OP_QUEUE_PAUSE;
    op.queue_pause = &pause;
    connection_commit(connection, &op, 1, on_paused);
}

static void on_pausable(void *argument, const Tarry__Reply *reply) {
    struct beanstalk_connection *connection = argument;
    connection->asked = 0;
    bool is_none = reply != NULL && reply->code == TARRY__CODE__NO_SUCH_QUEUE;
    if (!is_none && !reply_is_fine(connection, reply)) return;
    assert(reply != NULL);
    uint64_t jobs = is_none || reply->stats->n_queues == 0 ? 0 : jobs_of(reply->stats->queues[0]);
    if (is_tube(connection->server, connection->tube, jobs))
        pause_tube(connection);
    else
        connection_answer(connection, "NOT_FOUND");
}

void pause_begin(struct beanstalk_connection *connection) {
    if ((uint64_t)connection->command.delay_s * 1000 > PAUSE_MAX_MS)
        connection_answer(connection, "BAD_FORMAT");
    else
        ask_stats(connection, connection->tube, on_pausable);
}
