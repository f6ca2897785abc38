/* releaser.c: see releaser.h. */
#include "releaser.h"

#include "shell.h"

static void tell_courier(void *context, uint64_t position) {
    courier_durable(context, position);
}

static void tell_inbox(void *context, uint64_t position) {
    inbox_durable(context, position);
}

static void tell_indexer(void *context, uint64_t position) {
    indexer_durable(context, position);
}

static void tell_auditor(void *context, uint64_t position) {
    auditor_durable(context);
}

void releaser_init(struct releaser *releaser, struct shell *shell, uint64_t reached) {
    *releaser = (struct releaser){.shell = shell,
                                  .subscribers = {{tell_courier, &shell->courier, NULL},
                                                  {tell_inbox, &shell->inbox, NULL},
                                                  {tell_indexer, &shell->indexer, NULL},
                                                  {tell_auditor, &shell->auditor, NULL}}};
    pthread_mutex_init(&releaser->mutex, NULL);
    release_gate_init(&releaser->gate, reached);
    for (size_t i = 0; i < RELEASER_SUBSCRIBERS; i++)
        release_gate_subscribe(&releaser->gate, &releaser->subscribers[i]);
}

void releaser_enter(struct releaser *releaser, struct batch *batches) {
    pthread_mutex_lock(&releaser->mutex);
    for (struct batch *batch = batches; batch != NULL; batch = batch->next) {
        batch->release = (struct release){.position = batch->end};
        release_gate_enter(&releaser->gate, &batch->release);
    }
    pthread_mutex_unlock(&releaser->mutex);
}

void releaser_reach(struct releaser *releaser, uint64_t position) {
    pthread_mutex_lock(&releaser->mutex);
    release_gate_reach(&releaser->gate, position);
    pthread_mutex_unlock(&releaser->mutex);
}

static void let_out(struct shell *shell, struct batch *batch) {
    for (size_t i = 0; i < batch->answer_count; i++)
        batch->answers[i].call->answer(batch->answers[i].call, batch->answers[i].reply);
    batch_drop(&shell->batches, batch);
}

void releaser_run(struct releaser *releaser) {
    pthread_mutex_lock(&releaser->mutex);
    struct release *release;
    while ((release = release_gate_next(&releaser->gate)) != NULL) {
        pthread_mutex_unlock(&releaser->mutex);
        let_out(releaser->shell, batch_of(release));
        pthread_mutex_lock(&releaser->mutex);
    }
    release_gate_tell(&releaser->gate); /* order of locks: this mutex, then a subscriber's */
    pthread_mutex_unlock(&releaser->mutex);
}
