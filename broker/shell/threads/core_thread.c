/* core_thread.c: see core_thread.h. */
#include "core_thread.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "calendar_reader.h"
#include "call.h"
#include "clock.h"
#include "config.h"
#include "core.h"
#include "datadir.h"
#include "delivery_sender.h"
#include "fatal.h"
#include "inbox.h"
#include "index.h"
#include "indexer.h"
#include "lanes.h"
#include "locator.h"
#include "log.h"
#include "log_disk.h"
#include "logfmt.h"
#include "node.h"
#include "pusher.h"
#include "reader.h"
#include "refusals_told.h"
#include "run.h"
#include "secret.h"
#include "sync.h"
#include "wire.h"

/* ---- applying the leader's frames */

#define FRAMES_PER_STEP 64
#define BYTES_PER_STEP (1u << 20)

/* Initializes the applier at the core's position. */
static void applier_init(struct applier *applier, struct core *core, struct log *log, struct node *node) {
    *applier = (struct applier){.core = core, .node = node};
    fatal_arena_init(&applier->arena);
    int error = log_cursor_open(&applier->cursor, log, core_position(core), false);
    if (error != 0) fatal("apply_failed", error);
}

/* Reads the next frame of the log. Returns false at the end of the log. */
static bool read_one(struct applier *applier, uint64_t to) {
    struct log_view view;
    int error = log_cursor_next(applier->cursor, to, &view);
    if (error == LOG_END) return false;
    if (error != 0) fatal("apply_failed", error);
    applier->header = view.header;
    applier->body = frame_body_unpack(&applier->arena, view.header.body_size, view.body);
    if (applier->body == NULL) fatal("apply_failed", LOG_DAMAGED);
    return true;
}

/* Applies the next frame of the log to the core. Returns false at the end of the log, or if the frame fits into memory
 * only after the index has absorbed more. */
static bool apply_one(struct applier *applier, uint64_t to) {
    struct core *core = applier->core;
    if (applier->body == NULL && !read_one(applier, to)) return false;
    int error = core_replay(core, &applier->header, applier->body);
    if (error == CORE_NO_MEMORY && core_may_free(core)) return false;
    if (error == CORE_NO_MEMORY)
        logfmt("apply_failed",
               "position=%" PRIu64 " reason=\"the tasks in flight do not fit into the broker's memory: start with a "
               "larger --memory, equal to that of the other node\"",
               applier->header.position);
    if (error != 0) fatal("apply_failed", error == CORE_NONSENSE ? LOG_DAMAGED : -ENOMEM);
    applier->body = NULL;
    arena_reset(&applier->arena);
    node_applied(applier->node, core_position(core), core_digest(core));
    return true;
}

/* Applies a limited number of frames that end at or below `to`. Returns false if all are applied, or if the core's
 * memory is full until the index has absorbed more. Damage ends the process. */
static bool applier_step(struct applier *applier, uint64_t to) {
    struct core *core = applier->core;
    uint64_t from = core_position(core);
    for (int i = 0; i < FRAMES_PER_STEP && core_position(core) - from < BYTES_PER_STEP; i++) {
        if (core_position(core) >= to || !core_may_replay(core)) return false;
        if (!apply_one(applier, to)) return false;
    }
    return true;
}

/* Ends the applier: from here on this node decides. */
static void applier_end(struct applier *applier) {
    log_cursor_close(applier->cursor);
    arena_deinit(&applier->arena);
    *applier = (struct applier){0};
}

/* ---- the core thread */

static const char handing_over[] = "this broker is handing over to the other node of the pair: try again in a moment";

static bool may_exist(const void *keys, uint64_t key_hash) {
    return index_filter_may_contain(keys, key_hash);
}

static void prefetch(const void *keys, uint64_t key_hash) {
    index_filter_prefetch(keys, key_hash);
}

