/* sender.c: see sender.h. */
#include "sender.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "check.h"
#include "table.h"
#include "text.h"
#include "tool.h"

/* ---- queues and their names at the target */

/* Returns the name after '=' of the option --map recorded=NAME; NULL: there is no such option. */
static const char *mapped(const struct args *args, const char *recorded) {
    size_t size = strlen(recorded);
    for (size_t i = 0; i < args->many_count; i++) {
        const char *value = args->many[i].value;
        if (strcmp(args->many[i].option, "map") != 0) continue;
        if (strncmp(value, recorded, size) == 0 && value[size] == '=') return value + size + 1;
    }
    return NULL;
}

static bool is_taken(const struct args *args, const char *recorded) {
    bool any = false;
    for (size_t i = 0; i < args->many_count; i++) {
        if (strcmp(args->many[i].option, "queue") != 0) continue;
        if (strcmp(args->many[i].value, recorded) == 0) return true;
        any = true;
    }
    return !any;
}

static int check_map(const struct args *args, size_t at) {
    const char *value = args->many[at].value, *equals = strchr(value, '=');
    if (equals == NULL || equals == value || equals[1] == 0)
        return tool_usage(args, "--map: '%s' is not OLD=NEW, two queue names", value);
    size_t size = (size_t)(equals - value) + 1;
    for (size_t i = 0; i < at; i++)
        if (strcmp(args->many[i].option, "map") == 0 && strncmp(args->many[i].value, value, size) == 0)
            return tool_usage(args, "--map: '%.*s' is mapped twice", (int)size - 1, value);
    return 0;
}

int routes_init(struct routes *routes, const struct args *args) {
    *routes = (struct routes){.args = args};
    int status = 0;
    for (size_t i = 0; i < args->many_count && status == 0; i++) {
        if (strcmp(args->many[i].option, "map") == 0) status = check_map(args, i);
        if (strcmp(args->many[i].option, "queue") == 0 && args->many[i].value[0] == 0)
            status = tool_usage(args, "--queue: the name is empty");
    }
    return status;
}

static struct route *add(struct routes *routes, const char *recorded) {
    if (routes->count % 64 == 0) {
        struct route **grown = tool_alloc((routes->count + 64) * sizeof *grown);
        if (routes->count > 0) memcpy(grown, routes->items, routes->count * sizeof *grown);
        free(routes->items);
        routes->items = grown;
    }
    const char *name = mapped(routes->args, recorded);
    struct route *route = tool_alloc(sizeof *route);
    *route = (struct route){.recorded = tool_strdup(recorded),
                            .name = tool_strdup(name != NULL ? name : recorded),
                            .taken = is_taken(routes->args, recorded)};
    routes->items[routes->count++] = route;
    return route;
}

struct route *routes_find(struct routes *routes, const char *recorded) {
    if (routes->last != NULL && strcmp(routes->last->recorded, recorded) == 0) return routes->last;
    struct route *found = NULL;
    for (size_t i = 0; i < routes->count && found == NULL; i++)
        if (strcmp(routes->items[i]->recorded, recorded) == 0) found = routes->items[i];
    routes->last = found != NULL ? found : add(routes, recorded);
    return routes->last;
}

void routes_deinit(struct routes *routes) {
    for (size_t i = 0; i < routes->count; i++) {
        free((char *)routes->items[i]->recorded);
        free((char *)routes->items[i]->name);
        free(routes->items[i]);
    }
    free(routes->items);
    *routes = (struct routes){0};
}

/* ---- sending */

#define TOGETHER_OPS_MAX 512u
#define TOGETHER_BYTES_MAX (1u << 20)
/* Limits for one frame of the recorded log. A longer frame is divided, before a commit exceeds
 * TARRY_OPS_PER_COMMIT_MAX. (A frame may have more operations at the target than in the log.) */
#define FRAME_OPS_MAX 8000u
#define FRAME_BYTES_MAX (12u << 20)
#define UNANSWERED_MAX 16384u

struct commit_batch {
    struct sender *sender;
    struct op *ops;
    size_t count;
};

