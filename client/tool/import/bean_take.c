/* bean_take.c: see bean.h: turns jobs into items, and removes them.
 *
 * A ready job is reserved first, so that no worker there takes it meanwhile; a kill releases it. A delayed job is not
 * reserved, because a kill would make it ready too early. It is deleted in the delayed state, and is due here when it
 * would have been ready there. A job that is gone when it is to be deleted was taken by another worker. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "bean.h"

/* Makes the same task as a put through tarryd's own beanstalk:// (docs/BEANSTALKD.md). A ready job is due at pri + 1
 * ms, so a lower pri comes first. A delayed job is due after its delay, and then comes first. */
#define PRIORITY_FRESH 9u
#define BURIED_SUFFIX ".buried"

static void place(struct import *import, struct import_item *item, const struct bean_job *job) {
    const struct bean *bean = import->state;
    struct text queue = {0};
    const bool is_buried = job->state == BEAN_BURIED;
    text_printf(&queue, "%s%s%s", bean->options->prefix, job->tube, is_buried ? BURIED_SUFFIX : "");
    item->queue = tool_strdup(text_str(&queue));
    text_deinit(&queue);
    item->when = TARRY_AT;
    item->when_ms = (uint64_t)job->pri + 1;
    if (job->state == BEAN_DELAYED) {
        item->when = TARRY_DELAY;
        item->when_ms = (job->left_s + 1) * 1000; /* TIME-1: the server rounds down */
        item->priority = PRIORITY_FRESH;
    }
    snprintf(item->note, sizeof item->note, "pri=%u ttr=%u delay=%u", job->pri, job->ttr_s, job->delay_s);
}

static void name(struct import *import, struct import_item *item, const struct bean_job *job) {
    const struct bean *bean = import->state;
    const char *server = bean->only != NULL ? bean->only->server : import->server;
    const uint64_t now_s = wall_ms() / 1000;
    item->mark.id = job->id;
    item->mark.stamp = job->age_s < now_s ? now_s - job->age_s : 0;
    snprintf(item->key, sizeof item->key, "beanstalkd:%.32s:%llu", server, (unsigned long long)job->id);
}

/* Gets the current state of the jobs of this step. Sets the ids of jobs that are not imported to 0. */
static int look(struct import *import, const uint64_t *ids, size_t count, struct bean_job *jobs) {
    const struct bean *bean = import->state;
    struct text commands = {0};
    for (size_t i = 0; i < count; i++) text_printf(&commands, "stats-job %llu\r\n", (unsigned long long)ids[i]);
    bool is_sent = server_link_send(&import->link, commands.data, commands.size);
    text_deinit(&commands);
    for (size_t i = 0; is_sent && i < count; i++) {
        struct bean_reply reply;
        if (!bean_read(import, &reply)) break;
        jobs[i].id = 0;
        if (strcmp(reply.line, "NOT_FOUND") == 0) continue;
        if (reply.body == NULL || !bean_job_parse(reply.body, reply.body_size, &jobs[i]) || jobs[i].id != ids[i])
            return import_nonsense(import, "the reply to stats-job is malformed; it was", reply.line,
                                   strlen(reply.line));
        if (jobs[i].state == BEAN_RESERVED || !bean_is_wanted(bean, jobs[i].tube)) jobs[i].id = 0;
    }
    return import->link.error[0] == 0 ? 0 : import_lost(import);
}

static bool is_to_hold(const struct import *import, const struct bean_job *job) {
    const struct bean *bean = import->state;
    return job->state == BEAN_READY && bean->has_reserve_job && !import->is_copy;
}

/* Checks that the reply "RESERVED id size" or "FOUND id size" is for this job. */
static bool is_of(const struct bean_reply *reply, uint64_t id) {
    const char *number = strchr(reply->line, ' ');
    const size_t size = number != NULL ? strcspn(number + 1, " ") : 0;
    uint64_t said;
    return (reply->body != NULL || reply->is_huge) && number != NULL &&
           bean_decimal(number + 1, size, UINT64_MAX, &said) && said == id;
}

