/* host_erase.c: redaction. The search for the contents that a redaction concerns reads the log and returns later
 * (shell/jobs/locator.c). Contents that the index knows as redacted are erased, as engine/erasure.h decides. The search
 * is naive and visits every frame ever appended; the erasing code is the real one. */
#include <string.h>

#include "../model_disk.h"
#include "../must.h"
#include "client.h"
#include "host.h"
#include "world.h"

/* Maximum number of redactions that are erased together; small, so that kills often come in between. */
#define SLICE_MAX 4

/* ---- the search */

bool host_redacts(const Tarry__Request *request) {
    if (request->body_case != TARRY__REQUEST__BODY_COMMIT) return false;
    for (size_t i = 0; i < request->commit->n_ops; i++) {
        if (request->commit->ops[i]->op_case == TARRY__OP__OP_REDACT) return true;
    }
    return false;
}

struct search {
    const struct host *host;
    const Tarry__Redact *redact;
    uint32_t queue;               /* number that the queue had when the request came */
    struct core_past_task *found; /* the tasks found, indexed by id; id 0: this request does not redact the task */
};

static bool is_range(const Tarry__Redact *redact) {
    return !redact->task->id && !redact->task->key.len;
}

static bool is_meant(const struct search *search, const Tarry__Task *task) {
    const Tarry__Ref *ref = search->redact->task;
    if (ref->id) return task->id == ref->id;
    if (task->id <= search->redact->after_id) return false;
    if (task->queue != search->queue && !flat_was_named(&search->host->head, task->queue, ref->queue)) return false;
    bool same_key =
        task->key.len == ref->key.len && (!ref->key.len || !memcmp(task->key.data, ref->key.data, ref->key.len));
    return is_range(search->redact) || same_key;
}

static void take_record(struct search *search, const struct frame_header *header, const Tarry__Record *record) {
    const Tarry__TaskPut *put = record->fact_case == TARRY__RECORD__FACT_PUT ? record->put : NULL;
    const Tarry__Task *task = put ? put->task : NULL;
    if (record->fact_case == TARRY__RECORD__FACT_END) task = record->end->task;
    if (record->fact_case == TARRY__RECORD__FACT_REDACTION) {
        struct core_past_task *found = &search->found[record->redaction->id];
        if (found->id) found->redacted_at = header->position;
    }
    bool is_fresh = put && put->fresh;
    if (!task || !is_meant(search, task) || (is_range(search->redact) && !is_fresh)) return;
    struct core_past_task *found = &search->found[task->id];
    if (!found->id)
        *found = (struct core_past_task){.id = task->id,
                                         .queue = task->queue,
                                         .scheduled_ms = task->scheduled_ms,
                                         .blob_at = task->blob_at,
                                         .blob_size = task->blob_size,
                                         .key_size = (uint8_t)task->key.len,
                                         .key = (const char *)task->key.data};
    if (!is_fresh || put->content_hash.len != CONTENT_HASH_SIZE) return;
    found->frame = header->position;
    memcpy(found->content_hash, put->content_hash.data, CONTENT_HASH_SIZE);
}

static bool is_in_range(const Tarry__Redact *redact, const struct frame_header *header) {
    uint64_t ms = header->steady_ns / NS_PER_MS;
    return ms >= redact->from_ms && (!redact->to_ms || ms < redact->to_ms);
}

/* Marks the tasks that were redacted. Redactions that follow the searched range are not among its records, so erased
 * tasks are recognized by their erased bytes. */
static void mark_erased(const struct search *search, struct core_past *past) {
    for (size_t i = 0; is_range(search->redact) && i < past->count; i++) {
        struct core_past_task *task = &past->tasks[i];
        uint8_t salt[BLOB_SALT_SIZE];
        if (!task->frame || log_read(search->host->log, task->blob_at, salt, sizeof salt)) continue;
        if (content_is_erased(salt, sizeof salt)) task->redacted_at = task->frame;
    }
}