int sender_init(struct sender *sender, tarry_client *client) {
    *sender = (struct sender){.client = client};
    pthread_mutex_init(&sender->lock, NULL);
    int code = tarry_commit_new(client, false, &sender->together);
    if (code == TARRY_OK) code = tarry_commit_new(client, true, &sender->atomic);
    sender->commit = sender->together;
    return code;
}

void op_free(struct op *op) {
    if (op == NULL) return;
    free(op->reason);
    free(op);
}

static void free_image(void *argument, void *value) {
    struct image *image = value;
    (void)argument;
    free(image->key);
    free(image);
}

void sender_deinit(struct sender *sender) {
    tarry_commit_free(sender->together);
    tarry_commit_free(sender->atomic);
    for (size_t i = 0; i < sender->op_count; i++) free(sender->ops[i].reason);
    free(sender->ops);
    for (struct op *op; (op = sender_again(sender)) != NULL;) op_free(op);
    for (size_t i = 0; i < SENDER_EXAMPLES_MAX; i++) free(sender->examples[i]);
    id_map_each(&sender->images, free_image, NULL);
    id_map_deinit(&sender->images);
    pthread_mutex_destroy(&sender->lock);
}

/* ---- images */

struct image *sender_image(struct sender *sender, uint64_t recorded) {
    pthread_mutex_lock(&sender->lock);
    struct image *image = id_map_get(&sender->images, recorded);
    pthread_mutex_unlock(&sender->lock);
    return image;
}

const void *sender_key(const void *key, size_t *key_size) {
    if (occurrence_name_size(key, *key_size) == 0) return key;
    *key_size -= OCCURRENCE_PREFIX_SIZE;
    return (const char *)key + OCCURRENCE_PREFIX_SIZE;
}

struct image *sender_image_new(struct sender *sender, uint64_t recorded, struct route *route, const void *key,
                               size_t key_size) {
    struct image *image = tool_alloc(sizeof *image);
    key = sender_key(key, &key_size);
    *image = (struct image){.recorded = recorded, .route = route, .key_size = key_size};
    if (key_size > 0) {
        image->key = tool_alloc(key_size + 1);
        memcpy(image->key, key, key_size);
    }
    pthread_mutex_lock(&sender->lock);
    struct image *former = id_map_take(&sender->images, recorded);
    if (former != NULL) free_image(NULL, former);
    id_map_put(&sender->images, recorded, image);
    pthread_mutex_unlock(&sender->lock);
    return image;
}

/* Records a difference: the target behaved differently from the log. The caller holds the lock. */
static void drop_if_over(struct sender *sender, struct image *image) {
    if (!image->ended || image->unanswered > 0) return;
    id_map_take(&sender->images, image->recorded);
    free_image(NULL, image);
}

void sender_image_end(struct sender *sender, struct image *image) {
    pthread_mutex_lock(&sender->lock);
    image->ended = true;
    drop_if_over(sender, image);
    pthread_mutex_unlock(&sender->lock);
}

uint64_t sender_id(struct sender *sender, struct image *image) {
    if (image->id == 0) sender_settle(sender);
    return image->id;
}

struct tarry_ref sender_ref(struct sender *sender, struct image *image) {
    struct tarry_ref ref = {.id = image->id};
    if (ref.id != 0) return ref;
    if (image->key == NULL) return (struct tarry_ref){.id = sender_id(sender, image)};
    return (struct tarry_ref){.queue = image->route->name, .key = image->key, .key_size = image->key_size};
}

/* ---- answers */

static const char *const verbs[OP_KINDS] = {"schedule", "move",    "cancel", "ack",   "nack",
                                            "release",  "requeue", "drop",   "queue", "auxiliary"};

