/* doctor_brokers.c: checks the status of the brokers, and whether both nodes of a pair agree. */
#include <errno.h>
#include <inttypes.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "findings.h"
#include "nodes.h"
#include "question.h"
#include "units.h"

/* ---- checks every certificate in a PEM file */

#define SOON_S (21ll * 24 * 3600)
#define DAY_S 86400
/* Maximum size of a certificate file in bytes; error messages contain this number. */
#define CERTIFICATE_FILE_MAX (1 << 20)

/* Computes the seconds from now until `time`; negative: `time` has passed. Returns false if `time` is invalid. */
static bool seconds_until(const ASN1_TIME *time, long long *out) {
    int days = 0, seconds = 0;
    if (time == NULL || ASN1_TIME_diff(&days, &seconds, NULL, time) != 1) return false;
    *out = (long long)days * DAY_S + seconds;
    return true;
}

/* Returns the time in whole days, or in whole minutes if it is less than one day. */
static uint64_t in_whole(long long seconds) {
    long long unit = seconds >= DAY_S ? DAY_S : 60;
    return (uint64_t)(seconds / unit * unit) * 1000;
}

static void look_at(struct findings *findings, const char *path, X509 *certificate) {
    static const char mend[] = "replace it: tarryd reads the changed file without a restart; if the unit has a copy of "
                               "it (LoadCredential=), restart the broker";
    char name[200], text[UNITS_TEXT_SIZE];
    long long begins_s, ends_s;
    X509_NAME_oneline(X509_get_subject_name(certificate), name, (int)sizeof name);
    if (!seconds_until(X509_get0_notBefore(certificate), &begins_s) ||
        !seconds_until(X509_get0_notAfter(certificate), &ends_s)) {
        finding_add(findings, FOUND_FAIL, "certificate", mend, "%s: %s has invalid validity times", path, name);
        return;
    }
    if (begins_s > 0)
        finding_add(findings, FOUND_FAIL, "certificate", "check this host's clock", "%s: %s is not valid yet", path,
                    name);
    else if (ends_s <= 0)
        finding_add(findings, FOUND_FAIL, "certificate", mend, "%s: %s has expired, %s ago", path, name,
                    duration_format(in_whole(-ends_s), text));
    else
        finding_add(findings, ends_s < SOON_S ? FOUND_WARN : FOUND_FINE, "certificate", ends_s < SOON_S ? mend : NULL,
                    "%s: %s is valid for %s", path, name, duration_format(in_whole(ends_s), text));
}

/* Opens a regular file of at most CERTIFICATE_FILE_MAX bytes, because reading /dev/zero would never end. On failure
 * returns NULL and sets `*out_problem`. */
static FILE *open_file(const char *path, const char **out_problem) {
    struct stat status;
    bool is_wrong = stat(path, &status) == 0 && (!S_ISREG(status.st_mode) || status.st_size > CERTIFICATE_FILE_MAX);
    FILE *file = is_wrong ? NULL : fopen(path, "re");
    *out_problem = is_wrong ? "it is not a regular file of at most 1 MiB" : strerror(errno);
    return file;
}

void doctor_certificate(struct findings *findings, const char *path) {
    const char *problem;
    FILE *file = open_file(path, &problem);
    size_t count = 0;
    if (file == NULL) {
        finding_add(findings, FOUND_FAIL, "certificate", "give a readable PEM file of at most 1 MiB", "%s: %s", path,
                    problem);
        return;
    }
    for (X509 *certificate; (certificate = PEM_read_X509(file, NULL, NULL, NULL)) != NULL; count++) {
        look_at(findings, path, certificate);
        X509_free(certificate);
    }
    fclose(file);
    if (count == 0)
        finding_add(findings, FOUND_FAIL, "certificate", "give a PEM file", "%s contains no certificate", path);
}

/* ---- brokers */