static struct instant look_at_clock(struct core_thread *core_thread) {
    bool held;
    struct instant now = clock_now(core_thread->needs.clock, &held);
    if (held != core_thread->clock_held) {
        core_thread->clock_held = held;
        logfmt(held ? "clock_held" : "clock_released", "wall_ms=%" PRIu64 " action=\"absolute times %s\"",
               now.wall_ns / NS_PER_MS, held ? "wait until the wall clock is correct" : "continue");
    }
    return now;
}

/* Carries out effects that need no sync: lanes, early deliveries, windows, result pages. */
static void carry_out_at_once(struct core_thread *core_thread) {
    const struct core_thread_needs *needs = &core_thread->needs;
    struct core_effects *effects = &core_thread->batch->effects;
    for (size_t i = 0; i < effects->lanes.count; i++) {
        const struct core_lane *lane = &effects->lanes.items[i];
        if (lane->open)
            lanes_open(needs->lanes, lane);
        else
            lanes_close(needs->lanes, lane->lane, lane->session);
    }
    for (; core_thread->stamped < effects->deliveries.count; core_thread->stamped++) {
        /* The lanes of this step must be opened and closed (the loop above) before lanes_turn is called. */
        struct core_delivery *delivery = &effects->deliveries.items[core_thread->stamped];
        delivery->turn = lanes_turn(needs->lanes, delivery->lane);
        delivery_sender_decided(needs->delivery_sender, delivery);
        if (delivery->departs) delivery_sender_depart(needs->delivery_sender, delivery);
    }
    for (size_t i = 0; i < effects->windows.count; i++) indexer_window(needs->indexer, &effects->windows.items[i]);
    for (size_t i = 0; i < effects->lows.count; i++) indexer_low(needs->indexer, &effects->lows.items[i]);
    for (size_t i = 0; i < effects->pages.count; i++) {
        struct page_load *load = fatal_calloc(sizeof(*load));
        fatal_arena_init(&load->arena);
        load->engine_request.arena = &load->arena;
        load->engine_request.item.kind = ITEM_PAGE;
        load->engine_request.hold = -1;
        load->engine_request.event = (struct core_event){.kind = CORE_PAGE, .page.job = effects->pages.items[i].job};
        load->page = effects->pages.items[i];
        reader_post(needs->reader, &load->engine_request);
    }
    effects->lanes.count = effects->windows.count = effects->lows.count = effects->pages.count = 0;
}

/* Notes in the inbox that this thread is awake, at least every STALL_LOOK_NS. */
static void show_awake(struct core_thread *core_thread, uint64_t boot_ns) {
    if (boot_ns - core_thread->looked_ns < STALL_LOOK_NS) return;
    core_thread->looked_ns = boot_ns;
    inbox_look(core_thread->needs.inbox);
}

#define RECUR_ROOM (64u << 10) /* bytes of the log that must be free before recurrences create tasks */

/* Returns true if an occurrence is due and the disk has no room for new tasks (F-4). */
static bool lacks_room_to_recur(struct core_thread *core_thread, const struct instant *now) {
    const struct core_thread_needs *needs = &core_thread->needs;
    return core_recurs(needs->core, now) &&
           disk_space_refusal(needs->disk_space, needs->log, core_position(needs->core), RECUR_ROOM) != NULL;
}

/* Reads the logical clock first. If the process is stopped between the two reads, the core sees an earlier time, not a
 * later one. */
static struct turn_now look(struct core_thread *core_thread) {
    struct instant logical = look_at_clock(core_thread);
    uint64_t boot_ns = boottime_ns();
    show_awake(core_thread, boot_ns);
    return (struct turn_now){.logical = logical,
                             .boot_ns = boot_ns,
                             .no_room = lacks_room_to_recur(core_thread, &logical),
                             .full = delivery_sender_is_full(core_thread->needs.delivery_sender)};
}

/* Tells the webhook module that push settings changed. A follower or an inspected directory sends no webhooks. */
static void tell_push(struct core_thread *core_thread, bool begins) {
    const uint64_t version = core_push_version(core_thread->needs.core);
    const bool leads = !core_thread->turn.follows && !core_thread->turn.inspects;
    if (!begins && (!leads || version == core_thread->push_version)) return;
    core_thread->push_version = version;
    push_changed(core_thread->needs.push);
}

