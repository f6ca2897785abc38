/* sessions.c: subscriptions, heartbeats, silence and end of sessions (leases.h). */
#include <stdio.h>
#include <string.h>

#include "ahead.h"
#include "callers.h"
#include "check.h"
#include "decide.h"
#include "effects.h"
#include "groups.h"
#include "leases.h"
#include "near.h"
#include "tasks.h"
#include "wishes.h"

static void unsubscribe_all(struct core *core, struct session *session) {
    session_withdraw(core, session);
    ahead_stand_down(session);
    wishes_drop(core, session);
    for (uint32_t i = 0; i < session->subscription_count; i++) session->subscriptions[i].queue->consumer_count--;
    session->subscription_count = 0;
}

static bool is_subscribed(const struct session *session, const struct queue *queue) {
    for (uint32_t i = 0; i < session->subscription_count; i++) {
        if (session->subscriptions[i].queue == queue) return true;
    }
    return false;
}

void session_subscribe_to(struct core *core, struct session *session, struct queue *queue) {
    if (is_subscribed(session, queue)) return; /* the request names the queue twice */
    assert(session->subscription_count < QUEUES_PER_SUBSCRIBE_MAX);
    struct subscription *subscription = &session->subscriptions[session->subscription_count++];
    *subscription = (struct subscription){.session = session, .queue = queue};
    if (!queue->consumer_count++ && queue->policy.lease_before_due) near_check_queue(core, queue);
    if (session->willing) { /* the queue was created while the session waited for its creation */
        TAILQ_INSERT_TAIL(&queue->willing, subscription, of_queue);
        queue->willing_count++;
        near_update_serving(core, queue);
    }
    if (session->takes) {
        TAILQ_INSERT_TAIL(&queue->takers, subscription, of_taker);
        queue->taker_count++;
    }
}

/* Notes a sign of life of the session. */
static void hear(struct core *core, struct session *session) {
    struct wheel *wheel = &core->wheels[ROW_STEADY];
    session->heard_ms = steady_ms(core);
    if (session->mute) session_changed(core, session);
    session->mute = false;
    uint64_t silent_ms = core->from_ns / 1000000 + session->silence_ms;
    bool is_armed = wheel_is_armed(&session->silence.wheel);
    if (is_armed && session->silence.wheel.due_ms == silent_ms)
        return; /* in this millisecond, a sign of life was noted already; thousands of acks may arrive */
    wheel_cancel(wheel, &session->silence.wheel);
    if (session_is_pooled(session->id)) return;
    wheel_arm(wheel, &session->silence.wheel, silent_ms, session->id);
}

void session_heard(struct core *core, uint64_t id) {
    struct session *session = session_find(core, id);
    if (session && session_is_present(session)) hear(core, session);
}

/* Returns the time in ms without a sign of life after which the session counts as gone. It is the session's shortest
 * lease, at most SESSION_SILENCE_MS. */
static uint64_t silence_of(const struct core *core, const struct session *session, const Tarry__Subscribe *subscribe) {
    uint64_t silence_ms = session->lease_ms ? session->lease_ms : SESSION_SILENCE_MS;
    for (size_t i = 0; !session->lease_ms && i < subscribe->n_queues; i++) {
        const struct queue *queue = queue_find_live(core, subscribe->queues[i]);
        uint64_t lease_ms = queue ? queue->policy.lease_ms : core->options.policy.lease_ms;
        if (lease_ms < silence_ms) silence_ms = lease_ms;
    }
    if (silence_ms > SESSION_SILENCE_MS) return SESSION_SILENCE_MS;
    return silence_ms < SESSION_SILENCE_MIN_MS ? SESSION_SILENCE_MIN_MS : silence_ms;
}

/* Returns the lowest lane that no session has used for LANE_REST_MS. If no such lane exists, returns the free lane that
 * was left longest ago. The pause is needed because late messages of nng for a lost consumer's connection must not
 * affect the next consumer (broker/shell/threads/lanes.c). */