#define PATIENCE_MS 3000u
/* Clock difference in ms, in addition to the duration of the request, above which doctor warns. */
#define CLOCK_OFF_MS 2000u
#define SYNC_WARN_US 100000.0
#define INDEX_BEHIND_BYTES (256ull << 20)
#define MEMORY_FULL_PER_CENT 95u
#define DISK_FAIL_BYTES (128ull << 20)
#define DISK_WARN_BYTES (512ull << 20)
#define UNSERVED_MS 10000u /* ms for which tasks may wait without any consumer before doctor warns */
#define OVERDUE_MS 300000u /* ms for which tasks may wait although a consumer is connected before doctor warns */
#define COMPARED_LATE_MS (3600ull * 1000)

static void look_at_clock(struct findings *findings, const char *url, const struct tarry_broker_stats *stats,
                          uint64_t asked_ms, uint64_t answered_ms) {
    char text[UNITS_TEXT_SIZE];
    if (stats->clock_held)
        finding_add(findings, FOUND_FAIL, "clock", "set that host's clock, or start tarryd with --accept-clock",
                    "%s: the clock has jumped, and tasks with absolute times wait", url);
    if (stats->host_ms == 0) return; /* a broker of an older version does not send its clock, so nothing is compared */
    bool is_ahead = stats->host_ms > answered_ms;
    uint64_t off_ms = is_ahead                    ? stats->host_ms - answered_ms
                      : stats->host_ms < asked_ms ? asked_ms - stats->host_ms
                                                  : 0;
    if (off_ms > CLOCK_OFF_MS)
        finding_add(findings, FOUND_WARN, "clock",
                    "one of the two clocks is wrong: compare both with a third clock, and run chrony on both hosts; "
                    "tasks with absolute times use the broker's clock",
                    "%s: the broker's clock is %s %s this host's clock", url,
                    duration_format(off_ms / 1000 * 1000, text), is_ahead ? "ahead of" : "behind");
    else
        finding_add(findings, FOUND_FINE, "clock", NULL, "%s: the broker's clock and this host's clock differ by %s",
                    url, duration_format(off_ms, text));
}

static void look_at_disk(struct findings *findings, const char *url, const struct tarry_broker_stats *stats) {
    if (stats->disk_size_bytes != 0) {
        enum found found = stats->disk_free_bytes < DISK_FAIL_BYTES   ? FOUND_FAIL
                           : stats->disk_free_bytes < DISK_WARN_BYTES ? FOUND_WARN
                                                                      : FOUND_FINE;
        finding_add(findings, found, "disk", found == FOUND_FINE ? NULL : DISK_MEND,
                    "%s: %" PRIu64 " MiB of %" PRIu64 " MiB are free", url, stats->disk_free_bytes >> 20,
                    stats->disk_size_bytes >> 20);
    }
    if (stats->fsync_us.count > 0) {
        bool is_slow = stats->fsync_us.p99 > SYNC_WARN_US;
        finding_add(findings, is_slow ? FOUND_WARN : FOUND_FINE, "sync",
                    is_slow ? "put the log on a disk of its own, with a write cache that survives a power failure"
                            : NULL,
                    "%s: a sync takes %.0f µs, p99 %.0f µs, max %.0f µs", url, stats->fsync_us.p50, stats->fsync_us.p99,
                    stats->fsync_us.max);
    }
    if (stats->archive_error[0] != 0)
        finding_add(findings, FOUND_FAIL, "archive", "repair the archive directory: the log grows until then",
                    "%s: the broker cannot archive: %s", url, stats->archive_error);
    if (stats->durable > stats->indexed && stats->durable - stats->indexed > INDEX_BEHIND_BYTES)
        finding_add(findings, FOUND_WARN, "index", "check that host's disk and CPU: the next start will take long",
                    "%s: the index lags %" PRIu64 " MiB behind the log", url, (stats->durable - stats->indexed) >> 20);
}