/* Reports to the sharer whether this broker leads and has groups. */
static void tell_sharer(struct core_thread *core_thread) {
    const bool leads = !core_thread->turn.follows && !core_thread->turn.inspects;
    const bool wanted = leads && core_has_groups(core_thread->needs.core);
    if (wanted == core_thread->has_groups) return;
    core_thread->has_groups = wanted;
    core_thread->needs.calls.groups(core_thread->needs.calls.context, wanted);
}

/* Passes one event to the core, with the current time. */
static void core_thread_step(struct core_thread *core_thread, struct core_event *event) {
    struct turn_now now = look(core_thread);
    core_turn_step(&core_thread->turn, event, &now);
    carry_out_at_once(core_thread);
    tell_push(core_thread, event->kind == CORE_START);
    tell_sharer(core_thread);
}

/* Adds the data of the shell to the reply: the id of the cluster, and the largest payload. */
static struct message *pack_greeted(const struct core_thread_needs *needs, const Tarry__Reply *reply) {
    Tarry__Reply copy = *reply;
    Tarry__HelloReply hello = *reply->hello;
    hello.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, (uint8_t *)needs->dir->cluster};
    hello.payload_max = (uint32_t)needs->config->payload_max;
    copy.hello = &hello;
    return reply_pack(&copy);
}

/* Adds the session's secret, which the shell makes. */
static struct message *pack_subscribed(struct core_thread *core_thread, const Tarry__Reply *reply) {
    uint8_t secret[SESSION_SECRET_SIZE];
    char principal[PRINCIPAL_SIZE_MAX + 1];
    Tarry__Reply copy = *reply;
    Tarry__SubscribeReply subscribe = *reply->subscribe;
    if (!lanes_principal(core_thread->needs.lanes, subscribe.lane, subscribe.session, principal)) principal[0] = '\0';
    secret_make(core_thread->needs.dir->secret, subscribe.session, principal, secret);
    subscribe.secret = (ProtobufCBinaryData){.data = secret, .len = sizeof(secret)};
    copy.subscribe = &subscribe;
    return reply_pack(&copy);
}

/* Returns whether memory is left for this reply (CALM-1). Its content may wait in memory as long as a disk hangs. */
static bool has_room(const struct core_reply *reply) {
    struct call *call = call_of(reply->ticket);
    if (reply->reply == NULL || call->sized == NULL) return true;
    size_t content_size = reply->content != NULL ? reply->content->blob_size : 0;
    return call->sized(call, tarry__reply__get_packed_size(reply->reply) + content_size);
}

/* Returns whether a delivery must wait until this batch is released. Early deliveries (`departs`) need not wait,
 * because their leases were recorded ahead of time. */
static bool has_ordinary(const struct core_effects *effects) {
    for (size_t i = 0; i < effects->deliveries.count; i++)
        if (!effects->deliveries.items[i].departs) return true;
    return false;
}

/* Packs the replies that need no reading. The delivery sender packs the others. */
static void pack_answers(struct core_thread *core_thread) {
    struct batch *batch = core_thread->batch;
    struct core_effects *effects = &batch->effects;
    batch->must_be_read = has_ordinary(effects);
    batch->answers = arena_alloc(&batch->arena, (effects->replies.count + 1) * sizeof(*batch->answers));
    assert(batch->answers != NULL); /* never NULL, because the arena is made by fatal_arena_init */
    for (size_t i = 0; i < effects->replies.count; i++) {
        struct core_reply *reply = &effects->replies.items[i];
        if (reply->ticket == 0) continue;
        /* LOG-1: this batch's sync covers the log position that the reply rests on. */
        assert(reply->after <= core_position(core_thread->needs.core));
        struct call *call = call_of(reply->ticket);
        struct message *message;
        bool is_refused = !has_room(reply);
        if (!is_refused && (reply->repeat_position != 0 || reply->content != NULL)) {
            batch->must_be_read = true;
            continue;
        }
        if (is_refused) {
            reply->ticket = 0; /* a refused reply needs no content, so nothing is read */
            message = reply_pack_refusal(TARRY__CODE__BUSY, NULL);
        } else if (reply->commit != NULL)
            message = reply_pack_commit(reply->commit, reply->commit_size, reply->after);
        else if (reply->reply->body_case == TARRY__REPLY__BODY_SUBSCRIBE)
            message = pack_subscribed(core_thread, reply->reply);
        else if (reply->reply->body_case == TARRY__REPLY__BODY_HELLO)
            message = pack_greeted(&core_thread->needs, reply->reply);
        else if (reply->reply->follower)
            message = node_pack(core_thread->needs.node, reply->reply);
        else
            message = reply_pack(reply->reply);
        batch->answers[batch->answer_count++] = (struct answer){call, message};
    }
}