static uint32_t free_lane(const struct core *core, const struct session *own) {
    uint64_t used[(LANES_MAX + 63) / 64] = {0};
    uint32_t longest = LANES_MAX;
    for (size_t i = 0; i < core->sessions_end; i++) {
        const struct session *session = &core->sessions[i];
        if (session != own && session_is_present(session)) used[session->lane / 64] |= 1ull << session->lane % 64;
    }
    for (uint32_t lane = 0; lane < LANES_MAX; lane++) {
        if (used[lane / 64] & 1ull << lane % 64) continue;
        uint64_t left_ms = core->lane_left_ms[lane];
        if (!left_ms || steady_ms(core) - left_ms >= LANE_REST_MS) return lane;
        if (longest == LANES_MAX || left_ms < core->lane_left_ms[longest]) longest = lane;
    }
    assert(longest < LANES_MAX); /* SESSIONS_MAX was checked, so a lane is free */
    return longest;
}

static void open_lane(struct core *core, struct session *session, struct core_effects *effects) {
    session->lane = free_lane(core, session);
    session->lane_ms = steady_ms(core);
    session->state = SESSION_WAITING_LANE;
    core->session_count++;
    hear(core, session);
    *PUSH(effects, lanes) = (struct core_lane){.session = session->id,
                                               .lane = session->lane,
                                               .open = true,
                                               .principal = session->principal};
}

static void close_lane(struct core *core, struct session *session, struct core_effects *effects) {
    unsubscribe_all(core, session);
    core->session_count--;
    core->lane_left_ms[session->lane] = steady_ms(core);
    session->sending = session->sending_again = session->sending_departed = session->gone = false;
    struct task *task = NULL;
    TAILQ_FOREACH(task, &session->leases, member) {
        task->departing = false;
        if (task->resend) session_resent(core, session, task);
    }
    ahead_withdraw(core, session, effects);
    wheel_cancel(&core->wheels[ROW_STEADY], &session->silence.wheel);
    *PUSH(effects, lanes) = (struct core_lane){.session = session->id, .lane = session->lane, .open = false};
}

/* Copies the names of the session's consumer, for the log. The sizes were checked (CAP-1). */
static void name_session(struct session *session, const struct core_request *request) {
    snprintf(session->client, sizeof session->client, "%s", request->message->client);
    snprintf(session->peer, sizeof session->peer, "%s", request->peer ? request->peer : "");
    snprintf(session->principal, sizeof session->principal, "%s", request->caller ? request->caller->name : "");
    session->is_owned = true;
}

static void record_session(struct core *core, const struct session *session, bool resumed,
                           struct core_effects *effects) {
    struct draft draft;
    draft_init_for(&draft, core, effects->arena, session, 1);
    Tarry__SessionPut *put = must_alloc(effects->arena, sizeof *put);
    tarry__session_put__init(put);
    put->session = session->id;
    put->client = (char *)session->client;
    put->peer = (char *)session->peer;
    put->n_queues = session->subscription_count;
    put->queues = must_alloc(effects->arena, session->subscription_count * sizeof *put->queues);
    for (uint32_t i = 0; i < session->subscription_count; i++) {
        put->queues[i] = session->subscriptions[i].queue->number;
    }
    put->awaited = must_alloc(effects->arena, session->wish_count * sizeof *put->awaited);
    struct wish *wish = NULL;
    TAILQ_FOREACH(wish, &session->wishes, of_session) {
        put->awaited[put->n_awaited++] = wish->awaited->name;
    }
    put->prefetch = session->prefetch;
    put->batch_max = session->batch_max;
    put->lease_ms = session->lease_ms;
    put->lane = session->lane;
    put->resumed = resumed;
    put->mover = session_is_mover(session->id) && !session_is_sharer(session->id);
    put->sharer = session_is_sharer(session->id);
    Tarry__Record *record = draft_record(&draft);
    record->fact_case = TARRY__RECORD__FACT_SESSION;
    record->session = put;
    draft_commit(&draft, NULL, effects);
}