static void look_at_memory(struct findings *findings, const char *url, const struct tarry_broker_stats *stats) {
    uint64_t max = stats->core_bytes_max, used = stats->core_bytes;
    bool is_full = max != 0 && used > max / 100 * MEMORY_FULL_PER_CENT;
    finding_add(findings, is_full ? FOUND_WARN : FOUND_FINE, "memory",
                is_full ? "give the broker more memory (--memory), or consume the ready tasks: the broker may refuse "
                          "commits as busy"
                        : NULL,
                "%s: tasks take %" PRIu64 " MiB of %" PRIu64 " MiB", url, used >> 20, max >> 20);
}

/* Warns of one queue whose tasks wait for a consumer, or have waited for long. */
static void look_at_queue(struct findings *findings, const char *url, const struct tarry_queue_stats *queue) {
    char text[UNITS_TEXT_SIZE];
    if (queue->paused || queue->oldest_overdue_ms < UNSERVED_MS) return;
    duration_format(queue->oldest_overdue_ms / 1000 * 1000, text);
    if (queue->consumers == 0)
        finding_add(findings, FOUND_WARN, "queues",
                    "start a consumer of it; `tarry consumers` shows the connected ones and their queues",
                    "%s: queue %s has %" PRIu64 " ready tasks and no consumer; the oldest has been due for %s", url,
                    queue->name, queue->ready, text);
    else if (queue->oldest_overdue_ms > OVERDUE_MS)
        finding_add(findings, FOUND_WARN, "queues",
                    "start more consumers, or look why they are slow: `tarry consumers` shows what they have",
                    "%s: the oldest ready task of queue %s has been due for %s, and %" PRIu32
                    " consumers are connected",
                    url, queue->name, text, queue->consumers);
}

static void look_at_queues(struct findings *findings, const char *url, const struct tarry_stats_view *view) {
    uint64_t dead = 0;
    for (size_t i = 0; i < view->count; i++) {
        dead += view->queues[i]->dead;
        look_at_queue(findings, url, view->queues[i]);
    }
    if (dead > 0)
        finding_add(findings, FOUND_WARN, "queues", "`tarry dead list QUEUE` shows the reasons",
                    "%s: there are %" PRIu64 " dead letters", url, dead);
}

static void look_at_push(struct findings *findings, const char *url, const struct tarry_push_stats *push) {
    bool is_failing = push->failed_ms > push->succeeded_ms;
    if (!push->signs && push->error[0] != 0)
        finding_add(findings, FOUND_WARN, "webhooks",
                    "add a line for the queue to the file of --push-secrets: docs/WEBHOOKS.md",
                    "%s: tasks of queue %s are not pushed: %s", url, push->queue, push->error);
    else if (is_failing)
        finding_add(findings, FOUND_WARN, "webhooks", "check the target; `tarry stats` shows how it answers",
                    "%s: the last request of queue %s to %s failed: %s", url, push->queue, push->url, push->error);
    else if (push->signs)
        finding_add(findings, FOUND_FINE, "webhooks", NULL, "%s: tasks of queue %s are pushed to %s", url, push->queue,
                    push->url);
}

/* Warns of consumers that wait for queues that do not exist. Without permission to see the consumers: nothing. */
static void look_at_consumers(struct findings *findings, const struct node *node) {
    struct answer_of answer;
    char message[TARRY_MESSAGE_SIZE] = "";
    if (question_consumers(node->client, NULL, NULL, &answer, message) != TARRY_OK) return;
    for (size_t i = 0; i < answer.reply->consumers->n_consumers; i++) {
        const Tarry__ConsumerView *view = answer.reply->consumers->consumers[i];
        for (size_t k = 0; k < view->n_awaited; k++)
            finding_add(findings, FOUND_WARN, "consumers",
                        "if the name is misspelt, correct it in the consumer; otherwise the queue is created by its "
                        "first task",
                        "%s: the consumer %s at %s waits for queue %s, which does not exist", node->url, view->client,
                        view->peer, view->awaited[k]);
    }
    answer_free(&answer);
}

