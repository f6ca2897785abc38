/* groups.c: the links between topics and their groups, which decide where a due task goes (GROUP-1); see groups.h. */
#include "groups.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "effects.h"
#include "filter.h"
#include "near.h"

/* Copies the name of the topic to which a group with this name would belong. Returns false if this cannot be a group's
 * name. */
static bool topic_name(const char *name, char out[QUEUE_NAME_SIZE_MAX + 1]) {
    const char *colon = strrchr(name, ':');
    if (!colon || colon == name || !colon[1]) return false;
    memcpy(out, name, (size_t)(colon - name));
    out[colon - name] = 0;
    return true;
}

static struct queue *topic_of(const struct core *core, const char *name) {
    char topic[QUEUE_NAME_SIZE_MAX + 1];
    return topic_name(name, topic) ? queue_find_live(core, topic) : NULL;
}

static void link_group(struct core *core, struct queue *topic, struct queue *group) {
    TAILQ_INSERT_TAIL(&topic->groups, group, of_topic);
    group->topic = topic;
    topic->group_count++;
    core->group_count++;
    near_update_serving(core, topic);
}

static void unlink_group(struct core *core, struct queue *group) {
    struct queue *topic = group->topic;
    TAILQ_REMOVE(&topic->groups, group, of_topic);
    group->topic = NULL;
    topic->group_count--;
    core->group_count--;
    near_update_serving(core, topic);
}

bool core_has_groups(const struct core *core) {
    return core->group_count > 0;
}

/* Links the groups that were restored before their topic. */
static void adopt(struct core *core, struct queue *topic) {
    for (uint32_t place = 1; core->orphan_count && place < core->tally.next_queue; place++) {
        struct queue *group = &core->queues[place];
        if (!group->is_group || group->topic || topic_of(core, group->name) != topic) continue;
        link_group(core, topic, group);
        core->orphan_count--;
    }
}

void groups_apply(struct core *core, struct queue *queue) {
    const bool is_group = !queue->deleted && queue->filter[0];
    if (is_group != queue->is_group) {
        queue->is_group = is_group;
        struct queue *topic = is_group ? topic_of(core, queue->name) : NULL;
        if (topic) {
            link_group(core, topic, queue);
        } else if (is_group) {
            core->orphan_count++;
        } else if (queue->topic) {
            unlink_group(core, queue);
        } else {
            core->orphan_count--;
        }
    }
    if (core->orphan_count && !queue->deleted) adopt(core, queue);
}

enum { SENTENCE_SIZE = 400 };

static const char *refused(struct arena *arena, Tarry__Code code, Tarry__Code *out_code, const char *format,
                           const char *a, const char *b) __attribute__((format(printf, 4, 0)));
static const char *refused(struct arena *arena, Tarry__Code code, Tarry__Code *out_code, const char *format,
                           const char *a, const char *b) {
    char *sentence = must_alloc(arena, SENTENCE_SIZE);
    snprintf(sentence, SENTENCE_SIZE, format, a, b);
    *out_code = code;
    return sentence;
}

static const char *filter_problem(const char *filter, struct arena *arena, Tarry__Code *out_code) {
    size_t column = 0;
    const char *problem = filter_check(filter, &column);
    if (!problem) return NULL;
    char *sentence = must_alloc(arena, SENTENCE_SIZE);
    snprintf(sentence, SENTENCE_SIZE, "filter, byte %zu: %s", column, problem);
    *out_code = TARRY__CODE__INVALID;
    return sentence;
}

const char *group_problem(struct core *core, const char *name, const char *filter, uint32_t drafted,
                          struct arena *arena, Tarry__Code *out_code) {
    const struct queue *queue = queue_find_live(core, name), *topic = topic_of(core, name);
    char topic_text[QUEUE_NAME_SIZE_MAX + 1];
    if (!filter[0]) return NULL;
    const char *problem = filter_problem(filter, arena, out_code);
    if (problem || (queue && queue->is_group)) return problem;
    if (!topic_name(name, topic_text) || queue_is_reserved(name))
        return refused(arena, TARRY__CODE__INVALID, out_code,
                       "%s cannot be a group: a queue with a filter must be named TOPIC:GROUP%s", name, "");
    if (!topic)
        return refused(arena, TARRY__CODE__NO_SUCH_QUEUE, out_code,
                       "the topic %s of the group %s does not exist: create the queue first", topic_text, name);
    if (topic->is_group || (queue && queue->group_count))
        return refused(arena, TARRY__CODE__INVALID, out_code, "%s cannot be a group of %s: a topic cannot be a group",
                       name, topic_text);
    if (topic->policy.lease_before_due || (queue && queue->policy.lease_before_due))
        return refused(
            arena, TARRY__CODE__INVALID, out_code,
            "%s cannot be a group of %s: a queue whose messages have a TTL (AMQP) cannot be a topic or a group", name,
            topic_text);
    if (topic->group_count + drafted >= GROUPS_MAX)
        return refused(arena, TARRY__CODE__TOO_LARGE, out_code,
                       "%s has its maximum number of groups (GROUPS_MAX, 16): delete one first%s", topic_text, "");
    if (queue && (queue_waiting(core, queue) || queue_in_flight(core, queue) ||
                  core->tally.queues[queue_place(queue->number)].dead))
        return refused(
            arena, TARRY__CODE__NOT_DONE, out_code,
            "%s has tasks of its own, and a group has only shares of its topic's tasks: purge it and drop its "
            "dead letters first%s",
            name, "");
    if ((queue && queue->recur_count) || (topic->recur_count && !topic->group_count))
        return refused(
            arena, TARRY__CODE__NOT_DONE, out_code,
            "%s cannot be a group of %s while either has recurrences: delete them, set the group, and set them "
            "again with overlap allow",
            name, topic_text);
    if (topic->push[0])
        return refused(arena, TARRY__CODE__NOT_DONE, out_code,
                       "%s has push, and a topic's tasks go to its groups only: end it (push=none), and set push on a "
                       "group%s",
                       topic_text, "");
    if (topic->consumer_count && !topic->group_count)
        return refused(arena, TARRY__CODE__NOT_DONE, out_code,
                       "consumers are subscribed to %s, and a topic's tasks go to its groups only: stop them first%s",
                       topic_text, "");
    return NULL;
}

const char *group_names(const struct queue *topic, struct arena *arena) {
    char *names = must_alloc(arena, GROUPS_MAX * (QUEUE_NAME_SIZE_MAX + 2));
    size_t size = 0;
    const struct queue *group = NULL;
    TAILQ_FOREACH(group, &topic->groups, of_topic) {
        size += (size_t)sprintf(names + size, "%s%s", size ? ", " : "", group->name);
    }
    return names;
}

const char *group_subscribe_problem(const struct core *core, const char *name, struct arena *arena) {
    const struct queue *queue = queue_find_live(core, name), *topic = queue ? queue : topic_of(core, name);
    Tarry__Code unused;
    if (!topic || !topic->group_count) return NULL;
    return refused(arena, TARRY__CODE__OK, &unused,
                   queue ? "%s has groups, so its tasks go to them: subscribe to one of %s"
                         : "there is no group %s: subscribe to one of %s",
                   name, group_names(topic, arena));
}