/* Adds the queues that do not exist yet to the reply, because a name may be misspelt. */
static void name_awaited(const struct session *session, Tarry__SubscribeReply *reply, struct arena *arena) {
    const struct wish *wish = NULL;
    reply->awaited = must_alloc(arena, CONSUMER_QUEUES_SHOWN * sizeof *reply->awaited);
    TAILQ_FOREACH(wish, &session->wishes, of_session) {
        const char *name = wish->awaited->name;
        if (reply->n_awaited == CONSUMER_QUEUES_SHOWN) break;
        reply->awaited[reply->n_awaited++] = must_copy_text(arena, name);
    }
}

static void reply_subscribed(struct core *core, const struct core_request *request, const struct session *session,
                             bool resumed, struct core_effects *effects) {
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_SUBSCRIBE;
    reply->subscribe = must_alloc(effects->arena, sizeof *reply->subscribe);
    tarry__subscribe_reply__init(reply->subscribe);
    reply->subscribe->session = session->id;
    reply->subscribe->lane = session->lane;
    reply->subscribe->silence_ms = session->silence_ms;
    reply->subscribe->resumed = resumed;
    if (session->wish_count > 0) name_awaited(session, reply->subscribe, effects->arena);
    reply_send(core, effects, request->ticket, reply);
}

static bool is_mover(const Tarry__Subscribe *subscribe) {
    return subscribe->mover || subscribe->sharer;
}

static const char *check_subscribe(const struct core_request *request) {
    const Tarry__Subscribe *subscribe = request->message->subscribe;
    if (subscribe->bound && !request->pooled) return "bound is only for consumers within the broker's process";
    const bool moves = is_mover(subscribe);
    if (subscribe->mover && subscribe->sharer) return "mover and sharer exclude each other";
    if (moves && (!request->pooled || !caller_may_all(request->caller)))
        return "mover and sharer are only for the broker itself";
    if (moves && subscribe->n_queues) return "a mover must not name queues";
    if (!moves && !subscribe->n_queues) return "a subscription must name at least one queue";
    if (subscribe->n_queues > QUEUES_PER_SUBSCRIBE_MAX)
        return "a subscription may name at most 256 queues (QUEUES_PER_SUBSCRIBE_MAX)";
    if (subscribe->prefetch > PREFETCH_MAX) return "prefetch must be at most 16384 (PREFETCH_MAX)";
    if (subscribe->max_batch > BATCH_MAX) return "max_batch must be at most 4096 (BATCH_MAX)";
    bool lease_fits = subscribe->lease_ms >= LEASE_MIN_MS && subscribe->lease_ms <= LEASE_MAX_MS;
    if (subscribe->lease_ms && !lease_fits) return "lease_ms must be between 10 ms and 24 hours";
    return NULL;
}

/* Returns true if all queues exist or the session may wait for them. Otherwise sends a refusal. */
static bool may_wait_for(struct core *core, const struct core_request *request, struct core_effects *effects) {
    enum { SENTENCE_SIZE = 200 };
    const Tarry__Subscribe *subscribe = request->message->subscribe;
    const struct core_caller *caller = request->caller;
    const uint64_t limit = caller ? caller->queues_max : 0;
    uint64_t missing = 0, new_names = 0;
    bool is_never_made = false;
    for (size_t i = 0; i < subscribe->n_queues; i++) {
        const char *problem = group_subscribe_problem(core, subscribe->queues[i], effects->arena);
        const bool exists = queue_find_live(core, subscribe->queues[i]) != NULL;
        if (problem) {
            reply_refuse(core, effects, request->ticket, exists ? TARRY__CODE__INVALID : TARRY__CODE__NO_SUCH_QUEUE,
                         problem);
            return false;
        }
        if (exists) continue;
        missing++;
        new_names += !wish_is_pending(core, subscribe->queues[i]);
        is_never_made |= !core->options.create_queues && !queue_is_reserved(subscribe->queues[i]);
    }
    if (!missing) return true;
    if (is_never_made) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__NO_SUCH_QUEUE, queue_not_created);
        return false;
    }
    if (limit && new_names && wishes_count_of(core, caller->name) + new_names > limit) {
        char *sentence = must_alloc(effects->arena, SENTENCE_SIZE);
        snprintf(sentence, SENTENCE_SIZE,
                 "the consumers of this principal may wait for at most %llu queues that do not exist (queues=, tarry "
                 "token), and this request names %llu more",
                 (unsigned long long)limit, (unsigned long long)new_names);
        reply_refuse(core, effects, request->ticket, TARRY__CODE__TOO_LARGE, sentence);
        return false;
    }
    if (core->awaited_count + new_names <= QUEUES_AWAITED_MAX) return true;
    reply_refuse(core, effects, request->ticket, TARRY__CODE__BUSY,
                 "consumers already wait for the maximum number of queues that do not exist (QUEUES_AWAITED_MAX): "
                 "create the queues first");
    return false;
}