static void look_at_stats(struct findings *findings, const struct node *node) {
    struct tarry_stats_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    uint64_t asked_ms = wall_ms();
    int code = tarry_stats(node->client, NULL, NULL, &view, message);
    /* If the broker has become a follower, the check of its status reports that, so there is no finding here. */
    if (code == TARRY_NOT_PRIMARY) return;
    if (code != TARRY_OK) {
        finding_add(findings, FOUND_WARN, "broker", "use a token with the role read (TARRY_TOKEN_FILE)",
                    "%s: the broker does not report its statistics: %s", node->url,
                    message[0] != 0 ? message : tarry_code_sentence(code));
        return;
    }
    look_at_clock(findings, node->url, view->broker, asked_ms, wall_ms());
    look_at_disk(findings, node->url, view->broker);
    look_at_memory(findings, node->url, view->broker);
    if (node_is_primary(node)) look_at_queues(findings, node->url, view);
    if (node_is_primary(node)) look_at_consumers(findings, node);
    for (size_t i = 0; i < view->push_count; i++) look_at_push(findings, node->url, view->push[i]);
    if (strcmp(view->broker->version, tarry_version()) != 0)
        finding_add(findings, FOUND_WARN, "version", "upgrade the older of the two",
                    "%s: the broker has version %s, this tool has version %s", node->url, view->broker->version,
                    tarry_version());
    tarry_stats_free(view);
}

/* Returns the reason in a client's error message: the text after the address. The rest of the message is not needed,
 * because look_at_silence writes its own text around the reason. */
static const char *reason_of(const struct node *node) {
    size_t size = strlen(node->url);
    const char *at = strstr(node->message, node->url);
    return at != NULL && strncmp(at + size, ": ", 2) == 0 ? at + size + 2 : node->message;
}

static void look_at_silence(struct findings *findings, const struct node *node) {
    const char *reason = reason_of(node);
    if (node->code != TARRY_E_NO_BROKER && node->code != TARRY_E_TIMEOUT)
        finding_add(findings, FOUND_FAIL, "broker", "use a token with the role read (TARRY_TOKEN_FILE): docs/ACCESS.md",
                    "%s does not report its status: %s", node->url, reason);
    else if (strstr(reason, "certificate") != NULL)
        finding_add(findings, FOUND_FAIL, "certificate",
                    "TARRY_TLS_CA must contain the CA that signed the broker's certificate, and the certificate must "
                    "contain the address in --broker",
                    "%s: %s", node->url, reason);
    else
        finding_add(findings, FOUND_FAIL, "broker",
                    "check that tarryd runs there (`systemctl status tarry`), that it listens at this address "
                    "(--broker), and that a firewall does not block this host",
                    "no broker at %s: %s", node->url, reason);
}

/* Reports the problem in a node's status. A certificate that expires soon is a warning; all other problems are errors.
 */
static void look_at_problem(struct findings *findings, const struct node *node) {
    const char *problem = node->view->problem;
    if (problem[0] == 0) return;
    bool is_of_tls = strstr(problem, "certificate") != NULL;
    finding_add(
        findings, is_of_tls && strstr(problem, " expires in ") != NULL ? FOUND_WARN : FOUND_FAIL,
        is_of_tls ? "certificate" : "broker",
        is_of_tls
            ? "replace it; if the unit has a copy of it (LoadCredential=), restart the brokers, the follower first"
            : "docs/OPERATING.md and broker/README.md say what to do",
        "%s: %s", node->url, problem);
}