/* Records that the target behaved differently from the log. The caller holds the lock. */
static void differs(struct sender *sender, const struct image *image, const char *verb, const char *sentence) {
    size_t place = 0;
    sender->refused++;
    while (place < SENDER_EXAMPLES_MAX && sender->examples[place] != NULL) place++;
    if (place == SENDER_EXAMPLES_MAX) return;
    struct text text = {0};
    text_printf(&text, "%s", verb);
    if (image != NULL) {
        text_printf(&text, " %s ", image->route->name);
        if (image->key != NULL)
            plain_add(&text, image->key, image->key_size);
        else
            text_printf(&text, "(recorded as %llu)", (unsigned long long)image->recorded);
    }
    text_printf(&text, ": %s", sentence);
    sender->examples[place] = tool_strdup(text_str(&text));
    text_deinit(&text);
}

void sender_differs(struct sender *sender, const struct image *image, const char *verb, const char *sentence) {
    pthread_mutex_lock(&sender->lock);
    differs(sender, image, verb, sentence);
    pthread_mutex_unlock(&sender->lock);
}

static bool is_fatal(int code) {
    return code >= TARRY_E_TIMEOUT || code == TARRY_FAILED || code == TARRY_FORGOTTEN;
}

/* Repeats a settlement whose lease was lost, because the task will be delivered again. The caller holds the lock. */
static bool settle_again(struct sender *sender, const struct op *op, const struct tarry_result *result) {
    bool settles = op->kind == OP_ACK || op->kind == OP_NACK || op->kind == OP_RELEASE;
    bool comes_again = result->outcome == TARRY_PENDING || result->outcome == TARRY_IN_FLIGHT;
    if (!settles || result->code != TARRY_STALE_TOKEN || !comes_again) return false;
    struct op *copy = tool_alloc(sizeof *copy);
    *copy = *op;
    if (op->reason != NULL) copy->reason = tool_strdup(op->reason);
    copy->nack.reason = copy->reason;
    copy->next = sender->again;
    sender->again = copy;
    return true;
}

/* Handles an answer. Returns true if the operation must be repeated. The caller holds the lock. */
static bool take_answer(struct sender *sender, const struct op *op, struct image *image,
                        const struct tarry_result *result) {
    if (is_fatal(result->code)) {
        if (sender->failure == TARRY_OK || op->position < sender->failed_at) sender->failed_at = op->position;
        if (sender->failure == TARRY_OK) sender->failure = result->code;
    } else if (result->code == TARRY_OK) {
        sender->done[op->kind]++;
        if (image != NULL && op->kind == OP_SCHEDULE) image->id = result->id;
        if (image != NULL && op->kind == OP_NACK && !op->as_buried && result->outcome == TARRY_BURIED) {
            image->left_out = true;
            differs(sender, image, "nack", "it used up its attempts at the target, and is a dead letter there");
        }
    } else if (settle_again(sender, op, result)) {
        return true;
    } else if (op->kind != OP_AUXILIARY) {
        differs(sender, image, verbs[op->kind],
                result->message[0] != 0 ? result->message : tarry_code_sentence(result->code));
        if (image != NULL && op->kind == OP_SCHEDULE) image->left_out = true;
    }
    return false;
}

static void batch_done(void *arg, int code, const struct tarry_result *results, size_t count) {
    struct commit_batch *batch = arg;
    struct sender *sender = batch->sender;
    pthread_mutex_lock(&sender->lock);
    for (size_t i = 0; i < batch->count; i++) {
        struct op *op = &batch->ops[i];
        struct tarry_result none = {.code = code, .message = ""};
        struct image *image = op->task != 0 ? id_map_get(&sender->images, op->task) : NULL;
        bool goes_on = take_answer(sender, op, image, i < count ? &results[i] : &none);
        free(op->reason);
        if (image == NULL || goes_on) continue;
        image->unanswered--;
        drop_if_over(sender, image);
    }
    sender->unanswered -= batch->count;
    pthread_mutex_unlock(&sender->lock);
    free(batch->ops);
    free(batch);
}

struct op *sender_again(struct sender *sender) {
    pthread_mutex_lock(&sender->lock);
    struct op *op = sender->again;
    if (op != NULL) sender->again = op->next;
    pthread_mutex_unlock(&sender->lock);
    return op;
}

int sender_failure(struct sender *sender) {
    pthread_mutex_lock(&sender->lock);
    int code = sender->failure;
    pthread_mutex_unlock(&sender->lock);
    return code;
}

