/* entry_words.c: see entry_words.h. */
#include "entry_words.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "check.h"
#include "json_out.h"
#include "rfc3339.h"
#include "table.h"
#include "tarry.h"
#include "units.h"

#define DIGEST_BYTES_SHOWN 4
#define KIND_WIDTH 12u

static void words_time(struct text *out, const char *what, uint64_t ms) {
    char time[RFC3339_TEXT_SIZE];
    text_add_str(out, what);
    text_add_char(out, ' ');
    text_add_str(out, rfc3339_format(ms, time));
}

static void words_duration(struct text *out, const char *what, uint64_t ms) {
    char duration[UNITS_TEXT_SIZE];
    text_add_str(out, what);
    text_add_char(out, ' ');
    text_add_str(out, duration_format(ms, duration));
}

static void words_number(struct text *out, const char *what, uint64_t number) {
    text_add_str(out, what);
    text_add_u64(out, number);
}

/* Prints a name without escapes, because the broker has checked its characters. */
static void words_name(struct text *out, const char *name) {
    plain_add(out, name, strlen(name));
}

/* Prints a text that a client chose in quotes, because control characters must not reach the terminal. */
static void words_quoted(struct text *out, const char *what, const void *text, size_t size) {
    text_add_str(out, what);
    text_add_char(out, ' ');
    out_string(out, text, size);
}

static void words_who_at(struct text *out, const char *peer) {
    if (peer[0] == '\0') return;
    text_add_str(out, " at ");
    plain_add(out, peer, strlen(peer));
}

static void words_who(struct text *out, const char *what, const char *client, const char *peer) {
    words_quoted(out, what, client, strlen(client));
    words_who_at(out, peer);
}

/* Prints " by shop ("orders 1.2") at 127.0.0.1:40312": the principal, then the client's own name in brackets. A local
 * client has no principal, so only its own name is printed. */
static void words_by(struct text *out, const Tarry__FrameBody *body) {
    if (body->principal[0] == '\0') {
        words_who(out, "  by", body->client, body->peer);
        return;
    }
    text_add_str(out, "  by ");
    plain_add(out, body->principal, strlen(body->principal));
    text_add_str(out, " (");
    out_string(out, body->client, strlen(body->client));
    text_add_char(out, ')');
    words_who_at(out, body->peer);
}

/* Returns whether the client that requested the change is the session's consumer. The sentence then names the client
 * only once. */
static bool is_own(const struct entry *entry) {
    return entry_is_asked(entry) && strcmp(entry->body->client, entry->consumer->client) == 0 &&
           strcmp(entry->body->peer, entry->consumer->peer) == 0;
}

/* Prints for example: " to session 4294967297 of "worker" at 127.0.0.1:40312". */
static void words_session(struct text *out, const char *what, const struct entry *entry, uint64_t session) {
    text_add_str(out, what);
    words_number(out, " session ", session);
    if (entry->consumer != NULL && !is_own(entry))
        words_who(out, " of", entry->consumer->client, entry->consumer->peer);
}

static void words_reason(struct text *out, const struct entry *entry) {
    ProtobufCBinaryData reason = entry_reason(entry);
    if (reason.len != 0) words_quoted(out, ", reason", reason.data, reason.len);
}

static void words_lease(struct text *out, const struct entry *entry, const Tarry__Task *task) {
    char token[TARRY_TOKEN_SIZE];
    uint64_t late_ms;
    words_session(out, "  to", entry, task->session);
    words_number(out, ", delivery ", task->deliveries);
    words_number(out, ", attempt ", task->attempt);
    text_add_str(out, ", token ");
    text_add_str(out, tarry_token_format((struct tarry_token){task->lease_epoch, task->lease_position}, token));
    words_time(out, ", until", task->lease_deadline_ms);
    if (entry_leaves_ms(entry) != 0) words_time(out, ", ahead of time: leaves", entry_leaves_ms(entry));
    if (entry_late_ms(entry, &late_ms)) words_duration(out, ", late", late_ms);
}

/* Prints a record that returns a task after a lease, or moves it to the dead letters. */
static void words_return(struct text *out, const struct entry *entry, const Tarry__Task *task) {
    uint64_t session = entry_session(entry);
    if (session != 0) words_session(out, "  from", entry, session);
    if (entry->record->put->before_lease_deadline_ms != 0)
        words_time(out, ", its lease until", entry->record->put->before_lease_deadline_ms);
    text_printf(out, ", attempts so far %u", task->attempt);
    if (entry_kind(entry) == ENTRY_UNSENT && task->session != 0)
        words_number(out, ", last held by session ", task->session);
    words_reason(out, entry);
}