static void take_body(struct import *import, struct import_batch *batch, const struct bean_job *job,
                      const struct bean_reply *reply) {
    const struct bean *bean = import->state;
    struct import_item *item = import_batch_add(batch);
    item->is_held = is_to_hold(import, job);
    name(import, item, job);
    place(import, item, job);
    item->payload_size = reply->is_huge ? reply->huge_size : reply->body_size;
    if (!reply->is_huge) {
        item->payload = tool_alloc(reply->body_size + 1);
        memcpy(item->payload, reply->body, reply->body_size);
        item->mark.hash = import_hash(reply->body, reply->body_size);
        batch->bytes += reply->body_size;
    }
    if (bean->only != NULL)
        item->verdict = receipt_has(bean->only, &item->mark, BEAN_STAMP_SLACK_S) ? ITEM_HERE : ITEM_REFUSED;
}

/* Imports one step: a limited number of jobs, requested together. */
static int take_step(struct import *import, struct import_batch *batch, const uint64_t *ids, size_t count) {
    struct bean_job jobs[BEAN_TAKE_STEP] = {{0}};
    struct text commands = {0};
    int status = look(import, ids, count, jobs);
    for (size_t i = 0; status == 0 && i < count; i++)
        if (jobs[i].id != 0)
            text_printf(&commands, "%s %llu\r\n", is_to_hold(import, &jobs[i]) ? "reserve-job" : "peek",
                        (unsigned long long)jobs[i].id);
    bool is_sent = status == 0 && server_link_send(&import->link, commands.data, commands.size);
    text_deinit(&commands);
    if (status != 0) return status;
    for (size_t i = 0; is_sent && i < count; i++) {
        struct bean_reply reply;
        if (jobs[i].id == 0) continue;
        if (!bean_read(import, &reply)) break;
        if (strcmp(reply.line, "NOT_FOUND") == 0) continue; /* another worker has taken the job */
        if (!is_of(&reply, jobs[i].id))
            return import_nonsense(import, "it did not return a job; its reply was", reply.line, strlen(reply.line));
        take_body(import, batch, &jobs[i], &reply);
    }
    return import->link.error[0] == 0 ? 0 : import_lost(import);
}

int bean_next(struct import *import, struct import_batch *batch) {
    struct bean *bean = import->state;
    int status = 0;
    while (status == 0 && bean->at < bean->id_count && batch->bytes < BATCH_BYTES_MAX &&
           batch->count + BEAN_TAKE_STEP <= BATCH_ITEMS_MAX) {
        const size_t left = bean->id_count - bean->at, count = left < BEAN_TAKE_STEP ? left : BEAN_TAKE_STEP;
        status = take_step(import, batch, bean->ids + bean->at, count);
        bean->at += count;
    }
    return status;
}

/* Deletes imported jobs, and releases reserved jobs that were not imported. */
int bean_remove(struct import *import, struct import_batch *batch) {
    struct text commands = {0};
    for (size_t i = 0; i < batch->count; i++) {
        const struct import_item *item = &batch->items[i];
        const unsigned long long id = item->mark.id;
        if (item->verdict == ITEM_CAME || item->verdict == ITEM_HERE)
            text_printf(&commands, "delete %llu\r\n", id);
        else if (item->is_held)
            text_printf(&commands, "release %llu %llu 0\r\n", id, (unsigned long long)item->when_ms - 1);
    }
    bool is_sent = server_link_send(&import->link, commands.data, commands.size);
    text_deinit(&commands);
    for (size_t i = 0; is_sent && i < batch->count; i++) {
        struct import_item *item = &batch->items[i];
        struct bean_reply reply;
        const bool is_deleted = item->verdict == ITEM_CAME || item->verdict == ITEM_HERE;
        if (!is_deleted && !item->is_held) continue;
        if (!bean_read(import, &reply)) break;
        if (!is_deleted) continue;
        if (strcmp(reply.line, "DELETED") == 0)
            item->fate = FATE_REMOVED;
        else if (strcmp(reply.line, "NOT_FOUND") == 0)
            item->fate = FATE_TAKEN;
        else
            return import_nonsense(import, "it did not delete a job; its reply was", reply.line, strlen(reply.line));
    }
    return import->link.error[0] == 0 ? 0 : import_lost(import);
}