static void run_search(struct world *world, const struct search *search, size_t room, struct core_past *out) {
    static struct core_past_task found[FLAT_TASKS_MAX];
    struct host *host = world->host;
    struct search running = *search;
    running.found = found;
    memset(found, 0, (size_t)host->head.next_id * sizeof found[0]);
    for (size_t i = host_frames_below(host, log_start(host->log)); i < host_frames_below(host, log_durable(host->log));
         i++) {
        const struct frame_note *note = &host->frames[i];
        if (is_range(search->redact) && !is_in_range(search->redact, &note->header)) continue;
        for (size_t k = 0; note->body && k < note->body->n_records; k++)
            take_record(&running, &note->header, note->body->records[k]);
    }
    out->tasks = world_alloc(world, room * sizeof *out->tasks);
    for (uint64_t id = 1; id < host->head.next_id && out->count < room; id++) {
        if (found[id].id) out->tasks[out->count++] = found[id];
    }
    mark_erased(&running, out);
}

/* Returns whether a queue has the requested name, or had it earlier. */
static bool is_known(const struct host *host, const struct search *search) {
    bool is_known = search->queue != 0;
    for (size_t i = 0; i < host->head.former_count && !is_known; i++)
        is_known = strcmp(host->head.former[i].name, search->redact->task->queue) == 0;
    return is_known;
}

static void handed_in(struct world *world, void *argument, uint64_t number) {
    struct asked *asked = argument;
    if (asked->life == world->host->life) host_take(world, &asked->engine_request.item);
}

static void locate(struct world *world, void *argument, uint64_t number) {
    struct asked *asked = argument;
    struct engine_request *engine_request = &asked->engine_request;
    if (asked->life != world->host->life) return;
    if (log_durable(world->host->log) < engine_request->past_end) {
        world_after_ns(world, NS_PER_MS, locate, asked, 0);
        return;
    }
    const Tarry__Commit *commit = engine_request->event.request.message->commit;
    struct core_past *past = world_alloc(world, commit->n_ops * sizeof *past);
    size_t room = one_in(world, 2) ? REDACT_TASKS_MAX : 1 + random_below(&world->random, 4);
    for (size_t i = 0; i < commit->n_ops; i++) {
        if (commit->ops[i]->op_case != TARRY__OP__OP_REDACT) continue;
        past[i].id_end = engine_request->past_id_end;
        past[i].no_room = room == 0;
        if (past[i].no_room) continue;
        struct search search = {world->host, commit->ops[i]->redact, engine_request->queue_numbers[i], NULL};
        past[i].is_former = !search.redact->task->id && is_known(world->host, &search);
        if (past[i].is_former || search.redact->task->id) run_search(world, &search, room, &past[i]);
        room -= past[i].count;
    }
    engine_request->event.request.commit.past = past;
    world_after(world, &world->options.read, handed_in, asked, 0);
}

void host_locate_later(struct world *world, struct asked *asked) {
    world_after(world, &world->options.read, locate, asked, 0);
}

/* ---- erasing */

/* Returns whether the content's bytes on the disk are zeros, even while reads of the disk fail. A bit of the zeros may
 * have flipped since the erasure (faults.c). */
static bool is_gone(struct host *host, const Tarry__Redaction *redaction) {
    uint8_t content[256];
    MUST(redaction->blob_size <= sizeof content);
    int read_error = host->disk->read_error;
    host->disk->read_error = 0;
    int error = log_read(host->log, redaction->blob_at, content, redaction->blob_size);
    host->disk->read_error = read_error;
    int bits = 0;
    for (size_t i = 0; !error && i < redaction->blob_size; i++) bits += __builtin_popcount(content[i]);
    return error == LOG_RETIRED || (error == 0 && bits <= 1);
}

static void erase_log(struct world *world) {
    struct host *host = world->host;
    struct log_content contents[SLICE_MAX];
    size_t found = 0;
    for (size_t i = 0; i < host->slice_count; i++) {
        const Tarry__Redaction *redaction = host->table.redactions[i];
        if (redaction->frame)
            contents[found++] = (struct log_content){redaction->frame, redaction->blob_at, redaction->blob_size};
    }
    int error = log_erase(host->log, contents, found);
    if (error) host_fail(world, "cannot erase", error);
}

static enum erasure_result erase_archive(struct world *world) {
    struct host *host = world->host;
    for (size_t i = 0; i < host->slice_count; i++) {
        if (!host_archive_erase(world, host->table.redactions[i])) return ERASURE_FAILED;
    }
    return ERASURE_DONE;
}

/* Removes the redactions that were carried out, in a transaction of the index. Checks that no copy of their contents is
 * left. */