static void fill_batch(struct core_thread *core_thread) {
    core_thread->batch = batch_take(core_thread->needs.batches);
    core_thread->stamped = 0;
    core_turn_fill(&core_thread->turn, &core_thread->batch->effects);
}

/* Passes the batch to the sync thread. */
static void flush(struct core_thread *core_thread) {
    const struct core_thread_needs *needs = &core_thread->needs;
    pack_answers(core_thread);
    const bool decides = !core_thread->turn.follows;
    if (decides) core_thread->batch->end = core_position(needs->core);
    if (decides && needs->node->on) node_digest(needs->node, core_thread->batch->end, core_digest(needs->core));
    sync_post(needs->sync, core_thread->batch, !core_thread->is_lent);
    core_thread->batch = NULL;
    core_turn_flushed(&core_thread->turn);
}

/* Returns whether the batch must wait, because no other batch is free: the disk hangs, or the other node has not
 * confirmed. Later decisions then go into this batch too. Deliveries of leases ahead of time do not need the batch, and
 * are sent on time. */
static bool is_put_off(struct core_thread *core_thread) {
    return !core_turn_is_large(&core_thread->turn) && batches_has_none(core_thread->needs.batches);
}

static void answer_refusal(struct call *call, Tarry__Code code, const char *sentence) {
    call->answer(call, reply_pack_refusal(code, sentence));
}

static void end_request(struct core_thread *core_thread, struct engine_request *engine_request) {
    engine_request_end(engine_request, core_thread->needs.core);
    reader_release(core_thread->needs.reader, engine_request);
}

/* Refuses the request if the disk has not enough free space for it (F-4). Returns whether it was refused. */
static bool refuse_for_room(struct core_thread *core_thread, struct engine_request *engine_request) {
    const struct core_thread_needs *needs = &core_thread->needs;
    const char *refusal =
        disk_space_refusal(needs->disk_space, needs->log, core_position(needs->core), engine_request->room);
    struct call *call = (struct call *)engine_request;
    if (refusal == NULL) return false;
    end_request(core_thread, engine_request);
    if (needs->disk_space->is_awaited)
        call->answer(call, reply_pack_soon(refusal));
    else
        answer_refusal(call, TARRY__CODE__BUSY, refusal);
    return true;
}

/* Returns true if all facts for the request are read, so that the core can decide it. Returns false if the request
 * waits in another thread, or was refused. */
static bool has_all(struct core_thread *core_thread, struct engine_request *engine_request) {
    const struct core_thread_needs *needs = &core_thread->needs;
    const struct core_filter filter = {.may_exist = may_exist, .prefetch = prefetch, .keys = core_thread->filter};
    enum engine_request_need need;
    while ((need = engine_request_next(engine_request, needs->core, &filter)) == ENGINE_REQUEST_ROOM) {
        if (refuse_for_room(core_thread, engine_request)) return false;
    }
    switch (need) {
    case ENGINE_REQUEST_PAST:
        locator_post(needs->locator, engine_request);
        break;
    case ENGINE_REQUEST_READ:
        reader_post(needs->reader, engine_request);
        break;
    case ENGINE_REQUEST_COUNT:
        calendar_reader_post(needs->calendar_reader, engine_request);
        break;
    case ENGINE_REQUEST_TIME:
        inbox_post(needs->inbox, &engine_request->item);
        break;
    case ENGINE_REQUEST_HOLD:
        core_turn_starve(&core_thread->turn, &engine_request->item);
        break;
    case ENGINE_REQUEST_REFUSED:
        end_request(core_thread, engine_request);
        answer_refusal((struct call *)engine_request, engine_request->refusal.code, engine_request->refusal.sentence);
        break;
    case ENGINE_REQUEST_NONE:
    case ENGINE_REQUEST_ROOM:
        break;
    }
    return need == ENGINE_REQUEST_NONE;
}