static bool has_too_many(const struct core *core, const struct core_caller *caller) {
    uint64_t count = 0;
    if (!caller || !caller->sessions_max) return false;
    for (size_t i = 0; i < core->sessions_end; i++) {
        const struct session *session = &core->sessions[i];
        count += session_is_present(session) && strcmp(session->principal, caller->name) == 0;
    }
    return count >= caller->sessions_max;
}

void session_subscribe(struct core *core, const struct core_request *request, struct core_effects *effects) {
    const Tarry__Subscribe *subscribe = request->message->subscribe;
    const char *wrong = check_subscribe(request);
    if (wrong || core->stopping) {
        Tarry__Code code = wrong ? TARRY__CODE__INVALID : TARRY__CODE__STOPPING;
        reply_refuse(core, effects, request->ticket, code, wrong ? wrong : "the broker is shutting down");
        return;
    }
    struct session *session = session_find(core, request->resumed);
    bool resumed = session && (session->state != SESSION_LEFT || request->pooled) &&
                   session_is_bound(session->id) == (subscribe->bound || is_mover(subscribe)) &&
                   session_is_mover(session->id) == is_mover(subscribe) &&
                   session_is_sharer(session->id) == subscribe->sharer;
    if (!resumed && core->session_count >= SESSIONS_MAX) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__BUSY,
                     "the broker has its maximum number of consumers (SESSIONS_MAX): end one first");
        return;
    }
    if (!resumed && has_too_many(core, request->caller)) {
        reply_refuse(
            core, effects, request->ticket, TARRY__CODE__BUSY,
            "this principal has reached its limit of consumers (sessions=, tarry token): end one, or raise the limit");
        return;
    }
    if (!may_wait_for(core, request, effects)) return;
    if (!resumed) {
        uint64_t id = core->session_next++ | (request->pooled ? SESSION_POOLED : 0) |
                      (subscribe->bound || is_mover(subscribe) ? SESSION_BOUND : 0) |
                      (is_mover(subscribe) ? SESSION_MOVER : 0) | (subscribe->sharer ? SESSION_SHARER : 0);
        session = session_new(core, id, SESSION_WAITING_LANE);
        if (!session) { /* the table is full: sessions that have left and kept their leases use slots, too */
            reply_refuse(
                core, effects, request->ticket, TARRY__CODE__BUSY,
                "too many disconnected consumers still have leases: try again when some of these leases have ended");
            return;
        }
    } else if (session_is_present(session)) {
        close_lane(core, session, effects); /* the new consumer gets a lane of its own */
    }
    session->prefetch = subscribe->prefetch ? subscribe->prefetch : PREFETCH_DEFAULT;
    session->batch_max = subscribe->max_batch ? subscribe->max_batch : BATCH_DEFAULT;
    session->lease_ms = subscribe->lease_ms;
    session->silence_ms = silence_of(core, session, subscribe);
    name_session(session, request);
    open_lane(core, session, effects);
    for (size_t i = 0; i < subscribe->n_queues; i++) {
        struct queue *queue = queue_find_live(core, subscribe->queues[i]);
        if (queue) {
            session_subscribe_to(core, session, queue);
        } else {
            wish_add(core, session, subscribe->queues[i]);
        }
    }
    record_session(core, session, resumed, effects);
    reply_subscribed(core, request, session, resumed, effects);
}

