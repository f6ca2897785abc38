/* fuzz_delivery.c: a consumer gets messages on its lane from a broken or hostile broker. Every task that the consumer's
 * code returns has an id, belongs to the session, and has terminated texts. A task comes again only under a later token
 * (FENCE-1). A damaged message counts as lost. A message's memory is freed together with the last of its tasks.
 *
 * The input: messages, each after its size in two bytes, for a consumer of session 1. A size of 0 makes the user take
 * the received tasks and settle one of them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "consumer.h"
#include "fuzz.h"
#include "input.h"

#define SESSION 1u
#define TASKS_MAX 4096u

struct lease {
    uint64_t id;
    struct tarry_token token;
};

/* The tasks that the user has received after its last settlement. A settled lease may come again. */
struct user {
    struct lease seen[TASKS_MAX];
    size_t count;
};

static struct user user;

static bool before(struct tarry_token a, struct tarry_token b) {
    return a.epoch != b.epoch ? a.epoch < b.epoch : a.position < b.position;
}

static void look_at(const struct tarry_task *task) {
    size_t length = strlen(task->queue);
    assert(task->id != 0 && (task->key != NULL) == (task->key_size > 0));
    if (task->key != NULL) assert(task->key[task->key_size] == 0);
    assert(task->payload != NULL);
    for (size_t i = 0; i < task->payload_size; i++)
        length +=
            ((const uint8_t *)
                 task->payload)[i]; /* reads all bytes of the payload, so that a sanitizer detects invalid memory */
    for (size_t i = 0; i < task->attribute_count; i++)
        length += strlen(task->attributes[i].name) + strlen(task->attributes[i].value);
    assert(length < UINT32_MAX);
    for (size_t i = 0; i < user.count; i++)
        assert(user.seen[i].id != task->id || before(user.seen[i].token, task->token));
    if (user.count < TASKS_MAX) user.seen[user.count++] = (struct lease){task->id, task->token};
}

static void forget(uint64_t id) {
    size_t kept = 0;
    for (size_t i = 0; i < user.count; i++)
        if (user.seen[i].id != id) user.seen[kept++] = user.seen[i];
    user.count = kept;
}

static void take_all(tarry_consumer *consumer) {
    const struct tarry_task *tasks[64];
    size_t count;
    int rv;
    while ((rv = tarry_consumer_next_batch(consumer, 0, tasks, 64, &count)) == TARRY_OK) {
        assert(count > 0 && count <= 64);
        for (size_t i = 0; i < count; i++) {
            const struct held_entry *held = held_find(&consumer->held, tasks[i]->id);
            assert(held != NULL && held->seen);
            assert(!before(held->token, tasks[i]->token));
            look_at(tasks[i]);
            tarry_task_free(tasks[i]);
        }
    }
    assert(rv == TARRY_E_NOTHING && consumer->first == NULL && consumer->last == NULL);
}

static void held_is_sound(const struct held *held) {
    size_t count = 0;
    for (size_t i = 0; i < held->capacity; i++) {
        if (held->entries[i].id == 0) continue;
        assert(held_find(held, held->entries[i].id) == &held->entries[i]);
        count++;
    }
    assert(count == held->count && count * 2 <= held->capacity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 8192) return 0;
    static tarry_client client;
    tarry_consumer consumer = {.client = &client, .current = SESSION};
    struct input input = {data, size};
    pthread_mutex_init(&consumer.lock, NULL);
    cond_init_monotonic(&consumer.arrived);
    user.count = 0;
    while (input.size > 0) {
        size_t count = input_number(&input, 2), taken;
        if (count > 0) {
            const uint8_t *message = input_bytes(&input, count, &taken);
            delivery_take(&consumer, message, taken);
            continue;
        }
        take_all(&consumer);
        held_is_sound(&consumer.held);
        if (user.count == 0) continue;
        uint64_t id = user.seen[input_below(&input, user.count)].id;
        const struct held_entry *entry = held_find(&consumer.held, id);
        if (entry != NULL) held_settle(&consumer.held, id, entry->token);
        forget(id);
    }
    held_is_sound(&consumer.held);
    deliveries_forget(&consumer); /* some tasks may never be taken */
    held_deinit(&consumer.held);
    pthread_cond_destroy(&consumer.arrived);
    pthread_mutex_destroy(&consumer.lock);
    return 0;
}