static void take_call(struct core_thread *core_thread, struct call *call) {
    struct engine_request *engine_request = &call->engine_request;
    if (!has_all(core_thread, engine_request)) return;
    struct core_request *request = &engine_request->event.request;
    if (request->message->body_case == TARRY__REQUEST__BODY_STATS) {
        request->broker = core_thread->needs.calls.stats(core_thread->needs.calls.context, engine_request->arena,
                                                         core_thread->clock_held);
        if (request->broker == NULL) { /* the statistics do not fit into the request's arena */
            end_request(core_thread, engine_request);
            answer_refusal(call, TARRY__CODE__TOO_LARGE, NULL);
            return;
        }
        if (core_thread->needs.node->on) node_stats(core_thread->needs.node, request->broker, engine_request->arena);
    }
    core_thread_step(core_thread, &engine_request->event);
    end_request(core_thread, engine_request);
}

static void free_page(struct page_load *load) {
    arena_deinit(&load->arena);
    free(load);
}

static void take_page(struct core_thread *core_thread, struct page_load *load) {
    if (!has_all(core_thread, &load->engine_request)) return;
    core_thread_step(core_thread, &load->engine_request.event);
    end_request(core_thread, &load->engine_request);
    free_page(load);
}

static void free_window(struct window_load *load) {
    arena_deinit(&load->arena);
    free(load);
}

static void take_window(struct core_thread *core_thread, struct window_load *load) {
    struct core_event event;
    bool more = window_next(&load->rows, WINDOW_PIECE_MAX, &event);
    core_thread_step(core_thread, &event);
    if (more)
        inbox_post(core_thread->needs.inbox, &load->item);
    else
        free_window(load);
}

static void take_news(struct core_thread *core_thread, struct lane_news *news) {
    static const enum core_event_kind kinds[] = {CORE_LANE_UP, CORE_LANE_GONE, CORE_LANE_SENT, CORE_CREDIT};
    struct core_event event = {
        .kind = kinds[news->event],
        .lane = {.session = news->session, .ok = news->ok, .credit = news->credit, .delivered_ns = news->delivered_ns}};
    if (lanes_is_news(core_thread->needs.lanes, news)) core_thread_step(core_thread, &event);
    free(news);
}

/* Records refusals for the audit, if this node may write and the disk has enough free space (F-4). Otherwise they are
 * offered again. */
static void take_refusals(struct core_thread *core_thread, struct refusals_told *told) {
    const struct core_thread_needs *needs = &core_thread->needs;
    struct core_event event = {.kind = CORE_REFUSED};
    uint64_t at = core_position(needs->core);
    bool may = !core_thread->turn.closed && !needs->config->inspect && !core_thread->turn.follows &&
               disk_space_refusal(needs->disk_space, needs->log, at, REFUSALS_RECORDS_SIZE_MAX) == NULL;
    if (may) event.refused.count = refusals_told_pack(told, core_thread->batch->effects.arena, &event.refused.items);
    if (may) core_thread_step(core_thread, &event);
    told->told(told, may);
}