static void words_change(struct text *out, const struct entry *entry, const Tarry__Task *task) {
    uint64_t before_ms = entry_due_before_ms(entry);
    switch (entry_kind(entry)) {
    case ENTRY_LEASED:
        words_lease(out, entry, task);
        return;
    case ENTRY_EXTENDED:
        words_time(out, "  until", task->lease_deadline_ms);
        if (entry->record->put->before_lease_deadline_ms != 0)
            words_time(out, ", before", entry->record->put->before_lease_deadline_ms);
        return;
    case ENTRY_RELEASED:
    case ENTRY_LEASE_LOST:
    case ENTRY_UNSENT:
    case ENTRY_DEAD:
        words_return(out, entry, task);
        return;
    default:
        break;
    }
    words_time(out, entry_is_end(entry) ? "  was due" : "  due", task->due_ms);
    if (before_ms != 0) words_time(out, ", before", before_ms);
    if (entry_kind(entry) == ENTRY_RETRIED) text_printf(out, ", attempts so far %u", task->attempt);
    if (entry_kind(entry) == ENTRY_RETRIED || entry_is_end(entry)) words_reason(out, entry);
    if (!entry_is_end(entry)) {
        const Tarry__TaskPut *put = entry->record->put;
        if (put->share_of != 0)
            text_printf(out, ", a share of task %" PRIu64 ", which has %u", put->share_of, put->shares);
        return;
    }
    if (entry_kind(entry) == ENTRY_SHARED) {
        const Tarry__TaskEnd *end = entry->record->end;
        text_printf(out, ", to %u groups: tasks %" PRIu64 " to %" PRIu64, end->shares, end->first_share,
                    end->first_share + end->shares - 1);
        return;
    }
    words_number(out, ", deliveries ", task->deliveries);
    if (task->session != 0)
        words_session(out, task->state == TARRY__TASK__STATE__LEASED ? ", held by" : ", last held by", entry,
                      task->session);
}

static void words_paused(struct text *out, bool paused, uint64_t until_ms) {
    text_add_str(out, paused ? ", paused" : ", not paused");
    if (until_ms != 0) words_time(out, " until", until_ms);
}

static void words_policy(struct text *out, const Tarry__Policy *policy) {
    words_duration(out, "  lease", policy->lease_ms);
    text_printf(out, ", at most %u attempts", policy->max_attempts);
    text_add_str(out, policy->backoff == TARRY__POLICY__BACKOFF__FIXED ? ", backoff fixed" : ", backoff exponential");
    words_duration(out, "", policy->backoff_min_ms);
    words_duration(out, " to", policy->backoff_max_ms);
    text_printf(out, ", jitter %u%%", policy->backoff_jitter);
    char rate[UNITS_TEXT_SIZE];
    if (policy->rate != 0) text_printf(out, ", rate %s", rate_format(policy->rate, policy->rate_period_ms, rate));
    if (policy->burst != 0) text_printf(out, ", burst %u", policy->burst);
    if (policy->max_in_flight != 0) text_printf(out, ", at most %u in flight", policy->max_in_flight);
    if (policy->spread_ms != 0) words_duration(out, ", spread over", policy->spread_ms);
    if (policy->overdue_expire_ms != 0)
        words_duration(out, ", after an outage: expire if later than", policy->overdue_expire_ms);
    if (policy->overdue_dead_ms != 0)
        words_duration(out, ", after an outage: dead if later than", policy->overdue_dead_ms);
    if (policy->overdue_spread_ms != 0)
        words_duration(out, ", after an outage: spread over", policy->overdue_spread_ms);
    if (policy->push[0] != 0) text_printf(out, ", pushed to %s", policy->push);
    if (policy->filter[0] != 0) text_printf(out, ", a group of its topic with the filter %s", policy->filter);
}

