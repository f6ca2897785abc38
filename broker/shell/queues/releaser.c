/* releaser.c: see releaser.h. */
#include "releaser.h"

#include <assert.h>

#include "batch.h"

void releaser_init(struct releaser *releaser, struct batches *batches, uint64_t reached) {
    *releaser = (struct releaser){.batches = batches};
    pthread_mutex_init(&releaser->mutex, NULL);
    release_gate_init(&releaser->gate, reached);
}

void releaser_send_by(struct releaser *releaser, void (*send)(void *sender, struct batch *batch), void *sender) {
    releaser->send = send;
    releaser->sender = sender;
}

void releaser_subscribe(struct releaser *releaser, void (*reached)(void *context, uint64_t position), void *context) {
    assert(releaser->subscriber_count < RELEASER_SUBSCRIBERS_MAX);
    struct release_subscriber *subscriber = &releaser->subscribers[releaser->subscriber_count++];
    *subscriber = (struct release_subscriber){.reached = reached, .context = context};
    release_gate_subscribe(&releaser->gate, subscriber);
}

void releaser_enter(struct releaser *releaser, struct batch *batches, uint64_t question) {
    pthread_mutex_lock(&releaser->mutex);
    for (struct batch *batch = batches; batch != NULL; batch = batch->next) {
        /* A batch with appends waits until the follower has stored its position. The leader sent that position after
         * all questions of the batch had arrived, so no other confirmation is needed. */
        bool is_silent = batch->effects.appends.count == 0;
        batch->release = (struct release){.position = batch->end, .question = is_silent ? question : 0};
        release_gate_enter(&releaser->gate, &batch->release);
    }
    pthread_mutex_unlock(&releaser->mutex);
}

void releaser_reach(struct releaser *releaser, uint64_t position) {
    pthread_mutex_lock(&releaser->mutex);
    release_gate_reach(&releaser->gate, position);
    pthread_mutex_unlock(&releaser->mutex);
}

static void let_out(struct releaser *releaser, struct batch *batch) {
    for (size_t i = 0; i < batch->answer_count; i++)
        batch->answers[i].call->answer(batch->answers[i].call, batch->answers[i].reply);
    if (batch->reads_late) {
        batch_hold(releaser->batches, batch);
        releaser->send(releaser->sender, batch);
    }
    batch_drop(releaser->batches, batch);
}

void releaser_confirm(struct releaser *releaser, uint64_t question) {
    pthread_mutex_lock(&releaser->mutex);
    release_gate_confirm(&releaser->gate, question);
    pthread_mutex_unlock(&releaser->mutex);
}

void releaser_tell(struct releaser *releaser) {
    pthread_mutex_lock(&releaser->mutex);
    release_gate_tell(&releaser->gate); /* calls subscribers, which lock their own mutexes; by the lock order the
                                           releaser's mutex comes first */
    pthread_mutex_unlock(&releaser->mutex);
}

bool releaser_run(struct releaser *releaser) {
    bool has_left = false;
    pthread_mutex_lock(&releaser->mutex);
    struct release *release;
    while ((release = release_gate_next(&releaser->gate)) != NULL) {
        pthread_mutex_unlock(&releaser->mutex);
        let_out(releaser, batch_of(release));
        has_left = true;
        pthread_mutex_lock(&releaser->mutex);
    }
    release_gate_tell(&releaser->gate);
    pthread_mutex_unlock(&releaser->mutex);
    return has_left;
}

bool releaser_has_any(struct releaser *releaser) {
    pthread_mutex_lock(&releaser->mutex);
    bool has_any = releaser->gate.first != NULL;
    pthread_mutex_unlock(&releaser->mutex);
    return has_any;
}

bool releaser_wants_confirmation(struct releaser *releaser) {
    pthread_mutex_lock(&releaser->mutex);
    bool wants = release_gate_wants_confirmation(&releaser->gate);
    pthread_mutex_unlock(&releaser->mutex);
    return wants;
}

static struct release *next_release(struct releaser *releaser) {
    pthread_mutex_lock(&releaser->mutex);
    struct release *release = release_gate_take(&releaser->gate);
    pthread_mutex_unlock(&releaser->mutex);
    return release;
}

void releaser_fail(struct releaser *releaser) {
    struct release *release;
    while ((release = next_release(releaser)) != NULL) {
        struct batch *batch = batch_of(release);
        for (size_t i = 0; i < batch->answer_count; i++) {
            message_free(batch->answers[i].reply);
            batch->answers[i].call->answer(batch->answers[i].call,
                                           reply_pack_refusal(TARRY__CODE__FAILED, CALL_UNCONFIRMED));
        }
        batch_drop(releaser->batches, batch);
    }
}