static void look_at_node(struct findings *findings, const struct node *node) {
    const struct tarry_pair_view *view = node->view;
    if (view == NULL) {
        look_at_silence(findings, node);
        return;
    }
    finding_add(findings, FOUND_FINE, "broker", NULL, "%s is %s, epoch %u", node->url, tarry_role_name(view->role),
                view->epoch);
    look_at_problem(findings, node);
    if (view->has_peer && view->has_digest && view->digest != view->peer_digest)
        finding_add(findings, FOUND_FAIL, "pair",
                    "run `tarry verify` on both, and start the damaged one with an empty directory",
                    "%s: the states of both nodes differ", node->url);
    if (view->has_peer && view->has_digest && view->compared_ms + COMPARED_LATE_MS < view->now_ms && view->in_sync)
        finding_add(findings, FOUND_WARN, "pair", "read the follower's log messages",
                    "%s: the states of both nodes were not compared for an hour", node->url);
    if (view->has_peer && view->coordinator[0] == 0)
        finding_add(findings, FOUND_WARN, "coordinator",
                    "give both nodes a coordinator (--coordinator), or be ready to run `tarry promote`",
                    "%s: the pair has no coordinator, so no node takes over automatically", node->url);
}

static void look_at_lone_primary(struct findings *findings, const char *url, const struct tarry_pair_view *view) {
    char text[UNITS_TEXT_SIZE];
    bool is_async = view->replication == TARRY_REPLICATION_ASYNC;
    const char *meanwhile = is_async      ? "the other node gets acknowledged changes later"
                            : view->alone ? "the changes that it acknowledges are only on its own disk"
                                          : "it acknowledges nothing until the follower is back";
    const char *mend =
        "start the other node, and read its log messages; `tarry status --wait 30s` returns when both are in sync";
    if (view->peer_heard_ms == 0)
        finding_add(findings, is_async ? FOUND_WARN : FOUND_FAIL, "pair", mend,
                    "%s leads and has never heard from the other node, %s: %s", url, view->peer_url, meanwhile);
    else
        finding_add(findings, is_async ? FOUND_WARN : FOUND_FAIL, "pair", mend,
                    "%s leads without a follower in sync: %s lacks %" PRIu64 " bytes and was last heard %s ago; %s",
                    url, view->peer_url, view->lag_size,
                    duration_format(view->now_ms > view->peer_heard_ms
                                        ? (view->now_ms - view->peer_heard_ms) / 1000 * 1000
                                        : 0,
                                    text),
                    meanwhile);
}

/* Checks the pair as the status of one node shows it. Only the status of a node of a pair names a peer. */
static void look_at_pair(struct findings *findings, const struct nodes *nodes) {
    size_t primaries = 0, paired = 0;
    for (size_t i = 0; i < nodes->count; i++) {
        const struct tarry_pair_view *view = nodes->items[i].view;
        primaries += node_is_primary(&nodes->items[i]);
        if (view == NULL || !view->has_peer) continue;
        paired++;
        if (!node_is_primary(&nodes->items[i])) continue;
        if (view->in_sync)
            finding_add(findings, FOUND_FINE, "pair", NULL, "%s leads, and the other node is in sync",
                        nodes->items[i].url);
        else
            look_at_lone_primary(findings, nodes->items[i].url, view);
    }
    if (paired == 0 || nodes->count < 2) return;
    if (primaries == 0)
        finding_add(findings, FOUND_FAIL, "pair",
                    "`tarry status` shows what each node waits for; without a coordinator run `tarry promote`",
                    "none of the brokers leads");
    if (primaries > 1)
        finding_add(findings, FOUND_FAIL, "pair", "one of the two is fenced and acknowledges nothing: restart it",
                    "%zu brokers report that they lead", primaries);
}

int doctor_brokers(struct findings *findings, struct tool *tool) {
    struct nodes nodes;
    uint64_t timeout_ms = tool->has_timeout ? tool->timeout_ms : PATIENCE_MS;
    int status = nodes_open(&nodes, tool, timeout_ms);
    if (status == EXIT_FINE) {
        nodes_ask(&nodes);
        for (size_t i = 0; i < nodes.count; i++) {
            look_at_node(findings, &nodes.items[i]);
            if (nodes.items[i].view != NULL) look_at_stats(findings, &nodes.items[i]);
        }
        look_at_pair(findings, &nodes);
    }
    nodes_close(&nodes);
    return status;
}