/* ---- the end of a session */

struct giving {
    bool under_way; /* true: release only the leases of the delivery that is being sent; false: all leases */
    /* true: the consumer may have seen any of the tasks, because a pooled session does not report which client has
     * which task. false: task->seen decides. */
    bool all_seen;
    bool keep_seen; /* true: tasks that the consumer may have seen (`all_seen`) stay leased */
    Tarry__Cause why;
    /* Reason for the session's end, recorded in the last frame; NOT_SAID: the session continues. */
    Tarry__SessionEnd__Cause end;
    uint32_t records_max;             /* stop after this number of records, without recording an end; 0: no limit */
    const struct core_request *asked; /* the request that causes this; NULL: none */
};

static bool is_under_way(const struct session *session, const struct task *task) {
    return session->sending_departed ? task->departing : task->row.lease_position == session->sending_position;
}

#define AHEAD 16u

/* Marks the leased tasks that the session's user has seen. A request may name 262,144 ids (LEASES_MAX) in any order:
 * they are prefetched, not sorted. */
static void mark_seen(struct core *core, const struct session *session, const uint64_t *ids, size_t count) {
    for (size_t i = 0; i < count + 2 * AHEAD; i++) {
        if (i < count) task_prefetch_id_bucket(core, ids[i]);
        if (i >= AHEAD && i - AHEAD < count) task_prefetch_by_id(core, ids[i - AHEAD]);
        if (i < 2 * AHEAD) continue;
        struct task *task = task_find(core, ids[i - 2 * AHEAD]);
        if (task && task->place == PLACE_LEASED && task->row.session == session->id) task->seen = true;
    }
}

static bool was_seen(const struct giving *giving, struct task *task) {
    bool is_marked = task->seen;
    task->seen = false;
    return giving->all_seen || is_marked;
}

static void record_end(struct draft *draft, const struct session *session, const struct giving *giving,
                       uint32_t returned, uint32_t held) {
    Tarry__Record *record = draft_record(draft);
    record->fact_case = TARRY__RECORD__FACT_SESSION_END;
    record->session_end = must_alloc(draft->arena, sizeof *record->session_end);
    tarry__session_end__init(record->session_end);
    record->session_end->session = session->id;
    record->session_end->cause = giving->end;
    record->session_end->returned = session->returned + returned;
    record->session_end->kept = held - returned;
}

/* Releases leases of the session, in frames of bounded size. Returns their number. */
static uint32_t give_back(struct core *core, struct session *session, const struct giving *giving,
                          struct core_effects *effects) {
    struct task *task = TAILQ_FIRST(&session->leases);
    uint32_t held = session->lease_count;
    uint32_t returned = 0;
    bool is_over = giving->end == TARRY__SESSION_END__CAUSE__NOT_SAID;
    while (task || !is_over) {
        struct draft draft;
        draft_init_for(&draft, core, effects->arena, session, RECORDS_PER_FRAME_MAX);
        if (giving->asked) draft_by_request(&draft, giving->asked);
        for (; task && draft.record_count < RECORDS_PER_FRAME_MAX; task = TAILQ_NEXT(task, member)) {
            if (giving->under_way && !is_under_way(session, task)) continue;
            bool seen = was_seen(giving, task);
            if (seen && giving->keep_seen) continue;
            struct known known = known_of(task);
            struct row row;
            Tarry__Cause why = seen ? TARRY__CAUSE__CAUSE_LEASE_LOST : giving->why;
            Tarry__Cause cause = task_return(core, task, why, &row);
            draft_put(&draft, cause, &known, &row);
            returned++;
        }
        if (!task && !is_over) {
            record_end(&draft, session, giving, returned, held);
            is_over = true;
        }
        /* The commit removes the tasks of the draft from the list. `task` is the next task and not part of the draft,
         * so it stays in the list. */
        draft_commit(&draft, NULL, effects);
        if (task && giving->records_max && returned >= giving->records_max) break;
    }
    return returned;
}