/* Drops an item that arrives too late. A caller gets STOPPING. */
static void drop_item(struct core_thread *core_thread, struct item *item) {
    struct call *call = (struct call *)item;
    struct page_load *page = (struct page_load *)item;
    switch (item->kind) {
    case ITEM_CALL:
        end_request(core_thread, &call->engine_request);
        answer_refusal(call, TARRY__CODE__STOPPING, NULL);
        break;
    case ITEM_LANE:
        free(item);
        break;
    case ITEM_WINDOW:
        free_window((struct window_load *)item);
        break;
    case ITEM_PAGE:
        end_request(core_thread, &page->engine_request);
        free_page(page);
        break;
    case ITEM_REFUSALS:
        take_refusals(core_thread, (struct refusals_told *)item);
        break;
    }
}

static void take_item(struct core_thread *core_thread, struct item *item) {
    switch (item->kind) {
    case ITEM_CALL:
        take_call(core_thread, (struct call *)item);
        break;
    case ITEM_LANE:
        take_news(core_thread, (struct lane_news *)item);
        break;
    case ITEM_WINDOW:
        take_window(core_thread, (struct window_load *)item);
        break;
    case ITEM_PAGE:
        take_page(core_thread, (struct page_load *)item);
        break;
    case ITEM_REFUSALS:
        take_refusals(core_thread, (struct refusals_told *)item);
        break;
    }
}

static void refuse_call(struct core_thread *core_thread, struct call *call) {
    bool pooled = call->engine_request.event.request.pooled;
    end_request(core_thread, &call->engine_request);
    if (pooled) /* a request of the gateway gets NOT_PRIMARY; node_admits gives the reason */
        call->answer(call, node_pack_refusal(core_thread->needs.node, handing_over));
    else
        answer_refusal(call, TARRY__CODE__BUSY, handing_over);
}

static void begin(struct core_thread *core_thread, struct core_event event) {
    core_turn_begin(&core_thread->turn, boottime_ns());
    core_thread_step(core_thread, &event);
    if (core_turn_has_effects(&core_thread->turn)) flush(core_thread);
}

static void begin_run(struct core_thread *core_thread, enum core_event_kind kind) {
    const struct core_thread_needs *needs = &core_thread->needs;
    begin(core_thread, (struct core_event){.kind = kind,
                                           .start = {.epoch = atomic_load(&needs->run->epoch),
                                                     .before = needs->run->before,
                                                     .who = needs->run->started_by,
                                                     .clock_accepted = needs->clock->state.accepted}});
}

/* In a pair: applies what is committed, until this node leads. */
static void apply(struct core_thread *core_thread, uint64_t to) {
    const struct core_thread_needs *needs = &core_thread->needs;
    bool more = applier_step(&core_thread->applier, to);
    /* LOG-3: a leader starts with a part of the log that may never be confirmed, so the index must not include it yet.
     */
    uint64_t may_index = atomic_load(&needs->node->may_index), position = core_position(needs->core);
    indexer_durable(needs->indexer, may_index < position ? may_index : position);
    core_turn_applied(&core_thread->turn, more);
}

static void lead(struct core_thread *core_thread) {
    applier_end(&core_thread->applier);
    begin_run(core_thread, CORE_START);
    node_began(core_thread->needs.node);
}

static void renew_filter(struct core_thread *core_thread) {
    index_filter_drop((struct index_filter *)core_thread->filter);
    core_thread->filter = index_filter_hold(core_thread->needs.index);
}

static void record_alone(struct core_thread *core_thread) {
    struct node_alone_fact fact;
    struct core_event event;
    if (node_is_alone_news(core_thread->needs.node, &fact, &event)) core_thread_step(core_thread, &event);
}

static void carry_out(struct core_thread *core_thread, enum turn_effect effect) {
    struct core_turn *turn = &core_thread->turn;
    struct turn_now now;
    switch (effect) {
    case TURN_STEP:
        core_thread_step(core_thread, &turn->event);
        break;
    case TURN_RENEW_FILTER:
        renew_filter(core_thread);
        break;
    case TURN_APPLY:
        apply(core_thread, turn->load.follow_to);
        break;
    case TURN_LEAD:
        lead(core_thread);
        break;
    case TURN_TAKE:
        take_item(core_thread, turn->item);
        break;
    case TURN_REFUSE:
        refuse_call(core_thread, (struct call *)turn->item);
        break;
    case TURN_DROP:
        drop_item(core_thread, turn->item);
        break;
    case TURN_ALONE:
        record_alone(core_thread);
        break;
    case TURN_LOOK:
        now = look(core_thread);
        core_turn_look(turn, &now);
        break;
    case TURN_FLUSH:
        if (!is_put_off(core_thread)) flush(core_thread);
        break;
    case TURN_FILL:
        fill_batch(core_thread);
        break;
    case TURN_PAUSED:
        node_paused(core_thread->needs.node, turn->position);
        break;
    case TURN_DONE:
        break;
    }
}

