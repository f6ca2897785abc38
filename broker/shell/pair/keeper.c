/* keeper.c: see keeper.h. */
#include "keeper.h"

#include <stdio.h>
#include <string.h>

static void call_done(struct coordinator_call *call) {
    struct keeper *keeper = (struct keeper *)((char *)call - offsetof(struct keeper, call));
    keeper->done(keeper->argument);
}

static void watch_changed(struct coordinator_watch *watch) {
    struct keeper *keeper = (struct keeper *)((char *)watch - offsetof(struct keeper, watch));
    keeper->changed(keeper->argument);
}

int keeper_open(struct keeper *keeper, const char *url, char message[COORDINATOR_MESSAGE_SIZE]) {
    struct coordinator_options options = {.call_ms = COORDINATOR_CALL_MS,
                                          .session_ms = COORDINATOR_SESSION_MS,
                                          .session_changed = keeper->session_changed,
                                          .argument = keeper->argument};
    if (coordinator_open(url, &options, &keeper->coordinator, message) != 0) return 1;
    keeper->watch = (struct coordinator_watch){.name = RECORD_ENTRY, .changed = watch_changed};
    coordinator_watch(keeper->coordinator, &keeper->watch);
    return 0;
}

void keeper_close(struct keeper *keeper) {
    coordinator_close(keeper->coordinator);
}

void keeper_read(struct keeper *keeper) {
    keeper->swaps = false;
    keeper->call.done = call_done;
    coordinator_read(keeper->coordinator, RECORD_ENTRY, &keeper->call);
}

void keeper_swap(struct keeper *keeper, uint64_t version, const struct pair_record *record,
                 const struct record_member members[RECORD_NODES]) {
    struct coordinator_record *next = &keeper->record;
    keeper->swaps = true;
    keeper->wanted = *record;
    keeper->call.done = call_done;
    memcpy(next->cluster, keeper->cluster, CLUSTER_ID_SIZE);
    next->pair = *record;
    for (size_t i = 0; i < RECORD_NODES; i++) next->members[i] = members[i];
    size_t size = record_write(next, keeper->value);
    coordinator_compare_and_set(keeper->coordinator, RECORD_ENTRY, version, keeper->value, size, &keeper->call);
}

/* What the record says of this node it says of its disk. */
static int claim_disk(struct keeper *keeper, struct pair_record *record, char message[COORDINATOR_MESSAGE_SIZE]) {
    const struct coordinator_record *read = &keeper->record;
    if (memcmp(read->cluster, keeper->cluster, CLUSTER_ID_SIZE) != 0) {
        snprintf(message, COORDINATOR_MESSAGE_SIZE,
                 "the coordinator keeps the record of another cluster's pair at that path; name another path, or start "
                 "an empty directory with --follow to join it");
        return 1;
    }
    const struct record_member *self = &read->members[keeper->self];
    if (self->is_known && memcmp(self->id, keeper->member, MEMBER_ID_SIZE) == 0) return 0;
    if (record->leader == keeper->self) {
        snprintf(
            message, COORDINATOR_MESSAGE_SIZE,
            "the pair's record names another disk than this one as the leader's: this data directory is a copy, or was "
            "restored; bring the other one back, or promote its follower first and join it with an empty "
            "directory and --follow");
        return 1;
    }
    record->in_sync &= (uint8_t) ~(1u << keeper->self);
    return 0;
}

int keeper_take(struct keeper *keeper, struct pair_event *out, char message[COORDINATOR_MESSAGE_SIZE]) {
    const struct coordinator_call *call = &keeper->call;
    *out = (struct pair_event){.kind = keeper->swaps ? PAIR_RECORD_SWAPPED : PAIR_RECORD_READ,
                               .outcome = call->outcome,
                               .version = call->version,
                               .record = keeper->wanted};
    if (keeper->swaps || call->outcome != PAIR_DONE) return 0;
    out->record = (struct pair_record){0};
    if (call->version == 0) return 0;
    if (record_read(call->value, call->size, &keeper->record, message) != 0) return 1;
    out->record = keeper->record.pair;
    return claim_disk(keeper, &out->record, message);
}