uint32_t session_gone(struct core *core, struct session *session, Tarry__SessionEnd__Cause why,
                      struct core_effects *effects) {
    if (session_is_present(session)) close_lane(core, session, effects);
    session->state = SESSION_UP; /* the session keeps its slot while its leases are released */
    struct giving giving = {.why = TARRY__CAUSE__CAUSE_LEASE_LOST, .end = why};
    uint32_t returned = give_back(core, session, &giving, effects);
    session_free(core, session);
    return returned + 1;
}

/* Ends the session at its client's request. A task that no client has seen costs no attempt. */
static void leave(struct core *core, struct session *session, const struct core_request *request,
                  struct core_effects *effects) {
    const Tarry__Unsubscribe *unsubscribe = request->message->unsubscribe;
    close_lane(core, session, effects);
    session->state = SESSION_UP; /* the session keeps its slot while its leases are released */
    mark_seen(core, session, unsubscribe->seen, unsubscribe->n_seen);
    struct giving giving = {
        .all_seen = session_is_pooled(session->id),
        .keep_seen = unsubscribe->keep_leases,
        .why = TARRY__CAUSE__CAUSE_RELEASED,
        .end = TARRY__SESSION_END__CAUSE__UNSUBSCRIBED,
        .asked = request,
    };
    give_back(core, session, &giving, effects);
    if (session->lease_count) {
        session->state = SESSION_LEFT; /* the leases last until their deadlines, or until an ack by token */
    } else {
        session_free(core, session);
    }
}

void session_unsubscribe(struct core *core, const struct core_request *request, struct core_effects *effects) {
    const Tarry__Unsubscribe *unsubscribe = request->message->unsubscribe;
    struct session *session = session_find(core, unsubscribe->session);
    if (session && session_is_present(session) && caller_is_owner(request->caller, session))
        leave(core, session, request, effects);
    reply_send(core, effects, request->ticket, reply_new(effects, TARRY__CODE__OK));
}

/* Returns true if the session sends heartbeats but never connects to its lane. The consumer then uses another lane.
 * Cause: a late copy of its subscription moved the session to this lane, and the notice that the old connection was
 * closed got lost (F-17; history 80923110). When the session subscribes again, it keeps its leases. A pooled session's
 * lane is in this process and always connects. */
static bool is_astray(const struct core *core, const struct session *session) {
    bool is_waiting = session->state == SESSION_WAITING_LANE && !session_is_pooled(session->id);
    return is_waiting && steady_ms(core) - session->lane_ms >= session->silence_ms;
}

void session_heartbeat(struct core *core, const struct core_request *request, struct core_effects *effects) {
    struct session *session = session_find(core, request->message->heartbeat->session);
    if (!session || !session_is_present(session) || !caller_is_owner(request->caller, session)) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__NO_SUCH_SESSION,
                     "the session has ended: subscribe again");
        return;
    }
    hear(core, session);
    if (is_astray(core, session)) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__NO_SUCH_SESSION,
                     "the consumer has not connected to the session's new lane: subscribe again");
        return;
    }
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    /* Tell a client that waits through a pooled session whether a delivery is being sent. */
    if (session_is_pooled(session->id) && session->sending) reply->position = session->sending_position;
    reply_send(core, effects, request->ticket, reply);
}

/* Connects the lane. Deliveries to a returning session may have been lost, so all its leases are delivered again with
 * the same tokens. */
void session_lane_up(struct core *core, uint64_t id) {
    struct session *session = session_find(core, id);
    if (!session || session->state != SESSION_WAITING_LANE) return;
    session->state = SESSION_UP;
    hear(core, session);
    session_changed(core, session);
    if (session_is_pooled(session->id))
        return; /* clients of the gateway have these tasks, so they are not delivered again */
    ahead_stand_up(session);
    struct task *task = NULL;
    TAILQ_FOREACH(task, &session->leases, member) {
        session->resend_count += !task->resend;
        task->resend = true;
    }
}

/* Sets the credit. A request for more credit is also a sign of life of a pooled session, which does not distinguish its
 * clients. */