static void words_queue(struct text *out, const Tarry__QueuePut *queue) {
    if (queue->deleted) {
        text_add_str(out, ", deleted");
        return;
    }
    if (entry_queue_is_new(queue)) text_add_str(out, ", new");
    if (queue->policy != NULL) words_policy(out, queue->policy);
    words_paused(out, queue->paused, queue->paused_until_ms);
    for (size_t i = 0; i < queue->n_overdue; i++) {
        words_time(out, "; outage judged, from", queue->overdue[i]->after_steady_ms);
        words_time(out, " to", queue->overdue[i]->until_steady_ms);
    }
    if (queue->before_policy == NULL || queue->policy == NULL) return;
    struct text before = {0}, now = {0};
    words_policy(&before, queue->before_policy);
    words_policy(&now, queue->policy);
    if (strcmp(text_str(&before), text_str(&now)) != 0) text_printf(out, "; before: %s", text_str(&before) + 2);
    text_deinit(&before);
    text_deinit(&now);
    if (queue->before_paused == queue->paused && queue->before_paused_until_ms == queue->paused_until_ms) return;
    text_add_str(out, "; before: ");
    text_add_str(out, queue->before_paused ? "paused" : "not paused");
    if (queue->before_paused_until_ms != 0) words_time(out, " until", queue->before_paused_until_ms);
}

static void words_new_session(struct text *out, const struct entry *entry) {
    const Tarry__SessionPut *session = entry->record->session;
    text_printf(out, "  %" PRIu64 "%s of", session->session, session->resumed ? " again, its leases kept," : "");
    for (size_t i = 0; i < session->n_queues; i++) {
        const char *name = entry_queue_name(entry, session->queues[i]);
        text_add_str(out, i > 0 ? ", " : " ");
        words_name(out, name != NULL ? name : "?");
    }
    if (session->mover) text_add_str(out, " what is due in queues with lease_before_due");
    if (session->sharer) text_add_str(out, " what is due in queues with groups");
    for (size_t i = 0; i < session->n_awaited; i++) {
        text_add_str(out, i + session->n_queues > 0 ? ", " : " ");
        words_name(out, session->awaited[i]);
    }
    text_printf(out, ", lane %u, prefetch %u", session->lane, session->prefetch);
    if (session->lease_ms != 0) words_duration(out, ", lease", session->lease_ms);
}

static void words_session_end(struct text *out, const struct entry *entry) {
    static const char *const causes[] = {"no reason given",
                                         "unsubscribed",
                                         "its connection was lost",
                                         "it sent no heartbeat for too long",
                                         "it did not come back after the restart",
                                         "its connection ended with the former broker process"};
    const Tarry__SessionEnd *end = entry->record->session_end;
    text_printf(out, "  %" PRIu64, end->session);
    if (entry->consumer != NULL && !is_own(entry))
        words_who(out, " of", entry->consumer->client, entry->consumer->peer);
    text_printf(out, ": %s, %u leases given back", ENTRY_WORD(causes, end->cause), end->returned);
    if (end->kept != 0) text_printf(out, ", %u kept", end->kept);
}

static void words_alone(struct text *out, const struct entry *entry) {
    static const char *const whys[] = {
        "",
        ", the follower was silent",
        ", the follower stopped",
        ", the follower stored nothing",
        ", by an operator's command",
        ", promoted before the follower joined",
    };
    const Tarry__AlonePut *alone = entry->record->alone;
    words_time(out, "  since", alone->since_ms);
    text_add_str(out, (unsigned)alone->why < sizeof whys / sizeof whys[0] ? whys[alone->why] : "");
    if (alone->over && entry_ms(entry) >= alone->since_ms)
        words_duration(out, ", for", entry_ms(entry) - alone->since_ms);
    text_printf(out,
                alone->over ? ": the follower is in sync again, from log position %" PRIu64 " on"
                            : ": changes that are acknowledged from log position %" PRIu64 " on are only on this disk",
                alone->alone_from);
}

static void words_start(struct text *out, const struct entry *entry) {
    static const char *const befores[] = {"", ", a new log", ", after a stop", ", after a crash"};
    const Tarry__EpochPut *epoch = entry->record->epoch;
    text_add_str(out, "  tarryd ");
    words_name(out, epoch->server_version);
    text_printf(out, ", epoch %u%s", epoch->epoch,
                (unsigned)epoch->before < sizeof befores / sizeof befores[0] ? befores[epoch->before] : "");
    if (epoch->config_digest.len < DIGEST_BYTES_SHOWN) return;
    text_add_str(out, ", configuration ");
    for (size_t i = 0; i < DIGEST_BYTES_SHOWN; i++) text_printf(out, "%02x", epoch->config_digest.data[i]);
}