/* Processes everything that was taken. Returns true if there is more to do at once. */
static bool run_turn(struct core_thread *core_thread, const struct turn_load *load) {
    enum turn_effect effect;
    core_turn_take(&core_thread->turn, load);
    while ((effect = core_turn_next(&core_thread->turn)) != TURN_DONE) carry_out(core_thread, effect);
    return core_thread->turn.more;
}

/* Returns how long the core has nothing to do if nothing arrives. */
static uint64_t idle_ns(struct core_thread *core_thread) {
    struct turn_now now = look(core_thread);
    return core_turn_idle_ns(&core_thread->turn, &now);
}

void core_thread_stand_in(struct core_thread *core_thread, const struct turn_load *load) {
    core_thread->is_lent = true;
    bool more = run_turn(core_thread, load);
    core_thread->is_lent = false;
    inbox_give_back(core_thread->needs.inbox, more ? 0 : idle_ns(core_thread));
}

/* Returns whether the run is over. */
static bool has_ended(struct core_thread *core_thread) {
    const struct core_thread_needs *needs = &core_thread->needs;
    if (!core_thread->turn.stopping) return false;
    uint64_t now_ms = look_at_clock(core_thread).steady_ns / NS_PER_MS;
    enum turn_end end = core_turn_end(&core_thread->turn, now_ms, needs->calls.is_busy(needs->calls.context));
    if (end == TURN_CLOSES) begin(core_thread, (struct core_event){.kind = CORE_CLOSE, .who = needs->run->stopped_by});
    return end == TURN_IS_OVER;
}

static void *core_thread_run(void *argument) {
    struct core_thread *core_thread = argument;
    const struct core_thread_needs *needs = &core_thread->needs;
    /* A late wake-up of this thread delays every task, so its timers may expire at most 1 ns late. */
    prctl(PR_SET_TIMERSLACK, 1);
    begin_run(core_thread, needs->config->inspect ? CORE_INSPECT : needs->node->on ? CORE_FOLLOW : CORE_START);
    struct turn_load load = {0};
    bool more = false;
    do {
        uint64_t wait_ns = more ? 0 : idle_ns(core_thread);
        uint64_t feed_ns = watchdog_feed(&core_thread->watchdog);
        if (wait_ns > feed_ns) wait_ns = feed_ns;
        inbox_take(needs->inbox, wait_ns, core_turn_may_lend(&core_thread->turn), &load);
        more = run_turn(core_thread, &load);
    } while (!has_ended(core_thread));
    if (core_thread->batch != NULL && core_turn_has_effects(&core_thread->turn)) flush(core_thread);
    return NULL;
}

void core_thread_start(struct core_thread *core_thread, const struct core_thread_needs *needs) {
    *core_thread = (struct core_thread){.needs = *needs};
    core_turn_init(&core_thread->turn, needs->core, core_position(needs->core), index_position(needs->index));
    core_thread->turn.is_pair = core_thread->turn.follows = needs->node->on;
    core_thread->turn.inspects = needs->config->inspect;
    if (needs->node->on) applier_init(&core_thread->applier, needs->core, needs->log, needs->node);
    core_thread->filter = index_filter_hold(needs->index);
    fill_batch(core_thread);
    watchdog_init(&core_thread->watchdog);
    thread_start(&core_thread->thread, "tarry-core", core_thread_run, core_thread);
}

void core_thread_join(struct core_thread *core_thread) {
    pthread_join(core_thread->thread, NULL);
}