static void report(struct world *world) {
    struct host *host = world->host;
    TRACE(world, "broker", "erased %zu", host->slice_count);
    for (size_t i = 0; i < host->slice_count; i++) {
        const Tarry__Redaction *redaction = host->table.redactions[i];
        if (redaction->frame) MUST(is_gone(host, redaction) && !host->archive_has[redaction->id]);
    }
    table_redactions_done(&host->table, host->slice_count);
}

static enum erasure_result execute(struct world *world) {
    struct host *host = world->host;
    switch (host->erasure.effect) {
    case ERASURE_BEGIN:
        if (host->archiving || !log_erase_begin(host->log)) return ERASURE_BUSY;
        break;
    case ERASURE_LOG:
        erase_log(world);
        break;
    case ERASURE_ARCHIVE:
        return erase_archive(world);
    case ERASURE_REPORT:
        report(world);
        break;
    case ERASURE_END:
        log_erase_end(host->log);
        break;
    case ERASURE_TAILS: /* nothing to erase: only a node of a pair has quarantined tails */
    case ERASURE_FORGET:
    case ERASURE_REST:
        break;
    }
    return ERASURE_DONE;
}

static struct erasure_facts find_facts(const struct world *world) {
    const struct host *host = world->host;
    return (struct erasure_facts){.is_retiring = retention_is_active(&host->retention),
                                  .in_index = host->table.redaction_count > 0,
                                  .now_ns = world->now_ns};
}

static void erase(struct world *world, void *argument, uint64_t life);

/* Executes the effects of the erasure one after the other. Their result is reported after a short time. */
static void carry_on(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP || host->erasure.effect == ERASURE_REST) return;
    do {
        enum erasure_result result = execute(world);
        if (host->life != life) return;
        (void)erasure_step(&host->erasure, result, world->now_ns);
    } while (host->erasure.effect != ERASURE_REST && host->erasure.effect != ERASURE_REPORT);
    if (host->erasure.effect == ERASURE_REPORT) {
        world_after(world, &world->options.wake, carry_on, NULL, life);
        return;
    }
    struct erasure_facts facts = find_facts(world);
    uint64_t wait_ns = erasure_wait_ns(&host->erasure, &facts);
    if (wait_ns > 0 && wait_ns < UINT64_MAX) world_after_ns(world, wait_ns, erase, NULL, life);
    if (wait_ns == 0) host_erase_later(world);
    host_retire_later(world);
}

void host_erase_through(struct world *world) {
    struct host *host = world->host;
    while (host->state == HOST_UP && host->erasure.effect != ERASURE_REST)
        (void)erasure_step(&host->erasure, execute(world), world->now_ns);
}

static void erase(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    bool is_up = host->life == life && host->state == HOST_UP;
    if (!is_up || retention_is_active(&host->retention) || host->erasure.effect != ERASURE_REST) return;
    size_t count = 1 + random_below(&world->random, SLICE_MAX);
    if (count > host->table.redaction_count) count = host->table.redaction_count;
    struct erasure_facts facts = find_facts(world);
    if (erasure_look(&host->erasure, &facts) == ERASURE_REST) return;
    host->slice_count = count;
    carry_on(world, NULL, life);
}

void host_erase_later(struct world *world) {
    struct host *host = world->host;
    struct erasure_facts facts = find_facts(world);
    bool is_under_way = host->erasure.effect != ERASURE_REST || facts.is_retiring;
    if (is_under_way || erasure_wait_ns(&host->erasure, &facts) > 0) return;
    world_after(world, &world->options.wake, erase, NULL, host->life);
}

/* Checks that erased contents stay erased, even if the disk lost later writes. */
void host_check_erased(struct world *world) {
    struct host *host = world->host;
    for (size_t i = 0; i < host_frames_below(host, host->table.flat.position); i++) {
        const Tarry__FrameBody *body = host->frames[i].body;
        for (size_t k = 0; body && k < body->n_records; k++) {
            const Tarry__Redaction *redaction = body->records[k]->redaction;
            bool is_one = body->records[k]->fact_case == TARRY__RECORD__FACT_REDACTION && redaction->frame;
            if (!is_one || table_is_redacting(&host->table, redaction)) continue;
            MUST(is_gone(host, redaction) && !host->archive_has[redaction->id]);
        }
    }
}