static void words_refused(struct text *out, const struct entry *entry) {
    static const char *const reasons[] = {"",
                                          "no token",
                                          "an unknown token",
                                          "an expired token",
                                          "a session whose principal may no longer use the broker",
                                          "the principal lacks the role or may not use the queue"};
    const Tarry__AccessRefused *refused = entry->record->refused;
    text_printf(out, "  %" PRIu64 " from ", refused->count);
    words_name(out, refused->address[0] != '\0' ? refused->address : "many addresses");
    if (refused->principal[0] != '\0') {
        text_add_str(out, " as ");
        words_name(out, refused->principal);
    }
    text_printf(out, ": %s", ENTRY_WORD(reasons, refused->why));
    if (refused->what[0] != '\0') {
        text_add_str(out, ", ");
        words_name(out, refused->what);
    }
    if (refused->count > 1) words_time(out, ", since", refused->first_ms);
}

/* Prints a definition. Its name may be any bytes; a name that is not UTF-8 is printed as hexadecimal, at most 32 bytes.
 */
static void words_definition(struct text *out, const Tarry__DefinitionPut *put) {
    text_printf(out, "  %s ", put->space);
    if (is_utf8(put->name.data, put->name.len)) {
        out_string(out, put->name.data, put->name.len);
    } else {
        for (size_t i = 0; i < put->name.len && i < 32; i++) text_printf(out, "%02x", put->name.data[i]);
    }
    if (put->deleted)
        text_add_str(out, ", deleted");
    else
        text_printf(out, ", %zu bytes%s", put->value.len, put->before_hash != 0 ? ", changed" : "");
}

static void words_recur(struct text *out, const struct entry *entry) {
    const Tarry__RecurPut *put = entry->record->recur;
    const Tarry__RecurState *state = put->state;
    text_add_str(out, "  ");
    words_name(out, put->name);
    text_printf(out, " %s", entry_recur_cause(entry));
    if (put->set != NULL && put->set->every_ms != 0) text_printf(out, ", every %" PRIu64 " ms", put->set->every_ms);
    if (put->set != NULL && put->set->every_ms == 0)
        words_quoted(out, ", when", put->set->cron[0] != '\0' ? put->set->cron : put->set->rrule,
                     strlen(put->set->cron[0] != '\0' ? put->set->cron : put->set->rrule));
    if (put->occurrence_ms != 0) words_time(out, ":", put->occurrence_ms);
    if (put->missed != 0) text_printf(out, ", %" PRIu64 " missed", put->missed);
    if (put->missed != 0 && put->missed_last_ms != 0) {
        words_time(out, " from", put->missed_first_ms);
        words_time(out, " to", put->missed_last_ms);
    }
    if (put->skipped != 0) text_printf(out, ", %" PRIu64 " skipped: an earlier one has not ended", put->skipped);
    if (state != NULL && state->next_ms != 0) words_time(out, ", next", state->next_ms);
    if (state != NULL && state->problem[0] != '\0')
        words_quoted(out, ", problem", state->problem, strlen(state->problem));
}