/* ---- sending */

static void submit(struct sender *sender) {
    struct commit_batch *batch = tool_alloc(sizeof *batch);
    if (sender->op_count == 0) {
        free(batch);
        return;
    }
    *batch = (struct commit_batch){sender, sender->ops, sender->op_count};
    sender->ops = NULL;
    sender->op_count = sender->op_capacity = sender->bytes = 0;
    pthread_mutex_lock(&sender->lock);
    sender->unanswered += batch->count;
    size_t unanswered = sender->unanswered;
    pthread_mutex_unlock(&sender->lock);
    int code;
    while ((code = tarry_commit_submit(sender->commit, NULL, batch_done, batch)) == TARRY_E_FULL)
        if (tarry_drain(sender->client, 0, NULL) != TARRY_OK) break;
    if (code != TARRY_OK) {
        tarry_commit_clear(sender->commit);
        batch_done(batch, code, NULL, 0);
    } else if (unanswered > UNANSWERED_MAX && tarry_drain(sender->client, UNANSWERED_MAX / 2, NULL) != TARRY_OK) {
        return; /* no error message here, because batch_done reports the operations that have no answer */
    }
}

void sender_flush(struct sender *sender) {
    if (sender->commit == sender->together) submit(sender);
}

void sender_settle(struct sender *sender) {
    sender_flush(sender);
    if (tarry_drain(sender->client, 0, NULL) != TARRY_OK) return; /* likewise */
}

void sender_begin_frame(struct sender *sender, uint64_t position, bool atomic) {
    bool is_full = sender->op_count >= TOGETHER_OPS_MAX || sender->bytes >= TOGETHER_BYTES_MAX;
    if (atomic || is_full) submit(sender);
    sender->commit = atomic ? sender->atomic : sender->together;
    sender->position = position;
    sender->frame_schedules = 0;
}

void sender_end_frame(struct sender *sender) {
    if (sender->commit == sender->atomic) submit(sender);
    sender->commit = sender->together;
}

void sender_abandon_frame(struct sender *sender) {
    if (sender->commit != sender->atomic) return;
    tarry_commit_clear(sender->atomic);
    pthread_mutex_lock(&sender->lock);
    for (size_t i = 0; i < sender->op_count; i++) {
        struct image *image = sender->ops[i].task != 0 ? id_map_get(&sender->images, sender->ops[i].task) : NULL;
        free(sender->ops[i].reason);
        if (image != NULL) image->unanswered--;
    }
    pthread_mutex_unlock(&sender->lock);
    sender->op_count = sender->bytes = 0;
    sender->commit = sender->together;
}

void sender_note(struct sender *sender, int code, const struct op *op, size_t bytes) {
    struct image *image = op->task != 0 ? sender_image(sender, op->task) : NULL;
    if (code != TARRY_OK) {
        struct tarry_result result = {.code = code, .message = ""};
        pthread_mutex_lock(&sender->lock);
        take_answer(sender, op, image, &result);
        pthread_mutex_unlock(&sender->lock);
        free(op->reason);
        return;
    }
    if (sender->op_count == sender->op_capacity) {
        sender->op_capacity = sender->op_capacity > 0 ? 2 * sender->op_capacity : 64;
        struct op *grown = tool_alloc(sender->op_capacity * sizeof *grown);
        if (sender->op_count > 0) memcpy(grown, sender->ops, sender->op_count * sizeof *grown);
        free(sender->ops);
        sender->ops = grown;
    }
    sender->ops[sender->op_count] = *op;
    sender->ops[sender->op_count++].position = sender->position;
    sender->bytes += bytes;
    sender->frame_schedules += op->kind == OP_SCHEDULE;
    if (image != NULL) {
        pthread_mutex_lock(&sender->lock);
        image->unanswered++;
        pthread_mutex_unlock(&sender->lock);
    }
    bool is_large = sender->op_count >= FRAME_OPS_MAX || sender->bytes >= FRAME_BYTES_MAX;
    if (is_large && sender->commit == sender->together) submit(sender);
}