void session_credit(struct core *core, uint64_t id, uint32_t credit) {
    struct session *session = session_find(core, id);
    if (!session || !session_is_present(session) || !session_is_pooled(session->id)) return;
    session->credit = credit;
    session_changed(core, session);
}

/* Records the lateness of the tasks just delivered. Skips tasks that became ready again after a lease and kept their
 * old due time. For a task that was scheduled after its due time, lateness counts from its scheduling. The newest
 * leases are last in the list. */
static void note_lateness(struct core *core, const struct session *session, uint64_t delivered_ns) {
    uint32_t left = session->sending_count;
    const struct task *task = NULL;
    TAILQ_FOREACH_REVERSE(task, &session->leases, task_list, member) {
        if (!left) break;
        if (!is_under_way(session, task)) continue;
        left--;
        const struct row *row = &task->row;
        uint64_t due_ns = (row->due_ms > row->scheduled_ms ? row->due_ms : row->scheduled_ms) * 1000000;
        if (task->returned || due_ns > delivered_ns)
            continue; /* delivered before the due time (lease_before_due), so not late */
        uint64_t late_us = delivered_ns > due_ns ? (delivered_ns - due_ns) / 1000 : 0;
        histogram_record(&queue_at(core, task->row.queue)->lateness_us, late_us);
        durations_record(&queue_at(core, task->row.queue)->lateness, late_us);
    }
}

void session_sent(struct core *core, const struct core_lane_news *news, struct core_effects *effects) {
    struct session *session = session_find(core, news->session);
    if (!session || !session->sending) return; /* the session has ended meanwhile */
    session->sending = false;
    session_changed(core, session);
    if (session->sending_again) {
        session->sending_again = false; /* the tasks stay leased, whether or not the delivery was sent */
    } else if (news->ok) {
        note_lateness(core, session, news->delivered_ns);
    } else {
        struct giving giving = {.under_way = true, .why = TARRY__CAUSE__CAUSE_UNSENT};
        give_back(core, session, &giving, effects);
    }
    ahead_departed(session);
    if (session->gone) session_gone(core, session, TARRY__SESSION_END__CAUSE__PIPE_LOST, effects);
}

/* Returns leases of a bound session from before a restart, about `records_max` of them. */
static uint32_t release_bound(struct core *core, struct session *session, uint32_t records_max,
                              struct core_effects *effects) {
    struct giving giving = {
        .why = TARRY__CAUSE__CAUSE_LEASE_LOST,
        .end = TARRY__SESSION_END__CAUSE__PROCESS_ENDED,
        .records_max = records_max,
    };
    uint32_t returned = give_back(core, session, &giving, effects);
    session->returned += returned;
    if (!session->lease_count) session_free(core, session);
    return returned + 1;
}

/* Returns true if the leases of the unclaimed session end now. No client can claim a bound session, because its
 * connections ended with the process. */
static bool is_to_end(const struct core *core, const struct session *session) {
    if (session->state != SESSION_UNCLAIMED) return false;
    return session_is_bound(session->id) || steady_ms(core) >= core->claim_over_ms;
}

uint32_t session_claim_over(struct core *core, uint32_t records_max, struct core_effects *effects) {
    uint32_t done = 1;
    uint64_t next_ms = steady_ms(core) < core->claim_over_ms ? core->claim_over_ms : UINT64_MAX;
    for (size_t i = 0; i < core->sessions_end; i++) {
        struct session *session = &core->sessions[i];
        if (!is_to_end(core, session)) continue;
        if (done >= records_max) {
            next_ms = steady_ms(core);
            break;
        }
        bool is_bound = session_is_bound(session->id);
        done += is_bound ? release_bound(core, session, records_max - done, effects)
                         : session_gone(core, session, TARRY__SESSION_END__CAUSE__NOT_RESUMED, effects);
        if (session->state == SESSION_UNCLAIMED) next_ms = steady_ms(core);
    }
    if (next_ms != UINT64_MAX) wheel_arm(&core->wheels[ROW_STEADY], &core->claim.wheel, next_ms, 0);
    return done;
}