static void words_other(struct text *out, const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    if (entry->queue != NULL) {
        text_add_str(out, "  ");
        words_name(out, entry->queue);
    }
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_QUEUE:
        words_queue(out, record->queue);
        break;
    case TARRY__RECORD__FACT_PRODUCER:
        text_printf(out, "  %" PRIu64, record->producer->producer);
        if (!entry_is_asked(entry)) words_who(out, " of", record->producer->client, "");
        break;
    case TARRY__RECORD__FACT_PRODUCER_END:
        text_printf(out, "  %" PRIu64 "%s", record->producer_end->producer,
                    record->producer_end->idle ? ", to make room" : "");
        break;
    case TARRY__RECORD__FACT_JOB:
        text_printf(out, "  %s %" PRIu64 ", %" PRIu64 " tasks so far", entry_job_name(entry), record->job->job,
                    record->job->done);
        break;
    case TARRY__RECORD__FACT_JOB_END:
        text_printf(out, "  %" PRIu64 ", %" PRIu64 " tasks", record->job_end->job, record->job_end->done);
        if (record->job_end->left != 0) text_printf(out, ", %" PRIu64 " left", record->job_end->left);
        break;
    case TARRY__RECORD__FACT_EPOCH:
        words_start(out, entry);
        break;
    case TARRY__RECORD__FACT_CLOCK:
        words_time(out, "  wall clock", record->clock->wall_ms);
        break;
    case TARRY__RECORD__FACT_SESSION:
        words_new_session(out, entry);
        break;
    case TARRY__RECORD__FACT_SESSION_END:
        words_session_end(out, entry);
        break;
    case TARRY__RECORD__FACT_STOP:
        text_add_str(out, "  tarryd ");
        words_name(out, record->stop->server_version);
        break;
    case TARRY__RECORD__FACT_ALONE:
        words_alone(out, entry);
        break;
    case TARRY__RECORD__FACT_REDACTION:
        text_printf(out, "  %" PRIu64, record->redaction->id);
        words_quoted(out, ", reason", record->redaction->reason, strlen(record->redaction->reason));
        break;
    case TARRY__RECORD__FACT_REFUSED:
        words_refused(out, entry);
        break;
    case TARRY__RECORD__FACT_DEFINITION:
        words_definition(out, record->definition);
        break;
    case TARRY__RECORD__FACT_RECUR:
        words_recur(out, entry);
        break;
    default:
        break;
    }
}

void entry_words(struct text *out, const struct entry *entry, bool with_task) {
    const Tarry__Task *task = entry_task(entry);
    const Tarry__FrameBody *body = entry->body;
    char time[RFC3339_TEXT_SIZE];
    const char *kind = entry_kind_name(entry_kind(entry));
    size_t kind_size = strlen(kind);
    text_add_str(out, rfc3339_format(entry_ms(entry), time));
    text_add_str(out, "  ");
    text_add(out, kind, kind_size);
    if (kind_size < KIND_WIDTH) text_add_repeat(out, ' ', KIND_WIDTH - kind_size);
    if (task != NULL && with_task) {
        words_number(out, "  ", task->id);
        text_add_char(out, ' ');
        words_name(out, entry->queue != NULL ? entry->queue : "?");
        text_add_char(out, ' ');
        if (task->key.len != 0) out_string(out, (const char *)task->key.data, task->key.len);
    }
    if (task != NULL)
        words_change(out, entry, task);
    else
        words_other(out, entry);
    if (entry_is_asked(entry)) words_by(out, body);
    if (body->producer != 0) {
        words_number(out, " (producer ", body->producer);
        words_number(out, ", sequence ", body->sequence);
        text_add_char(out, ')');
    }
    text_add_char(out, '\n');
}

/* ---- consumers of sessions */

/* Table of the consumers of recent sessions. A session's index in the table is its number modulo SLOTS, because the
 * broker numbers sessions consecutively. */

#define SLOTS 4096u

struct consumers {
    struct consumer slots[SLOTS];
};

struct consumers *consumers_new(void) {
    struct consumers *consumers = tool_alloc(sizeof *consumers);
    memset(consumers, 0, sizeof *consumers);
    return consumers;
}

void consumers_free(struct consumers *consumers) {
    free(consumers);
}

static void note(struct consumers *consumers, uint64_t session, const char *client, const char *peer) {
    struct consumer *slot = &consumers->slots[session % SLOTS];
    if (slot->session == session && strcmp(slot->peer, peer) == 0) return;
    slot->session = session;
    snprintf(slot->client, sizeof slot->client, "%s", client);
    snprintf(slot->peer, sizeof slot->peer, "%s", peer);
}

void consumers_learn(struct consumers *consumers, const Tarry__FrameBody *body, const Tarry__Record *record) {
    if (record->fact_case == TARRY__RECORD__FACT_SESSION)
        note(consumers, record->session->session, record->session->client, record->session->peer);
    /* All leases in a frame belong to one consumer, which the frame names. */
    bool is_lease = record->fact_case == TARRY__RECORD__FACT_PUT && record->put->cause == TARRY__CAUSE__CAUSE_LEASED;
    if (is_lease && body->client[0] != '\0' && record->put->task != NULL)
        note(consumers, record->put->task->session, body->client, body->peer);
}

const struct consumer *consumers_find(const struct consumers *consumers, uint64_t session) {
    const struct consumer *slot = &consumers->slots[session % SLOTS];
    return session != 0 && slot->session == session ? slot : NULL;
}
